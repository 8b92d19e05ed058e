"""Routers and brokers that addresses use, compared with a quota. Pure.

Credit is counted in millionths, so that ten tenths are one. The rules are those of the original:

- Routers share all their credit: the use is the sum, rounded up.

- The credit of a queue, of a subscription, and of a topic below one broker is divided into
`partitions` shares of at most one broker each. First-fit decreasing packs the shares into brokers;
there are at least as many brokers as the most partitions of one address.

- A topic of one broker or more has brokers of its own, rounded up.

- A brokered space has one broker: credit is added without rounding.

The use follows from all addresses together, regardless of order and history: changed plans and
deletions leave no remainder and no fragmentation.
"""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from enmasse.resources import AddressPlan, AddressSpacePlan

ONE = 1_000_000
"""One router or broker, or one address where addresses are counted."""

ADDRESSES = "addresses"
"""Name of the address count, next to routers and brokers."""


class Demand(NamedTuple):
    """The use of one address. Credit is in millionths."""

    router: int = 0
    broker: int = 0
    partitions: int = 1
    dedicated: bool = False
    """Whether it has brokers of its own."""

    @property
    def shares(self) -> int:
        """Number of brokers it is spread over."""
        return max(self.partitions, _rounded_up(self.broker))


NOTHING = Demand()


class Excess(NamedTuple):
    """A resource whose use exceeds the quota, both in millionths."""

    resource: str
    needed: int
    limit: int

    def __str__(self) -> str:
        return f"{self.resource} {shown(self.needed)} of {shown(self.limit)}"


def demand(plan: AddressPlan | None) -> Demand:
    """Return the use of an address with a plan."""
    credit = plan.spec.resources if plan else None
    if plan is None or credit is None:
        return NOTHING
    broker = _millionths(credit.broker)
    return Demand(
        router=_millionths(credit.router),
        broker=broker,
        partitions=plan.spec.partitions or 1,
        dedicated=plan.spec.address_type == "topic" and broker >= ONE,
    )


def used(demands: Mapping[Demand, int], plan: AddressSpacePlan) -> list[tuple[str, int, int]]:
    """Return the use of each limit of a plan: name, use, limit.

    Amounts are in millionths; `demands` counts the addresses of each demand.
    """
    limits = plan.spec.resource_limits
    needed = _needed(demands, brokered=plan.spec.address_space_type == "brokered")
    found = [
        (name, amount, _millionths(limit))
        for name, amount in needed.items()
        if (limit := getattr(limits, name)) is not None
    ]
    most = plan.spec.limits.addresses if plan.spec.limits else None
    if most is not None:
        found.append((ADDRESSES, sum(demands.values()) * ONE, most * ONE))
    return found


def exceeded(demands: Mapping[Demand, int], plan: AddressSpacePlan) -> list[Excess]:
    """Return the exceeded limits of a plan; `demands` counts the addresses of each demand."""
    return [Excess(*one) for one in used(demands, plan) if one[1] > one[2]]


def outgrown(
    before: Mapping[Demand, int], after: Mapping[Demand, int], plan: AddressSpacePlan
) -> list[Excess]:
    """Return limits that are exceeded and whose use grows.

    A limit that is already exceeded (a smaller quota, a larger credit) refuses only further use.
    """
    over = exceeded(after, plan)
    already = {one.resource: one.needed for one in exceeded(before, plan)} if over else {}
    return [one for one in over if one.needed > already.get(one.resource, 0)]


def brokers(shares: Mapping[int, int]) -> int:
    """Return the number of brokers for shares (in millionths, with their counts).

    First-fit decreasing: at most 11/9 of the optimum plus one. The cost depends on the number of
    different share sizes, not on the number of shares.
    """
    open_: list[tuple[int, int]] = []
    """Remaining room, and the number of brokers with that room."""
    for size in sorted(shares, reverse=True):
        left = shares[size]
        packed: list[tuple[int, int]] = []
        for room, count in open_:
            left = _pack(size, left, room, count, packed)
        if left:
            _pack(size, left, ONE, -(-left // (ONE // size)), packed)
        open_ = packed
    return sum(count for _, count in open_)


def _pack(size: int, left: int, room: int, count: int, packed: list[tuple[int, int]]) -> int:
    """Put shares into brokers with equal room; return the number of shares left."""
    each = room // size
    filled = min(count, left // each) if each else 0
    if filled:
        packed.append((room - each * size, filled))
        left -= filled * each
        count -= filled
    if count and left and left < each:
        packed.append((room - left * size, 1))
        left, count = 0, count - 1
    if count:
        packed.append((room, count))
    return left


def _needed(demands: Mapping[Demand, int], *, brokered: bool) -> dict[str, int]:
    if brokered:
        return {"broker": sum(one.broker * count for one, count in demands.items())}
    router = _rounded_up(sum(one.router * count for one, count in demands.items())) * ONE
    shares: Counter[int] = Counter()
    dedicated = spread = 0
    for one, count in demands.items():
        if not one.broker or not count:
            continue
        if one.dedicated:
            dedicated += one.shares * count
        else:
            shares[-(-one.broker // one.shares)] += one.shares * count
            spread = max(spread, one.shares)
    broker = (max(brokers(shares), spread) + dedicated) * ONE
    return {"router": router, "broker": broker, "aggregate": router + broker}


def _millionths(credit: float | None) -> int:
    return round((credit or 0.0) * ONE)


def _rounded_up(millionths: int) -> int:
    return -(-millionths // ONE)


def shown(millionths: int) -> str:
    """Return credit as a decimal text."""
    return f"{millionths / ONE:.6f}".rstrip("0").rstrip(".")
