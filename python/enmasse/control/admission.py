"""The only way a resource gets into the store: what can be refused is refused here, at once.

One request is decided at a time, against the state it will change, so that of two requests for one
name exactly one is let in.
"""

import asyncio
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from enmasse.auth.passwords import without_password
from enmasse.base.errors import Code, Conflict, Missing
from enmasse.control import policies
from enmasse.resources import AddressSpace, Key, MessagingUser, Resource, in_order
from enmasse.resources.address import SERVED_TYPES
from enmasse.store import Store
from enmasse.store.protocol import MUST_NOT_EXIST


class Change(StrEnum):
    """What a request did to one resource."""

    CREATED = "created"
    CONFIGURED = "configured"
    UNCHANGED = "unchanged"


class Applied(NamedTuple):
    """One resource after a request, and what became of it."""

    resource: Resource
    change: Change


class Admission:
    """Decides requests and writes what they ask for."""

    def __init__(
        self, store: Store, *, exposed: bool, served: Sequence[str] = SERVED_TYPES
    ) -> None:
        """Guard `store`.

        `exposed`: other machines can reach a listener and that is not meant. `served`: the types of
        address that can be served.
        """
        self._store = store
        self._exposed = exposed
        self._served = served
        self._deciding = asyncio.Lock()

    async def apply(self, resources: Sequence[Resource]) -> list[Applied]:
        """Create or change resources, all or none; what others need goes before them.

        Raises: Invalid or Conflict for the first resource that cannot be.
        """
        async with self._deciding:
            return await self._put(in_order(resources))

    async def create(self, resource: Resource) -> Resource:
        """Create a resource that must not exist yet.

        Raises: Conflict if it exists; Invalid or Conflict if it cannot be.
        """
        async with self._deciding:
            demanded = resource.with_metadata(resource_version=MUST_NOT_EXIST)
            return (await self._put([demanded]))[0].resource

    async def replace(self, resource: Resource) -> Resource:
        """Change a resource that must exist, at the version it carries if it carries one.

        Raises: Missing if it does not exist; Conflict if it has changed; Invalid or Conflict if it
            cannot be.
        """
        async with self._deciding:
            if self._store.get(resource.key) is None:
                raise Missing(Code.RESOURCE_MISSING, f"there is no {resource.key}")
            return (await self._put([resource]))[0].resource

    async def delete(self, key: Key, *, uid: str | None = None) -> Resource:
        """Delete a resource, the one with `uid` if given; with a space goes all that belongs to it.

        Raises: Missing if it does not exist; Conflict if it is another one; Invalid if it may not
            go.
        """
        async with self._deciding:
            resource = self._store.get(key)
            if resource is None:
                raise Missing(Code.RESOURCE_MISSING, f"there is no {key}")
            if uid is not None and uid != resource.metadata.uid:
                raise Conflict(
                    Code.VERSION_CONFLICT,
                    f"{key} is another one than the request means: its uid is"
                    f" {resource.metadata.uid}",
                )
            keys = [key, *self._members(resource)]
            world = self._world([], gone=keys)
            if (error := policies.space_exposed(world)) is not None:
                raise error
            return (await self._store.delete(keys))[0]

    async def check(self) -> None:
        """Check what is already in the store against where this process listens.

        Raises: Invalid if a space that lets everybody in could be reached from other machines.
        """
        if (error := policies.space_exposed(self._world([]))) is not None:
            raise error

    async def _put(self, resources: Sequence[Resource]) -> list[Applied]:
        changed = [(resource, self._store.get(resource.key)) for resource in resources]
        error = policies.first_fault(changed, self._world(resources))
        # An existing name is told before anything else about a resource that must be new.
        exists = any(
            before is not None and resource.metadata.resource_version == MUST_NOT_EXIST
            for resource, before in changed
        )
        if error is not None and not exists:
            raise error
        storable = [await _storable(resource, before) for resource, before in changed]
        written = await self._store.put(storable)
        return [
            Applied(now, _change(before, now))
            for (_, before), now in zip(changed, written, strict=True)
        ]

    def _world(self, resources: Sequence[Resource], gone: Sequence[Key] = ()) -> policies.World:
        after = {resource.key: resource for resource in self._store.list()}
        for key in gone:
            after.pop(key, None)
        after |= {resource.key: resource for resource in resources}
        return policies.World(after, self._exposed, self._served)

    def _members(self, resource: Resource) -> list[Key]:
        if not isinstance(resource, AddressSpace):
            return []
        return [
            other.key
            for other in self._store.list(namespace=resource.metadata.namespace)
            if other.space == resource.space and other.key != resource.key
        ]


async def _storable(resource: Resource, before: Resource | None) -> Resource:
    """Return the resource without what must never be stored."""
    if not isinstance(resource, MessagingUser):
        return resource
    stored = before if isinstance(before, MessagingUser) else None
    return await asyncio.to_thread(without_password, resource, stored)


def _change(before: Resource | None, now: Resource) -> Change:
    if before is None:
        return Change.CREATED
    return Change.UNCHANGED if now is before else Change.CONFIGURED
