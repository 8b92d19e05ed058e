"""A store in memory, which other stores make durable.

There is one writer at a time. Readers never wait: they see the result of the last completed write.
"""

import asyncio
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from enmasse.base.clock import Clock, rfc3339
from enmasse.base.errors import Code, Misuse
from enmasse.resources import Declared, Key, Resource
from enmasse.store.content import Content
from enmasse.store.history import History
from enmasse.store.local_nodes import LocalNodes
from enmasse.store.nodes import NodeRegistry
from enmasse.store.protocol import Completing, Event, EventType, Leadership, Turn
from enmasse.store.rules import Change


class MemoryStore:
    """A `Store` that is lost at a restart."""

    def __init__(self, clock: Clock, version: int = 0, resources: Sequence[Resource] = ()) -> None:
        self._clock = clock
        self._version = version
        self._resources = Content(resources)
        self._history = History(version)
        self._writing = asyncio.Lock()
        self._identity = str(uuid.uuid4())
        self._nodes: NodeRegistry = LocalNodes()

    @property
    def identity(self) -> str:
        """Identity of the store."""
        return self._identity

    @property
    def version(self) -> int:
        """The version of the last change."""
        return self._version

    @property
    def is_guarded(self) -> bool:
        """There are no other writers."""
        return True

    @property
    def leadership(self) -> Leadership | None:
        """There are no other candidates."""
        return None

    @property
    def nodes(self) -> NodeRegistry:
        """The node of this process."""
        return self._nodes

    @property
    def writes_together(self) -> bool:
        """A write of several resources is one operation."""
        return True

    def get(self, key: Key) -> Resource | None:
        """Return the resource with that key, or None."""
        return self._resources.get(key)

    def list(self, kind: str | None = None, namespace: str | None = None) -> Sequence[Resource]:
        """Return all resources, or those of a kind or namespace, ordered by key."""
        return self._resources.listed(kind, namespace)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[Turn]:
        """Exclude other writers; the block may write once."""
        async with self._alone():
            yield self._new_turn()

    async def put(
        self, resources: Sequence[Resource], *, dry_run: bool = False
    ) -> Sequence[Resource]:
        """Create or replace resources and return their new state."""
        async with self.turn() as turn:
            return await turn.put(resources, dry_run=dry_run)

    async def put_status(self, resources: Sequence[Declared]) -> None:
        """Write the status of resources; skip those deleted or created again."""
        async with self._alone():
            change = self._begin()
            change.put_status(resources)
            await self._finish(change.events)

    async def delete(self, keys: Sequence[Key], *, dry_run: bool = False) -> Sequence[Resource]:
        """Delete resources, or mark those with finalizers, and return their last state."""
        async with self.turn() as turn:
            return await turn.delete(keys, dry_run=dry_run)

    def changes(self, since: int) -> Sequence[Event]:
        """Return the present changes after version `since`, in order."""
        return self._history.after(since)

    def watch(self, since: int) -> AsyncIterator[Event]:
        """Yield every change after version `since`, in order, without end."""
        return self._history.follow(since)

    async def refresh(self) -> None:
        """There are no other writers to wait for."""

    async def follow(self) -> None:
        """There are no other writers to follow."""

    async def complete(self, completed: Completing) -> None:
        """Nothing can bypass admission."""

    async def close(self) -> None:
        """Wait for the writer."""
        async with self._alone():
            pass

    def _new_turn(self) -> Turn:
        return MemoryTurn(self)

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        """Exclude other writers."""
        async with self._writing:
            yield

    async def _persist(self, events: Sequence[Event]) -> None:
        """Make changes durable, all or none, before they become visible."""

    def _begin(self) -> Change:
        return Change(self._version, self._resources, rfc3339(self._clock.now()))

    async def _finish(
        self, events: Sequence[Event], *, dry_run: bool = False
    ) -> Mapping[Key, Resource]:
        """Write changes, or only validate them; return the results that differ from the changes."""
        if events and not dry_run:
            await self._persist(events)
            self._apply(events)
        return {}

    def _apply(self, events: Sequence[Event]) -> None:
        """Publish changes to readers and watchers."""
        for event in events:
            if event.type is EventType.DELETED:
                self._resources.remove(event.resource.key)
            else:
                self._resources.put(event.resource)
        self._version = events[-1].version
        self._history.append(events)


class MemoryTurn:
    """The turn of one writer; it ends with its write."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._written = False

    async def put(
        self, resources: Sequence[Resource], *, dry_run: bool = False
    ) -> Sequence[Resource]:
        """Create or replace resources and return their new state."""
        change = self._store._begin()
        return await self._write(change, change.put(resources), dry_run)

    async def delete(self, keys: Sequence[Key], *, dry_run: bool = False) -> Sequence[Resource]:
        """Delete resources, or mark those with finalizers, and return their last state."""
        change = self._store._begin()
        return await self._write(change, change.delete(keys), dry_run)

    async def replace_all(self, resources: Sequence[Resource]) -> None:
        """Replace the whole content, keeping uids, times and statuses."""
        change = self._store._begin()
        change.replace_all(resources)
        await self._write(change, [], dry_run=False)

    async def _write(
        self, change: Change, decided: Sequence[Resource], dry_run: bool
    ) -> Sequence[Resource]:
        if self._written:
            raise Misuse(Code.INTERNAL, "a turn ends with its first write; take another")
        self._written = not dry_run
        became = await self._store._finish(change.events, dry_run=dry_run)
        return [became.get(one.key, one) for one in decided]
