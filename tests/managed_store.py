"""A store with a manager over a fake engine: a change is served when its call returns."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from doubles import TestClock
from enmasse.control import Admission, Manager
from enmasse.resources import Declared, Key, parse
from enmasse.resources.address import TYPES
from enmasse.resources.conditions import find
from enmasse.resources.model import Condition
from enmasse.store import MemoryStore
from fake_engine import FakeEngine


class Controlled:
    """Admission, store and manager."""

    def __init__(self, hosts: Sequence[str] = ()) -> None:
        self.clock = TestClock(datetime(2026, 11, 1, tzinfo=UTC))
        self.store = MemoryStore(self.clock)
        self.engine = FakeEngine()
        self.admission = Admission(self.store, exposed=False, served=TYPES, hosts=hosts)
        self.events = MemoryStore(self.clock)
        self.manager = Manager(self.store, self.engine, self.clock, self.events)

    async def apply(self, *documents: dict[str, Any]) -> None:
        """Declare and wait until it has its effect."""
        await self.admission.apply([parse(one) for one in documents])
        await self.settle()

    async def settle(self) -> None:
        """Wait until the manager has nothing more to write."""
        version = -1
        while version != self.store.version:
            version = self.store.version
            await self.manager.reached(version)

    def get(self, kind: str, name: str, namespace: str = "default") -> Declared:
        found = self.store.get(Key(kind, namespace, name))
        assert isinstance(found, Declared)
        return found

    def condition_of(
        self, kind: str, name: str, type_: str, namespace: str = "default"
    ) -> Condition:
        """Return the condition of a resource, which must have it."""
        found = find(self.get(kind, name, namespace).status.conditions, type_)
        assert found is not None, type_
        return found


@asynccontextmanager
async def controlled() -> AsyncIterator[Controlled]:
    """Run the control loop."""
    platform = Controlled()
    running = asyncio.create_task(platform.manager.run())
    yield platform
    running.cancel()
