"""The interface of every store."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from enmasse.resources import Declared, Key, Resource
from enmasse.store.nodes import NodeRegistry

MUST_NOT_EXIST = "0"
"""Precondition for `put`: the resource must not exist."""


Completing = Callable[[Resource, Resource | None], Awaitable[Resource]]
"""Return a resource as admission would have accepted it; the second argument is its former state.

Raises: Invalid if admission would refuse it.
"""


class EventType(StrEnum):
    """Kind of change, in the terms of the Kubernetes API."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


@dataclass(frozen=True, slots=True)
class Event:
    """One change. `resource` is the new state, or the last one if deleted; `before` is the former
    state, None for a new resource.
    """

    type: EventType
    resource: Resource
    version: int
    before: Resource | None = None


class Leadership(Protocol):
    """Leadership among the processes of a store. The leader writes statuses and runs a node."""

    async def take(self) -> bool:
        """Take or renew leadership, if no other process leads; return whether this one does.

        Raises: Unavailable if that is unknown.
        """

    async def gain(self, may_lead: Callable[[], Awaitable[bool]]) -> None:
        """Return once this process leads; it asks for leadership while `may_lead`, which raises
        Unavailable if that is unknown.
        """

    async def keep(self, grace_s: float | None) -> None:
        """Renew leadership until cancelled. Without contact to the store, lead for `grace_s` after
        the lease expired; None: without limit.

        Raises: Unavailable (STANDING_BY) once another process leads, or may lead.
        """


class Turn(Protocol):
    """The turn of one writer: it excludes other writers and ends with its first write."""

    async def put(
        self, resources: Sequence[Resource], *, dry_run: bool = False
    ) -> Sequence[Resource]:
        """Create or replace resources, as `Store.put` does."""

    async def delete(self, keys: Sequence[Key], *, dry_run: bool = False) -> Sequence[Resource]:
        """Delete resources, as `Store.delete` does."""

    async def replace_all(self, resources: Sequence[Resource]) -> None:
        """Replace the whole content, keeping uids, times and statuses, at a new version. For
        restoring a backup.
        """


class Store(Protocol):
    """Resources by key, with versions and a watch.

    The version of the store increases with every change of any resource; a resource's version is
    that of its last change. Versions may have gaps. A write of several resources is atomic. (A
    store without transactions validates all of them first; a crash between two writes leaves the
    first ones, and the error states how many.) Only the API uses `put` and `delete`; only the
    control loop uses `put_status`.
    """

    @property
    def version(self) -> int:
        """The version of the last change."""

    @property
    def identity(self) -> str:
        """Permanent identity of the store."""

    @property
    def is_guarded(self) -> bool:
        """Whether every write passes admission."""

    @property
    def leadership(self) -> Leadership | None:
        """Leadership among the processes of the store; None if there can be only one."""

    @property
    def nodes(self) -> NodeRegistry:
        """The processes of the store."""

    @property
    def writes_together(self) -> bool:
        """Whether a write of several resources is one transaction, at about the cost of one."""

    def get(self, key: Key) -> Resource | None:
        """Return the resource with that key, or None."""

    def list(self, kind: str | None = None, namespace: str | None = None) -> Sequence[Resource]:
        """Return all resources, or those of a kind or namespace, ordered by key."""

    def turn(self) -> AbstractAsyncContextManager[Turn]:
        """Exclude all other writers, in every process, to decide and then write.

        Writes of others are visible when the turn begins.

        Raises: Unavailable if the turn does not begin in time.
        """

    async def put(
        self, resources: Sequence[Resource], *, dry_run: bool = False
    ) -> Sequence[Resource]:
        """Create or replace resources and return their new state.

        The store assigns uid, generation, version, creation time and status; an unchanged resource
        is not written. A version is a precondition; `MUST_NOT_EXIST` requires a new resource; None
        requires nothing. A given uid must match. A resource being deleted is removed with the write
        that clears its finalizers. `dry_run` returns the result without writing.

        Raises: Conflict if a precondition fails; Unavailable if the disk fails. In both cases
            nothing is written.
        """

    async def put_status(self, resources: Sequence[Declared]) -> None:
        """Write the status of resources; only key and uid of the argument are checked.

        A resource that was deleted or created again is skipped.

        Raises: Unavailable (STANDING_BY) if another process leads.
        """

    async def delete(self, keys: Sequence[Key], *, dry_run: bool = False) -> Sequence[Resource]:
        """Delete resources and return their last state.

        A resource with finalizers stays, marked with the deletion time, until a `put` clears them.
        `dry_run` deletes nothing.

        Raises: Missing if one does not exist; then nothing is deleted.
        """

    def changes(self, since: int) -> Sequence[Event]:
        """Return the present changes after version `since`, in order.

        Raises: Conflict (VERSION_EXPIRED) if the next one has been compacted; list again.
        """

    def watch(self, since: int) -> AsyncIterator[Event]:
        """Yield every change after version `since`, in order, without end.

        With a separate source per kind, a late change gets the version of its predecessor and may
        be delivered twice.

        The number of retained changes is bounded. A watcher that falls behind, or begins before the
        oldest one, gets Conflict (VERSION_EXPIRED) and must list again.
        """

    async def refresh(self) -> None:
        """Return once everything that other processes wrote before the call is visible here.

        Raises: Unavailable if that is unknown.
        """

    async def follow(self) -> None:
        """Apply writes of other processes as they happen; run it concurrently with watches.

        Returns immediately if no other process can write.
        """

    async def complete(self, completed: Completing) -> None:
        """Process writes that bypass admission, until cancelled; the leader runs it.

        Returns immediately if there are none by design.
        """

    async def close(self) -> None:
        """Complete pending writes and release resources."""
