"""A running platform with a store in memory and a fake engine, called over ASGI."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
from starlette.types import ASGIApp

from doubles import TestClock
from enmasse.api import Platform, create_app
from enmasse.api.console.files import ConsoleFiles
from enmasse.api.console.routes import ConsoleOptions
from enmasse.api.history.history import History
from enmasse.api.monitoring.statistics import Statistics
from enmasse.base.rotated import RotatedFile
from enmasse.control import Admission, Manager
from enmasse.resources.address import TYPES
from enmasse.store import MemoryStore
from fake_engine import FakeEngine
from tokens import token_secret

TOKEN = "the-token"
ADDRESSES = "/apis/enmasse.io/v1beta1/namespaces/default/addresses"
SPACES = "/apis/enmasse.io/v1beta1/namespaces/default/addressspaces"
USERS = "/apis/enmasse.io/v1beta1/namespaces/default/messagingusers"


@dataclass
class Served:
    """A running platform and a client of it."""

    http: httpx2.AsyncClient
    app: ASGIApp
    store: MemoryStore
    engine: FakeEngine
    manager: Manager
    clock: TestClock
    console_files: ConsoleFiles
    histories: list[History]
    """The history of the platform, once there is one."""

    ready: bool = True

    async def settle(self) -> None:
        await self.manager.reached(self.store.version)

    def client(self, peer: str = "127.0.0.1", host: str = "localhost") -> httpx2.AsyncClient:
        """Return a client without a token."""
        transport = httpx2.ASGITransport(self.app, client=(peer, 1), raise_app_exceptions=False)
        return httpx2.AsyncClient(transport=transport, base_url=f"http://{host}")


@asynccontextmanager
async def serving(
    trail: RotatedFile,
    logins: RotatedFile,
    console: ConsoleOptions | None = None,
    store: MemoryStore | None = None,
) -> AsyncIterator[Served]:
    """Run a platform."""
    clock = TestClock()
    store = store or MemoryStore(clock)
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
        history=lambda: next(iter(served.histories), None),
    )
    console = console or ConsoleOptions()
    hosts = ["localhost", "mq.example.com"]
    app = create_app(
        platform, token=TOKEN, hosts=hosts, trail=trail, logins=logins, console=console
    )
    transport = httpx2.ASGITransport(app, client=("127.0.0.1", 1))
    headers = {"Authorization": f"Bearer {TOKEN}"}
    running = asyncio.ensure_future(manager.run())
    async with httpx2.AsyncClient(
        transport=transport, base_url="http://localhost", headers=headers
    ) as http:
        served = Served(http, app, store, engine, manager, clock, console.files, [])
        yield served
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def bearer(served: Served, token: str, **roles: str) -> httpx2.AsyncClient:
    """A client with a token of its own."""
    await served.store.put([token_secret(token, **roles)])
    client = served.client()
    client.headers["Authorization"] = f"Bearer {token}"
    return client


def body(resource: Any, namespace: str = "default") -> dict[str, Any]:
    document: dict[str, Any] = resource.document()
    document.pop("status", None)
    document["metadata"]["namespace"] = namespace
    return document
