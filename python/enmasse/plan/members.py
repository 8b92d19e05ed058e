"""The declarations of one address space, with indexes by name and reference. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeVar

from enmasse.resources import Address, AddressSpace, Key, MessagingUser, Resource

Choice = tuple[str, str | None]
"""Type and plan of an address."""

Member = Address | MessagingUser
_Member = TypeVar("_Member", Address, MessagingUser)
_Name = TypeVar("_Name")


class Taken(NamedTuple):
    """A name that a member declares but an older one has."""

    name: str
    owner: Key


class Members:
    """An address space with its addresses and users."""

    def __init__(self) -> None:
        self.space: AddressSpace | None = None
        self.addresses: dict[Key, Address] = {}
        self.users: dict[Key, MessagingUser] = {}
        self.claims: dict[str, tuple[Key, ...]] = {}
        """The addresses that declare a name, in the order of declaration."""

        self._contested: set[str] = set()
        """Names that several addresses declare."""

        self.referring: defaultdict[str, set[Key]] = defaultdict(set)
        """The addresses that reference a name."""

        self.choices: Counter[Choice] = Counter()
        """Number of addresses of each type and plan."""

        self._usernames: dict[str, tuple[Key, ...]] = {}
        self._contested_usernames: set[str] = set()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is declared."""
        return not (self.space or self.addresses or self.users)

    @property
    def keys(self) -> set[Key]:
        """Addresses and users, without the space itself."""
        return {*self.addresses, *self.users}

    def owners(self, kind: str, name: str) -> tuple[Key, ...]:
        """Return the addresses with a name, or the users with one."""
        return (self.claims if kind == "Address" else self._usernames).get(name, ())

    def taken_addresses(self) -> dict[Key, Taken]:
        """Return the addresses that declare a name of an older address."""
        return _taken(self.addresses, self.claims, self._contested)

    def taken_usernames(self) -> dict[Key, Taken]:
        """Return the users that declare the name of an older user."""
        return _taken(self.users, self._usernames, self._contested_usernames)

    def put(self, key: Key, before: Resource | None, now: Resource | None) -> None:
        """Replace the resource of a key; None means absent."""
        if key.kind == "AddressSpace":
            self.space = now if isinstance(now, AddressSpace) else None
            return
        if isinstance(before, Address):
            self._count(before, -1)
            del self.addresses[key]
        elif isinstance(before, MessagingUser):
            self._count_user(before, -1)
            del self.users[key]
        if isinstance(now, Address):
            self.addresses[key] = now
            self._count(now, 1)
        elif isinstance(now, MessagingUser):
            self.users[key] = now
            self._count_user(now, 1)

    def restate(self, resource: Resource) -> None:
        """Replace a resource whose declaration is the same, such as one with a new status."""
        if isinstance(resource, AddressSpace):
            self.space = resource
        elif isinstance(resource, Address):
            self.addresses[resource.key] = resource
        elif isinstance(resource, MessagingUser):
            self.users[resource.key] = resource

    def _count(self, address: Address, step: int) -> None:
        key, spec = address.key, address.spec
        self.choices[spec.type, spec.plan] += step
        _claim(self.claims, self._contested, address, step)
        for other in references(address):
            put_member(self.referring, other, key, step)

    def _count_user(self, user: MessagingUser, step: int) -> None:
        _claim(self._usernames, self._contested_usernames, user, step)


def names_in_space(member: Member) -> tuple[str, ...]:
    """Return the names of an address or a user that are unique in its space."""
    return member.names if isinstance(member, Address) else (member.spec.username,)


def oldest_first(members: Iterable[_Member]) -> list[_Member]:
    """Return members in the order in which they get names and quota."""
    return sorted(members, key=lambda one: (one.metadata.creation_timestamp or "", one.key))


def _claim(
    claims: dict[str, tuple[Key, ...]], contested: set[str], member: Member, step: int
) -> None:
    key = member.key
    for name in names_in_space(member):
        owners = put_owner(claims, name, key, step)
        (contested.add if len(owners) > 1 else contested.discard)(name)


def _taken(
    members: Mapping[Key, _Member], claims: Mapping[str, tuple[Key, ...]], contested: set[str]
) -> dict[Key, Taken]:
    """Assign contested names, the oldest member first; return the members that get none."""
    taken: dict[Key, Taken] = {}
    owners: dict[str, Key] = {}
    for member in oldest_first(members[key] for key in {k for n in contested for k in claims[n]}):
        key, names = member.key, names_in_space(member)
        name = next((one for one in names if one in owners), None)
        if name is None:
            owners.update(dict.fromkeys(names, key))
        else:
            taken[key] = Taken(name, owners[name])
    return taken


def references(address: Address) -> set[str]:
    """Return the names that an address references."""
    named = (address.spec.topic, address.spec.deadletter, address.spec.expiry)
    return {name for name in named if name is not None}


def put_owner(
    owners: dict[_Name, tuple[Key, ...]], name: _Name, key: Key, step: int
) -> tuple[Key, ...]:
    """Add an owner of a name (`step` 1) or remove it (-1); return the owners, oldest first."""
    others = tuple(one for one in owners.pop(name, ()) if one != key)
    now = (*others, key) if step > 0 else others
    if now:
        owners[name] = now
    return now


def put_member(sets: defaultdict[_Name, set[Key]], name: _Name, key: Key, step: int) -> None:
    """Add a member of a set (`step` 1) or remove it (-1); empty sets are dropped."""
    (sets[name].add if step > 0 else sets[name].discard)(key)
    if not sets[name]:
        del sets[name]
