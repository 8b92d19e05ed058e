"""Checks at admission, one table for each."""

import random
from collections.abc import Sequence

import pytest

from doubles import address, deadletter, queue, space, subscription, topic, user
from enmasse.base.errors import Code, Conflict, EnMasseError, Invalid
from enmasse.control.admission_checks import World, first_fault, space_exposed
from enmasse.plan import DeclaredState, Overlay
from enmasse.plan.naming import lost_names, platform_names
from enmasse.resources import AddressSpace, Resource, parse
from enmasse.resources.address import TYPES


def world(resources: Sequence[Resource], exposed: bool = False) -> World:
    return World(Overlay(DeclaredState(resources), {}), exposed, served=TYPES)


def fault_of(
    resource: Resource, others: Sequence[Resource], before: Resource | None = None
) -> EnMasseError | None:
    return first_fault([(resource, before)], world([*others, resource]))


GOOD = {
    "a space": (space(), []),
    "an address in a space": (address(), [space()]),
    "the same address in another space": (
        address("north.a", address="orders"),
        [space("north"), space(), address()],
    ),
    "the same address in another namespace": (
        address(namespace="n"),
        [space(namespace="n"), space(), address()],
    ),
    "a user named like an address": (user("default.orders"), [space(), address()]),
    "a subscription of a topic": (subscription(), [space(), topic()]),
    "a queue with a dead letter": (
        queue(deadletter="dead", expiry="dead"),
        [space(), deadletter()],
    ),
}


@pytest.mark.parametrize("name", GOOD)
def test_valid_resource_has_no_fault(name: str) -> None:
    resource, others = GOOD[name]
    assert fault_of(resource, others) is None


