"""Quota usage of address spaces, computed from the API's resources. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from enmasse.plan import Catalogue, Demand, shown, used
from enmasse.resources import Address, AddressSpace, Resource, parse

Document = Mapping[str, Any]


class Use(NamedTuple):
    """Usage of one limit."""

    resource: str
    """addresses, router, broker or aggregate."""

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
    """Empty if the plan is missing or has no quota."""


def read(documents: Iterable[Document]) -> list[Resource]:
    """Return the resources of API documents."""
    return [parse(dict(one)) for one in documents]


def of_spaces(resources: Iterable[Resource]) -> list[SpaceUse]:
    """Return the usage of every address space, from spaces, addresses and plans."""
    found = list(resources)
    catalogue = Catalogue(found)
    addresses: dict[tuple[str, str], list[Address]] = {}
    for one in found:
        if isinstance(one, Address):
            addresses.setdefault((one.metadata.namespace, one.space), []).append(one)
    spaces = [one for one in found if isinstance(one, AddressSpace)]
    return [
        _of_space(one, addresses.get((one.metadata.namespace, one.space), []), catalogue)
        for one in spaces
    ]


def _of_space(space: AddressSpace, addresses: list[Address], catalogue: Catalogue) -> SpaceUse:
    plan = catalogue.plan_of_space(space)
    demands: Counter[Demand] = Counter(
        catalogue.demand(one.spec.type, one.spec.plan) for one in addresses
    )
    uses = used(demands, plan) if plan else []
    return SpaceUse(
        namespace=space.metadata.namespace,
        space=space.metadata.name,
        plan=space.spec.plan,
        addresses=len(addresses),
        uses=tuple(
            Use(name, shown(needed), shown(limit), needed > limit) for name, needed, limit in uses
        ),
    )
