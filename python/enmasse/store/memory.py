"""A store in memory: the rules of writing, which other stores make durable.

There is one writer at a time. Readers never wait: they see what the last finished write left.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence

from enmasse.base.clock import Clock, rfc3339
from enmasse.base.errors import Code, Conflict, Missing
from enmasse.base.ids import new_uid
from enmasse.resources import Key, Resource
from enmasse.store.history import History
from enmasse.store.protocol import MUST_NOT_EXIST, Event, EventType


class MemoryStore:
    """A `Store` that keeps nothing over a restart."""

    def __init__(self, clock: Clock, version: int = 0, resources: Sequence[Resource] = ()) -> None:
        self._clock = clock
        self._version = version
        self._resources = {resource.key: resource for resource in resources}
        self._history = History(version)
        self._writing = asyncio.Lock()

    @property
    def version(self) -> int:
        """The number of the last change."""
        return self._version

    def get(self, key: Key) -> Resource | None:
        """Return the resource of that key, if there is one."""
        return self._resources.get(key)

    def list(self, kind: str | None = None, namespace: str | None = None) -> Sequence[Resource]:
        """Return all resources, or those of a kind or a namespace, in order of their keys."""
        return [
            self._resources[key]
            for key in sorted(self._resources)
            if kind in (None, key.kind) and namespace in (None, key.namespace)
        ]

    async def put(self, resources: Sequence[Resource]) -> Sequence[Resource]:
        """Create or replace resources and return them as they are now."""
        async with self._writing:
            change = _Change(self._version)
            now = rfc3339(self._clock.now())
            for resource in resources:
                current = self._resources.get(resource.key)
                _check_demands(resource, current)
                if current is None:
                    change.add(EventType.ADDED, _new(resource, now))
                elif (replaced := _replaced(resource, current)) is not None:
                    change.add(EventType.MODIFIED, replaced)
            await self._finish(change)
            return [self._resources[resource.key] for resource in resources]

    async def put_status(self, resources: Sequence[Resource]) -> None:
        """Write the status of resources; one that has gone or been made again is passed over."""
        async with self._writing:
            change = _Change(self._version)
            for resource in resources:
                current = self._resources.get(resource.key)
                if current is None or current.metadata.uid != resource.metadata.uid:
                    continue
                if current.status != resource.status:
                    change.add(EventType.MODIFIED, current.with_status(resource.status))
            await self._finish(change)

    async def delete(self, keys: Sequence[Key]) -> Sequence[Resource]:
        """Delete resources and return them as they were last."""
        async with self._writing:
            change = _Change(self._version)
            for key in keys:
                current = self._resources.get(key)
                if current is None:
                    raise Missing(Code.RESOURCE_MISSING, f"there is no {key}")
                change.add(EventType.DELETED, current)
            await self._finish(change)
            return [event.resource for event in change.events]

    def watch(self, since: int) -> AsyncIterator[Event]:
        """Yield every change after version `since`, in order, for ever."""
        return self._history.follow(since)

    async def close(self) -> None:
        """Wait for the writer."""
        async with self._writing:
            pass

    async def _persist(self, events: Sequence[Event]) -> None:
        """Make changes durable, all or none; nobody has seen them yet."""

    async def _finish(self, change: "_Change") -> None:
        if not change.events:
            return
        await self._persist(change.events)
        for event in change.events:
            if event.type is EventType.DELETED:
                del self._resources[event.resource.key]
            else:
                self._resources[event.resource.key] = event.resource
        self._version = change.version
        self._history.append(change.events)


class _Change:
    """One write being put together: its events, each with the next version."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.events: list[Event] = []

    def add(self, type_: EventType, resource: Resource) -> None:
        self.version += 1
        stamped = resource.with_metadata(resource_version=str(self.version))
        self.events.append(Event(type_, stamped, self.version))


def _check_demands(resource: Resource, current: Resource | None) -> None:
    wanted = resource.metadata.resource_version
    if wanted == MUST_NOT_EXIST and current is not None:
        raise Conflict(Code.ALREADY_EXISTS, f"{resource.key} exists already")
    if wanted in (None, MUST_NOT_EXIST):
        wanted = current.metadata.resource_version if current else None
    found = current.metadata.resource_version if current else None
    if wanted != found:
        raise Conflict(
            Code.VERSION_CONFLICT,
            f"{resource.key} has changed: it is at version {found}, not {wanted};"
            " read it again and repeat the change",
        )
    uid = resource.metadata.uid
    if uid is not None and current is not None and uid != current.metadata.uid:
        raise Conflict(
            Code.VERSION_CONFLICT,
            f"{resource.key} is another one than the request means: its uid is"
            f" {current.metadata.uid}, not {uid}",
        )


def _new(resource: Resource, now: str) -> Resource:
    return resource.with_status(type(resource).model_fields["status"].default).with_metadata(
        uid=new_uid(), generation=1, creation_timestamp=now
    )


def _replaced(resource: Resource, current: Resource) -> Resource | None:
    """Return the current resource with what a client may change; None if nothing changed."""
    before, after = current.metadata, resource.metadata
    spec_changed = resource.spec != current.spec
    if not spec_changed and (before.labels, before.annotations) == (
        after.labels,
        after.annotations,
    ):
        return None
    return resource.with_status(current.status).with_metadata(
        uid=before.uid,
        generation=(before.generation or 0) + spec_changed,
        creation_timestamp=before.creation_timestamp,
    )
