"""The routers and brokers that addresses demand, with figures from the tests of the original."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doubles import address_plan, space_plan
from enmasse.plan import Demand, demand, exceeded
from enmasse.plan.quota import ONE, brokers
from enmasse.resources import AddressPlan, AddressSpacePlan, parse

SMALL = space_plan("small", [], (1, 2, 2))
POOLED = {
    "anycast": address_plan("a", "anycast", router=0.3),
    "queue": address_plan("q", "queue", broker=0.6),
    "topic": address_plan("t", "topic", router=0.2, broker=0.4),
}


def fits(plan: AddressSpacePlan, *wanted: tuple[AddressPlan, int]) -> bool:
    return not exceeded({demand(one): count for one, count in wanted}, plan)


@pytest.mark.parametrize(("type_", "most"), [("anycast", 3), ("queue", 2), ("topic", 2)])
def test_T_PL_2_pooled_addresses_fit_up_to_the_quota(type_: str, most: int) -> None:
    assert fits(SMALL, (POOLED[type_], most))
    assert not fits(SMALL, (POOLED[type_], most + 1))


@pytest.mark.parametrize("type_", ["queue", "topic"])
def test_T_PL_3_dedicated_addresses_fit_up_to_the_broker_quota(type_: str) -> None:
    plan = space_plan("sharded", [], (2, 2, 3))
    whole = address_plan("whole", type_, router=0.001, broker=1)
    assert fits(plan, (whole, 2))
    assert not fits(plan, (whole, 3))


def test_T_PL_4_each_partition_needs_its_own_broker() -> None:
    plan = space_plan("two", [], (2, 2, 4))
    for partitions, has_room in ((1, True), (2, True), (4, False)):
        spread = address_plan("p", "queue", router=0.01, broker=0.1, partitions=partitions)
        assert fits(plan, (spread, 1)) is has_room


def test_T_PL_5_four_queues_need_four_brokers() -> None:
    nearly = demand(address_plan("q", "queue", broker=0.99))
    (excess,) = exceeded({nearly: 4}, space_plan("three", [], (3, 3, 6)))
    assert str(excess) == "broker 4 of 3"
    assert not exceeded({nearly: 2}, space_plan("two", [], (2, 2, 2)))


def test_subscriptions_count_against_the_quota() -> None:
    subscription = address_plan("s", "subscription", broker=0.6)
    assert not fits(SMALL, (subscription, 3))


def test_ten_shares_of_a_tenth_fit_one_router_and_broker() -> None:
    tenth = address_plan("q", "queue", router=0.1, broker=0.1)
    assert fits(space_plan("one", [], (1, 1, 2)), (tenth, 10))
    assert not fits(space_plan("one", [], (1, 1, 2)), (tenth, 11))


def test_missing_plan_has_no_demand() -> None:
    assert demand(None) == Demand()
    assert fits(SMALL, (address_plan("d", "deadletter"), 1000))


def test_broker_demand_of_a_brokered_space_is_not_rounded_up() -> None:
    plan = parse(
        {
            "apiVersion": "admin.enmasse.io/v1beta2",
            "kind": "AddressSpacePlan",
            "metadata": {"name": "single"},
            "spec": {
                "addressSpaceType": "brokered",
                "infraConfigRef": "default",
                "addressPlans": [],
                "resourceLimits": {"broker": 1.9},
            },
        }
    )
    assert isinstance(plan, AddressSpacePlan)
    assert fits(plan, (address_plan("q", "queue", broker=0.95), 2))
    assert not fits(plan, (address_plan("q", "queue", broker=0.95), 3))
    assert fits(plan, (address_plan("free", "queue", broker=0), 100_000))


shares = st.dictionaries(st.integers(1, ONE), st.integers(1, 50), max_size=8)


def first_fit_decreasing(wanted: dict[int, int]) -> int:
    """First-fit decreasing bin packing, one share at a time."""
    room: list[int] = []
    for size in sorted(wanted, reverse=True):
        for _ in range(wanted[size]):
            at = next((at for at, free in enumerate(room) if free >= size), None)
            if at is None:
                room.append(ONE - size)
            else:
                room[at] -= size
    return len(room)


@given(shares)
def test_broker_packing_is_close_to_first_fit_decreasing(wanted: dict[int, int]) -> None:
    found = brokers(wanted)
    total = sum(size * count for size, count in wanted.items())
    assert -(-total // ONE) <= found
    assert found <= first_fit_decreasing(wanted) + len(wanted)
    assert found <= 11 / 9 * max(-(-total // ONE), 1) * 2


def test_millions_of_equal_shares_are_packed_exactly() -> None:
    assert brokers({ONE // 100: 1_000_000, ONE // 3: 3_000_000}) == 1_000_000 + 10_000
