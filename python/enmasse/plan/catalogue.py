"""The choices of tenants: plans, infra configs and authentication services by name. Pure.

While no plan of a kind exists, none is required and any name is accepted. Of two resources with one
name the older counts.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple, TypeVar

from enmasse.plan.model import MqttStorage
from enmasse.plan.quota import Demand, demand
from enmasse.resources import (
    Address,
    AddressPlan,
    AddressSpace,
    AddressSpacePlan,
    AuthenticationService,
    BrokeredInfraConfig,
    Declared,
    Key,
    Resource,
    StandardInfraConfig,
)
from enmasse.resources.address import AppliedPlan, PlanResources
from enmasse.resources.address_space import ADDRESS_TYPES, BUILT_IN, Authentication
from enmasse.resources.address_space_plan import Allowance, SpaceLimits
from enmasse.resources.infra_config import (
    BrokerPart,
    RouterPolicy,
    StandardBrokerPart,
    size_bytes,
)

CATALOGUED = (
    *(AddressPlan, AddressSpacePlan, StandardInfraConfig, BrokeredInfraConfig),
    AuthenticationService,
)
"""Kinds in the catalogue."""

NAMED_MAX = 8
"""Maximum plans listed in a message."""

OnFull = Literal["block", "reject"]
_ON_FULL: dict[str, OnFull] = {
    "BLOCK": "block",
    "FAIL": "reject",
    "DROP": "reject",
}


class Problem(NamedTuple):
    """An invalid choice: field, reason, message."""

    field: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Bounds:
    """The effect of a space's plan and infra config on the space and its addresses."""

    connections: int | None = None
    links: int | None = None
    links_per_connection: int | None = None
    messages_per_second: int | None = None
    bytes_per_second: int | None = None
    message_size: int | None = None
    mqtt: MqttStorage = field(default_factory=MqttStorage)
    link_capacity: int | None = None
    reject_is_failure: bool | None = None
    broker_bytes: int | None = None
    """Message bytes per broker of an address's credit."""

    on_full: OnFull | None = None
    """Behaviour of an address that has reached its share."""


UNBOUNDED = Bounds()
_Chosen = TypeVar("_Chosen", bound=Declared)


