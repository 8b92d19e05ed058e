"""The rules of writing, shared by every store: the effect of a write on the present state."""

from collections.abc import Sequence

from enmasse.base.errors import Code, Conflict, Missing
from enmasse.base.ids import new_uid
from enmasse.resources import Declared, Key, Resource
from enmasse.store.content import Content
from enmasse.store.protocol import MUST_NOT_EXIST, Event, EventType


class Change:
    """One write under construction: its events, each with the next version."""

    def __init__(self, version: int, resources: Content, now: str) -> None:
        """Begin a write at `now` on `resources` at the store's `version`."""
        self.events: list[Event] = []
        self._version = version
        self._resources = resources
        self._now = now

    def put(self, resources: Sequence[Resource]) -> list[Resource]:
        """Create or replace resources and return their new state.

        Raises: Conflict if a precondition fails.
        """
        written = []
        for resource in resources:
            current = self._resources.get(resource.key)
            check_demands(resource, current)
            if current is None:
                written.append(self._add(EventType.ADDED, _new(resource, self._now)))
            elif (replaced := _replaced(resource, current)) is None:
                written.append(current)
            elif replaced.is_terminating and not replaced.metadata.finalizers:
                written.append(self._add(EventType.DELETED, replaced, current))
            else:
                written.append(self._add(EventType.MODIFIED, replaced, current))
        return written

    def put_status(self, resources: Sequence[Declared]) -> None:
        """Replace the status of resources; skip those deleted or created again."""
        for resource in resources:
            current = self._resources.get(resource.key)
            if current is None or current.metadata.uid != resource.metadata.uid:
                continue
            now = current.with_status_of(resource)
            if now != current:
                self._add(EventType.MODIFIED, now, current)

    def replace_all(self, resources: Sequence[Resource]) -> None:
        """Replace the whole content, keeping uids, times and statuses."""
        for current in self._resources:
            self._add(EventType.DELETED, current, current)
        for resource in resources:
            self._add(EventType.ADDED, resource)

    def delete(self, keys: Sequence[Key]) -> list[Resource]:
        """Delete resources, or mark those with finalizers, and return their last state.

        Raises: Missing if one does not exist.
        """
        written = []
        for key in keys:
            current = self._resources.get(key)
            if current is None:
                raise Missing(Code.RESOURCE_MISSING, f"there is no {key}")
            if not current.metadata.finalizers:
                written.append(self._add(EventType.DELETED, current, current))
            elif current.is_terminating:
                written.append(current)
            else:
                marked = _marked(current, self._now)
                written.append(self._add(EventType.MODIFIED, marked, current))
        return written

    def _add(
        self, type_: EventType, resource: Resource, before: Resource | None = None
    ) -> Resource:
        self._version += 1
        stamped = resource.with_metadata(resource_version=str(self._version))
        self.events.append(Event(type_, stamped, self._version, before))
        return stamped


def check_demands(resource: Resource, current: Resource | None) -> None:
    """Check the preconditions of a write: version and uid.

    Raises: Conflict if one fails.
    """
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
            f"{resource.key} is not the object of the request: its uid is"
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
    """Return the current resource with the fields that a client may change; None if nothing
    changed.
    """
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
            # A write without a field manager leaves managedFields unchanged.
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
