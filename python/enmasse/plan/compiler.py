"""Compiles resources into a Plan. No I/O, no clock: equal input gives equal output.

A resource that conflicts with others (a duplicate address name, a user without a space, an address
beyond the quota) is excluded with a reason; everything else is served. Of two resources with one
name the older wins, as in the original EnMasse. An address with a missing reference or plan stays
in the Plan, because a node deletes the messages of addresses that the Plan lacks; it is reported as
waiting.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from enmasse.plan.catalogue import CATALOGUED, Catalogue
from enmasse.plan.model import LINK_CAPACITY, Plan, PlannedSpace
from enmasse.plan.naming import Naming
from enmasse.plan.space import NOTHING, LeftOut, Outcome, SpaceState
from enmasse.resources import (
    DEFAULT_NAMESPACE,
    AddressSpace,
    Declared,
    Key,
    MessagingUser,
    Resource,
)
from enmasse.resources.address_space import BUILT_IN, Authentication
from enmasse.resources.model import DEFAULT_SPACE_ANNOTATION, INFRA_NAMESPACE

_Home = tuple[str, str]
"""Namespace and name of an address space."""

_CATALOGUED = {model.__name__ for model in CATALOGUED}
_MEMBERS = ("AddressSpace", "Address", "MessagingUser")

PLATFORM = Key("Namespace", "", INFRA_NAMESPACE)
"""The resource whose annotation DEFAULT_SPACE_ANNOTATION names the default space."""

FIRST_DEFAULT = (DEFAULT_NAMESPACE, "default")
"""The default space without the annotation."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A Plan, the excluded resources, and those that wait for others."""

    plan: Plan
    left_out: dict[Key, LeftOut]
    waiting: dict[Key, LeftOut]


