"""One reconciler at a time, with a store in memory and a clock that the test moves."""

from collections.abc import Iterable

from doubles import TestClock
from enmasse.control.declared import StoreState
from enmasse.control.inventory import Change, Inventory
from enmasse.control.work_queue import Batch, WorkQueue
from enmasse.plan import Compiler
from enmasse.resources import Key, Resource
from enmasse.store import MemoryStore
from fake_engine import FakeEngine


class Surroundings:
    """What a reconciler is given."""

    def __init__(self) -> None:
        self.clock = TestClock()
        self.store = MemoryStore(self.clock)
        self.computed = MemoryStore(self.clock)
        self.engine = FakeEngine()
        self.inventory = Inventory(self.store)
        self.queue = WorkQueue()

    def compiling(self) -> tuple[StoreState, Compiler]:
        """The declared state of the store, and a compiler that follows it."""
        declared = StoreState(self.store)
        return declared, Compiler(declared.followed)

    async def declare(self, *resources: Resource) -> list[Change]:
        """Store resources and return the changes as a pass sees them."""
        await self.store.put(resources)
        return self.changes()

    async def delete(self, *keys: Key) -> list[Change]:
        await self.store.delete(keys)
        return self.changes()

    def changes(self) -> list[Change]:
        pending = self.inventory.pending()
        self.inventory.advance(pending.version)
        return self.inventory.take(pending.keys)

    def uid(self, key: Key) -> str:
        found = self.store.get(key)
        assert found is not None and found.metadata.uid is not None
        return found.metadata.uid


def batch_of(changes: Iterable[Change]) -> Batch:
    """A batch of a pass with some changes and nothing else."""
    batch = Batch()
    for change in changes:
        batch.keys.add(change.key)
        if change.ended_uid is not None:
            batch.ended_spaces.add(change.ended_uid)
    return batch
