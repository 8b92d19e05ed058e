"""A served platform for each test."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx2
import pytest

from asgi_platform import TOKEN, Served
from doubles import TestClock
from enmasse.api import Platform, create_app
from enmasse.api.console.files import ConsoleFiles
from enmasse.api.console.routes import ConsoleOptions
from enmasse.api.monitoring.statistics import Statistics
from enmasse.base.rotated import RotatedFile
from enmasse.control import Admission, Manager
from enmasse.resources.address import TYPES
from enmasse.store import MemoryStore
from fake_engine import FakeEngine


@pytest.fixture
def trail(tmp_path: Path) -> Iterator[RotatedFile]:
    """The audit trail of the platform."""
    file = RotatedFile(tmp_path / "audit.log", file_bytes_max=1 << 20, files=2)
    yield file
    file.close()


@pytest.fixture
def logins(tmp_path: Path) -> Iterator[RotatedFile]:
    """The trail of logins of the platform."""
    file = RotatedFile(tmp_path / "logins.log", file_bytes_max=1 << 20, files=2)
    yield file
    file.close()


@pytest.fixture
async def served(trail: RotatedFile, logins: RotatedFile) -> AsyncIterator[Served]:
    clock = TestClock()
    store = MemoryStore(clock)
    engine = FakeEngine()
    events = MemoryStore(clock)
    manager = Manager(store, engine, clock, events)
    platform = Platform(
        store=store,
        computed=events,
        admission=Admission(store, exposed=False, served=TYPES),
        engine=engine,
        statistics=Statistics(engine, clock),
        clock=clock,
        is_ready=lambda: served.ready,
    )
    hosts = ["localhost", "mq.example.com"]
    files = ConsoleFiles()
    app = create_app(
        platform,
        token=TOKEN,
        hosts=hosts,
        trail=trail,
        logins=logins,
        console=ConsoleOptions(files=files),
    )
    transport = httpx2.ASGITransport(app, client=("127.0.0.1", 1))
    headers = {"Authorization": f"Bearer {TOKEN}"}
    running = asyncio.ensure_future(manager.run())
    async with httpx2.AsyncClient(
        transport=transport, base_url="http://localhost", headers=headers
    ) as http:
        served = Served(http, app, store, engine, manager, clock, files)
        yield served
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
