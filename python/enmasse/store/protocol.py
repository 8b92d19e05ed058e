"""What every store does."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from enmasse.resources import Declared, Key, Resource

MUST_NOT_EXIST = "0"
"""As a resource's version in `put`: there must be no resource of that key yet."""


Completing = Callable[[Resource, Resource | None], Awaitable[Resource]]
"""Returns a resource, of which a second one says how it was before, as admission would have let it
in. Raises: Invalid if it would not have."""


class EventType(StrEnum):
    """What happened to a resource, in the words of the Kubernetes API."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


@dataclass(frozen=True, slots=True)
class Event:
    """One change. `resource` is as it is now, or as it was last if it is deleted; `before` is as it
    was, unless it is new."""

    type: EventType
    resource: Resource
    version: int
    before: Resource | None = None


class Leadership(Protocol):
    """Which of the processes of a store leads: writes statuses, and runs a node."""

    async def take(self) -> bool:
        """Lead, or go on leading, if no other process does; say whether this one leads.

        Raises: Unavailable if it cannot be known.
        """

    async def gain(self) -> None:
        """Return once this process leads."""

    async def keep(self, grace_s: float | None) -> None:
        """Go on leading until cancelled; without a word from the store for `grace_s` after the
        lease is over, or, if that is None, for ever.

        Raises: Unavailable (STANDING_BY) once another process leads, or may lead.
        """


class Turn(Protocol):
    """The turn of one writer: nobody else writes meanwhile. It ends with its first write."""

    async def put(
        self, resources: Sequence[Resource], *, dry_run: bool = False
    ) -> Sequence[Resource]:
        """Create or replace resources, as `Store.put` does."""

    async def delete(self, keys: Sequence[Key], *, dry_run: bool = False) -> Sequence[Resource]:
        """Delete resources, as `Store.delete` does."""

    async def replace_all(self, resources: Sequence[Resource]) -> None:
        """Put these in the place of all that there is, each as it was: with its uid, times and
        status, at a new version. For what comes from a backup."""


class Store(Protocol):
    """Resources by key, with versions and a watch.

    The version of the store is one number that grows with every change of any resource; a
    resource's own version is that number at its last change. Numbers may be left out. Every write
    takes several resources and is atomic: all are written or none. (A store without transactions
    tries all of them first; a crash between two writes leaves the first ones, and the error says
    how many.) Only the API writes with `put` and `delete`; only the control loop with `put_status`.
    """

    @property
    def version(self) -> int:
        """The number of the last change."""

    @property
    def identity(self) -> str:
        """What tells this store from every other, for as long as it is there."""

    @property
    def is_guarded(self) -> bool:
        """Whether nothing can be written past admission."""

    @property
    def leadership(self) -> Leadership | None:
        """Who leads among the processes of the store; None if there can be only this one."""

    @property
    def writes_together(self) -> bool:
        """Whether several resources are one transaction, and cost little more than one."""

    def get(self, key: Key) -> Resource | None:
        """Return the resource of that key, if there is one."""

    def list(self, kind: str | None = None, namespace: str | None = None) -> Sequence[Resource]:
        """Return all resources, or those of a kind or a namespace, in order of their keys."""

    def turn(self) -> AbstractAsyncContextManager[Turn]:
        """Keep every other writer out, of this process and of all others, to decide and then write.

        What others have written is in the store when the turn begins.
        Raises: Unavailable if the turn does not come in time, or cannot.
        """

    async def put(
        self, resources: Sequence[Resource], *, dry_run: bool = False
    ) -> Sequence[Resource]:
        """Create or replace resources and return them as they are now.

        uid, generation, version, time of creation and status are the store's; a resource that is
        as it was is not written. With a version a resource must still be at that version;
        `MUST_NOT_EXIST` demands a new one; None demands nothing. A uid given must match. What was
        asked to go goes with the write that leaves it no finalizers. With `dry_run` nothing is
        written, and what is returned is as it would be.

        Raises: Conflict if a demand is not met; Unavailable if the disk refuses. Nothing is
            written then.
        """

    async def put_status(self, resources: Sequence[Declared]) -> None:
        """Write the status of resources; nothing else of them is looked at but key and uid.

        A resource that has gone, or has been made again since, is passed over.
        Raises: Unavailable (STANDING_BY) if another process leads.
        """

    async def delete(self, keys: Sequence[Key], *, dry_run: bool = False) -> Sequence[Resource]:
        """Delete resources and return them as they were last.

        One with finalizers stays, marked with the time, until a `put` leaves it none. With
        `dry_run` nothing is deleted.

        Raises: Missing if one is not there; nothing is deleted then.
        """

    def changes(self, since: int) -> Sequence[Event]:
        """Return the changes after version `since` that there are now, in order.

        Raises: Conflict (VERSION_EXPIRED) if the next one is no longer kept; list again then.
        """

    def watch(self, since: int) -> AsyncIterator[Event]:
        """Yield every change after version `since`, in order, for ever.

        Where kinds have sources of their own, one that comes late has the version of the one before
        it, and may be yielded to somebody who has it already.

        Bounds:  a limited number of changes is kept. A watcher that falls behind it, or begins
                 before it, gets Conflict (VERSION_EXPIRED) and must list again.
        """

    async def refresh(self) -> None:
        """Return once all that other processes had written before the call is here.

        Raises: Unavailable if it cannot be known.
        """

    async def follow(self) -> None:
        """Take in what other processes write, as they do; run it beside whatever watches.

        Returns at once if no other process can write.
        """

    async def complete(self, completed: Completing) -> None:
        """Bring in order what is written past admission, as it comes, until cancelled: what leads
        runs it.

        Returns at once if nothing is.
        """

    async def close(self) -> None:
        """Finish what is being written and release what is held."""
