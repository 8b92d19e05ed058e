"""One address space: its declared resources and the outcome of each address and user. Pure.

It is kept between compilations, so that the cost of a change is proportional to it: the address
itself, those that reference it, those that claim its name, and those that wait for quota. The
outcome is the same as for declaring everything at once.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter

from enmasse.plan.catalogue import UNBOUNDED, Bounds, Catalogue
from enmasse.plan.effective import with_plan
from enmasse.plan.login import authentication, kind_of, planned_user
from enmasse.plan.members import Members
from enmasse.plan.model import (
    LINK_CAPACITY,
    PlannedAddress,
    PlannedSpace,
    PlannedUser,
    SpaceLimits,
)
from enmasse.plan.naming import names_of
from enmasse.plan.quota import Excess, demand
from enmasse.plan.quota_growth import waiting_for_quota
from enmasse.plan.references import dangling
from enmasse.plan.stored import planned as planned_address
from enmasse.resources import (
    Address,
    AddressSpace,
    Declared,
    Key,
    MessagingUser,
    Resource,
    Verifier,
)
from enmasse.resources.address import AppliedPlan
from enmasse.resources.conditions import READY, find

EXPOSED = (
    "it would admit anonymous clients from other machines, so it is closed; set"
    " spec.authenticationService.type to standard, or start with --insecure"
)

NO_USERS = "it requires a login and has no users; create a MessagingUser"

USERS_HAVE_NO_EFFECT = (
    "the address space admits every client without a login, so users have no"
    " effect; use an authentication service of type standard"
)

NO_PLAN = (
    "it has no plan; set spec.plan, or ask a service administrator to allow a"
    " plan of its type in the namespace"
)

SERVICE_ACCOUNT = (
    "service account tokens are not supported, so this user cannot log in; use"
    " type federated in a space whose authentication service has the cluster as"
    " oidc.issuer"
)

NOT_PLANNED = frozenset({"AddressTaken", "QuotaExceeded", "SpaceMissing", "TypeNotOffered"})
"""Reasons of an address for not being in the Plan."""


@dataclass(frozen=True, slots=True)
class OutcomeReason:
    """Why a resource is excluded or waits: a reason for programs, a message for people."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a resource."""

    planned: PlannedAddress | None = None
    """In the node's form; None for resources other than addresses too."""

    applied: AppliedPlan | None = None
    """The plan in force."""

    excluded: OutcomeReason | None = None
    waiting: OutcomeReason | None = None
    login_problem: OutcomeReason | None = None
    """Why no client can log in to a served space."""

    name_problem: OutcomeReason | None = None
    """Why a space lacks its short name or the host name of an endpoint."""


NOTHING = Outcome()
"""The usual outcome of resources other than addresses."""


def was_planned(address: Address) -> bool:
    """Whether an address has been in a Plan and may have messages."""
    ready = find(address.status.conditions, READY)
    return ready is not None and ready.reason not in NOT_PLANNED


