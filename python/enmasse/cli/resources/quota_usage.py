"""Usage of quotas and allowances by address spaces, computed from the API's resources. Pure.

Plans are those of the AddressSpaceSchemas: tenants may read them, but not the plans themselves.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from enmasse.control.usage import period_of
from enmasse.plan import Catalogue, Demand, shown, used
from enmasse.resources import (
    Address,
    AddressPlan,
    AddressSpace,
    AddressSpacePlan,
    AddressSpaceSchema,
    Resource,
    parse,
)
from enmasse.resources.address import PlanResources
from enmasse.resources.address_plan import AddressPlanSpec
from enmasse.resources.address_space import Usage
from enmasse.resources.address_space_plan import AddressSpacePlanSpec, Allowance
from enmasse.resources.model import AdminMetadata

Document = Mapping[str, Any]

INFRA_UNKNOWN = "unknown"
"""In place of the infra config of a plan, which the schema lacks and quotas do not need."""


class Use(NamedTuple):
    """Usage of one limit."""

    resource: str
    """addresses, router, broker or aggregate; messages or bytes of an allowance."""

    used: str
    limit: str
    is_over: bool


class SpaceUse(NamedTuple):
    """Usage of one address space."""

    namespace: str
    space: str
    plan: str | None
    addresses: int
    uses: tuple[Use, ...]
    """Without the quota if the plan is missing, and without an allowance if the plan has none."""

    period: str
    """The present period of the usage: a month or a day in UTC."""

    messages: int
    """Messages from clients in the period."""

    bytes: int
    """Their bytes."""


def read(documents: Iterable[Document]) -> list[Resource]:
    """Return the resources of API documents, with their status."""
    return [parse(dict(one), stored=True) for one in documents]


def plans_of(schemas: Iterable[AddressSpaceSchema]) -> Iterator[AddressSpacePlan | AddressPlan]:
    """Return the plans of schemas, with what tenants may read of them."""
    for schema in schemas:
        for space_plan in schema.spec.plans:
            yield AddressSpacePlan(
                metadata=AdminMetadata(name=space_plan.name),
                spec=AddressSpacePlanSpec(
                    address_space_type=schema.metadata.name,
                    infra_config_ref=INFRA_UNKNOWN,
                    short_description=space_plan.description,
                    address_plans=space_plan.address_plans,
                    resource_limits=space_plan.resource_limits,
                    limits=space_plan.limits,
                ),
            )
        for type_ in schema.spec.address_types:
            for plan in type_.plans:
                yield _address_plan(type_.name, plan.name, plan.resources, plan.partitions)


def of_spaces(resources: Iterable[Resource], now: datetime) -> list[SpaceUse]:
    """Return the usage of every address space, from spaces, addresses and schemas."""
    found = list(resources)
    addresses: dict[tuple[str, str], list[Address]] = {}
    for one in found:
        if isinstance(one, Address):
            addresses.setdefault((one.metadata.namespace, one.space), []).append(one)
    schemas = [one for one in found if isinstance(one, AddressSpaceSchema)]
    catalogue = _catalogue(schemas, [one for of in addresses.values() for one in of])
    spaces = [one for one in found if isinstance(one, AddressSpace)]
    return [
        _of_space(
            one, addresses.get((one.metadata.namespace, one.metadata.name), []), catalogue, now
        )
        for one in spaces
    ]


def _catalogue(schemas: Sequence[AddressSpaceSchema], addresses: Iterable[Address]) -> Catalogue:
    plans = {(one.kind, one.metadata.name): one for one in plans_of(schemas)}
    for address in addresses:
        applied = address.status.plan_status
        # A plan that no space may choose any more stays in force for the addresses that have it.
        if applied is not None and ("AddressPlan", applied.name) not in plans:
            plans["AddressPlan", applied.name] = _address_plan(
                address.spec.type, applied.name, applied.resources, applied.partitions
            )
    return Catalogue(plans.values())


def _address_plan(
    type_: str, name: str, resources: PlanResources, partitions: int | None
) -> AddressPlan:
    return AddressPlan(
        metadata=AdminMetadata(name=name),
        spec=AddressPlanSpec(address_type=type_, resources=resources, partitions=partitions),
    )


def _of_space(
    space: AddressSpace, addresses: list[Address], catalogue: Catalogue, now: datetime
) -> SpaceUse:
    plan = catalogue.plan_of_space(space)
    demands: Counter[Demand] = Counter(
        catalogue.demand(one.spec.type, one.spec.plan) for one in addresses
    )
    uses = used(demands, plan) if plan else []
    allowance = catalogue.allowance(space)
    period = period_of(now, allowance).name
    records = space.status.usage or ()
    usage = next((one for one in records if one.period == period), Usage(period=period))
    return SpaceUse(
        namespace=space.metadata.namespace,
        space=space.metadata.name,
        plan=space.spec.plan,
        addresses=len(addresses),
        uses=(
            *(
                Use(name, shown(needed), shown(limit), needed > limit)
                for name, needed, limit in uses
            ),
            *_of_allowance(usage, allowance or Allowance()),
        ),
        period=period,
        messages=usage.messages_in,
        bytes=usage.bytes_in,
    )


def _of_allowance(usage: Usage, allowance: Allowance) -> Iterator[Use]:
    for name, count, limit in (
        ("messages", usage.messages_in, allowance.messages),
        ("bytes", usage.bytes_in, allowance.bytes),
    ):
        if limit is not None:
            yield Use(name, str(count), str(limit), count > limit)
