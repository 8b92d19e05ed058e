"""Compiles resources into a Plan. No I/O, no clock: equal input gives equal output.

A resource that conflicts with others (a duplicate address name, a user without a space, an address
beyond the quota) is excluded with a reason; everything else is served. Of two resources with one
name the older wins, as in the original EnMasse. An address with a missing reference or plan stays
in the Plan, because a node deletes the messages of addresses that the Plan lacks; it is reported as
waiting.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from enmasse.plan.catalogue import Catalogue
from enmasse.plan.declared import (
    CATALOGUED_KINDS,
    PLATFORM,
    DeclaredState,
    Home,
    home_of_key,
)
from enmasse.plan.model import LINK_CAPACITY, Plan, PlannedSpace
from enmasse.plan.naming import lost_names, platform_names, spaces_with_changed_names
from enmasse.plan.space import NOTHING, Outcome, OutcomeReason, SpaceState
from enmasse.resources import (
    DEFAULT_NAMESPACE,
    AddressSpace,
    Key,
    MessagingUser,
    Resource,
)
from enmasse.resources.model import DEFAULT_SPACE_ANNOTATION

_MEMBERS = ("AddressSpace", "Address", "MessagingUser")

FIRST_DEFAULT = (DEFAULT_NAMESPACE, "default")
"""The default space without the annotation."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A Plan, the excluded resources, and those that wait for others."""

    plan: Plan
    excluded: dict[Key, OutcomeReason]
    waiting: dict[Key, OutcomeReason]


class Compiler:
    """Compiles a declared state, at a cost proportional to what has changed since the last
    `refresh`. Call `refresh` first; everything else is as of then.
    """

    def __init__(
        self,
        declared: DeclaredState | None = None,
        *,
        exposed: bool = False,
        hosts: Iterable[str] = (),
        link_credit: int = LINK_CAPACITY,
    ) -> None:
        """Compile `declared`, by default an empty one of its own.

        `exposed`: spaces that would admit anonymous clients from other machines are served closed.
        `hosts`: host names of the platform. `link_credit`: default credit of a sender.
        """
        self._declared = declared or DeclaredState()
        self._exposed = exposed
        self._link_credit = link_credit
        self._hosts = tuple(sorted(hosts))
        self._platform = platform_names(self._hosts)
        self._spaces: dict[Home, SpaceState] = {}
        self._due: set[Home] = set()
        self._renamed: set[Home] = set()
        """Spaces whose names may have changed since the last `refresh`."""

        self._catalogue = Catalogue()
        self._problems: dict[Key, Outcome] = {}
        self._catalogue_changed = False
        self._exhausted: frozenset[Home] = frozenset()
        for home in self._declared.homes():
            self._state(home)
            self._due.add(home)
        self._renamed |= self._due
        self._catalogue_changed = bool(self._declared.chosen_from())
        self._declared.follow(self._record_change)

    @property
    def catalogue(self) -> Catalogue:
        """The catalogue as of the last `refresh`."""
        return self._catalogue

    def put(self, key: Key, resource: Resource | None) -> None:
        """Apply the present resource of a key to the declared state; None means deleted."""
        self._declared.put(key, resource)

    def set_verifiers(self, user: MessagingUser) -> None:
        """Take the verifiers of a user whose password is in a Secret. They are not part of the
        declared state: they follow the Secret, and nothing stores them.
        """
        home = home_of_key(user.key)
        if home in self._spaces:
            verifiers = user.spec.authentication.verifiers
            self._spaces[home].set_verifiers(user.key, user.metadata.uid, verifiers)
            self._due.add(home)

    def _record_change(self, key: Key, before: Resource | None, now: Resource | None) -> None:
        """Record a change of the declared state for the next `refresh`."""
        if key.kind in CATALOGUED_KINDS:
            self._catalogue_changed = True
        elif key.kind in _MEMBERS:
            home = home_of_key(key)
            self._state(home).note(key, before, now)
            self._due.add(home)
            if key.kind == "AddressSpace":
                self._renamed |= spaces_with_changed_names(self._declared, before, now)

    def _state(self, home: Home) -> SpaceState:
        members = self._declared.members(home)
        if home not in self._spaces:
            self._spaces[home] = SpaceState(
                members, exposed=self._exposed, link_credit=self._link_credit
            )
        self._spaces[home].members = members
        return self._spaces[home]

    def refresh(self) -> set[Key]:
        """Recompile; return the keys whose `outcome` changed.

        Names first: a space that lost one is compiled with the others.
        """
        differing: set[Key] = set()
        if self._catalogue_changed:
            self._catalogue = self._declared.catalogue
            differing |= self._record_problems()
        for home in self._renamed:
            if (space := self._spaces[home].space) is not None:
                self._spaces[home].set_lost_names(lost_names(self._declared, space, self._platform))
        self._due |= self._renamed
        for home in self._spaces if self._catalogue_changed else self._due:
            state = self._spaces[home]
            differing |= state.refresh(self._catalogue, catalogue_changed=self._catalogue_changed)
        for home in self._due:
            if self._spaces[home].is_empty:
                del self._spaces[home]
        self._due, self._renamed, self._catalogue_changed = set(), set(), False
        return differing

    def exhaust(self, spaces: Iterable[Key]) -> None:
        """Record, after a `refresh`, the spaces whose allowance is used up."""
        now = frozenset(home_of_key(key) for key in spaces)
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
        default = default_space(self._declared.get(PLATFORM))
        if default is None and (state := self._spaces.get(FIRST_DEFAULT)) and state.planned:
            default = state.planned.names[-1]
        return Plan(version=version, default_space=default, hosts=self._hosts, spaces=self.spaces())

    def space(self, key: Key) -> AddressSpace | None:
        """Return the address space of a key as of the last `refresh`."""
        state = self._spaces.get(home_of_key(key))
        return state.compiled_space if state else None

    def outcome(self, key: Key) -> Outcome:
        """Return the outcome of a resource at the last `refresh`."""
        if key.kind in CATALOGUED_KINDS:
            return self._problems.get(key, NOTHING)
        state = self._spaces.get(home_of_key(key))
        return state.outcomes.get(key, NOTHING) if state else NOTHING

    def outcomes(self) -> Iterable[tuple[Key, Outcome]]:
        """Yield every outcome of the last `refresh`."""
        yield from self._problems.items()
        for state in self._spaces.values():
            yield from state.outcomes.items()

    def _record_problems(self) -> set[Key]:
        before = self._problems
        self._problems = {
            key: Outcome(waiting=OutcomeReason(problem.reason, problem.message))
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
        {key: one.excluded for key, one in outcomes if one.excluded is not None},
        {key: one.waiting for key, one in outcomes if one.waiting is not None},
    )


def default_space(platform: Resource | None) -> str | None:
    """Return the full name of the default space from the resource PLATFORM; None if absent."""
    return (
        platform.metadata.annotations.get(DEFAULT_SPACE_ANNOTATION)
        if platform is not None
        else None
    )