class Compiler:
    """The declared state with its compiled form, so that the cost of a change is proportional to
    it.
    """

    def __init__(
        self,
        *,
        exposed: bool = False,
        hosts: Iterable[str] = (),
        link_credit: int = LINK_CAPACITY,
    ) -> None:
        """`exposed`: spaces that would admit anonymous clients from other machines are served
        closed. `hosts`: host names of the platform. `link_credit`: default credit of a sender.
        """
        self._exposed = exposed
        self._link_credit = link_credit
        self._hosts = tuple(sorted(hosts))
        self._default_space: str | None = None
        self._naming = Naming(self._hosts)
        self._spaces: dict[_Home, SpaceState] = {}
        self._due: set[_Home] = set()
        self._renamed: set[_Home] = set()
        """Spaces whose names may have changed since the last `refresh`."""

        self._chosen_from: dict[Key, Declared] = {}
        self._catalogue = Catalogue()
        self._problems: dict[Key, Outcome] = {}
        self._chosen_anew = False
        self._exhausted: frozenset[_Home] = frozenset()

    @property
    def catalogue(self) -> Catalogue:
        """The catalogue as of the last `refresh`."""
        return self._catalogue

    def put(self, key: Key, resource: Resource | None) -> None:
        """Apply the present resource of a key; None means deleted."""
        if key == PLATFORM:
            self._default_space = default_space(resource)
        if resource is not None and not isinstance(resource, Declared):
            return
        if key.kind in _CATALOGUED:
            self._chosen_anew = True
            if resource is None:
                self._chosen_from.pop(key, None)
            else:
                self._chosen_from[key] = resource
        elif key.kind in _MEMBERS:
            home = _home(key)
            self._state(home).put(key, resource)
            self._due.add(home)
            if key.kind == "AddressSpace":
                space = resource if isinstance(resource, AddressSpace) else None
                self._renamed |= self._naming.put(home, space)

    def _state(self, home: _Home) -> SpaceState:
        if home not in self._spaces:
            self._spaces[home] = SpaceState(exposed=self._exposed, link_credit=self._link_credit)
        return self._spaces[home]

    def refresh(self) -> set[Key]:
        """Recompile; return the keys whose `outcome` changed."""
        differing: set[Key] = set()
        if self._chosen_anew:
            self._catalogue = Catalogue(self._chosen_from.values())
            differing |= self._note_problems()
        for home in self._renamed:
            if self._spaces[home].space is not None:
                self._spaces[home].lose_names(self._naming.lost(home))
        self._due |= self._renamed
        for home in self._spaces if self._chosen_anew else self._due:
            state = self._spaces[home]
            differing |= state.refresh(self._catalogue, chosen_anew=self._chosen_anew)
        for home in self._due:
            if self._spaces[home].is_empty:
                del self._spaces[home]
        self._due, self._renamed, self._chosen_anew = set(), set(), False
        return differing

    def exhaust(self, spaces: Iterable[Key]) -> None:
        """Record, after a `refresh`, the spaces whose allowance is used up."""
        now = frozenset(_home(key) for key in spaces)
        for home in now ^ self._exhausted:
            if home in self._spaces:
                self._spaces[home].exhaust(self._catalogue, exhausted=home in now)
        self._exhausted = now & self._spaces.keys()

    def spaces(self) -> tuple[PlannedSpace, ...]:
        """Return the spaces of the Plan as of the last `refresh`. Unchanged ones are the same
        objects.
        """
        return tuple(
            state.planned for _, state in sorted(self._spaces.items()) if state.planned is not None
        )

    def plan(self, version: int) -> Plan:
        """Return the Plan as of the last `refresh`."""
        default = self._default_space
        if default is None and (state := self._spaces.get(FIRST_DEFAULT)) and state.planned:
            default = state.planned.names[-1]
        return Plan(version=version, default_space=default, hosts=self._hosts, spaces=self.spaces())

    def space(self, key: Key) -> AddressSpace | None:
        """Return the address space of a key as last applied."""
        state = self._spaces.get(_home(key))
        return state.space if state else None

    def outcome(self, key: Key) -> Outcome:
        """Return the outcome of a resource at the last `refresh`."""
        if key.kind in _CATALOGUED:
            return self._problems.get(key, NOTHING)
        state = self._spaces.get(_home(key))
        return state.outcomes.get(key, NOTHING) if state else NOTHING

    def outcomes(self) -> Iterable[tuple[Key, Outcome]]:
        """Yield every outcome of the last `refresh`."""
        yield from self._problems.items()
        for state in self._spaces.values():
            yield from state.outcomes.items()

    def _note_problems(self) -> set[Key]:
        before = self._problems
        self._problems = {
            key: Outcome(waiting=LeftOut(problem.reason, problem.message))
            for key, problem in self._catalogue.problems().items()
        }
        keys = before.keys() | self._problems.keys()
        return {key for key in keys if before.get(key) != self._problems.get(key)}


def compile(resources: Iterable[Resource], version: int) -> Compiled:
    """Return the Plan for all declared resources, and the excluded ones."""
    compiler = Compiler()
    for resource in resources:
        compiler.put(resource.key, resource)
    compiler.refresh()
    outcomes = list(compiler.outcomes())
    return Compiled(
        compiler.plan(version),
        {key: one.left_out for key, one in outcomes if one.left_out is not None},
        {key: one.waiting for key, one in outcomes if one.waiting is not None},
    )


def is_open(
    space: AddressSpace,
    users: Iterable[MessagingUser],
    services: Mapping[str, Authentication] = BUILT_IN,
    *,
    exposed: bool = False,
) -> bool:
    """Whether a space admits anonymous clients; `users` are those of all spaces. `exposed`: other
    machines can reach a listener unintentionally.
    """
    has_users = any(_home(user.key) == _home(space.key) for user in users)
    kind = space.authentication(has_users=has_users, services=services, exposed=exposed)
    return kind == "none"


def default_space(platform: Resource | None) -> str | None:
    """Return the full name of the default space from the resource PLATFORM; None if absent."""
    return (
        platform.metadata.annotations.get(DEFAULT_SPACE_ANNOTATION)
        if platform is not None
        else None
    )


def _home(key: Key) -> _Home:
    return key.namespace, key.name.partition(".")[0]
