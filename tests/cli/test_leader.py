"""A leader within its process, with the real node."""

import asyncio
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from enmasse.api.login_trail import LoginTrail
from enmasse.base.clock import SystemClock
from enmasse.base.data_dir import DataDir
from enmasse.base.errors import Unavailable
from enmasse.base.rotated import RotatedFile
from enmasse.base.settings import Settings
from enmasse.cli.leader import Certificates, Leader
from enmasse.control import Admission
from enmasse.store import MemoryStore
from enmasse.store.leading import replaced

pytestmark = pytest.mark.anyio


class Led(MemoryStore):
    """A store whose lease another process takes when it is told to."""

    def __init__(self, clock: SystemClock) -> None:
        super().__init__(clock)
        self.taken = asyncio.Event()

    @property
    def leads(self) -> bool:
        return True

    @property
    def leadership(self) -> "Led":
        return self

    async def take(self) -> bool:
        """Nobody else does yet."""
        return True

    async def gain(self) -> None:
        """At once."""

    async def keep(self, grace_s: float | None) -> None:
        """Until it is told."""
        await self.taken.wait()
        raise replaced()


async def test_a_leader_that_is_replaced_closes_though_all_threads_wait_for_something_else(
    tmp_path: Path,
) -> None:
    clock, released = SystemClock(), threading.Event()
    with DataDir(tmp_path) as data, ThreadPoolExecutor(1) as shared:
        store = Led(clock)
        settings = Settings(data=tmp_path, amqp_port=0)
        logins = RotatedFile(data.logins, file_bytes_max=1 << 20, files=1)
        certificates = Certificates(data.tls, ["localhost"], clock)
        stores = store, MemoryStore(clock)
        leader = Leader(
            settings,
            data,
            stores,
            certificates,
            LoginTrail(logins, clock),
            Admission(store, exposed=False),
        )
        try:
            _, endpoints = await leader.start()
            running = asyncio.ensure_future(leader.run())
            place = endpoints["amqp"]
            socket.create_connection(place).close()
            # As names do that nobody resolves, when the machine is cut off.
            asyncio.get_running_loop().set_default_executor(shared)
            waiting = asyncio.get_running_loop().run_in_executor(None, released.wait)
            store.taken.set()
            with pytest.raises(Unavailable):
                async with asyncio.timeout(30):
                    await running
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(place)
        finally:
            released.set()
            leader.stop()
            logins.close()
        await waiting
