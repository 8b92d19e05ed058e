"""Admission checks. Pure; each is named after the error it finds.

A check receives the resource, its former state, and the world after the request. It returns None,
or the error that refuses the request.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from enmasse.base.errors import Code, Conflict, Denied, EnMasseError, Exhausted, Fault, Invalid
from enmasse.base.settings import NAMESPACE_DATA_BYTES_MAX, NAMESPACE_RESOURCES_MAX
from enmasse.plan import (
    ADDRESSES,
    PLATFORM,
    Demand,
    Excess,
    Overlay,
    Problem,
    dangling,
    default_space,
    open_spaces,
)
from enmasse.plan.declared import (
    Home,
    full_name,
    group_of,
    home_of,
    unique_names,
)
from enmasse.plan.naming import rival
from enmasse.plan.quota_growth import exceeded_by_new_plan, outgrown_quota
from enmasse.resources import (
    DEFAULT_NAMESPACE,
    Address,
    AddressSpace,
    Key,
    MessagingNode,
    MessagingUser,
    Namespace,
    Resource,
)
from enmasse.resources.address import SERVED_TYPES
from enmasse.resources.forwarders import unconnected
from enmasse.resources.model import DEFAULT_SPACE_ANNOTATION


@dataclass(frozen=True, slots=True)
class NamespaceBounds:
    """Limits of a namespace, so that no tenant fills the store."""

    resources: int = NAMESPACE_RESOURCES_MAX
    """Maximum resources per kind."""

    data_bytes: int = NAMESPACE_DATA_BYTES_MAX
    """Maximum bytes of all Secrets, and of all ConfigMaps."""

    plans: str = "*"
    """Plans for spaces of a namespace without the annotation PLANS, in its format."""


PLANS = "enmasse.io/plans"
"""Annotation of a Namespace: comma-separated plans for its address spaces; `*` is any."""


@dataclass(frozen=True)
class World:
    """All resources after a request."""

    after: Overlay
    """The declared state with the request."""

    exposed: bool
    """Whether other machines can reach a listener unintentionally."""

    served: Sequence[str] = SERVED_TYPES
    """Supported address types."""

    platform: Collection[str] = ()
    """Names of the platform, which no space can have."""

    bounds: NamespaceBounds = NamespaceBounds()
    """Limits of a namespace."""

    def space_of(self, resource: Resource) -> AddressSpace | None:
        """Return the address space of a resource, if it exists."""
        found = self.after.get(Key("AddressSpace", resource.metadata.namespace, resource.space))
        return found if isinstance(found, AddressSpace) else None

    def may_choose(self, namespace: str, plan: str) -> bool:
        """Whether address spaces of a namespace may use a plan."""
        allowed = self.plans_of(namespace)
        return "*" in allowed or plan in allowed

    def plans_of(self, namespace: str) -> list[str]:
        """Return the plans for address spaces of a namespace; `*` is any."""
        found = self.after.get(Key("Namespace", "", namespace))
        annotation = found.metadata.annotations.get(PLANS) if found else None
        names = (self.bounds.plans if annotation is None else annotation).split(",")
        return [name.strip() for name in names if name.strip()]

    def address_named(self, beside: Resource, name: str) -> Address | None:
        """Return the address with that name in the space of a resource."""
        owners = self.after.owners(("Address", beside.metadata.namespace, beside.space, name))
        found = self.after.get(owners[0]) if owners else None
        return found if isinstance(found, Address) else None


Check = Callable[[Resource, Resource | None, World], EnMasseError | None]


def field_changed(resource: Resource, before: Resource | None, _: World) -> EnMasseError | None:
    """An immutable field changed, or a resource being deleted got another finalizer."""
    if before is None:
        return None
    faults = resource.refused_changes(before)
    if before.is_terminating:
        late = sorted({*resource.metadata.finalizers} - {*before.metadata.finalizers})
        problem = (
            f"cannot add {', '.join(late)}: the resource is being deleted;"
            " remove them from the request"
        )
        faults = [*faults, *([Fault("metadata.finalizers", problem)] if late else [])]
    return _invalid(Code.FIELD_IMMUTABLE, resource, faults) if faults else None


def type_not_served(resource: Resource, _: Resource | None, world: World) -> EnMasseError | None:
    """The address type is not supported."""
    if not isinstance(resource, Address) or resource.spec.type in world.served:
        return None
    message = (
        f"{resource.spec.type!r} cannot be served by this node; it serves {', '.join(world.served)}"
    )
    return _invalid(Code.FIELD_INVALID, resource, [Fault("spec.type", message)])


def node_invented(resource: Resource, before: Resource | None, _: World) -> EnMasseError | None:
    """A node that no process registered was created."""
    if not isinstance(resource, MessagingNode) or before is not None:
        return None
    message = (
        "no such node; the platform creates a node for each of its processes: start one with"
        f" enmasse up --node-name {resource.metadata.name}"
    )
    return _invalid(Code.REFERENCE_INVALID, resource, [Fault("metadata.name", message)])


def space_absent(resource: Resource, before: Resource | None, world: World) -> EnMasseError | None:
    """The address space does not exist."""
    if not isinstance(resource, Address | MessagingUser):
        return None
    if world.space_of(resource) or (before is not None and before.is_terminating):
        return None
    message = (
        f"address space {resource.space!r} not found in namespace"
        f" {resource.metadata.namespace!r}; create it first"
    )
    return _invalid(Code.SPACE_ABSENT, resource, [Fault("metadata.name", message)])


def name_taken(resource: Resource, _: Resource | None, world: World) -> EnMasseError | None:
    """Another resource has that address, user name or plan name."""
    for name in unique_names(resource):
        owner = next((key for key in world.after.owners(name) if key != resource.key), None)
        if owner is None:
            continue
        if isinstance(resource, AddressSpace):
            owned_by = _display_name(owner, resource)
            where = (
                f"would be the realm of its users, which belongs to {owned_by}; choose another name"
            )
            fault = Fault("metadata.name", f"{name[-1]!r} {where}")
        elif resource.unique:
            where = f"already belongs to one in namespace {owner.namespace!r}"
            fault = Fault("metadata.name", f"{name[-1]!r} {where}; change that one, or delete it")
        else:
            what = "spec.address" if owner.kind == "Address" else "spec.username"
            where = f"already belongs to {owner.name} in this address space"
            fault = Fault(what, f"{name[-1]!r} {where}; choose another, or change that one")
        return Conflict(Code.ADDRESS_TAKEN, f"{resource.key}: {fault}", faults=[fault])
    return None


def reference_dangling(
    resource: Resource, before: Resource | None, world: World
) -> EnMasseError | None:
    """It references an address that is missing or has the wrong type.

    A reference that has become invalid since does not prevent other changes.
    """
    if not isinstance(resource, Address):
        return None
    faults = [
        Fault(f"spec.{reference.field}", f"{reference.problem}; {reference.remedy}")
        for reference in dangling(resource, lambda name: world.address_named(resource, name))
        if not isinstance(before, Address)
        or getattr(before.spec, reference.field) != getattr(resource.spec, reference.field)
    ]
    return _invalid(Code.REFERENCE_INVALID, resource, faults) if faults else None


def choice_unfit(resource: Resource, before: Resource | None, world: World) -> EnMasseError | None:
    """It chose a plan or service that is missing or does not fit.

    A former choice may stay: a plan deleted since does not prevent other changes.
    """
    problem: Problem | None = None
    if isinstance(resource, AddressSpace):
        if not isinstance(before, AddressSpace) or _choices(before) != _choices(resource):
            problem = world.after.catalogue.problem_of_space(resource)
    elif isinstance(resource, Address) and (space := world.space_of(resource)) is not None:
        if not isinstance(before, Address) or before.spec.plan != resource.spec.plan:
            problem = world.after.catalogue.problem_of_address(resource, space)
    if problem is None:
        return None
    return _invalid(Code.CHOICE_INVALID, resource, [Fault(problem.field, problem.message)])


def plan_withheld(resource: Resource, before: Resource | None, world: World) -> EnMasseError | None:
    """Its namespace may not use the plan of an address space. A former choice may stay."""
    if not isinstance(resource, AddressSpace):
        return None
    plan, namespace = resource.spec.plan, resource.metadata.namespace
    same = isinstance(before, AddressSpace) and before.spec.plan == plan
    if same or (plan is not None and world.may_choose(namespace, plan)):
        return None
    if plan is None and not world.after.catalogue.space_plans_of(resource.spec.type):
        return None
    what = f"{plan!r}" if plan is not None else f"any plan for type {resource.spec.type}"
    there = ", ".join(world.plans_of(namespace))
    only = f", only {there}; choose one of these, or" if there else "; choose another namespace, or"
    fault = Fault(
        "spec.plan",
        f"namespace {namespace!r} may not use {what}{only} ask a service"
        f" administrator to list it in annotation {PLANS} of the namespace",
    )
    message = f"{resource.key} is forbidden: {fault}"
    return Denied(Code.PLAN_WITHHELD, message, faults=[fault], name=resource.metadata.name)


def _choices(space: AddressSpace) -> tuple[object, ...]:
    return space.spec.plan, space.spec.authentication_service


def forwarder_unconnected(
    resource: Resource, before: Resource | None, world: World
) -> EnMasseError | None:
    """A forwarder names no connector of the space. One that was valid when created may stay."""
    if not isinstance(resource, Address) or not resource.spec.forwarders:
        return None
    space = world.space_of(resource)
    same = isinstance(before, Address) and before.spec.forwarders == resource.spec.forwarders
    if space is None or same:
        return None
    connectors = [one.name for one in space.spec.connectors]
    faults = list(unconnected(resource.spec.forwarders, connectors))
    return _invalid(Code.REFERENCE_INVALID, resource, faults) if faults else None


Changed = Sequence[tuple[Resource, Resource | None]]
"""The changes of a request: each resource after and before it."""


def host_taken(resource: Resource, before: Resource | None, world: World) -> EnMasseError | None:
    """The platform or another space claims a host name of its endpoints, or its full name."""
    if not isinstance(resource, AddressSpace):
        return None
    asked = {"metadata.name": full_name(resource)} if before is None else {}
    if not isinstance(before, AddressSpace) or before.spec.hosts != resource.spec.hosts:
        asked |= {
            f"spec.endpoints[{place}].expose.routeHost": host
            for place, endpoint in enumerate(resource.spec.endpoints)
            for host in endpoint.hosts
        }
    for field, host in asked.items():
        owner = rival(world.after, resource, host, world.platform)
        if owner is None:
            continue
        owned_by = _display_name(owner, resource)
        fault = Fault(field, f"{host!r} already belongs to {owned_by}; choose another")
        return Conflict(Code.ADDRESS_TAKEN, f"{resource.key}: {fault}", faults=[fault])
    return None


def _display_name(space: Key, asking: Resource) -> str:
    """Return how a space, or the platform, is named to a tenant, who may not own it."""
    if space == PLATFORM:
        return "the platform itself"
    if space.namespace == asking.metadata.namespace:
        return f"address space {space.name}"
    return "a space of another namespace"


def namespace_full(changed: Changed, world: World) -> EnMasseError | None:
    """A namespace exceeds its limits. Existing resources may stay."""
    for group in dict.fromkeys(group_of(resource.key) for resource, _ in changed):
        now, before = world.after.held(group), world.after.base.held(group)
        bounds = world.bounds
        kind, namespace = group
        # A namespace beyond its limits, which were lowered, may change and shrink, but not grow.
        if now.resources > max(bounds.resources, before.resources):
            there = f"{now.resources} {kind} of {bounds.resources}"
            setting = "namespace-resources-max"
        elif now.data_bytes > max(bounds.data_bytes, before.data_bytes):
            there = f"{now.data_bytes} bytes in {kind} of {bounds.data_bytes}"
            setting = "namespace-data-bytes-max"
        else:
            continue
        last = next(one for one, _ in reversed(changed) if group_of(one.key) == group)
        problem = (
            f"exceeded quota: namespace {namespace!r} would hold {there}; delete some, use another"
            f" namespace, or raise the setting {setting}"
        )
        fault = Fault("metadata.namespace", problem)
        return Exhausted(
            Code.QUOTA_EXCEEDED,
            f"{last.key} is forbidden: {fault}",
            faults=[fault],
            name=last.metadata.name,
        )
    return None


def quota_exceeded(changed: Changed, world: World) -> EnMasseError | None:
    """An address space exceeds its quota, or gets a plan that its addresses do not fit."""
    homes: dict[Home, list[tuple[Resource, Resource | None]]] = {}
    for resource, before in changed:
        if isinstance(resource, AddressSpace | Address):
            homes.setdefault(home_of(resource), []).append((resource, before))
    for home, members in homes.items():
        space = world.after.get(Key("AddressSpace", *home))
        if not isinstance(space, AddressSpace):
            continue
        chooses = any(isinstance(one, AddressSpace) for one, _ in members)
        if chooses and (lost := exceeded_by_new_plan(world.after, home)):
            return _no_room(space, space, lost)
        if excess := outgrown_quota(world.after, home):
            return _no_room(_last_grown(members, excess, world) or space, space, excess)
    return None


def _last_grown(members: Changed, excess: Sequence[Excess], world: World) -> Address | None:
    """Return the last address of a request that needs more than before."""
    counted = any(one.resource == ADDRESSES for one in excess)
    grown = [
        one
        for one, before in members
        if isinstance(one, Address)
        and (not isinstance(before, Address) or before.spec.plan != one.spec.plan)
        and (counted or world.after.catalogue.demand(one.spec.type, one.spec.plan) != Demand())
    ]
    return grown[-1] if grown else None


def _no_room(resource: Resource, space: AddressSpace, excess: Sequence[Excess]) -> EnMasseError:
    plan = space.spec.plan
    amounts = ", ".join(map(str, excess))
    if isinstance(resource, AddressSpace):
        problem = (
            f"Unable to apply plan {plan!r}: Quota exceeded: the addresses would need {amounts}"
            f" that plan {plan} allows; delete some, or choose a larger plan"
        )
    else:
        problem = (
            f"exceeded quota: address space {space.metadata.name!r} would need {amounts} that its"
            f" plan {plan} allows; delete addresses, choose a smaller plan, or give the address"
            " space a larger one"
        )
    fault = Fault("spec.plan", problem)
    name = resource.metadata.name
    return Exhausted(
        Code.QUOTA_EXCEEDED, f"{resource.key} is forbidden: {fault}", faults=[fault], name=name
    )


def default_space_unknown(
    resource: Resource, before: Resource | None, world: World
) -> EnMasseError | None:
    """The default space does not exist. One that is deleted later stays the default."""
    if resource.key != PLATFORM:
        return None
    name = default_space(resource)
    if not name or name == default_space(before):
        return None
    space, _, namespace = name.partition(".")
    if world.after.get(Key("AddressSpace", namespace, space)) is not None:
        return None
    fault = Fault(
        f"metadata.annotations[{DEFAULT_SPACE_ANNOTATION}]",
        f"address space {name!r} not found; write NAME.NAMESPACE, or an empty"
        " value to require every client to name its space",
    )
    return _invalid(Code.REFERENCE_INVALID, resource, [fault])


CHECKS: tuple[Check, ...] = (
    field_changed,
    node_invented,
    type_not_served,
    space_absent,
    name_taken,
    reference_dangling,
    choice_unfit,
    plan_withheld,
    host_taken,
    forwarder_unconnected,
    default_space_unknown,
)
"""Checks of every created or changed resource, in order of reporting."""


def space_opened(world: World) -> EnMasseError | None:
    """A space would become open to other machines. One that bypassed admission is served closed and
    does not prevent other changes.
    """
    if not world.exposed:
        return None
    return space_exposed(world, {one.key for one in open_spaces(world.after.base, exposed=True)})


def space_exposed(world: World, known: Collection[Key] = ()) -> EnMasseError | None:
    """A space that admits every client, other than `known`, is reachable from other machines."""
    if not world.exposed:
        return None
    spaces = [one for one in open_spaces(world.after, exposed=True) if one.key not in known]
    if not spaces:
        return None
    names = ", ".join(space.metadata.name for space in spaces)
    return Invalid(
        Code.SPACE_EXPOSED,
        f"address space {names} would admit anonymous clients from other"
        " machines; remove spec.authenticationService.type or set it to"
        " standard, listen on 127.0.0.1, or start with --insecure",
    )


def check_members(resource: Resource, members: Sequence[Resource]) -> None:
    """Check that a resource can be deleted with its members.

    Raises: Denied for the namespace `default`; Conflict if finalizers keep a member.
    """
    if isinstance(resource, Namespace) and resource.metadata.name == DEFAULT_NAMESPACE:
        raise Denied(Code.ACCESS_DENIED, f"namespace {DEFAULT_NAMESPACE!r} cannot be deleted")
    for member in members:
        if member.metadata.finalizers:
            raise Conflict(
                Code.STATE_CONFLICT,
                f"{resource.key} holds {member.key}, which waits for its finalizers"
                f" ({', '.join(member.metadata.finalizers)}); delete that one first",
            )


IN_USE_NAMED_MAX = 3
"""Maximum users of a resource listed in a message."""


def check_unused(resource: Resource, world: World) -> None:
    """Check that a plan or service being deleted is unused; `world` is the state after it.

    Raises: Conflict if it is used.
    """
    using = sorted(world.after.using(resource.kind, resource.metadata.name))
    if not using:
        return
    names = ", ".join(str(key) for key in using[:IN_USE_NAMED_MAX])
    more = len(using) - IN_USE_NAMED_MAX
    users = f"{names} and {more} more" if more > 0 else names
    raise Conflict(
        Code.STATE_CONFLICT,
        f"{resource.key} is in use by {users}; change or delete them first",
    )


def first_fault(changed: Changed, world: World) -> EnMasseError | None:
    """Return the first error of any check for a request."""
    for resource, before in changed:
        for check in CHECKS:
            if (error := check(resource, before, world)) is not None:
                return error
    full = namespace_full(changed, world)
    return full or quota_exceeded(changed, world) or space_opened(world)


def _invalid(code: Code, resource: Resource, faults: list[Fault]) -> Invalid:
    summary = "; ".join(str(fault) for fault in faults)
    name = resource.metadata.name
    return Invalid(code, f"{resource.key}: {summary}", faults=faults, name=name)
