"""A leader within its process, with the real node."""

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from enmasse.api.trail.creations import CreationTrail
from enmasse.api.trail.logins import LoginTrail
from enmasse.base.clock import SystemClock
from enmasse.base.data_dir import DataDir
from enmasse.base.errors import Unavailable
from enmasse.base.rotated import RotatedFile
from enmasse.base.settings import Settings
from enmasse.cli.serve import leader as leader_module
from enmasse.cli.serve.leader import Certificates, Leader, beside
from enmasse.control import Admission
from enmasse.control.defaults import default_resources
from enmasse.native import Node
from enmasse.resources import Declared
from enmasse.store import MemoryStore
from enmasse.store.leading import replaced
from platform_process import FREE_PORTS

pytestmark = pytest.mark.anyio


class LeaseStore(MemoryStore):
    """A store whose lease is lost when `taken` is set."""

    def __init__(self, clock: SystemClock) -> None:
        super().__init__(clock)
        self.taken = asyncio.Event()

    @property
    def leads(self) -> bool:
        return True

    @property
    def leadership(self) -> "LeaseStore":
        return self

    async def take(self) -> bool:
        """Succeed until the lease is lost."""
        return not self.taken.is_set()

    async def gain(self, may_lead: Callable[[], Awaitable[bool]]) -> None:
        """Succeed at once."""

    async def keep(self, grace_s: float | None) -> None:
        """Hold the lease until `taken` is set."""
        await self.taken.wait()
        raise replaced()


@contextmanager
def leading(data: DataDir, store: LeaseStore, clock: SystemClock) -> Iterator[Leader]:
    """Yield a leader that has not started."""
    logins = RotatedFile(data.logins, file_bytes_max=1 << 20, files=1)
    leader = Leader(
        Settings(data=data.path, **FREE_PORTS),
        data,
        (store, MemoryStore(clock)),
        Certificates(data.tls, ["localhost"], clock),
        (CreationTrail(logins, clock), LoginTrail(logins, clock)),
        Admission(store, exposed=False),
    )
    try:
        yield leader
    finally:
        leader.stop()
        logins.close()


async def test_lease_lost_at_the_end_of_the_start_fails_the_start(tmp_path: Path) -> None:
    class LateLossStore(LeaseStore):
        """A store whose lease is lost in the last step of the start."""

        async def take(self) -> bool:
            self.taken.set()
            await asyncio.sleep(0)
            return True

    clock = SystemClock()
    with DataDir(tmp_path) as data, leading(data, LateLossStore(clock), clock) as leader:
        with pytest.raises(Unavailable, match="another process of the same database leads"):
            await leader.start()


async def test_leader_replaced_during_its_start_never_listens(tmp_path: Path) -> None:
    class Slow(LeaseStore):
        """A store whose lease ends before the node has recovered its journal."""

        async def keep(self, grace_s: float | None) -> None:
            await asyncio.Event().wait()

        async def put_status(self, resources: Sequence[Declared]) -> None:
            self.taken.set()
            await super().put_status(resources)

    clock = SystemClock()
    store = Slow(clock)
    await store.put(default_resources())
    with DataDir(tmp_path) as data, leading(data, store, clock) as leader:
        with pytest.raises(Unavailable, match="another process of the same database leads"):
            await leader.start()


def slow_recovery(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Hold back the recovery of journals; return the events of its begin and of its release."""
    began, went_on = threading.Event(), threading.Event()

    def slow(**settings: Any) -> Node:
        began.set()
        assert went_on.wait(30), "the event loop is blocked"
        return Node(**settings)

    monkeypatch.setattr(leader_module, "Node", slow)
    return began, went_on


async def test_event_loop_runs_while_the_node_recovers_its_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, went_on = slow_recovery(monkeypatch)
    clock = SystemClock()
    with DataDir(tmp_path) as data, leading(data, LeaseStore(clock), clock) as leader:
        starting = asyncio.ensure_future(leader.start())
        await asyncio.to_thread(began.wait)
        went_on.set()
        await starting
        assert leader.leads


async def test_leader_replaced_while_it_recovers_stops_its_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, went_on = slow_recovery(monkeypatch)
    clock = SystemClock()
    store = LeaseStore(clock)
    with DataDir(tmp_path) as data:
        with leading(data, store, clock) as leader:
            starting = asyncio.ensure_future(leader.start())
            await asyncio.to_thread(began.wait)
            store.taken.set()
            await asyncio.sleep(0)
            went_on.set()
            with pytest.raises(Unavailable, match="another process of the same database leads"):
                await starting
        # The journal is free again.
        monkeypatch.setattr(leader_module, "Node", Node)
        store.taken.clear()
        with leading(data, store, clock) as again:
            await again.start()


async def test_error_in_the_background_ends_the_work_beside_it() -> None:
    async def fails() -> None:
        raise replaced()

    async def waits() -> None:
        await asyncio.Event().wait()

    async def works() -> int:
        return 7

    assert await beside(waits(), works()) == 7
    with pytest.raises(Unavailable, match="another process of the same database leads"):
        await beside(fails(), waits())
    with pytest.raises(Unavailable, match="another process of the same database leads"):
        await beside(waits(), fails())


async def test_replaced_leader_closes_while_all_executor_threads_are_blocked(
    tmp_path: Path,
) -> None:
    clock, released = SystemClock(), threading.Event()
    with DataDir(tmp_path) as data, ThreadPoolExecutor(1) as shared:
        store = LeaseStore(clock)
        with leading(data, store, clock) as leader:
            try:
                _, endpoints = await leader.start()
                running = asyncio.ensure_future(leader.run())
                place = endpoints["amqp"]
                socket.create_connection(place).close()
                # Name resolution blocks threads like this while the network is down.
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
            await waiting
