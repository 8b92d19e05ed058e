"""The declarations of one address space, with indexes by name and reference. Pure."""

from collections import Counter, defaultdict
from typing import TypeVar

from enmasse.resources import Address, AddressSpace, Key, MessagingUser, Resource

Choice = tuple[str, str | None]
"""Type and plan of an address."""

_Name = TypeVar("_Name")


class Members:
    """An address space with its addresses and users."""

    def __init__(self) -> None:
        self.space: AddressSpace | None = None
        self.addresses: dict[Key, Address] = {}
        self.users: dict[Key, MessagingUser] = {}
        self.claims: dict[str, tuple[Key, ...]] = {}
        """The addresses that declare a name, in the order of declaration."""

        self.contested: set[str] = set()
        """Names that several addresses declare."""

        self.referring: defaultdict[str, set[Key]] = defaultdict(set)
        """The addresses that reference a name."""

        self.choices: Counter[Choice] = Counter()
        """Number of addresses of each type and plan."""

        self._usernames: dict[str, tuple[Key, ...]] = {}

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

    def put(self, key: Key, before: Resource | None, now: Resource | None) -> None:
        """Replace the resource of a key; None means absent."""
        if key.kind == "AddressSpace":
            self.space = now if isinstance(now, AddressSpace) else None
            return
        if isinstance(before, Address):
            self._count(before, -1)
            del self.addresses[key]
        elif isinstance(before, MessagingUser):
            put_owner(self._usernames, before.spec.username, key, -1)
            del self.users[key]
        if isinstance(now, Address):
            self.addresses[key] = now
            self._count(now, 1)
        elif isinstance(now, MessagingUser):
            self.users[key] = now
            put_owner(self._usernames, now.spec.username, key, 1)

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
        for name in address.names:
            claims = put_owner(self.claims, name, key, step)
            (self.contested.add if len(claims) > 1 else self.contested.discard)(name)
        for other in references(address):
            put_member(self.referring, other, key, step)


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
