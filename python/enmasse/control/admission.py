"""The only way a resource gets into the store: what can be refused is refused here, at once.

One request is decided at a time, by all processes of a store together and against the state it will
change, so that of two requests for one name exactly one is let in.
"""

import asyncio
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from enmasse.auth.passwords import without_password
from enmasse.base.errors import Code, Conflict, Missing
from enmasse.control import policies
from enmasse.control.index import Index, Overlay, home_of
from enmasse.resources import (
    DEFAULT_NAMESPACE,
    Address,
    AddressSpace,
    Key,
    MessagingUser,
    Namespace,
    Resource,
    in_order,
)
from enmasse.resources.address import SERVED_TYPES
from enmasse.resources.core import NamespaceMetadata
from enmasse.store import EventType, Store, Turn
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
        self._index = Index()
        self._taken_in: int | None = None

    async def apply(self, resources: Sequence[Resource]) -> list[Applied]:
        """Create or change resources, all or none; what others need goes before them.

        Raises: Invalid or Conflict for the first resource that cannot be.
        """
        async with self._store.turn() as turn:
            return await self._put(turn, in_order(resources))

    async def create(self, resource: Resource, *, dry_run: bool = False) -> Resource:
        """Create a resource that must not exist yet.

        Raises: Conflict if it exists; Invalid or Conflict if it cannot be.
        """
        async with self._store.turn() as turn:
            demanded = resource.with_metadata(resource_version=MUST_NOT_EXIST)
            return (await self._put(turn, [demanded], dry_run=dry_run))[0].resource

    async def replace(self, resource: Resource, *, dry_run: bool = False) -> Resource:
        """Change a resource that must exist, at the version it carries if it carries one.

        Raises: Missing if it does not exist; Conflict if it has changed; Invalid or Conflict if it
            cannot be.
        """
        async with self._store.turn() as turn:
            if self._store.get(resource.key) is None:
                raise Missing(Code.RESOURCE_MISSING, f"there is no {resource.key}")
            return (await self._put(turn, [resource], dry_run=dry_run))[0].resource

    async def delete(
        self,
        key: Key,
        *,
        uid: str | None = None,
        version: str | None = None,
        dry_run: bool = False,
    ) -> Resource:
        """Delete a resource, the one with `uid` and at `version` if given.

        With a space goes all that belongs to it, with a namespace all that is in it. What has
        finalizers is marked, and goes when it has none.

        Raises: Missing if it does not exist; Conflict if it is another one, has changed, or holds
            what finalizers keep; Invalid or Denied if it may not go.
        """
        async with self._store.turn() as turn:
            resource = self._store.get(key)
            if resource is None:
                raise Missing(Code.RESOURCE_MISSING, f"there is no {key}")
            _check_preconditions(resource, uid, version)
            members = self._members(resource)
            policies.check_members(resource, members)
            keys = [key, *(member.key for member in members)]
            world = self._world(dict.fromkeys(keys))
            for one in (resource, *members):
                policies.check_unused(one, world)
            if (error := policies.space_exposed(world)) is not None:
                raise error
            return (await turn.delete(keys, dry_run=dry_run))[0]

    async def ensure_namespaces(self) -> None:
        """Make the namespace `default`, and those of all that is in the store."""
        async with self._store.turn() as turn:
            await turn.put(self._new_namespaces([*self._store.list()]))

    async def check(self) -> None:
        """Check what is already in the store against where this process listens.

        Raises: Invalid if a space that lets everybody in could be reached from other machines.
        """
        if (error := policies.space_exposed(self._world({}))) is not None:
            raise error

    async def ship(self, shipped: Sequence[Resource]) -> None:
        """Make those of `shipped` of whose kind there is none, and give plans to what has none.

        So what a service administrator has changed or deleted stays so.
        """
        async with self._store.turn() as turn:
            kinds = {one.kind for one in self._store.list()}
            new = [one for one in shipped if one.kind not in kinds]
            await turn.put([*self._new_namespaces(new), *new])
        async with self._store.turn() as turn:
            world = self._world({})
            filled = []
            for one in in_order(self._store.list()):
                if (planned := with_plan(one, one, world.index)) is not one:
                    world.index.put(planned)
                    filled.append(planned)
            await turn.put(filled)

    async def _put(
        self, turn: Turn, resources: Sequence[Resource], *, dry_run: bool = False
    ) -> list[Applied]:
        changed = [(resource, self._store.get(resource.key)) for resource in resources]
        world = self._world({resource.key: resource for resource in resources})
        # In order, so that an address without a plan goes by what its space was given.
        for at, (resource, before) in enumerate(changed):
            planned = with_plan(resource, before, world.index)
            if planned is not resource:
                world.index.put(planned)
                changed[at] = planned, before
        error = policies.first_fault(changed, world)
        # An existing name is told before anything else about a resource that must be new.
        exists = any(
            before is not None and resource.metadata.resource_version == MUST_NOT_EXIST
            for resource, before in changed
        )
        if error is not None and not exists:
            raise error
        storable = [await _storable(resource, before) for resource, before in changed]
        namespaces = self._new_namespaces(storable)
        written = await turn.put([*namespaces, *storable], dry_run=dry_run)
        return [
            Applied(now, _change(before, now))
            for (_, before), now in zip(changed, written[len(namespaces) :], strict=True)
        ]

    def _new_namespaces(self, resources: Sequence[Resource]) -> list[Resource]:
        """Return the namespaces that resources need and that are not there yet."""
        declared = {one.metadata.name for one in resources if isinstance(one, Namespace)}
        needed = {one.metadata.namespace for one in resources if one.namespaced}
        return [
            Namespace(metadata=NamespaceMetadata(name=name))
            for name in sorted((needed | {DEFAULT_NAMESPACE}) - declared)
            if self._store.get(Key("Namespace", "", name)) is None
        ]

    def _world(self, changed: Mapping[Key, Resource | None]) -> policies.World:
        """Return all resources as they would be with some changed; None is one that has gone."""
        self._take_in()
        return policies.World(self._index.after(changed), self._exposed, self._served)

    def _take_in(self) -> None:
        """Bring the index up to date with the store."""
        try:
            if self._taken_in is not None:
                for event in self._store.changes(self._taken_in):
                    key = event.resource.key
                    is_gone = event.type is EventType.DELETED
                    self._index.put(key, None if is_gone else event.resource)
                self._taken_in = self._store.version
                return
        except Conflict as error:
            if error.code != Code.VERSION_EXPIRED:
                raise
        self._index = Index(self._store.list())
        self._taken_in = self._store.version

    def _members(self, resource: Resource) -> list[Resource]:
        """Return what goes with a resource."""
        if isinstance(resource, Namespace):
            return list(self._store.list(namespace=resource.metadata.name))
        if not isinstance(resource, AddressSpace):
            return []
        self._take_in()
        found = [self._store.get(key) for key in sorted(self._index.members(home_of(resource)))]
        return [one for one in found if one is not None]