class Catalogue:
    """An immutable catalogue of the CATALOGUED kinds; changes create a new one."""

    def __init__(self, resources: Iterable[Resource] = ()) -> None:
        """Collect resources of those kinds and ignore others."""
        found = sorted(
            (one for one in resources if isinstance(one, CATALOGUED)),
            key=lambda one: (one.metadata.creation_timestamp or "", one.key),
        )
        self.address_plans = _by_name(found, AddressPlan)
        self.space_plans = _by_name(found, AddressSpacePlan)
        self._standard = _by_name(found, StandardInfraConfig)
        self._brokered = _by_name(found, BrokeredInfraConfig)
        self.services = _by_name(found, AuthenticationService)
        self._offered: dict[tuple[str | None, str], list[AddressPlan]] = {}
        """The plans offered to an address, by plan of its space and type."""

    @cached_property
    def authentications(self) -> Mapping[str, Authentication]:
        """Type of each service, by name."""
        return {name: one.spec.type for name, one in self.services.items()} | BUILT_IN

    def service_of(self, space: AddressSpace) -> AuthenticationService | None:
        """Return the declared service that a space names, or None."""
        return self.services.get(space.service_name or "")

    def space_plans_of(self, type_: str) -> list[AddressSpacePlan]:
        """Return the plans for spaces of a type, the default first."""
        found = [one for one in self.space_plans.values() if one.spec.address_space_type == type_]
        return sorted(found, key=lambda one: one.order)

    def offered(self, space: AddressSpace, type_: str) -> list[AddressPlan]:
        """Return the plans for addresses of a type in a space, the default first."""
        plan = self.space_plans.get(space.spec.plan or "")
        choice = plan.metadata.name if plan else None, type_
        if choice not in self._offered:
            names = plan.spec.address_plans if plan else self._in_order
            found = (self.address_plans.get(name) for name in names)
            self._offered[choice] = [
                one for one in found if one is not None and one.spec.address_type == type_
            ]
        return self._offered[choice]

    @cached_property
    def _in_order(self) -> list[str]:
        return [
            one.metadata.name
            for one in sorted(self.address_plans.values(), key=lambda one: one.order)
        ]

    def plan_of(self, address: Address) -> AddressPlan | None:
        """Return the plan of an address, or None if it does not exist or has another type."""
        found = self.address_plans.get(address.spec.plan or "")
        return found if found and found.spec.address_type == address.spec.type else None

    def applied(self, address: Address) -> AppliedPlan | None:
        """Return the plan status of an address, or None without a plan."""
        plan = self.plan_of(address)
        return self._applied[plan.metadata.name] if plan else None

    @cached_property
    def _applied(self) -> Mapping[str, AppliedPlan]:
        return {
            name: AppliedPlan(
                name=name,
                partitions=demand(plan).shares or 1,
                resources=plan.spec.resources or PlanResources(),
            )
            for name, plan in self.address_plans.items()
        }

    def demand(self, type_: str, name: str | None) -> Demand:
        """Return the demand of an address of a type with a plan."""
        found = self.address_plans.get(name or "")
        return demand(found if found and found.spec.address_type == type_ else None)

    def demands(self, choices: Mapping[tuple[str, str | None], int]) -> Counter[Demand]:
        """Return the demands of addresses, counted by type and plan."""
        demands: Counter[Demand] = Counter()
        for (type_, name), count in choices.items():
            demands[self.demand(type_, name)] += count
        return demands

    def plan_of_space(self, space: AddressSpace) -> AddressSpacePlan | None:
        """Return the plan of a space, or None if it does not exist or has another type."""
        found = self.space_plans.get(space.spec.plan or "")
        return found if found and found.spec.address_space_type == space.spec.type else None

    def bounds(self, space: AddressSpace) -> Bounds:
        """Return the effect of plan and infra config on a space."""
        plan = self.plan_of_space(space)
        if plan is None:
            return UNBOUNDED
        # Where the plan and its infra config limit the same, the smaller applies.
        own = plan.spec.limits or SpaceLimits()
        infra = self._infra_of(plan)
        router = infra.spec.router if isinstance(infra, StandardInfraConfig) else None
        policy = (router.policy if router else None) or RouterPolicy()
        broker = infra.spec.broker if infra else None
        broker_bytes, on_full = _of_brokers(broker)
        return Bounds(
            connections=smaller(own.connections, policy.max_connections),
            links=own.links,
            links_per_connection=own.links_per_connection,
            messages_per_second=own.messages_per_second,
            bytes_per_second=own.bytes_per_second,
            message_size=smaller(own.message_size, policy.max_message_size),
            mqtt=_of_mqtt(own),
            link_capacity=router.link_capacity if router else None,
            reject_is_failure=(
                broker.treat_reject_as_unmodified_delivery_failed
                if isinstance(broker, StandardBrokerPart)
                else None
            ),
            broker_bytes=broker_bytes,
            on_full=on_full,
        )

    def allowance(self, space: AddressSpace) -> Allowance | None:
        """Return the allowance of a space."""
        plan = self.plan_of_space(space)
        return plan.spec.limits.allowance if plan and plan.spec.limits else None

    def problem_of_space(self, space: AddressSpace) -> Problem | None:
        """Return invalid choices of a space."""
        return self._plan_problem_of_space(space) or self._service_problem(space)

    def _plan_problem_of_space(self, space: AddressSpace) -> Problem | None:
        name, type_ = space.spec.plan, space.spec.type
        if name is None or not self.space_plans:
            return None
        there = f"plans for type {type_}: {_names(self.space_plans_of(type_))}"
        found = self.space_plans.get(name)
        if found is None:
            message = f"AddressSpacePlan {name!r} not found; {there}"
            return Problem("spec.plan", "PlanUnknown", message)
        if found.spec.address_space_type != type_:
            message = f"{name!r} is for type {found.spec.address_space_type}; {there}"
            return Problem("spec.plan", "PlanWrongType", message)
        return None

    def _service_problem(self, space: AddressSpace) -> Problem | None:
        name = space.service_name
        if name is not None and name not in self.authentications:
            known = ", ".join(self.authentications)
            message = f"authentication service {name!r} not found; available: {known}"
            field = "spec.authenticationService.name"
            return Problem(field, "AuthenticationServiceMissing", message)
        service, type_ = self.service_of(space), space.service_type
        if service is not None and type_ not in (None, _type_for_spaces(service)):
            message = f"service {name!r} is of type {service.spec.type}, not {type_}; omit the type"
            field = "spec.authenticationService.type"
            return Problem(field, "AuthenticationServiceWrongType", message)
        external = service.spec.external if service else None
        if space.overrides is None or (external is not None and external.allow_override):
            return None
        message = f"authentication service {name!r} allows no overrides; remove them"
        return Problem("spec.authenticationService.overrides", "OverridesNotAllowed", message)

    def problem_of_address(self, address: Address, space: AddressSpace) -> Problem | None:
        """Return invalid choices of an address in a space."""
        name, type_ = address.spec.plan, address.spec.type
        able = ADDRESS_TYPES[space.spec.type]
        if type_ not in able:
            message = (
                f"an address space of type {space.spec.type} has no {type_}, only {', '.join(able)}"
            )
            return Problem("spec.type", "TypeNotOffered", message)
        if name is None or not self.address_plans:
            return None
        offered = self.offered(space, type_)
        there = f"plans offered for {type_}: {_names(offered)}"
        found = self.address_plans.get(name)
        if found is None:
            return Problem("spec.plan", "PlanUnknown", f"AddressPlan {name!r} not found; {there}")
        if found.spec.address_type != type_:
            message = f"{name!r} is for {found.spec.address_type}; {there}"
            return Problem("spec.plan", "PlanWrongType", message)
        if found not in offered:
            message = (
                f"plan {space.spec.plan!r} of the address space does not offer {name!r}; {there}"
            )
            return Problem("spec.plan", "PlanNotOffered", message)
        return None

    def problems(self) -> dict[Key, Problem]:
        """Return missing references of plans and services."""
        found = {plan.key: self._problem_of_plan(plan) for plan in self.space_plans.values()}
        return {key: problem for key, problem in found.items() if problem is not None}

    def _problem_of_plan(self, plan: AddressSpacePlan) -> Problem | None:
        spec = plan.spec
        if self._infra_of(plan) is None:
            kind = f"{spec.address_space_type.capitalize()}InfraConfig"
            message = f"waiting for {kind} {spec.infra_config_ref!r}"
            return Problem("spec.infraConfigRef", "InfraConfigMissing", message)
        missing = [name for name in spec.address_plans if name not in self.address_plans]
        if missing:
            message = f"waiting for AddressPlan {_listed(missing)}"
            return Problem("spec.addressPlans", "AddressPlanMissing", message)
        able = ADDRESS_TYPES[spec.address_space_type]
        unfit = [
            name
            for name in spec.address_plans
            if self.address_plans[name].spec.address_type not in able
        ]
        if unfit:
            message = (
                f"{_listed(unfit)} is for an address type that"
                f" {spec.address_space_type} spaces do not support"
            )
            return Problem("spec.addressPlans", "AddressPlanWrongType", message)
        return None

    def _infra_of(self, plan: AddressSpacePlan) -> StandardInfraConfig | BrokeredInfraConfig | None:
        name = plan.spec.infra_config_ref
        if plan.spec.address_space_type == "brokered":
            return self._brokered.get(name)
        return self._standard.get(name)


