"""Resources in, Plan out. No I/O, no clock: equal input gives equal output.

What cannot be served beside the rest (an address whose name another one has, a user without a
space) is left out and named with the reason; the rest is served. Of two that want one name the
older wins, as in the original EnMasse. An address that names another one which is gone stays in the
Plan, because a node drops the messages of an address that is not; it is named as waiting.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from enmasse.plan.model import (
    Authentication,
    Plan,
    PlannedAddress,
    PlannedSpace,
    PlannedUser,
    Right,
)
from enmasse.plan.references import dangling
from enmasse.plan.stored import planned as planned_address
from enmasse.resources import Address, AddressSpace, Key, MessagingUser, Resource

STANDARD_MECHANISMS = ("EXTERNAL", "SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
"""What a space that asks for a user accepts, best first. The node offers EXTERNAL only to a client
that has shown a certificate, and PLAIN only where nobody can listen."""

OPEN_MECHANISMS = ("PLAIN",)
"""Offered beside ANONYMOUS by a space that lets everybody in."""

EVERY_NAME = "#"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Why a resource is not in the Plan, or waits: a reason for programs, a message for people."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Compiled:
    """A Plan, every resource that is not in it, and those in it that wait for others."""

    plan: Plan
    left_out: dict[Key, LeftOut]
    waiting: dict[Key, LeftOut]


def compile(resources: Iterable[Resource], version: int) -> Compiled:
    """Return the Plan for all declared resources, and what had to be left out of it."""
    spaces: list[AddressSpace] = []
    members = _Members()
    for resource in resources:
        if isinstance(resource, AddressSpace):
            spaces.append(resource)
        elif isinstance(resource, Address):
            members.addresses[_home(resource)].append(resource)
        elif isinstance(resource, MessagingUser):
            members.users[_home(resource)].append(resource)
    left_out: dict[Key, LeftOut] = {}
    waiting: dict[Key, LeftOut] = {}
    planned = tuple(
        _space(space, members, left_out, waiting)
        for space in sorted(spaces, key=lambda space: space.key)
    )
    known = {_home(space) for space in spaces}
    left_out.update(
        (orphan.key, _no_space(orphan))
        for home, orphans in members.all()
        if home not in known
        for orphan in orphans
    )
    return Compiled(Plan(version=version, spaces=planned), left_out, waiting)


def is_open(space: AddressSpace, users: Iterable[MessagingUser]) -> bool:
    """Whether everybody may come into a space, `users` being those of all spaces."""
    has_users = any(_home(user) == _home(space) for user in users)
    return space.authentication(has_users=has_users) == "none"


_Home = tuple[str, str]
_Member = TypeVar("_Member", Address, MessagingUser)


class _Members:
    """What belongs to each space, by namespace and name of the space."""

    def __init__(self) -> None:
        self.addresses: defaultdict[_Home, list[Address]] = defaultdict(list)
        self.users: defaultdict[_Home, list[MessagingUser]] = defaultdict(list)

    def all(self) -> Iterable[tuple[_Home, list[Address] | list[MessagingUser]]]:
        yield from self.addresses.items()
        yield from self.users.items()


def _home(resource: Resource) -> _Home:
    return resource.metadata.namespace, resource.space


def _space(
    space: AddressSpace,
    members: _Members,
    left_out: dict[Key, LeftOut],
    waiting: dict[Key, LeftOut],
) -> PlannedSpace:
    home = _home(space)
    # `get`, so that asking about a space without members leaves no trace.
    users = members.users.get(home, [])
    authentication = space.authentication(has_users=bool(users))
    return PlannedSpace(
        uid=space.metadata.uid or "",
        names=(space.metadata.name, f"{space.metadata.name}.{space.metadata.namespace}"),
        authentication=_authentication(authentication),
        users=_users(users, left_out) if authentication == "standard" else (),
        addresses=_addresses(members.addresses.get(home, []), left_out, waiting),
    )


def _addresses(
    declared: list[Address], left_out: dict[Key, LeftOut], waiting: dict[Key, LeftOut]
) -> tuple[PlannedAddress, ...]:
    named: dict[str, Address] = {}
    for address in _oldest_first(declared):
        taken = next((name for name in address.names if name in named), None)
        if taken is None:
            named.update((name, address) for name in address.names)
        else:
            left_out[address.key] = LeftOut(
                "AddressTaken",
                f"address {taken!r} is already declared by {named[taken].metadata.name};"
                " delete one of the two",
            )
    served = {address.name: address for address in named.values()}
    for address in served.values():
        if gone := dangling(address, named.get):
            problems = "; ".join(reference.problem for reference in gone)
            waiting[address.key] = LeftOut(gone[0].reason, f"{problems}: waiting for it")

    def of_type(type_: str, name: str | None) -> Address | None:
        address = named.get(name or "")
        return address if address and address.spec.type == type_ else None

    return tuple(
        planned_address(
            served[name],
            topic=of_type("topic", served[name].spec.topic),
            missing=lambda name: of_type("deadletter", name) is None,
        )
        for name in sorted(served)
    )


def _authentication(kind: str) -> Authentication:
    if kind == "none":
        return Authentication(type="none", anonymous=True, mechanisms=OPEN_MECHANISMS)
    return Authentication(type="standard", anonymous=False, mechanisms=STANDARD_MECHANISMS)


def _users(users: list[MessagingUser], left_out: dict[Key, LeftOut]) -> tuple[PlannedUser, ...]:
    planned: dict[str, MessagingUser] = {}
    for user in _oldest_first(users):
        first = planned.setdefault(user.spec.username, user)
        if first is not user:
            left_out[user.key] = LeftOut(
                "UserNameTaken",
                f"user name {user.spec.username!r} already belongs to {first.metadata.name};"
                " delete one of the two",
            )
    return tuple(
        PlannedUser(
            name=name,
            verifiers=planned[name].spec.authentication.verifiers,
            rights=_rights(planned[name]),
        )
        for name in sorted(planned)
    )


def _rights(user: MessagingUser) -> tuple[Right, ...]:
    """One right for each address named; an authorization that names none is for all of them."""
    return tuple(
        Right(pattern=pattern, operations=authorization.operations)
        for authorization in user.spec.authorization
        for pattern in authorization.addresses or (EVERY_NAME,)
    )


def _oldest_first(resources: list[_Member]) -> list[_Member]:
    return sorted(
        resources,
        key=lambda resource: (resource.metadata.creation_timestamp or "", resource.key),
    )


def _no_space(orphan: Resource) -> LeftOut:
    return LeftOut(
        "SpaceMissing",
        f"address space {orphan.space!r} does not exist in namespace"
        f" {orphan.metadata.namespace!r}; create it, or delete this",
    )
