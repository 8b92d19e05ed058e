"""The declared state: all resources of a store, with the indexes that rules ask for. Pure.

Each process has one, which follows its store change by change. Admission reads it through an
overlay with the request (`after`), the compiler derives the Plan from it, and conditions report the
decisions of the compiler. So each rule has one input, and the cost of a request does not depend on
the number of resources.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol

from enmasse.plan.catalogue import CATALOGUED, Catalogue
from enmasse.plan.members import Choice, Members, names_in_space, put_member, put_owner
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
from enmasse.resources.model import INFRA_NAMESPACE

Home = tuple[str, str]
"""Namespace and name of an address space."""

Name = tuple[str, ...]
"""Kind, namespace, space, and a name that is unique there."""

Group = tuple[str, str]
"""Kind and namespace."""

Listener = Callable[[Key, Resource | None, Resource | None], None]
"""Called with a key, its former resource and its present one."""

PLATFORM = Key("Namespace", "", INFRA_NAMESPACE)
"""The platform itself: owner of its host names, and the resource whose annotation
DEFAULT_SPACE_ANNOTATION names the default space.
"""

CATALOGUED_KINDS = frozenset(model.__name__ for model in CATALOGUED)
_IN_SPACE = ("Address", "MessagingUser")


class Held(NamedTuple):
    """Number and size of the resources of a kind in a namespace."""

    resources: int = 0
    data_bytes: int = 0
    """Bytes of the values of Secrets and ConfigMaps."""

    def plus(self, other: "Held", step: int = 1) -> "Held":
        """Return the sum of both, or the difference with `step` -1."""
        return Held(
            self.resources + step * other.resources, self.data_bytes + step * other.data_bytes
        )


class Declarations(Protocol):
    """The interface for rules: the declared state, or an overlay of it."""

    def get(self, key: Key) -> Resource | None:
        """Return the resource of a key."""

    def owners(self, name: Name) -> tuple[Key, ...]:
        """Return the resources that declare a unique name."""

    def users(self, home: Home) -> int:
        """Return the number of users of an address space."""

    def spaces(self) -> Iterable[Key]:
        """Return all address spaces."""

    def using(self, kind: str, name: str) -> Iterable[Key]:
        """Return the resources that chose a plan or a service."""

    def choices(self, home: Home) -> Counter[Choice]:
        """Return the number of addresses of a space by type and plan."""

    def held(self, group: Group) -> Held:
        """Return number and size of the resources of a kind in a namespace."""

    def chosen_from(self) -> Mapping[Key, Declared]:
        """Return the resources of the catalogue."""

    @property
    def catalogue(self) -> Catalogue:
        """The plans and services."""


class DeclaredState:
    """Resources with their indexes."""

    def __init__(self, resources: Iterable[Resource] = ()) -> None:
        self._resources: dict[Key, Resource] = {}
        self._members: dict[Home, Members] = {}
        self._owners: dict[Name, tuple[Key, ...]] = {}
        """Owners of names that are unique across spaces."""

        self._spaces: set[Key] = set()
        self._using: defaultdict[tuple[str, str], set[Key]] = defaultdict(set)
        self._held: dict[Group, Held] = {}
        self._chosen_from: dict[Key, Declared] = {}
        self._catalogue: Catalogue | None = None
        self._listeners: list[Listener] = []
        for resource in resources:
            self.put(resource.key, resource)

    def follow(self, listener: Listener) -> None:
        """Call a listener after every change from now on."""
        self._listeners.append(listener)

    def put(self, key: Key, resource: Resource | None) -> None:
        """Apply the present resource of a key; None means deleted."""
        before = self._resources.pop(key, None)
        if before is not None:
            self._count(key, before, -1)
        if resource is not None:
            self._resources[key] = resource
            self._count(key, resource, 1)
        if key.kind in CATALOGUED_KINDS:
            self._catalogue = None
        elif key.kind == "AddressSpace" or key.kind in _IN_SPACE:
            self._put_member(key, before, resource)
        for listener in self._listeners:
            listener(key, before, resource)

    def restate(self, resource: Resource) -> None:
        """Replace a resource whose declaration is the same, such as one with a new status."""
        key = resource.key
        self._resources[key] = resource
        if key.kind in CATALOGUED_KINDS and isinstance(resource, Declared):
            self._chosen_from[key] = resource
        elif (members := self._members.get(home_of_key(key))) is not None:
            members.restate(resource)

    def keys(self) -> Iterable[Key]:
        """Return the keys of all resources."""
        return self._resources.keys()

    def homes(self) -> Iterable[Home]:
        """Return the address spaces in which something is declared, existing or not."""
        return self._members.keys()

    def members(self, home: Home) -> Members:
        """Return the members of an address space; do not modify them."""
        return self._members.get(home) or Members()

    def get(self, key: Key) -> Resource | None:
        """Return the resource of a key."""
        return self._resources.get(key)

    def owners(self, name: Name) -> tuple[Key, ...]:
        """Return the resources that declare a unique name."""
        kind, namespace, space, text = name
        if kind in _IN_SPACE:
            found = self._members.get((namespace, space))
            return found.owners(kind, text) if found else ()
        return self._owners.get(name, ())

    def users(self, home: Home) -> int:
        """Return the number of users of an address space."""
        found = self._members.get(home)
        return len(found.users) if found else 0

    def spaces(self) -> Iterable[Key]:
        """Return all address spaces."""
        return self._spaces

    def using(self, kind: str, name: str) -> Iterable[Key]:
        """Return the resources that chose a plan or a service."""
        return self._using.get((kind, name), ())

    def choices(self, home: Home) -> Counter[Choice]:
        """Return the number of addresses of a space by type and plan."""
        found = self._members.get(home)
        return found.choices if found else Counter()

    def held(self, group: Group) -> Held:
        """Return number and size of the resources of a kind in a namespace."""
        return self._held.get(group, Held())

    def chosen_from(self) -> Mapping[Key, Declared]:
        """Return the resources of the catalogue."""
        return self._chosen_from

    @property
    def catalogue(self) -> Catalogue:
        """The plans and services."""
        if self._catalogue is None:
            self._catalogue = Catalogue(self._chosen_from.values())
        return self._catalogue

    def _count(self, key: Key, resource: Resource, step: int) -> None:
        group = group_of(key)
        held = self.held(group).plus(Held(1, _size_of(resource)), step)
        if held.resources:
            self._held[group] = held
        else:
            self._held.pop(group, None)
        if isinstance(resource, AddressSpace):
            (self._spaces.add if step > 0 else self._spaces.discard)(key)
        elif isinstance(resource, Declared) and key.kind in CATALOGUED_KINDS:
            if step > 0:
                self._chosen_from[key] = resource
            else:
                self._chosen_from.pop(key, None)
        if key.kind not in _IN_SPACE:
            for name in (*unique_names(resource), *served_names(resource)):
                put_owner(self._owners, name, key, step)
        for choice in chosen(resource):
            put_member(self._using, choice, key, step)

    def _put_member(self, key: Key, before: Resource | None, now: Resource | None) -> None:
        home = home_of_key(key)
        members = self._members.setdefault(home, Members())
        members.put(key, before, now)
        if members.is_empty:
            del self._members[home]


def group_of(key: Key) -> Group:
    """Return the key under which a resource is counted."""
    return key.kind, key.namespace


def home_of(resource: Resource) -> Home:
    """Return the address space that a resource belongs to, or is."""
    return resource.metadata.namespace, resource.space


def home_of_key(key: Key) -> Home:
    """Return the address space of an address, a user, or a space."""
    return key.namespace, key.name.partition(".")[0]


def unique_names(resource: Resource) -> list[Name]:
    """Return the unique names of a resource: an address's in its space, a user's in its space, a
    space's realm and a plan's name among all.
    """
    kind = resource.kind
    if isinstance(resource, Address | MessagingUser):
        namespace, space = home_of(resource)
        return [(kind, namespace, space, name) for name in names_in_space(resource)]
    if isinstance(resource, AddressSpace):
        return [(kind, "", "", resource.own_realm)]
    return [(kind, "", "", resource.metadata.name)] if resource.unique else []


def served_names(resource: Resource | None) -> list[Name]:
    """Return the names under which clients reach a space; several spaces may declare one."""
    if not isinstance(resource, AddressSpace):
        return []
    hosts = {full_name(resource), *resource.spec.hosts}
    return [short_name(resource.metadata.name), *sorted(map(host_name, hosts))]


def host_name(host: str) -> Name:
    """Return a host name as a declared name."""
    return "host", "", "", host.lower()


def short_name(name: str) -> Name:
    """Return the name of a space without its namespace as a declared name."""
    return "short", "", "", name.lower()


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


def _size_of(resource: Resource) -> int:
    if isinstance(resource, ConfigMap):
        return sum(map(len, (*resource.data.values(), *resource.binary_data.values())))
    return sum(map(len, resource.data.values())) if isinstance(resource, Secret) else 0