def _type_for_spaces(service: AuthenticationService) -> str:
    """Return the type under which spaces know a service: the original's standard service was a
    Keycloak.
    """
    return "standard" if service.spec.type == "keycloak" else service.spec.type


def smaller(one: int | None, other: int | None) -> int | None:
    """Return the smaller of two limits; None means unlimited."""
    return other if one is None else one if other is None else min(one, other)


def _of_mqtt(own: SpaceLimits) -> MqttStorage:
    limits = {
        "sessions": own.mqtt_sessions,
        "retained_messages": own.retained_messages,
        "retained_bytes": own.retained_bytes,
    }
    return MqttStorage(**{name: one for name, one in limits.items() if one is not None})


def _of_brokers(broker: BrokerPart | None) -> tuple[int | None, OnFull | None]:
    """Return the bytes of one broker, and the behaviour of a full address."""
    if broker is None or broker.global_max_size is None or broker.address_full_policy == "PAGE":
        return None, None
    return size_bytes(broker.global_max_size), _ON_FULL[broker.address_full_policy or "FAIL"]


def _by_name(resources: Iterable[Declared], kind: type[_Chosen]) -> dict[str, _Chosen]:
    found: dict[str, _Chosen] = {}
    for one in resources:
        if isinstance(one, kind):
            found.setdefault(one.metadata.name, one)
    return found


def _names(plans: Iterable[Declared]) -> str:
    return _listed([plan.metadata.name for plan in plans])


def _listed(names: list[str]) -> str:
    more = len(names) - NAMED_MAX
    shown = ", ".join(names[:NAMED_MAX]) or "none"
    return f"{shown} and {more} more" if more > 0 else shown
