"""What is decided when a request arrives: pure checks, each named for the fault it finds.

A check sees the resource, the resource of the same key before, and the world as it would be. It
returns None, or the error that refuses the request.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from enmasse.base.errors import Code, Conflict, Denied, EnMasseError, Fault, Invalid
from enmasse.plan import dangling, is_open
from enmasse.resources import (
    DEFAULT_NAMESPACE,
    Address,
    AddressSpace,
    Declared,
    Key,
    MessagingUser,
    Namespace,
    Resource,
)
from enmasse.resources.address import SERVED_TYPES


@dataclass(frozen=True)
class World:
    """All resources as they would be after a request, found by what must be unique or exist."""

    resources: dict[Key, Resource]
    exposed: bool
    """Whether a listener can be reached from other machines, and nobody said that this is meant."""

    served: Sequence[str] = SERVED_TYPES
    """The types of address that can be served."""

    _owners: dict[tuple[str, ...], Key] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for key, resource in self.resources.items():
            for name in _unique_names(resource):
                self._owners.setdefault(name, key)

    def space_of(self, resource: Resource) -> AddressSpace | None:
        """Return the address space a resource belongs to, if it exists."""
        space = self.resources.get(Key("AddressSpace", resource.metadata.namespace, resource.space))
        return space if isinstance(space, AddressSpace) else None

    def address_named(self, beside: Resource, name: str) -> Address | None:
        """Return the address of that name in the address space of a resource."""
        key = self.owner(("Address", beside.metadata.namespace, beside.space, name))
        found = self.resources.get(key) if key else None
        return found if isinstance(found, Address) else None

    def owner(self, name: tuple[str, ...]) -> Key | None:
        """Return which resource has a name that only one may have."""
        return self._owners.get(name)

    def open_spaces(self) -> list[AddressSpace]:
        """Return the spaces that let everybody in."""
        users = [user for user in self.resources.values() if isinstance(user, MessagingUser)]
        return [
            space
            for space in self.resources.values()
            if isinstance(space, AddressSpace) and is_open(space, users)
        ]


Check = Callable[[Resource, Resource | None, World], EnMasseError | None]


def field_changed(resource: Resource, before: Resource | None, _: World) -> EnMasseError | None:
    """A field that cannot change was changed."""
    if before is None:
        return None
    faults = resource.refused_changes(before)
    return _invalid(Code.FIELD_IMMUTABLE, resource, faults) if faults else None


def type_not_served(resource: Resource, _: Resource | None, world: World) -> EnMasseError | None:
    """It is an address of a type that cannot be served."""
    if not isinstance(resource, Address) or resource.spec.type in world.served:
        return None
    message = (
        f"{resource.spec.type!r} cannot be served by this node; it serves {', '.join(world.served)}"
    )
    return _invalid(Code.FIELD_INVALID, resource, [Fault("spec.type", message)])


def space_absent(resource: Resource, before: Resource | None, world: World) -> EnMasseError | None:
    """The address space it belongs to does not exist."""
    if not isinstance(resource, Declared) or isinstance(resource, AddressSpace):
        return None
    if world.space_of(resource) or (before is not None and before.is_terminating):
        return None
    message = (
        f"there is no address space {resource.space!r} in namespace"
        f" {resource.metadata.namespace!r}; create it first"
    )
    return _invalid(Code.SPACE_ABSENT, resource, [Fault("metadata.name", message)])


def name_taken(resource: Resource, _: Resource | None, world: World) -> EnMasseError | None:
    """Another resource of the space has that address or user name."""
    for kind, namespace, space, name in _unique_names(resource):
        owner = world.owner((kind, namespace, space, name))
        if owner is not None and owner != resource.key:
            what = "spec.address" if kind == "Address" else "spec.username"
            fault = Fault(what, f"{name!r} already belongs to {owner.name} in this address space")
            return Conflict(Code.ADDRESS_TAKEN, f"{resource.key}: {fault}", faults=[fault])
    return None


def reference_dangling(
    resource: Resource, before: Resource | None, world: World
) -> EnMasseError | None:
    """It refers to an address that is not there, or is not of the type it must be.

    A reference that was good when it was made may have come to nothing since; it does not keep the
    rest of the resource from being changed.
    """
    if not isinstance(resource, Address):
        return None
    faults = [
        Fault(f"spec.{reference.field}", reference.problem)
        for reference in dangling(resource, lambda name: world.address_named(resource, name))
        if not isinstance(before, Address)
        or getattr(before.spec, reference.field) != getattr(resource.spec, reference.field)
    ]
    return _invalid(Code.REFERENCE_INVALID, resource, faults) if faults else None


CHECKS: tuple[Check, ...] = (
    field_changed,
    type_not_served,
    space_absent,
    name_taken,
    reference_dangling,
)
"""What every created or changed resource must pass, in the order in which faults are told."""


def space_exposed(world: World) -> EnMasseError | None:
    """A space that lets everybody in could be reached from other machines."""
    if not world.exposed or not (spaces := world.open_spaces()):
        return None
    names = ", ".join(space.metadata.name for space in spaces)
    return Invalid(
        Code.SPACE_EXPOSED,
        f"address space {names} would let everybody in, from other machines too;"
        " set spec.authenticationService.type to standard, create a MessagingUser first,"
        " listen on 127.0.0.1, or start with --insecure",
    )


def check_members(resource: Resource, members: Sequence[Resource]) -> None:
    """See that a resource may go together with what belongs to it.

    Raises: Denied for the namespace `default`; Conflict if finalizers keep one of the members.
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


def first_fault(
    changed: Iterable[tuple[Resource, Resource | None]], world: World
) -> EnMasseError | None:
    """Return the first error that any check finds in what a request changes."""
    for resource, before in changed:
        for check in CHECKS:
            if (error := check(resource, before, world)) is not None:
                return error
    return space_exposed(world)


def _unique_names(resource: Resource) -> list[tuple[str, str, str, str]]:
    """Names that only one resource may have."""
    if isinstance(resource, Address):
        names: tuple[str, ...] = resource.names
    elif isinstance(resource, MessagingUser):
        names = (resource.spec.username,)
    else:
        names = ()
    return [(resource.kind, resource.metadata.namespace, resource.space, name) for name in names]


def _invalid(code: Code, resource: Resource, faults: list[Fault]) -> Invalid:
    summary = "; ".join(str(fault) for fault in faults)
    name = resource.metadata.name
    return Invalid(code, f"{resource.key}: {summary}", faults=faults, name=name)
