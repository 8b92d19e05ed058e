"""The fields that an address may have, and the changes that it allows."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doubles import address, deadletter, queue, subscription, topic
from enmasse.base.errors import EnMasseError, Invalid
from enmasse.plan.schema import plan_schema
from enmasse.resources import Address, in_order, parse
from enmasse.resources.address import TYPES, AddressSpec, NodeSettings
from enmasse.resources.address_rules import ALLOWED, NOT_ON_STREAMS, ONLY_ON_STREAMS

VALUES: dict[str, Any] = {
    "topic": "news",
    "subscription": {"maxConsumers": 2},
    "deadletter": "dead",
    "expiry": "dead",
    "messageTtl": {"minimum": 10, "maximum": "1h"},
    "messageRedelivery": {"maximumDeliveryAttempts": 3, "redeliveryDelay": 5},
    "treatRejectAsUnmodifiedDeliveryFailed": True,
    "durability": "memory",
    "duplicateDetection": {"ids": 5},
    "retention": {"age": "7d"},
    "partitions": 3,
    "limits.messages": 5,
    "limits.bytes": "1GiB",
    "limits.messageSize": 100,
    "limits.consumers": 2,
    "limits.producers": 3,
    "limits.onFull": "reject",
    "lastValueKey": "stock",
    "singleActiveConsumer": False,
    "groups": "perKey",
    "forwarders": [{"name": "f", "remoteAddress": "far/a", "direction": "out"}],
}


def sample(alias: str) -> Any:
    """A value of a setting that the node gets as it is."""
    first = plan_schema()["$defs"]["PlannedAddress"]["properties"][alias]["anyOf"][0]
    if "enum" in first:
        return first["enum"][0]
    return {"integer": first.get("minimum", 0), "boolean": True, "string": "x"}[first["type"]]


for setting in NodeSettings.model_fields.values():
    if setting.alias in ALLOWED:
        VALUES.setdefault(setting.alias, sample(setting.alias))


def spec_with(type_: str, names: list[str]) -> dict[str, Any]:
    spec: dict[str, Any] = {"type": type_, "address": "a"}
    for name in names:
        member, _, inner = name.partition(".")
        if inner:
            spec.setdefault(member, {})[inner] = VALUES[name]
        else:
            spec[member] = VALUES[name]
    return spec


def faults_of(spec: dict[str, Any]) -> set[str]:
    try:
        parse(
            {
                "apiVersion": "enmasse.io/v1beta1",
                "kind": "Address",
                "metadata": {"name": "default.a"},
                "spec": spec,
            }
        )
    except EnMasseError as error:
        return {fault.field.removeprefix("spec.") for fault in error.faults}
    return set()


def test_field_table_covers_every_type_specific_field() -> None:
    fields = {field.alias for field in AddressSpec.model_fields.values()}
    in_table = {name.partition(".")[0] for name in ALLOWED}
    assert in_table == fields - {"type", "address", "plan", "protocols"}
    assert set(VALUES) == set(ALLOWED)
    assert {type_ for types in ALLOWED.values() for type_ in types} <= set(TYPES)


@settings(deadline=None)
@given(type_=st.sampled_from(TYPES), names=st.lists(st.sampled_from(list(ALLOWED)), unique=True))
def test_field_is_allowed_exactly_for_the_types_in_the_table(type_: str, names: list[str]) -> None:
    expected = {name for name in names if type_ not in ALLOWED[name]}
    if type_ == "topic":
        unfit = NOT_ON_STREAMS if "retention" in names else ONLY_ON_STREAMS
        expected |= set(names) & set(unfit)
    if type_ == "subscription" and "topic" not in names:
        expected.add("topic")
    bounded = {"limits.messages", "limits.bytes"} & set(names)
    if "limits.onFull" in names and not bounded and type_ != "subscription":
        expected.add("limits.onFull")
    if "limits.onFull" in names and type_ == "deadletter":
        expected.add("limits.onFull")  # `VALUES` has reject
    assert faults_of(spec_with(type_, names)) == expected


@settings(deadline=None)
@given(type_=st.sampled_from(TYPES), names=st.lists(st.sampled_from(list(ALLOWED)), unique=True))
def test_valid_address_round_trips_through_its_document(type_: str, names: list[str]) -> None:
    spec = spec_with(type_, names)
    if faults_of(spec):
        return
    document = {
        "apiVersion": "enmasse.io/v1beta1",
        "kind": "Address",
        "metadata": {"name": "default.a"},
        "spec": spec,
    }
    resource = parse(document)
    shown = resource.document()
    assert set(shown["spec"]) == set(spec)
    assert parse(shown) == resource
    assert parse(shown, stored=True) == resource


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("250ms", 250), ("60s", 60_000), ("1m", 60_000), ("2h", 7_200_000), ("1w", 604_800_000),
     ("77", 77), (77, 77)],
)  # fmt: skip
def test_a_time_may_have_a_unit(text: object, milliseconds: int) -> None:
    ttl = queue(messageTtl={"maximum": text}).spec.message_ttl
    assert ttl is not None and ttl.maximum == milliseconds


@pytest.mark.parametrize(
    ("text", "size"),
    [("5B", 5), ("1kB", 1000), ("2MB", 2_000_000), ("1KiB", 1024), ("3Mi", 3 << 20),
     ("1GiB", 1 << 30), ("4096", 4096)],
)  # fmt: skip
def test_a_size_may_have_a_unit(text: object, size: int) -> None:
    limits = queue(limits={"bytes": text}).spec.limits
    assert limits is not None and limits.bytes == size


@pytest.mark.parametrize("text", ["", "-1", "1.5h", "1 h", "h", "1H", "٣s", "9" * 16 + "s", "1e3"])
def test_invalid_duration_is_rejected(text: str) -> None:
    with pytest.raises(Invalid, match="is not an integer of milliseconds"):
        queue(messageTtl={"maximum": text})


def test_subscription_is_also_named_with_its_topic() -> None:
    night = subscription()
    assert night.name == "news::night"
    assert night.names == ("night", "news::night")
    assert night.max_consumers == 1
    assert subscription(max_consumers=4).max_consumers == 4
    assert queue().names == ("orders",)


def test_full_subscription_name_has_a_length_bound() -> None:
    assert subscription(topic="t" * 1017).name
    with pytest.raises(Invalid, match="it is longer than 1024 bytes"):
        subscription(topic="t" * 1018)


UNCHANGEABLE = {
    "spec.type": (queue(), address()),
    "spec.address": (queue(), address("default.orders", "queue", "other")),
    "spec.topic": (subscription(), subscription(topic="views")),
    "spec.subscription.maxConsumers": (subscription(), subscription(max_consumers=2)),
    "spec.durability": (queue(), queue(durability="memory")),
    "spec.lastValueKey": (queue(), queue(lastValueKey="stock")),
    "spec.retention": (topic(), topic(retention={"age": "1d"})),
    "spec.partitions": (
        topic(retention={"age": "1d"}, partitions=4),
        topic(retention={"age": "1d"}, partitions=3),
    ),
}


@pytest.mark.parametrize("field", UNCHANGEABLE)
def test_change_of_an_immutable_field_is_rejected(field: str) -> None:
    before, after = UNCHANGEABLE[field]
    found = after.refused_changes(before)
    assert [fault.field for fault in found] == [field]
    assert "cannot" in found[0].message
    assert after.refused_changes(after) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (queue(), queue(durability="disk", limits={"messages": 5}, groups="none")),
        (queue(deadletter="dead"), queue(expiry="dead", messageTtl={"maximum": 5})),
        (subscription(), subscription(max_consumers=1, singleActiveConsumer=True)),
        (topic(retention={"age": "1d"}), topic(retention={"bytes": 5}, partitions=1)),
        (topic(retention={"age": "1d"}), topic(retention={"age": "1d"}, partitions=9)),
        (deadletter(), deadletter(limits={"messages": 5})),
    ],
)
def test_mutable_fields_can_change(before: Address, after: Address) -> None:
    assert after.refused_changes(before) == []
    assert before.refused_changes(after)[1:] == []


def test_in_order_puts_referenced_addresses_first() -> None:
    mixed = [subscription(), queue(), topic(), deadletter(), address("default.a")]
    assert [one.spec.type for one in in_order(mixed) if isinstance(one, Address)] == [
        "deadletter", "queue", "topic", "anycast", "subscription",
    ]  # fmt: skip
