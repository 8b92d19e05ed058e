"""An index of resources for admission: unique names, references, counts. Pure.

It follows a store change by change, so that the cost of a request does not depend on the number of
resources. A request is decided in an `Index.after`: the index with the changes of the request.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from enmasse.plan import CATALOGUED, Catalogue
from enmasse.resources import (
    Address,
    AddressSpace,
    ConfigMap,
    Declared,
    Key,
    MessagingUser,
    Resource,
    Secret,
)

Name = tuple[str, ...]
"""Kind, namespace, space, and a unique name."""

Home = tuple[str, str]
"""Namespace and name of an address space."""

Choice = tuple[str, str | None]
"""Type and plan of an address."""

Group = tuple[str, str]
"""Kind and namespace."""


class Held(NamedTuple):
    """Number and size of the resources of a kind in a namespace."""

    resources: int
    data_bytes: int
    """Bytes of the values of Secrets and ConfigMaps."""

    def plus(self, data_bytes: int, step: int) -> "Held":
        """Return it with a resource of that size added or removed."""
        return Held(self.resources + step, self.data_bytes + step * data_bytes)


NOTHING_HELD = Held(0, 0)

_Group = TypeVar("_Group")

_CATALOGUED = {model.__name__ for model in CATALOGUED}


class Index:
    """Resources with their indexes."""

    def __init__(self, resources: Iterable[Resource] = ()) -> None:
        self._resources: dict[Key, Resource] = {}
        self._owners: dict[Name, tuple[Key, ...]] = {}
        self._members: defaultdict[Home, set[Key]] = defaultdict(set)
        self._users: Counter[Home] = Counter()
        self._spaces: set[Key] = set()
        self._using: defaultdict[tuple[str, str], set[Key]] = defaultdict(set)
        self._choices: defaultdict[Home, Counter[Choice]] = defaultdict(Counter)
        self._chosen_from: dict[Key, Resource] = {}
        self._catalogue: Catalogue | None = None
        self._held: defaultdict[Group, Held] = defaultdict(lambda: NOTHING_HELD)
        for resource in resources:
            self.put(resource.key, resource)

    def put(self, key: Key, resource: Resource | None) -> None:
        """Apply the present resource of a key; None means deleted."""
        before = self._resources.pop(key, None)
        if before is not None:
            self._count(key, before, -1)
        if resource is not None:
            self._resources[key] = resource
            self._count(key, resource, 1)

    def get(self, key: Key) -> Resource | None:
        """Return the resource of a key."""
        return self._resources.get(key)

    def owners(self, name: Name) -> tuple[Key, ...]:
        """Return the owner of a unique name."""
        return self._owners.get(name, ())

    def members(self, home: Home) -> set[Key]:
        """Return the members of an address space."""
        return self._members.get(home, set())

    def users(self, home: Home) -> int:
        """Return the number of users of an address space."""
        return self._users[home]

    def spaces(self) -> Iterable[Key]:
        """Return all address spaces."""
        return self._spaces

    def using(self, kind: str, name: str) -> set[Key]:
        """Return the resources that chose a plan or a service."""
        return self._using.get((kind, name), set())

    def choices(self, home: Home) -> Counter[Choice]:
        """Return the number of addresses of a space by plan."""
        return self._choices.get(home, Counter())

    def held(self, group: Group) -> Held:
        """Return number and size of a kind in a namespace."""
        return self._held.get(group, NOTHING_HELD)

    @property
    def catalogue(self) -> Catalogue:
        """The plans and services."""
        if self._catalogue is None:
            self._catalogue = Catalogue(self._chosen_from.values())
        return self._catalogue

    def chosen_from(self) -> dict[Key, Resource | None]:
        """Return the resources of the catalogue."""
        return dict(self._chosen_from)

    def after(self, changed: Mapping[Key, Resource | None]) -> "Overlay":
        """Return the state after some changes; None means deleted."""
        return Overlay(self, changed)

    def _count(self, key: Key, resource: Resource, step: int) -> None:
        self._held[group_of(key)] = self._held[group_of(key)].plus(_size_of(resource), step)
        for name in (*unique_names(resource), *host_names(resource)):
            others = tuple(one for one in self._owners.pop(name, ()) if one != key)
            if owners := ((*others, key) if step > 0 else others):
                self._owners[name] = owners
        for choice in chosen(resource):
            _put(self._using, choice, key, step)
        if isinstance(resource, AddressSpace):
            (self._spaces.add if step > 0 else self._spaces.discard)(key)
        elif isinstance(resource, CATALOGUED):
            self._catalogue = None
            if step > 0:
                self._chosen_from[key] = resource
            else:
                self._chosen_from.pop(key, None)
        elif isinstance(resource, Declared):
            home = home_of(resource)
            _put(self._members, home, key, step)
            if isinstance(resource, MessagingUser):
                self._users[home] += step
            elif isinstance(resource, Address):
                self._choices[home][resource.spec.type, resource.spec.plan] += step


class Overlay:
    """An index with changes applied on top."""

    def __init__(self, base: Index, changed: Mapping[Key, Resource | None]) -> None:
        self._base = base
        self._changed: dict[Key, Resource | None] = dict(changed)
        self._own = Index(one for one in changed.values() if one is not None)
        self._catalogue: Catalogue | None = None
        self._replaced: defaultdict[Home, Counter[Choice]] | None = None
        """Changed addresses of the base, computed on demand."""

    def put(self, resource: Resource) -> None:
        """Apply one more change."""
        self._replaced = None
        if resource.kind in _CATALOGUED:
            self._catalogue = None
        self._changed[resource.key] = resource
        self._own.put(resource.key, resource)

    def unchanged(self) -> "Overlay":
        """Return the state without the changes."""
        return Overlay(self._base, {})

    def get(self, key: Key) -> Resource | None:
        """Return the resource of a key."""
        return self._changed[key] if key in self._changed else self._base.get(key)

    def owners(self, name: Name) -> list[Key]:
        """Return the owner of a unique name."""
        return [*self._others(self._base.owners(name)), *self._own.owners(name)]

    def has_users(self, home: Home) -> bool:
        """Whether an address space has users."""
        if self._own.users(home):
            return True
        gone = sum(
            isinstance(self._base.get(key), MessagingUser) and _home(key) == home
            for key in self._changed
        )
        return self._base.users(home) > gone

    def spaces(self) -> Iterator[Key]:
        """Yield all address spaces."""
        yield from self._others(self._base.spaces())
        yield from self._own.spaces()

    def using(self, kind: str, name: str) -> list[Key]:
        """Return the resources that chose a plan or a service, in order."""
        found = {*self._others(self._base.using(kind, name)), *self._own.using(kind, name)}
        return sorted(found)

    def held(self, group: Group) -> Held:
        """Return number and size of a kind in a namespace."""
        now = self._base.held(group)
        for key, resource in self._changed.items():
            if group_of(key) == group:
                if (before := self._base.get(key)) is not None:
                    now = now.plus(_size_of(before), -1)
                if resource is not None:
                    now = now.plus(_size_of(resource), 1)
        return now

    def held_before(self, group: Group) -> Held:
        """Return number and size before the changes."""
        return self._base.held(group)

    def choices(self, home: Home) -> Counter[Choice]:
        """Return the number of addresses of a space by plan."""
        counted = self._base.choices(home) + self._own.choices(home)
        return counted - self._replaced_choices[home]

    def choices_before(self, home: Home) -> Counter[Choice]:
        """Return the number of addresses of a space by plan, before the changes."""
        return self._base.choices(home)

    @property
    def _replaced_choices(self) -> defaultdict[Home, Counter[Choice]]:
        if self._replaced is None:
            self._replaced = defaultdict(Counter)
            for key in self._changed:
                if isinstance(before := self._base.get(key), Address):
                    self._replaced[home_of(before)][before.spec.type, before.spec.plan] += 1
        return self._replaced

    @property
    def catalogue(self) -> Catalogue:
        """The plans and services."""
        if self._catalogue is None:
            self._catalogue = self._made_catalogue()
        return self._catalogue

    def _made_catalogue(self) -> Catalogue:
        changed = {key: one for key, one in self._changed.items() if key.kind in _CATALOGUED}
        if not changed:
            return self._base.catalogue
        kept = self._base.chosen_from() | changed
        return Catalogue(one for one in kept.values() if one is not None)

    def _others(self, keys: Iterable[Key]) -> Iterator[Key]:
        return (key for key in keys if key not in self._changed)


def group_of(key: Key) -> Group:
    """Return the key under which a resource is counted."""
    return key.kind, key.namespace


def _size_of(resource: Resource) -> int:
    if isinstance(resource, ConfigMap):
        return sum(map(len, (*resource.data.values(), *resource.binary_data.values())))
    return sum(map(len, resource.data.values())) if isinstance(resource, Secret) else 0


def home_of(resource: Resource) -> Home:
    """Return the address space that a resource belongs to, or is."""
    return resource.metadata.namespace, resource.space


def unique_names(resource: Resource) -> list[Name]:
    """Return the unique names of a resource."""
    if isinstance(resource, Address):
        names: tuple[str, ...] = resource.names
    elif isinstance(resource, MessagingUser):
        names = (resource.spec.username,)
    elif isinstance(resource, AddressSpace):
        return [(resource.kind, "", "", resource.own_realm)]
    elif resource.unique:
        return [(resource.kind, "", "", resource.metadata.name)]
    else:
        names = ()
    return [(resource.kind, resource.metadata.namespace, resource.space, name) for name in names]


def host_names(resource: Resource) -> list[Name]:
    """Return the host names of a resource as unique names."""
    if not isinstance(resource, AddressSpace):
        return []
    return [host_name(host) for host in {full_name(resource), *resource.spec.hosts}]


def host_name(host: str) -> Name:
    """Return the lookup key of a host name."""
    return "host", "", "", host


def full_name(space: AddressSpace) -> str:
    """Return the full name of a space."""
    return f"{space.metadata.name}.{space.metadata.namespace}"


def chosen(resource: Resource) -> list[tuple[str, str]]:
    """Return the plans and services, by kind and name, that a resource chose."""
    if isinstance(resource, Address):
        return [("AddressPlan", resource.spec.plan)] if resource.spec.plan else []
    if not isinstance(resource, AddressSpace):
        return []
    found = {"AddressSpacePlan": resource.spec.plan, "AuthenticationService": resource.service_name}
    return [(kind, name) for kind, name in found.items() if name]


def _put(sets: defaultdict[_Group, set[Key]], name: _Group, key: Key, step: int) -> None:
    (sets[name].add if step > 0 else sets[name].discard)(key)
    if not sets[name]:
        del sets[name]


def _home(key: Key) -> Home:
    return key.namespace, key.name.partition(".")[0]
