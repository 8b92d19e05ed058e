"""Decides every write to the store.

Across all processes of a store one request is decided at a time, against the state that it will
change, so that of two requests for one name exactly one succeeds. Waiting requests are decided in
one turn and committed together, because a commit costs more than its content.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import islice
from typing import NamedTuple

from enmasse.auth.passwords import without_password
from enmasse.base.errors import Code, Conflict, EnMasseError, Missing
from enmasse.control import admission_checks
from enmasse.control.declared import StoreState
from enmasse.control.defaults import with_default_noted
from enmasse.control.secret_extraction import extract_secrets
from enmasse.plan import PLATFORM, Declarations, Overlay
from enmasse.plan.declared import home_of
from enmasse.plan.naming import platform_names
from enmasse.resources import (
    DEFAULT_NAMESPACE,
    Address,
    AddressSpace,
    Key,
    MessagingNode,
    MessagingUser,
    Namespace,
    Resource,
    in_order,
)
from enmasse.resources.address import SERVED_TYPES
from enmasse.resources.core import NamespaceMetadata
from enmasse.store import Store, Turn
from enmasse.store.protocol import MUST_NOT_EXIST
from enmasse.store.rules import check_demands


class Change(StrEnum):
    """The effect of a request on one resource."""

    CREATED = "created"
    CONFIGURED = "configured"
    UNCHANGED = "unchanged"


class Applied(NamedTuple):
    """One resource after a request, and the effect."""

    resource: Resource
    change: Change


TOGETHER_MAX = 64
"""Maximum requests in one commit."""


class _Wanted:
    """A request to create or replace one resource, and its result."""

    def __init__(self, resource: Resource, *, must_exist: bool) -> None:
        self.resource = resource
        self.must_exist = must_exist
        self.outcome: Resource | EnMasseError | None = None
        self.is_alone = False
        """Whether it is committed alone, because a shared commit failed."""

    def result(self) -> Resource:
        """Return the stored resource.

        Raises: its refusal.
        """
        assert self.outcome is not None
        if isinstance(self.outcome, EnMasseError):
            raise self.outcome
        return self.outcome


class Admission:
    """Decides requests and writes their results."""

    def __init__(
        self,
        store: Store,
        *,
        exposed: bool,
        served: Sequence[str] = SERVED_TYPES,
        hosts: Sequence[str] = (),
        bounds: admission_checks.NamespaceBounds | None = None,
    ) -> None:
        """Guard `store`.

        `exposed`: other machines can reach a listener unintentionally. `served`: supported address
        types. `hosts`: host names of the platform, as for the compiler. `bounds`: limits of a
        namespace.
        """
        self._store = store
        self._platform_names = platform_names(hosts)
        self.exposed = exposed
        self._served = served
        self._bounds = bounds or admission_checks.NamespaceBounds()
        self.declared = StoreState(store)
        """The declared state of this process."""

        self._waiting: dict[_Wanted, None] = {}
        """Undecided requests, oldest first."""

        self._deciding = asyncio.Lock()

    async def apply(self, resources: Sequence[Resource]) -> list[Applied]:
        """Create or change resources, all or none, in order of their references.

        Raises: Invalid or Conflict for the first refused resource.
        """
        derived = await self._derived(resources)
        async with self._store.turn() as turn:
            return await self._put(turn, in_order(resources), derived)

    async def create(self, resource: Resource, *, dry_run: bool = False) -> Resource:
        """Create a new resource.

        Raises: Conflict if it exists; Invalid or Conflict if it is refused.
        """
        demanded = resource.with_metadata(resource_version=MUST_NOT_EXIST)
        return await self._write(_Wanted(demanded, must_exist=False), dry_run=dry_run)

    async def replace(self, resource: Resource, *, dry_run: bool = False) -> Resource:
        """Change an existing resource; its version, if present, is a precondition.

        Raises: Missing if it does not exist; Conflict if it has changed; Invalid or Conflict if it
            is refused.
        """
        return await self._write(_Wanted(resource, must_exist=True), dry_run=dry_run)

    async def delete(
        self,
        key: Key,
        *,
        uid: str | None = None,
        version: str | None = None,
        dry_run: bool = False,
    ) -> Resource:
        """Delete a resource; `uid` and `version`, if given, are preconditions.

        A space is deleted with everything in it, and so is a namespace. A resource with finalizers
        is marked and removed once it has none. A node is forgotten with its resource.

        Raises: Missing if it does not exist; Conflict if a precondition fails or finalizers keep a
            member; Invalid or Denied if it must not be deleted.
        """
        async with self._store.turn() as turn:
            resource = self._store.get(key)
            if resource is None:
                raise Missing(Code.RESOURCE_MISSING, f"there is no {key}")
            _check_preconditions(resource, uid, version)
            members = self._members(resource)
            admission_checks.check_members(resource, members)
            keys = [key, *(member.key for member in members)]
            world = self._world(dict.fromkeys(keys))
            for one in (resource, *members):
                admission_checks.check_unused(one, world)
            if (error := admission_checks.space_opened(world)) is not None:
                raise error
            await self._forget_nodes((resource, *members), dry_run=dry_run)
            return (await turn.delete(keys, dry_run=dry_run))[0]

    async def _forget_nodes(self, deleted: Iterable[Resource], *, dry_run: bool) -> None:
        """Forget nodes before their resources go, or the leader would create these again. A crash
        in between leaves resources without a process, which can be deleted.

        Raises: Conflict if one runs, or has the messages of addresses; then none is forgotten.
        """
        names = [one.metadata.name for one in deleted if isinstance(one, MessagingNode)]
        for only_checks in (True,) if dry_run else (True, False):
            for name in names:
                await self._store.nodes.forget(name, dry_run=only_checks)

    async def ensure_namespaces(self) -> None:
        """Create the namespace `default`, and those of all stored resources."""
        async with self._store.turn() as turn:
            await turn.put(self._new_namespaces([*self._store.list()]))

    async def check(self) -> None:
        """Check the stored resources against the addresses where this process listens.

        With writes that bypass admission, open spaces are served closed instead.

        Raises: Invalid if other machines could reach an open space.
        """
        error = admission_checks.space_exposed(self._world({}))
        if error is not None and self._store.is_guarded:
            raise error

    async def completed(self, resource: Resource, before: Resource | None) -> Resource:
        """Return a resource that bypassed admission as admission would store it: with a plan, if
        one exists, and with verifiers instead of a password.

        Raises: Invalid if its password is malformed.
        """
        world = self._world({})
        if isinstance(resource, Address):
            space = world.space_of(resource)
            if space is not None and not space.is_complete:
                return resource  # its plan is chosen once its space has one
        return await _storable(with_plan(resource, before, world), before)

    async def create_defaults(self, resources: Sequence[Resource]) -> None:
        """Create those of `resources` whose kind has no resources, and assign plans to resources
        without one.

        Changes and deletions by a service administrator therefore persist.
        """
        async with self._store.turn() as turn:
            kinds = {one.kind for one in self._store.list()}
            new = [one for one in resources if one.kind not in kinds]
            await turn.put([*self._new_namespaces(new), *new])
        async with self._store.turn() as turn:
            await turn.put(self._platform(()))
        async with self._store.turn() as turn:
            world = self._world({})
            filled = []
            for one in in_order(self._store.list()):
                if (planned := with_plan(one, one, world)) is not one:
                    world.after.put(planned.key, planned)
                    filled.append(planned)
            await turn.put(filled)

    async def _write(self, wanted: _Wanted, *, dry_run: bool) -> Resource:
        """Decide a request together with other waiting ones."""
        # Key derivation takes as long as hundreds of requests; a space may bring Secrets with it.
        is_slow = isinstance(wanted.resource, MessagingUser | AddressSpace)
        if dry_run or is_slow or not self._store.writes_together:
            derived = await self._derived([wanted.resource])
            async with self._store.turn() as turn:
                self._check_exists(wanted)
                put = await self._put(turn, [wanted.resource], derived, dry_run=dry_run)
                return put[0].resource
        self._waiting[wanted] = None
        try:
            async with self._deciding:
                while wanted.outcome is None:
                    await self._decide(wanted)
        finally:
            self._waiting.pop(wanted, None)
        return wanted.result()

    async def _decide(self, first: _Wanted) -> None:
        """Decide a batch of requests in order, each against the state after its predecessors, and
        commit the accepted ones. Requests that the store refuses as a batch stay undecided.
        """
        try:
            async with self._store.turn() as turn:
                await self._decide_in(turn, self._commit_group(first))
        except EnMasseError as error:
            # The write lock was not available.
            for wanted in self._commit_group(first):
                wanted.outcome = error

    def _commit_group(self, first: _Wanted) -> list[_Wanted]:
        """Return a request and those that can be committed with it: one per key."""
        some = {first.resource.key: first}
        if not first.is_alone:
            for one in islice(self._waiting, TOGETHER_MAX):
                if one.outcome is None and not one.is_alone:
                    some.setdefault(one.resource.key, one)
        return list(some.values())

    async def _decide_in(self, turn: Turn, some: list[_Wanted]) -> None:
        admitted: list[tuple[_Wanted, Resource]] = []
        # Each request is decided as if its predecessors were in the store already.
        batch = Overlay(self.declared.current(), {})
        for wanted in some:
            try:
                self._check_exists(wanted)
                storable = self._decided(wanted.resource, batch)
            except EnMasseError as error:
                wanted.outcome = error
                continue
            batch.put(storable.key, storable)
            admitted.append((wanted, storable))
        if not admitted:
            return
        storables = [storable for _, storable in admitted]
        namespaces = self._new_namespaces(storables)
        try:
            written = await turn.put([*namespaces, *storables])
        except EnMasseError as error:
            for wanted, _ in admitted:
                wanted.is_alone = True
                wanted.outcome = error if len(admitted) == 1 else None
            return
        for (wanted, _), now in zip(admitted, written[len(namespaces) :], strict=True):
            wanted.outcome = now

    def _check_exists(self, wanted: _Wanted) -> None:
        if wanted.must_exist and self._store.get(wanted.resource.key) is None:
            raise Missing(Code.RESOURCE_MISSING, f"{wanted.resource.key} not found")

    def _decided(self, resource: Resource, batch: Overlay) -> Resource:
        """Return a single resource for storage, with a plan, decided after those of `batch`.

        Raises: Invalid or Conflict if it is refused.
        """
        before = self._store.get(resource.key)
        changed = self._admit([(resource, before)], batch)
        check_demands(resource, before)
        return changed[0][0]

    async def _derived(self, resources: Sequence[Resource]) -> Mapping[Key, MessagingUser]:
        """Return users with a password as users with verifiers, by key.

        It takes tens of milliseconds per user, during which others should write: a database ends an
        idle transaction after seconds. Duplicate keys are skipped.
        """
        users = [
            one
            for one in resources
            if isinstance(one, MessagingUser) and one.spec.authentication.password is not None
        ]
        counts = Counter(one.key for one in users)
        once = [one for one in users if counts[one.key] == 1]
        found = await asyncio.gather(*(_verified(one, self._store.get(one.key)) for one in once))
        return {one.key: one for one in found}

    async def _put(
        self,
        turn: Turn,
        resources: Sequence[Resource],
        derived: Mapping[Key, MessagingUser],
        *,
        dry_run: bool = False,
    ) -> list[Applied]:
        changed = self._admit([(one, self._store.get(one.key)) for one in resources])
        secrets: list[Resource] = []
        storable: list[Resource] = []
        for resource, before in changed:
            one = derived.get(resource.key) or await _storable(resource, before)
            if isinstance(one, AddressSpace):
                one, kept = extract_secrets(one, before, self._store.get)
                secrets += kept
            storable.append(one)
        others = [*self._new_namespaces(storable), *secrets, *self._platform(storable)]
        written = await turn.put([*others, *storable], dry_run=dry_run)
        return [
            Applied(now, _change(before, now))
            for (_, before), now in zip(changed, written[len(others) :], strict=True)
        ]

    def _admit(
        self, changed: admission_checks.Changed, base: Declarations | None = None
    ) -> list[tuple[Resource, Resource | None]]:
        """Return the changes of a request on `base`, by default the store, with plans assigned.

        Raises: Invalid or Conflict for the first refused resource.
        """
        world = self._world({}, base)
        admitted: list[tuple[Resource, Resource | None]] = []
        # In order: the plan of an address depends on that of its space.
        for resource, before in changed:
            planned = with_plan(resource, before, world)
            world.after.put(planned.key, planned)
            admitted.append((planned, before))
        error = admission_checks.first_fault(admitted, world)
        # For a create, an existing name is the first error.
        exists = any(
            before is not None and resource.metadata.resource_version == MUST_NOT_EXIST
            for resource, before in admitted
        )
        if error is not None and not exists:
            raise error
        return admitted

    def _new_namespaces(self, resources: Sequence[Resource]) -> list[Resource]:
        """Return the missing namespaces of resources."""
        declared = {one.metadata.name for one in resources if isinstance(one, Namespace)}
        needed = {one.metadata.namespace for one in resources if one.namespaced}
        return [
            Namespace(metadata=NamespaceMetadata(name=name))
            for name in sorted((needed | {DEFAULT_NAMESPACE}) - declared)
            if self._store.get(Key("Namespace", "", name)) is None
        ]

    def _platform(self, storable: Sequence[Resource]) -> list[Resource]:
        """Return the platform's namespace if the default space must be recorded in it after
        `storable` is written.
        """
        there = self._store.get(PLATFORM)
        declared = any(one.key == PLATFORM for one in storable)
        spaces = [one for one in storable if isinstance(one, AddressSpace)]
        if declared or not isinstance(there, Namespace) or (storable and not spaces):
            return []
        known = [*self._store.list("AddressSpace"), *spaces]
        noted = with_default_noted(there, {home_of(one) for one in known})
        return [noted] if noted is not None else []

    def _world(
        self, changed: Mapping[Key, Resource | None], base: Declarations | None = None
    ) -> admission_checks.World:
        """Return the world after a request; None means deleted."""
        after = Overlay(base if base is not None else self.declared.current(), changed)
        return admission_checks.World(
            after, self.exposed, self._served, self._platform_names, self._bounds
        )

    def _members(self, resource: Resource) -> list[Resource]:
        """Return the resources that are deleted with a resource."""
        if isinstance(resource, Namespace):
            return list(self._store.list(namespace=resource.metadata.name))
        if not isinstance(resource, AddressSpace):
            return []
        keys = self.declared.current().members(home_of(resource)).keys
        found = [self._store.get(key) for key in sorted(keys)]
        return [one for one in found if one is not None]


def with_plan(
    resource: Resource, before: Resource | None, world: admission_checks.World
) -> Resource:
    """Return an address or space with a plan: its own, its former one, or the default. A space gets
    the first plan that its namespace may use, or none if there is none.
    """
    if not isinstance(resource, AddressSpace | Address) or resource.spec.plan is not None:
        return resource
    catalogue = world.after.catalogue
    had = before.spec.plan if isinstance(before, AddressSpace | Address) else None
    if isinstance(resource, AddressSpace):
        namespace = resource.metadata.namespace
        there = catalogue.space_plans_of(resource.spec.type)
        names = [plan.metadata.name for plan in there]
        free = [one for one in names if world.may_choose(namespace, one)]
    else:
        space = world.space_of(resource)
        offered = catalogue.offered(space, resource.spec.type) if space is not None else []
        names = free = [plan.metadata.name for plan in offered]
    name = had if had in names else next(iter(free), None)
    if name is None:
        return resource
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
                f"{resource.key} is not the object of the request: its {what} is {found}",
            )


async def _storable(resource: Resource, before: Resource | None) -> Resource:
    """Return the resource without data that must not be stored."""
    return await _verified(resource, before) if isinstance(resource, MessagingUser) else resource


async def _verified(resource: MessagingUser, before: Resource | None) -> MessagingUser:
    """Return a user with verifiers instead of a password."""
    stored = before if isinstance(before, MessagingUser) else None
    return await asyncio.to_thread(without_password, resource, stored)


def _change(before: Resource | None, now: Resource) -> Change:
    if before is None:
        return Change.CREATED
    return Change.UNCHANGED if now is before else Change.CONFIGURED