BAD = {
    "an address without its space": (address(), [space("other")], Code.SPACE_ABSENT),
    "an address whose space is in another namespace": (
        address(namespace="n"),
        [space()],
        Code.SPACE_ABSENT,
    ),
    "a user without its space": (user(), [], Code.SPACE_ABSENT),
    "an address that another resource has": (
        address("default.again", address="orders"),
        [space(), address()],
        Code.ADDRESS_TAKEN,
    ),
    "a user name that another resource has": (
        user("default.alice").with_metadata(name="default.again"),
        [space(), user("default.alice")],
        Code.ADDRESS_TAKEN,
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_conflicting_resource_is_rejected_naming_the_field(name: str) -> None:
    resource, others, code = BAD[name]
    error = fault_of(resource, others)
    assert error is not None
    assert error.code == code
    assert isinstance(error, Conflict if code == Code.ADDRESS_TAKEN else Invalid)
    assert error.faults[0].field in ("metadata.name", "spec.address", "spec.username")
    assert str(resource.key) in error.message


DANGLING = {
    "a subscription of nothing": (
        subscription(topic="views"),
        [topic()],
        "spec.topic: references a topic address 'views' that does not exist;"
        " declare it first, or name another",
    ),
    "a subscription of another space's topic": (
        subscription(),
        [space("north"), topic("north.news")],
        "spec.topic: references a topic address 'news' that does not exist;"
        " declare it first, or name another",
    ),
    "a subscription of a queue": (
        subscription(topic="orders"),
        [queue()],
        "spec.topic: references a topic address 'orders' (default.orders) that is not of type"
        " topic but queue; name one of type topic",
    ),
    "a dead letter that is not there": (
        queue(deadletter="dead"),
        [],
        "spec.deadletter: references a dead letter address 'dead' that does not exist;"
        " declare it first, or name another",
    ),
    "a dead letter by its resource name": (
        queue(deadletter="default.dead"),
        [deadletter()],
        "spec.deadletter: references a dead letter address 'default.dead' that does not exist;"
        " declare it first, or name another",
    ),
    "a dead letter that is none": (
        topic(deadletter="dead"),
        [queue("default.dead")],
        "spec.deadletter: references a dead letter address 'dead' (default.dead) that is not of"
        " type deadletter but queue; name one of type deadletter",
    ),
    "an expiry address that is not there": (
        queue(expiry="old"),
        [deadletter()],
        "spec.expiry: references an expiry address 'old' that does not exist;"
        " declare it first, or name another",
    ),
    "itself as expiry address": (
        queue(expiry="orders"),
        [],
        "spec.expiry: references an expiry address 'orders' (default.orders) that is not of type"
        " deadletter but queue; name one of type deadletter",
    ),
}


@pytest.mark.parametrize("name", DANGLING)
def test_dangling_reference_is_rejected_with_a_remedy(name: str) -> None:
    resource, others, says = DANGLING[name]
    error = fault_of(resource, [space(), *others])
    assert isinstance(error, Invalid)
    assert error.code == Code.REFERENCE_INVALID
    assert [str(fault) for fault in error.faults] == [says]


def test_existing_dangling_reference_does_not_block_other_changes() -> None:
    before = queue(deadletter="dead")
    after = queue(deadletter="dead", messageTtl={"maximum": 5})
    assert fault_of(after, [space()], before) is None
    assert fault_of(queue(deadletter="other"), [space()], before) is not None
    assert fault_of(queue(deadletter="dead", expiry="dead"), [space()], before) is not None


def test_full_name_of_a_subscription_is_reserved() -> None:
    twin = address("default.twin", "queue", "news::night")
    error = fault_of(twin, [space(), topic(), subscription()])
    assert isinstance(error, Conflict)
    assert "'news::night' already belongs to default.night" in error.message
    assert isinstance(fault_of(subscription(), [space(), topic(), twin]), Conflict)


def test_address_type_outside_the_served_ones_is_rejected() -> None:
    state = Overlay(DeclaredState([space(), queue()]), {})
    error = first_fault([(queue(), None)], World(state, False, served=("anycast", "topic")))
    assert isinstance(error, Invalid)
    assert [str(fault) for fault in error.faults] == [
        "spec.type: 'queue' cannot be served by this node; it serves anycast, topic"
    ]


@pytest.mark.parametrize(
    ("before", "after", "field"),
    [
        (address(), address(type_="multicast"), "spec.type"),
        (address(), address(address="other"), "spec.address"),
        (queue(), queue(durability="memory"), "spec.durability"),
    ],
)
def test_policy_rejects_a_change_of_an_immutable_field(
    before: Resource, after: Resource, field: str
) -> None:
    error = fault_of(after, [space()], before)
    assert isinstance(error, Invalid)
    assert error.code == Code.FIELD_IMMUTABLE
    assert [fault.field for fault in error.faults] == [field]
    assert "delete the resource and create it again" in error.message


@pytest.mark.parametrize(
    ("resources", "exposed", "refused"),
    [
        ([space(authentication="none")], True, True),
        ([space(authentication="none")], False, False),
        ([space()], True, False),
        ([space(authentication="standard")], True, False),
        ([space(authentication="none"), user()], True, True),
        ([space("a", "standard"), space("b", "none")], True, True),
        ([], True, False),
    ],
)
def test_anonymous_space_on_an_exposed_platform_is_rejected(
    resources: list[Resource], exposed: bool, refused: bool
) -> None:
    error = space_exposed(world(resources, exposed))
    assert (error is not None) is refused
    if error:
        assert error.code == Code.SPACE_EXPOSED
        assert (
            "--insecure" in error.message
            and "remove spec.authenticationService.type" in error.message
        )


PLATFORM_NAMES = platform_names(["Mq.Example.com"])


def space_at(name: str, namespace: str, second: int, *hosts: str) -> AddressSpace:
    """A space with host names, created in a second."""
    endpoints = [
        {
            "name": f"e{number}",
            "service": "messaging",
            "expose": {"type": "route", "routeHost": host, "routeServicePort": "amqps"},
        }
        for number, host in enumerate(hosts)
    ]
    data = space(name).document()
    data["spec"]["endpoints"] = endpoints
    one = parse(data)
    assert isinstance(one, AddressSpace)
    stamp = f"2026-01-01T00:00:{second:02}Z"
    uid = f"{name}.{namespace}"
    return one.with_metadata(namespace=namespace, uid=uid, creation_timestamp=stamp)


@pytest.mark.parametrize(
    ("host", "owner"),
    [
        ("shop.south", "a space of another namespace"),
        ("lab.north", "address space lab"),
        ("x.example.com", "address space lab"),
        ("mq.example.com", "the platform itself"),
    ],
)
def test_older_space_cannot_claim_a_name_in_use_as_a_host(host: str, owner: str) -> None:
    others = [space_at("shop", "south", 2), space_at("lab", "north", 3, "x.example.com")]
    before, after = space_at("old", "north", 1), space_at("old", "north", 1, host)
    state = Overlay(DeclaredState([*others, before]), {after.key: after})
    error = first_fault([(after, before)], World(state, False, platform=PLATFORM_NAMES))
    assert isinstance(error, Conflict)
    assert error.faults[0].field == "spec.endpoints[0].expose.routeHost"
    assert f"{host!r} already belongs to {owner}" in error.message


def test_admitted_host_names_are_never_lost() -> None:
    rng = random.Random(2)
    state, accepted = DeclaredState(), 0
    for second in range(60):
        hosts = rng.sample(["mq.example.com", "x.example.com", "shop.a", "lab.b"], rng.randrange(3))
        one = space_at(rng.choice(["shop", "lab", "own"]), rng.choice("abc"), second, *hosts)
        before = state.get(one.key)
        after = Overlay(state, {one.key: one})
        if first_fault([(one, before)], World(after, False, platform=PLATFORM_NAMES)) is None:
            state.put(one.key, one)
            accepted += bool(hosts)
        found = [state.get(key) for key in state.spaces()]
        for kept in (one for one in found if isinstance(one, AddressSpace)):
            assert not {*kept.spec.hosts} & lost_names(state, kept, PLATFORM_NAMES)
    assert accepted > 5