class SpaceState:
    """The outcomes of one address space: what the node serves of its declared resources.

    The compiler calls `note` for every change of the declared resources, then `refresh`.
    """

    def __init__(
        self, members: Members, *, exposed: bool = False, link_credit: int = LINK_CAPACITY
    ) -> None:
        """Compile `members`, which others change. `exposed`: the space is served closed if it would
        admit anonymous clients from other machines. `link_credit`: default credit of a sender.
        """
        self.members = members
        """Declarations of the space; the compiler replaces it with every change."""

        self._exposed = exposed
        self._link_credit = link_credit
        self.outcomes: dict[Key, Outcome] = {}
        """Outcomes of the last `refresh`."""

        self.planned: PlannedSpace | None = None
        self.compiled_space: AddressSpace | None = None
        """The space as of the last `refresh`."""

        self._rights: dict[Key, PlannedUser] = {}
        self._derived: dict[Key, tuple[str | None, tuple[Verifier, ...]]] = {}
        """uid and verifiers of users with passwords in Secrets; they are not in the resource."""

        self._settled = {key for key, one in members.addresses.items() if was_planned(one)}
        """Addresses that are or have been in the Plan; they keep their share of the quota."""

        self._duplicates: dict[Key, OutcomeReason] = {}
        self._over_quota: dict[Key, OutcomeReason] = {}
        self._changed: set[Key] = set()
        self._affected_names: set[str] = set()
        self._whole = True
        self._exhausted = False
        self._lost: frozenset[str] = frozenset()

    @property
    def space(self) -> AddressSpace | None:
        """The space itself, if declared."""
        return self.members.space

    @property
    def is_empty(self) -> bool:
        """Whether nothing is declared in it."""
        return self.members.is_empty

    def note(self, key: Key, before: Resource | None, now: Resource | None) -> None:
        """Record a change of a declared resource; None means absent."""
        self._changed.add(key)
        if key.kind == "AddressSpace":
            self._whole = True
        elif key.kind == "MessagingUser":
            self._rights.pop(key, None)
            if now is None or now.metadata.uid != self._derived.get(key, (None, ()))[0]:
                self._derived.pop(key, None)
        else:
            self._note_address(key, before, now)

    def _note_address(self, key: Key, before: Resource | None, now: Resource | None) -> None:
        for one in (before, now):
            if isinstance(one, Address):
                self._affected_names.update(one.names)
        if before is not None and (now is None or now.metadata.uid != before.metadata.uid):
            self._settled.discard(key)
        if isinstance(now, Address) and was_planned(now):
            self._settled.add(key)

    def set_verifiers(self, key: Key, uid: str | None, verifiers: tuple[Verifier, ...]) -> None:
        """Set the verifiers of a user whose password is in a Secret."""
        self._derived[key] = uid, verifiers
        self._rights.pop(key, None)
        self._changed.add(key)

    def _user(self, user: MessagingUser) -> MessagingUser:
        """Return a user with its verifiers."""
        uid, verifiers = self._derived.get(user.key, (None, ()))
        if user.spec.authentication.password_secret is None or uid != user.metadata.uid:
            return user
        return user.with_verifiers(verifiers)

    def set_lost_names(self, lost: frozenset[str]) -> None:
        """Record the claimed names that belong to others, in lower case."""
        self._whole |= lost != self._lost
        self._lost = lost

    def refresh(self, catalogue: Catalogue, *, catalogue_changed: bool) -> set[Key]:
        """Update the outcomes and return the keys of those that changed.

        `catalogue_changed`: the catalogue has changed.
        """
        whole = self._whole or catalogue_changed
        self.compiled_space = self.space
        bounds = catalogue.bounds(self.space) if self.space else UNBOUNDED
        affected = (
            set(self.members.addresses)
            if whole
            else {key for key in self._changed if key.kind == "Address"}
        )
        # Names and quota first: one address can admit or exclude others, whose outcomes change too.
        affected |= self._settle_names() | self._settle_quota(catalogue)
        for name in self._affected_names:
            affected |= self.members.referring.get(name, frozenset())
        outcomes: dict[Key, Outcome | None] = {
            key: self._outcome(self.members.addresses[key], catalogue, bounds)
            if key in self.members.addresses
            else None
            for key in affected
        }
        outcomes |= self._outcomes_of_users(catalogue, whole=whole)
        if self.space is not None:
            outcome = self._outcome_of_space(self.space, catalogue)
            outcomes[self.space.key] = replace(outcome, name_problem=self._name_problem(self.space))
        outcomes |= {key: None for key in self._changed if key not in outcomes}
        differing = {key for key, now in outcomes.items() if self._set_outcome(key, now)}
        if whole or differing or self._changed:
            self._plan(catalogue, bounds)
        self._changed, self._affected_names, self._whole = set(), set(), False
        return differing

    def exhaust(self, catalogue: Catalogue, *, exhausted: bool) -> None:
        """Record whether the allowance is used up."""
        if exhausted != self._exhausted:
            self._exhausted = exhausted
            self._plan(catalogue, catalogue.bounds(self.space) if self.space else UNBOUNDED)

    def _set_outcome(self, key: Key, now: Outcome | None) -> bool:
        before = self.outcomes.get(key)
        if now == before:
            return False
        if now is None:
            del self.outcomes[key]
        else:
            self.outcomes[key] = now
        return True

    def _settle_names(self) -> set[Key]:
        """Exclude addresses whose name an older one has; return those whose exclusion changed."""
        taken = {
            key: OutcomeReason(
                "AddressTaken",
                f"address {name!r} is already declared by {owner.name}; delete one of the two",
            )
            for key, (name, owner) in self.members.taken_addresses().items()
        }
        self._duplicates, before = taken, self._duplicates
        return self._mark_differing(before, taken)

    def _settle_quota(self, catalogue: Catalogue) -> set[Key]:
        """Select the addresses that wait for quota; return those whose selection changed."""
        waiting = waiting_for_quota(
            self.members, catalogue, served=self._settled, excluded=self._duplicates
        )
        plan = self.space.spec.plan if self.space else None
        over_quota = {
            key: OutcomeReason("QuotaExceeded", _quota_message(plan, excess))
            for key, excess in waiting.items()
        }
        self._over_quota, before = over_quota, self._over_quota
        return self._mark_differing(before, over_quota)

    def _mark_differing(
        self, before: Mapping[Key, OutcomeReason], now: Mapping[Key, OutcomeReason]
    ) -> set[Key]:
        """Return the addresses whose reason changed; those that reference them are affected."""
        changed = {key for key in before.keys() | now.keys() if before.get(key) != now.get(key)}
        self._mark_affected(changed)
        return changed

    def _mark_affected(self, keys: Iterable[Key]) -> None:
        for key in keys:
            if key in self.members.addresses:
                self._affected_names.update(self.members.addresses[key].names)

    def _outcome(self, address: Address, catalogue: Catalogue, bounds: Bounds) -> Outcome:
        key = address.key
        if self.space is None:
            return Outcome(excluded=no_space(address))
        if (excluded := self._duplicates.get(key) or self._over_quota.get(key)) is not None:
            return Outcome(excluded=excluded)
        problem = catalogue.problem_of_address(address, self.space)
        if problem is not None and problem.reason in NOT_PLANNED and key not in self._settled:
            return Outcome(excluded=OutcomeReason(problem.reason, problem.message))
        waiting = OutcomeReason(problem.reason, problem.message) if problem else None
        self._settled.add(key)
        topic = self._of_type("topic", address.spec.topic)
        planned = planned_address(
            self._with_effective(address, catalogue, bounds),
            topic=self._with_effective(topic, catalogue, bounds) if topic else None,
            missing=lambda name: self._of_type("deadletter", name) is None,
            link_capacity=bounds.link_capacity or self._link_credit,
        )
        applied = catalogue.applied(address)
        return Outcome(planned, applied, waiting=waiting or self._missing_reference(address))

    def _missing_reference(self, address: Address) -> OutcomeReason | None:
        if gone := dangling(address, self._named):
            problems = "; ".join(reference.problem for reference in gone)
            return OutcomeReason(gone[0].reason, f"{problems}")
        for name in (address.spec.topic, address.spec.deadletter, address.spec.expiry):
            other = self._named(name) if name else None
            if other is not None and other.key in self._over_quota:
                return OutcomeReason("ReferenceWaits", f"{name!r} waits for room in the quota")
        return None

    def _with_effective(self, address: Address, catalogue: Catalogue, bounds: Bounds) -> Address:
        plan = catalogue.plan_of(address)
        return with_plan(address, plan, demand(plan), bounds)

    def _named(self, name: str) -> Address | None:
        """Return the address that has a name."""
        for key in self.members.claims.get(name, ()):
            if key not in self._duplicates:
                return self.members.addresses[key]
        return None

    def _of_type(self, type_: str, name: str | None) -> Address | None:
        found = self._named(name) if name else None
        if found is None or found.spec.type != type_ or found.key in self._over_quota:
            return None
        return found

    def _outcomes_of_users(self, catalogue: Catalogue, *, whole: bool) -> dict[Key, Outcome | None]:
        if not whole and not any(key.kind == "MessagingUser" for key in self._changed):
            return {}
        space = self.space
        admits_everyone = (
            space is not None
            and not self._exposed
            and self._kind_of_authentication(space, catalogue) == "none"
        )
        outcomes: dict[Key, Outcome | None] = {}
        taken = self.members.taken_usernames()
        for user in self.members.users.values():
            if self.space is None:
                outcomes[user.key] = Outcome(excluded=no_space(user))
            elif (found := taken.get(user.key)) is not None:
                message = (
                    f"user name {found.name!r} already belongs to {found.owner.name};"
                    " delete one of the two"
                )
                outcomes[user.key] = Outcome(excluded=OutcomeReason("UserNameTaken", message))
            elif (excess := user.excess()) is not None:
                message = f"spec.authorization {excess}"
                outcomes[user.key] = Outcome(excluded=OutcomeReason("TooManyAddresses", message))
            elif admits_everyone:
                outcomes[user.key] = Outcome(
                    excluded=OutcomeReason("UsersNotAsked", USERS_HAVE_NO_EFFECT)
                )
            elif user.is_service_account:
                excluded = OutcomeReason("ServiceAccountNotServed", SERVICE_ACCOUNT)
                outcomes[user.key] = Outcome(excluded=excluded)
            elif (secret := self._user(user).missing_secret) is not None:
                outcomes[user.key] = Outcome(excluded=OutcomeReason("PasswordMissing", secret))
            else:
                outcomes[user.key] = NOTHING
        return outcomes

    def _plan(self, catalogue: Catalogue, bounds: Bounds) -> None:
        space = self.space
        if space is None:
            self.planned = None
            return
        kind = self._kind_of_authentication(space, catalogue)
        if kind == "none" and self._exposed:
            kind = "standard"
        planned = [one.planned for one in self.outcomes.values() if one.planned is not None]
        now = PlannedSpace(
            uid=space.metadata.uid or "",
            names=tuple(name for name in names_of(space) if name.lower() not in self._lost),
            authentication=authentication(kind, space, catalogue.service_of(space)),
            users=self._planned_users() if kind != "none" else (),
            limits=SpaceLimits(
                connections=bounds.connections,
                links=bounds.links,
                links_per_connection=bounds.links_per_connection,
                messages_per_second=bounds.messages_per_second,
                bytes_per_second=bounds.bytes_per_second,
                exhausted=self._exhausted,
            ),
            addresses=tuple(sorted(planned, key=attrgetter("name"))),
            auto_create=tuple(dict.fromkeys(one.pattern for one in space.spec.auto_create)),
            mqtt=bounds.mqtt,
        )
        # An equal plan stays the same object, so that no change reaches the node.
        if now != self.planned:
            self.planned = now

    def _kind_of_authentication(self, space: AddressSpace, catalogue: Catalogue) -> str:
        return kind_of(space, len(self.members.users), catalogue, exposed=self._exposed)

    def _outcome_of_space(self, space: AddressSpace, catalogue: Catalogue) -> Outcome:
        if (problem := catalogue.problem_of_space(space)) is not None:
            return Outcome(waiting=OutcomeReason(problem.reason, problem.message))
        if space.spec.plan is None and catalogue.space_plans_of(space.spec.type):
            return Outcome(waiting=OutcomeReason("PlanMissing", NO_PLAN))
        kind = self._kind_of_authentication(space, catalogue)
        if self._exposed and kind == "none":
            return Outcome(waiting=OutcomeReason("SpaceExposed", EXPOSED))
        service = catalogue.service_of(space)
        if (
            kind == "standard"
            and not self.members.users
            and not (service and service.uses_remote_server)
        ):
            return Outcome(login_problem=OutcomeReason("NoUsers", NO_USERS))
        return NOTHING

    def _name_problem(self, space: AddressSpace) -> OutcomeReason | None:
        names = names_of(space)
        lost = [name for name in names if name.lower() in self._lost]
        if not lost:
            return None
        message = (
            f"{', '.join(map(repr, lost))} belongs to an older address space or"
            " to the platform; clients reach this space by its full name,"
            f" {names[-1]}"
        )
        return OutcomeReason("NameTaken", message)

    def _planned_users(self) -> tuple[PlannedUser, ...]:
        found = []
        for key, user in self.members.users.items():
            # A deleted user kept by finalizers must not log in.
            if self.outcomes[key].excluded is None and not user.is_terminating:
                if key not in self._rights:
                    self._rights[key] = planned_user(self._user(user))
                found.append(self._rights[key])
        return tuple(sorted(found, key=lambda one: one.name))


def no_space(orphan: Declared) -> OutcomeReason:
    """Return the reason of a resource whose space does not exist."""
    return OutcomeReason(
        "SpaceMissing",
        f"address space {orphan.space!r} does not exist in namespace"
        f" {orphan.metadata.namespace!r}; create it, or delete this resource",
    )


def _quota_message(plan: str | None, excess: list[Excess]) -> str:
    needed = ", ".join(map(str, excess))
    return (
        f"Quota exceeded: the address space would need {needed} that plan {plan}"
        " allows; it is pending until addresses are deleted or a plan changes"
    )
