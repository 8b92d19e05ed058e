"""What address spaces use of their quotas, from the resources as the API shows them. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from enmasse.plan import Catalogue, Demand, shown, used
from enmasse.resources import Address, AddressSpace, Resource, parse

Document = Mapping[str, Any]


class Use(NamedTuple):
    """How much of one limit is used."""

    resource: str
    """addresses, router, broker or aggregate."""

    used: str
    limit: str
    is_over: bool


class SpaceUse(NamedTuple):
    """What one address space uses."""

    namespace: str
    space: str
    plan: str | None
    addresses: int
    uses: tuple[Use, ...]
    """Empty where the plan says nothing, or is not there."""


def read(documents: Iterable[Document]) -> list[Resource]:
    """Return resources from documents of the API, as they are declared."""
    return [parse(dict(one)) for one in documents]


def of_spaces(resources: Iterable[Resource]) -> list[SpaceUse]:
    """Return what every address space uses, given those, their addresses, and all plans."""
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
