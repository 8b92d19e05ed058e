"""Plans applied to spaces and addresses; incremental and full compilation agree."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doubles import (
    address,
    address_plan,
    deadletter,
    infra,
    queue,
    space,
    space_plan,
    subscription,
    topic,
    user,
)
from enmasse.plan import Compiler, PlannedAddress, compile
from enmasse.plan.model import PlannedSpace
from enmasse.resources import Address, Declared, Key, Resource

NOW = "2026-01-01T00:00:00Z"


def planned(*resources: Resource) -> PlannedSpace:
    (found,) = compile([space(plan="p"), infra(), *resources], version=1).plan.spaces
    return found


def single_address(*resources: Resource) -> PlannedAddress:
    return planned(*resources).addresses[0]


def with_plan(address_: Address, **plan: Any) -> PlannedAddress:
    named = address_.model_copy(update={"spec": address_.spec.model_copy(update={"plan": "a"})})
    credit = {"router": 0.1, "broker": 0.1} | plan
    offered = address_plan("a", address_.spec.type, **credit)
    return single_address(named, offered, space_plan("p", [offered]))


@pytest.mark.parametrize(
    ("plan", "own", "both"),
    [
        ((500, 5000), (None, None), (500, 5000)),
        ((500, 5000), (550, 6000), (550, 5000)),
        ((500, 5000), (None, 1000), (500, 1000)),
        ((None, 5000), (None, None), (None, 5000)),
        ((None, None), (550, 6000), (550, 6000)),
        ((500, 5000), (6000, 7000), (500, 5000)),
    ],
)
def test_T_DL_1_narrower_ttl_of_plan_and_address_applies(
    plan: tuple[int | None, int | None],
    own: tuple[int | None, int | None],
    both: tuple[int | None, int | None],
) -> None:
    def ttl(pair: tuple[int | None, int | None]) -> dict[str, int]:
        named = zip(("minimum", "maximum"), pair, strict=True)
        return {name: one for name, one in named if one is not None}

    for declared in (queue(messageTtl=ttl(own)), topic(messageTtl=ttl(own))):
        found = with_plan(declared, messageTtl=ttl(plan)).ttl
        assert found is not None
        assert (found.minimum_ms, found.maximum_ms) == both


def test_T_DL_2_delivery_attempts_default_to_those_of_the_plan() -> None:
    plan = {"messageRedelivery": {"maximumDeliveryAttempts": 2, "redeliveryDelay": 10}}
    found = with_plan(queue(), **plan).redelivery
    assert found is not None
    assert (found.attempts, found.delay_ms) == (2, 10)
    own = queue(messageRedelivery={"maximumDeliveryAttempts": 5})
    found = with_plan(own, **plan).redelivery
    assert found is not None
    assert (found.attempts, found.delay_ms) == (5, 10)


def test_smaller_limit_of_plan_and_address_applies() -> None:
    limits = {"messages": 10, "messageSize": 1000, "consumers": 3}
    own = queue(limits={"messages": 20, "messageSize": 500, "producers": 2})
    found = with_plan(own, limits=limits).limits
    assert (found.messages, found.message_size) == (10, 500)
    assert (found.consumers, found.producers) == (3, 2)


def test_dead_letter_address_always_drops_its_oldest_message() -> None:
    bounded = deadletter(limits={"bytes": 5000})
    assert bounded.spec.limits is not None
    refusing = bounded.spec.limits.model_copy(update={"on_full": "reject"})
    spec = bounded.spec.model_copy(update={"limits": refusing})
    for one in (bounded, bounded.model_copy(update={"spec": spec})):
        assert with_plan(one, router=0).limits.on_full == "dropOldest"
        assert single_address(one).limits.on_full == "dropOldest"


def test_stream_ignores_ttl_and_message_limit_of_its_plan() -> None:
    stream = topic(retention={"bytes": 1000})
    found = with_plan(stream, messageTtl={"maximum": 5}, limits={"messages": 1, "messageSize": 9})
    assert (found.ttl, found.limits.messages, found.limits.message_size) == (None, None, 9)


def test_subscription_inherits_the_ttl_of_the_plan_of_its_topic() -> None:
    plan = address_plan("t", "topic", router=0.1, broker=0.1, messageTtl={"maximum": 7})
    found = planned(
        topic(plan="t"), subscription(plan="s"), plan,
        address_plan("s", "subscription", router=0.1, broker=0.1), space_plan("p", [plan]),
    )  # fmt: skip
    (night,) = [one for one in found.addresses if one.type == "subscription"]
    assert night.ttl is not None
    assert night.ttl.maximum_ms == 7


def test_T_PL_1_space_limits_are_the_smaller_of_plan_and_infra_config() -> None:
    policy = {"maxConnections": 50, "maxMessageSize": 4096}
    config = infra("own", router={"linkCapacity": 300, "policy": policy})
    whole = address_plan("q", "queue", router=0.1, broker=1)
    limits = {"connections": 100, "links": 7, "messageSize": 8192}
    plan = space_plan("p", [whole], infraConfigRef="own", limits=limits)
    found = planned(config, whole, plan, queue(plan="q"))
    assert (found.limits.connections, found.limits.links) == (50, 7)
    (orders,) = found.addresses
    assert (orders.limits.link_capacity, orders.limits.message_size) == (300, 4096)


@pytest.mark.parametrize(
    ("policy", "on_full"), [("FAIL", "reject"), ("BLOCK", "block"), ("PAGE", None)]
)
def test_T_PL_11_broker_credit_sets_the_byte_limit_of_an_address(
    policy: str, on_full: str | None
) -> None:
    config = infra("m", broker={"globalMaxSize": "64MB", "addressFullPolicy": policy})
    for credit, partitions, share in ((0.5, 1, 32 << 20), (0.25, 1, 16 << 20), (1.0, 2, 32 << 20)):
        plan = address_plan("q", "queue", router=0.1, broker=credit, partitions=partitions)
        offered = space_plan("p", [plan], infraConfigRef="m")
        limits = single_address(config, plan, offered, queue(plan="q")).limits
        assert (limits.bytes, limits.on_full) == ((share, on_full) if on_full else (None, None))


def test_T_AS_2_a_brokered_space_has_no_direct_addresses() -> None:
    declared = [
        queue(), topic(), subscription(), deadletter(),
        address("default.a", "anycast"), address("default.m", "multicast"),
    ]  # fmt: skip
    compiled = compile([space(type_="brokered"), *declared], version=1)
    served = {one.type for one in compiled.plan.spaces[0].addresses}
    assert served == {"queue", "topic", "subscription", "deadletter"}
    reasons = {key.name: one.reason for key, one in compiled.excluded.items()}
    assert reasons == {"default.a": "TypeNotOffered", "default.m": "TypeNotOffered"}


def test_T_PL_10_address_with_a_missing_plan_is_served_as_plan_unknown() -> None:
    plan = address_plan("q", "queue", router=0.1, broker=0.1)
    compiled = compile([space(), plan, queue(plan="gone")], version=1)
    assert [one.name for one in compiled.plan.spaces[0].addresses] == ["orders"]
    waiting = compiled.waiting[queue().key]
    assert waiting.reason == "PlanUnknown"
    assert waiting.message == "AddressPlan 'gone' not found; plans offered for queue: q"


def test_space_without_a_plan_is_served_and_reports_plan_missing() -> None:
    plan = address_plan("q", "queue", router=0.1, broker=0.1)
    offered = space_plan("p", [plan], (1, 1, 2))
    compiled = compile([space(), space("b", type_="brokered"), plan, offered, queue()], version=1)
    assert [one.name for one in compiled.plan.spaces[1].addresses] == ["orders"]
    assert Key("AddressSpace", "default", "b") not in compiled.waiting, "no plan is offered for it"
    waiting = compiled.waiting[space().key]
    assert waiting.reason == "PlanMissing"
    assert "set spec.plan, or ask a service administrator to allow" in waiting.message


def test_admitted_addresses_stay_when_the_quota_shrinks() -> None:
    plan = address_plan("q", "queue", router=0.1, broker=1)
    compiler = Compiler()
    addresses = [queue(f"default.q{n}", plan="q", address=f"q{n}") for n in range(3)]
    for one in (space(plan="p"), plan, space_plan("p", [plan], (3, 3, 6)), *addresses):
        compiler.put(one.key, one)
    compiler.refresh()
    smaller = space_plan("p", [plan], (1, 1, 2))
    compiler.put(smaller.key, smaller)
    newcomer = queue("default.q3", plan="q", address="q3")
    compiler.put(newcomer.key, newcomer)
    compiler.refresh()
    excluded = {key for key, one in compiler.outcomes() if one.excluded}
    assert excluded == {newcomer.key}
    for one in addresses:
        compiler.put(one.key, None)
    assert newcomer.key in compiler.refresh()
    assert compiler.outcome(newcomer.key).excluded is None


def test_remaining_quota_admits_a_smaller_later_address() -> None:
    large = address_plan("large", "queue", router=0.1, broker=2)
    small = address_plan("small", "queue", router=0.1, broker=0.1)
    compiled = compile(
        [
            *(space(plan="p"), large, small, space_plan("p", [large, small], (1, 1, 2))),
            queue("default.a", plan="large", address="a").with_metadata(creation_timestamp=NOW),
            queue("default.b", plan="small", address="b").with_metadata(creation_timestamp="3026"),
        ],
        version=1,
    )
    assert {key.name for key in compiled.excluded} == {"default.a"}
    message = next(iter(compiled.excluded.values())).message
    assert message.startswith("Quota exceeded: ")
    assert "broker 2 of 1" in message


NAMES = ["a", "b", "c"]
PLANS = [
    address_plan("small", "queue", router=0.1, broker=0.4),
    address_plan("large", "queue", router=0.1, broker=1.2),
    address_plan("topic", "topic", router=0.3, broker=0.4, messageTtl={"maximum": 5}),
    address_plan("night", "subscription", router=0.1, broker=0.4),
]
declared = st.one_of(
    st.builds(queue, st.just("default.x"), plan=st.sampled_from(["small", "large", "gone"])),
    st.builds(queue, st.just("default.x"), deadletter=st.sampled_from(NAMES)),
    st.builds(topic, st.just("default.x"), plan=st.just("topic")),
    st.builds(
        subscription, st.just("default.x"), topic=st.sampled_from(NAMES), plan=st.just("night")
    ),
    st.builds(deadletter, st.just("default.x")),
)
steps = st.lists(
    st.tuples(st.integers(0, 5), st.one_of(st.none(), declared), st.sampled_from(NAMES)),
    max_size=14,
)


def named(number: int, one: Address, name: str, age: int) -> Address:
    spec = one.spec.model_copy(update={"address": name})
    return one.model_copy(update={"spec": spec}).with_metadata(
        name=f"default.x{number}", uid=f"u{number}.{age}", creation_timestamp=f"{age:04}"
    )


@settings(deadline=None, max_examples=200)
@given(steps, st.integers(0, 2**32), st.booleans())
def test_incremental_compilation_equals_full_compilation(
    drawn: list[tuple[int, Address | None, str]], seed: int, has_space: bool
) -> None:
    """With quota for all: an exhausted quota depends on the order of the changes."""
    plans: list[Declared] = [*PLANS, space_plan("p", PLANS, (100, 100, 200)), infra()]
    now: dict[Key, Declared] = {one.key: one for one in plans}
    if has_space:
        now[space().key] = space(plan="p")
    compiler = Compiler()
    for one in random.Random(seed).sample(list(now.values()), len(now)):
        compiler.put(one.key, one)
    compiler.refresh()
    outcomes = dict(compiler.outcomes())
    for age, (number, one, name) in enumerate(drawn):
        key = Key("Address", "default", f"default.x{number}")
        if one is None:
            now.pop(key, None)
            compiler.put(key, None)
        else:
            now[key] = named(number, one, name, age)
            compiler.put(key, now[key])
        differing = compiler.refresh()
        before, outcomes = outcomes, dict(compiler.outcomes())
        assert differing == {
            key for key in before.keys() | outcomes.keys() if before.get(key) != outcomes.get(key)
        }
    compiled = compile(now.values(), version=1)
    assert compiled.plan.spaces == compiler.spaces()
    assert compiled.excluded == {k: one.excluded for k, one in outcomes.items() if one.excluded}
    assert compiled.waiting == {k: one.waiting for k, one in outcomes.items() if one.waiting}


def test_unchanged_spaces_and_addresses_are_not_recompiled() -> None:
    compiler = Compiler()
    for one in (space(), space("north"), queue(), queue("north.a"), user()):
        compiler.put(one.key, one)
    compiler.refresh()
    before = compiler.spaces()
    compiler.put(queue("default.b").key, queue("default.b", address="b"))
    assert compiler.refresh() == {queue("default.b").key}
    after = compiler.spaces()
    assert after[1] is before[1]
    assert after[0].addresses[1] is before[0].addresses[0]
