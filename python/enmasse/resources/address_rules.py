"""Rules between fields of an address: by type, mutual exclusion, and immutability."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from enmasse.base.errors import Fault
from enmasse.base.kinds import STORED
from enmasse.resources import forwarders
from enmasse.resources.model import Model, cannot_change

if TYPE_CHECKING:
    from enmasse.resources.address import Address, AddressSpec

_PRODUCED_TO = ("queue", "topic")
_DELIVERED_FROM = ("queue", "topic", "subscription")
"""Types that store messages."""

ALLOWED: dict[str, tuple[str, ...]] = {
    "topic": ("subscription",),
    "subscription": ("subscription",),
    "deadletter": _DELIVERED_FROM,
    "expiry": _DELIVERED_FROM,
    "messageTtl": ("queue", "topic", "deadletter"),
    "messageRedelivery": _DELIVERED_FROM,
    "treatRejectAsUnmodifiedDeliveryFailed": _DELIVERED_FROM,
    "durability": ("queue", "topic", "deadletter"),
    "duplicateDetection": _PRODUCED_TO,
    "retention": ("topic",),
    "partitions": ("topic",),
    "limits.messages": STORED,
    "limits.bytes": STORED,
    "limits.messageSize": ("anycast", "multicast", *_PRODUCED_TO),
    "limits.consumers": ("queue", "topic", "deadletter"),
    "limits.producers": _PRODUCED_TO,
    "limits.onFull": STORED,
    "lastValueKey": ("queue", "subscription"),
    "singleActiveConsumer": ("queue", "subscription"),
    "groups": ("queue", "subscription"),
    "forwarders": ("queue", "subscription"),
}
"""Types that support a field; type, address, plan and protocols apply to all."""

NOT_ON_STREAMS = (
    "deadletter",
    "expiry",
    "messageTtl",
    "messageRedelivery",
    "treatRejectAsUnmodifiedDeliveryFailed",
    "limits.messages",
    "limits.bytes",
    "limits.onFull",
)
"""Fields that a stream does not support: only its retention removes messages."""

ONLY_ON_STREAMS = ("partitions", "duplicateDetection")
"""Fields that a topic supports only as a stream."""

NAME_BYTES_MAX = 1024


def faults(address: "Address") -> list[Fault]:
    """Return errors of combinations of fields."""
    spec = address.spec
    together = (
        *_of_the_type(spec),
        *_of_a_stream(spec),
        *_of_the_name(address),
        *_contradictions(spec),
    )
    return [*together, *forwarders.faults_of(spec.forwarders or (), spec.type)]


def refused_changes(address: "Address", before: "Address") -> list[Fault]:
    """Return errors of changes that stored messages do not allow."""
    now, was = address.spec, before.spec
    found = []
    if (now.durability or "disk") != (was.durability or "disk"):
        found.append(cannot_change("spec.durability", was.durability or "disk"))
    if now.last_value_key != was.last_value_key:
        found.append(cannot_change("spec.lastValueKey", was.last_value_key))
    if now.type == "subscription" and address.max_consumers != before.max_consumers:
        found.append(cannot_change("spec.subscription.maxConsumers", before.max_consumers))
    if (now.retention is None) != (was.retention is None):
        found.append(
            Fault(
                "spec.retention",
                "cannot be added or removed; delete the resource and create it again",
            )
        )
    elif (now.partitions or 1) < (was.partitions or 1):
        found.append(
            Fault("spec.partitions", f"cannot be reduced (current: {was.partitions or 1})")
        )
    return found


def given(spec: "AddressSpec") -> Iterator[str]:
    """Yield the fields of ALLOWED in a spec, by document name."""
    named = _values(spec)
    limits = {f"limits.{name}": one for name, one in _values(spec.limits).items()}
    yield from (name for name in ALLOWED if {**named, **limits}.get(name) is not None)


def _values(model: Model | None) -> dict[str, object]:
    if model is None:
        return {}
    return {
        field.alias or name: getattr(model, name)
        for name, field in type(model).model_fields.items()
    }


def _of_the_type(spec: "AddressSpec") -> Iterator[Fault]:
    for name in given(spec):
        if spec.type not in ALLOWED[name]:
            *others, last = ALLOWED[name]
            able = f"{', '.join(others)} and {last}" if others else last
            yield Fault(f"spec.{name}", f"is not supported by type {spec.type}, only by {able}")
    if spec.type == "subscription" and not spec.topic:
        yield Fault("spec.topic", "is required: the address of the topic it belongs to")


def _of_a_stream(spec: "AddressSpec") -> Iterator[Fault]:
    if spec.type != "topic":
        return
    if spec.retention is None:
        for name in given(spec):
            if name in ONLY_ON_STREAMS:
                yield Fault(f"spec.{name}", "requires spec.retention on a topic")
        return
    if spec.retention.bytes is None and spec.retention.age is None:
        yield Fault("spec.retention", "must have bytes, age or both")
    for name in given(spec):
        if name in NOT_ON_STREAMS:
            yield Fault(
                f"spec.{name}", "a topic with spec.retention cannot have it; remove one of them"
            )


def _of_the_name(address: "Address") -> Iterator[Fault]:
    spec = address.spec
    if spec.address == "#" and spec.type not in ("anycast", "multicast", "topic"):
        yield Fault(
            "spec.address",
            "`#` (open name space) is supported by anycast, multicast and topic only",
        )
    if len(address.name.encode()) > NAME_BYTES_MAX:
        yield Fault(
            "spec.address",
            f"with its topic, {address.name[:40]}..., it is longer than {NAME_BYTES_MAX} bytes",
        )


def _contradictions(spec: "AddressSpec") -> Iterator[Fault]:
    ttl, redelivery, limits = spec.message_ttl, spec.message_redelivery, spec.limits
    if ttl and ttl.minimum and ttl.maximum and ttl.minimum > ttl.maximum:
        yield Fault("spec.messageTtl", f"minimum {ttl.minimum} is above maximum {ttl.maximum}")
    if redelivery and redelivery.maximum_delivery_delay is not None:
        delay, longest = redelivery.redelivery_delay or 0, redelivery.maximum_delivery_delay
        if delay > longest:
            yield Fault(
                "spec.messageRedelivery",
                f"redeliveryDelay {delay} is above maximumDeliveryDelay {longest}",
            )
    # A subscription may inherit its limits from its topic.
    if limits and limits.on_full and spec.type != "subscription":
        if limits.messages is None and limits.bytes is None:
            yield Fault("spec.limits.onFull", "needs limits.messages or limits.bytes")
    yield from refusing_dead_letter(spec.type, limits.on_full if limits else None)


def refusing_dead_letter(type_: str, on_full: str | None) -> Iterator[Fault]:
    """Yield an error if a dead letter should refuse messages, which have no other destination."""
    if type_ == "deadletter" and on_full not in (None, "dropOldest"):
        yield Fault(
            "spec.limits.onFull",
            f"a dead letter cannot {on_full} messages of other addresses; use dropOldest",
        )
