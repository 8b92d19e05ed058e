"""Records the traffic of address spaces, and decides whose allowance is used up.

A pass calls `declare` for every changed resource, `decide_exhausted` once the Plan is compiled, and
`write_ended` at its end. Between passes the recorder calls `note` every second and `save` every
minute.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from enmasse.base.clock import Clock
from enmasse.control.deleted_usage import DeletedUsage
from enmasse.control.inventory import Change
from enmasse.control.usage import UsageBook
from enmasse.control.work_queue import WorkQueue, portions
from enmasse.engines import Engine, SpaceStatistics
from enmasse.resources import AddressSpace, Key
from enmasse.resources.address_space import Usage
from enmasse.resources.address_space_plan import Allowance
from enmasse.store import Store


class UsageReconciler:
    """Usage records of address spaces, by uid."""

    def __init__(
        self,
        store: Store,
        engine: Engine,
        clock: Clock,
        allowance_of: Callable[[Key], Allowance | None],
        queue: WorkQueue,
        lock: asyncio.Lock,
    ) -> None:
        """`allowance_of` returns the allowance of a space. `lock` is held from reading statuses
        until writing them.
        """
        self._store = store
        self._engine = engine
        self._clock = clock
        self._allowance = allowance_of
        self._queue = queue
        self._lock = lock
        self._book = UsageBook()
        self._ended = DeletedUsage(store)
        self._spaces: dict[str, Key] = {}
        self._exhausted: dict[str, str] = {}
        """Why the allowance of a space is used up."""

    def recover(self, known: Mapping[str, tuple[Usage, ...]]) -> None:
        """Restore the usage that a killed process had not written. Call before the first pass."""
        self._book.recover(known)

    def read_ended(self) -> None:
        """Read the usage of deleted spaces. The first pass calls it before it declares spaces."""
        self._ended.read()

    async def sample(self) -> None:
        """Record the traffic until now."""
        self.note(await self._engine.usage())

    def note(self, statistics: Sequence[SpaceStatistics]) -> None:
        """Record the traffic of spaces. Requests a pass when an allowance becomes used up or
        available again, which only the Plan tells the engine.
        """
        now = self._clock.now()
        moved = self._book.count(statistics, self._allowance_of, now)
        # For other spaces only a changed plan matters, which a pass handles.
        among = moved | self._exhausted.keys()
        exhausted = self._book.exhausted(self._allowance_of, now, among) if among else {}
        if exhausted != self._exhausted:
            self._queue.wake()

    def note_stored(self, stored: Mapping[str, int]) -> None:
        """Record the stored bytes of spaces, by full name."""
        uids = {f"{key.name}.{key.namespace}": uid for uid, key in self._spaces.items()}
        found = {uids[name]: count for name, count in stored.items() if name in uids}
        self._book.note_stored(found, self._allowance_of, self._clock.now())

    def unsaved(self) -> dict[str, tuple[Usage, ...]]:
        """Return the usage in periods that the statuses lack."""
        return self._book.unsaved_periods()

    def declare(self, change: Change) -> None:
        """Open the record of a new space; close that of a deleted one, and remember its usage."""
        key = change.key
        if key.kind != "AddressSpace":
            return
        home = key.namespace, key.name
        if change.ended_uid is not None:
            used = self._book.close(change.ended_uid)
            self._ended.note(home, used, self._clock.now())
            self._spaces.pop(change.ended_uid, None)
        if isinstance(change.resource, AddressSpace):
            self._book.open(change.resource, self._ended.of(home))
            if (uid := change.resource.metadata.uid) is not None:
                self._spaces[uid] = key

    def decide_exhausted(self) -> set[Key]:
        """Decide whose allowance is used up; return the spaces for which that changed."""
        before = self._exhausted
        now = self._book.exhausted(self._allowance_of, self._clock.now())
        self._exhausted = now
        changed = (uid for uid in before.keys() | now.keys() if before.get(uid) != now.get(uid))
        return {self._spaces[uid] for uid in changed if uid in self._spaces}

    @property
    def exhausted(self) -> list[Key]:
        """The spaces whose allowance is used up."""
        return [self._spaces[uid] for uid in self._exhausted]

    def shown(self, space: AddressSpace) -> AddressSpace:
        """Return a space whose status has its record and the condition for sending."""
        uid = space.metadata.uid or ""
        allowance, spent = self._allowance_of(uid), self._exhausted.get(uid)
        return self._book.with_usage(space, allowance, spent, self._clock.now())

    async def save(self) -> None:
        """Write unsaved records into statuses, and those of deleted spaces.

        Raises: Unavailable if the store fails; the next call has everything.
        """
        unsaved = self._book.unsaved()
        keys = [self._spaces[uid] for uid in unsaved if uid in self._spaces]
        for some in portions(keys):
            async with self._lock:
                found = [self._store.get(key) for key in some]
                spaces = [self.shown(one) for one in found if isinstance(one, AddressSpace)]
                await self._store.put_status(spaces)
        self._book.saved(unsaved)
        await self.write_ended()

    async def write_ended(self) -> None:
        """Write the usage of deleted spaces.

        Raises: Unavailable if the store fails; the next call retries.
        """
        await self._ended.write(self._clock.now())

    def _allowance_of(self, uid: str) -> Allowance | None:
        # The last traffic of a deleted space may arrive after its end.
        key = self._spaces.get(uid)
        return self._allowance(key) if key else None
