"""A platform with a fake engine that serves every type, and the command line for it."""

import asyncio
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from asgi_platform import TOKEN
from doubles import TestClock
from enmasse.api import Platform, Server, bind, create_app
from enmasse.api.monitoring.statistics import Statistics
from enmasse.base.rotated import RotatedFile
from enmasse.cli import app
from enmasse.control import Admission, Manager
from enmasse.resources import Address, Key, Resource
from enmasse.resources.address import TYPES
from enmasse.store import MemoryStore
from fake_engine import FakeEngine


class Obeying:
    """A platform that serves every type of address, and the command line that talks to it."""

    def __init__(self, folder: Path, resources: Sequence[Resource]) -> None:
        self._resources = resources
        self.declared = threading.Event()
        clock = TestClock()
        self.store = MemoryStore(clock)
        self.engine = FakeEngine()
        self.admission = Admission(self.store, exposed=False, served=TYPES)
        events = MemoryStore(clock)
        self.manager = Manager(self.store, self.engine, clock, events)
        self.listener = bind("127.0.0.1", 0)
        platform = Platform(
            self.store,
            events,
            self.admission,
            self.engine,
            Statistics(self.engine, clock),
            clock,
            is_ready=lambda: True,
        )
        trail = RotatedFile(folder / "audit.log", file_bytes_max=1 << 20, files=2)
        web = create_app(platform, token=TOKEN, hosts=["127.0.0.1"], trail=trail)
        self.server = Server(web, self.listener)
        self.token = folder / "token"
        self.token.write_text(TOKEN)

    @classmethod
    @contextmanager
    def running(cls, folder: Path, resources: Sequence[Resource]) -> Iterator["Obeying"]:
        """Run a platform in a thread of its own."""
        platform = cls(folder, resources)
        thread = threading.Thread(target=asyncio.run, args=(platform.serve(),))
        thread.start()
        assert platform.declared.wait(10)
        try:
            yield platform
        finally:
            platform.server.stop()
            thread.join()
            platform.listener.close()

    def enmasse(
        self,
        *words: str,
        stdin: str | None = None,
        environment: Mapping[str, str | None] | None = None,
    ) -> Any:
        """Run one command against it, which `environment` can say otherwise."""
        variables = self.environment if environment is None else environment
        return CliRunner().invoke(app, list(words), input=stdin, env=variables, prog_name="enmasse")

    @property
    def environment(self) -> dict[str, str]:
        """The environment in which the command line finds this platform."""
        url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        return {"ENMASSE_SERVER": url, "ENMASSE_TOKEN_FILE": str(self.token)}

    async def serve(self) -> None:
        """Run until the server is told to stop."""
        await self.admission.apply(self._resources)
        self.declared.set()
        async with asyncio.TaskGroup() as tasks:
            control = tasks.create_task(self.manager.run())
            await self.server.run_until_stopped()
            control.cancel()

    def address(self, name: str) -> Address:
        """Return a declared address by the name of its resource."""
        found = self.store.get(Key("Address", "default", f"default.{name}"))
        assert isinstance(found, Address)
        return found