def with_plan(resource: Resource, before: Resource | None, index: Overlay) -> Resource:
    """Return an address or a space that names no plan with the one it has, else the first."""
    if not isinstance(resource, AddressSpace | Address) or resource.spec.plan is not None:
        return resource
    catalogue = index.catalogue
    plans: Sequence[Resource] = ()
    if isinstance(resource, AddressSpace):
        plans = catalogue.space_plans_of(resource.spec.type)
    else:
        space = index.get(Key("AddressSpace", resource.metadata.namespace, resource.space))
        if isinstance(space, AddressSpace):
            plans = catalogue.offered(space, resource.spec.type)
    names = [plan.metadata.name for plan in plans]
    if not names:
        return resource
    had = before.spec.plan if isinstance(before, AddressSpace | Address) else None
    name = had if had in names else names[0]
    return resource.model_copy(update={"spec": resource.spec.model_copy(update={"plan": name})})


def _check_preconditions(resource: Resource, uid: str | None, version: str | None) -> None:
    metadata = resource.metadata
    for what, wanted, found in (
        ("uid", uid, metadata.uid),
        ("resourceVersion", version, metadata.resource_version),
    ):
        if wanted is not None and wanted != found:
            raise Conflict(
                Code.VERSION_CONFLICT,
                f"{resource.key} is another one than the request means: its {what} is {found}",
            )


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
