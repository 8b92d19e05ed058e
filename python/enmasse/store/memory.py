"""A store in memory: the rules of writing, which other stores make durable.

There is one writer at a time. Readers never wait: they see what the last finished write left.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence

from enmasse.base.clock import Clock, rfc3339
from enmasse.base.errors import Code, Conflict, Missing
from enmasse.base.ids import new_uid
from enmasse.resources import Declared, Key, Resource
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

    async def put(
        self, resources: Sequence[Resource], *, dry_run: bool = False
    ) -> Sequence[Resource]:
        """Create or replace resources and return them as they are now."""
        async with self._writing:
            change = _Change(self._version)
            now = rfc3339(self._clock.now())
            written = []
            for resource in resources:
                current = self._resources.get(resource.key)
                _check_demands(resource, current)
                if current is None:
                    written.append(change.add(EventType.ADDED, _new(resource, now)))
                elif (replaced := _replaced(resource, current)) is None:
                    written.append(current)
                elif replaced.is_terminating and not replaced.metadata.finalizers:
                    written.append(change.add(EventType.DELETED, replaced, current))
                else:
                    written.append(change.add(EventType.MODIFIED, replaced, current))
            if not dry_run:
                await self._finish(change)
            return written

    async def put_status(self, resources: Sequence[Declared]) -> None:
        """Write the status of resources; one that has gone or been made again is passed over."""
        async with self._writing:
            change = _Change(self._version)
            for resource in resources:
                current = self._resources.get(resource.key)
                if current is None or current.metadata.uid != resource.metadata.uid:
                    continue
                now = current.with_status_of(resource)
                if now != current:
                    change.add(EventType.MODIFIED, now, current)
            await self._finish(change)

    async def delete(self, keys: Sequence[Key], *, dry_run: bool = False) -> Sequence[Resource]:
        """Delete resources, or mark those with finalizers, and return them as they were last."""
        async with self._writing:
            change = _Change(self._version)
            now = rfc3339(self._clock.now())
            written = []
            for key in keys:
                current = self._resources.get(key)
                if current is None:
                    raise Missing(Code.RESOURCE_MISSING, f"there is no {key}")
                if not current.metadata.finalizers:
                    written.append(change.add(EventType.DELETED, current, current))
                elif current.is_terminating:
                    written.append(current)
                else:
                    marked = _marked(current, now)
                    written.append(change.add(EventType.MODIFIED, marked, current))
            if not dry_run:
                await self._finish(change)
            return written

    def changes(self, since: int) -> Sequence[Event]:
        """Return the changes after version `since` that there are now, in order."""
        return self._history.after(since)

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

    def add(self, type_: EventType, resource: Resource, before: Resource | None = None) -> Resource:
        """Add an event and return the resource with the version it has by it."""
        self.version += 1
        stamped = resource.with_metadata(resource_version=str(self.version))
        self.events.append(Event(type_, stamped, self.version, before))
        return stamped


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
    return resource.with_status_of(None).with_metadata(
        uid=new_uid(),
        generation=1,
        creation_timestamp=now,
        deletion_timestamp=None,
        deletion_grace_period_seconds=None,
    )


def _replaced(resource: Resource, current: Resource) -> Resource | None:
    """Return the current resource with what a client may change; None if nothing changed."""
    before = current.metadata
    content_changed = resource.content() != current.content()
    after = resource.metadata.model_copy(
        update={
            "uid": before.uid,
            "resource_version": before.resource_version,
            "generation": (before.generation or 0) + content_changed,
            "creation_timestamp": before.creation_timestamp,
            "deletion_timestamp": before.deletion_timestamp,
            "deletion_grace_period_seconds": before.deletion_grace_period_seconds,
            # Who writes without saying who it is changes nothing about who has set what.
            "managed_fields": resource.metadata.managed_fields or before.managed_fields,
        }
    )
    if not content_changed and after == before:
        return None
    return resource.with_status_of(current).model_copy(update={"metadata": after})


def _marked(resource: Resource, now: str) -> Resource:
    return resource.with_metadata(
        deletion_timestamp=now,
        deletion_grace_period_seconds=0,
        generation=(resource.metadata.generation or 0) + 1,
    )
