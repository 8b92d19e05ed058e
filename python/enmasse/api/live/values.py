"""Live values of spaces and namespaces, and the keys by which lists are sorted. Pure."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from enmasse.api.monitoring.samples import Sample
from enmasse.engines import AddressStatistics
from enmasse.resources import Address, AddressSpace, Resource

AddressValues = Callable[[Sample], Mapping[str, float]]
"""Returns a value of addresses by their uids, where it is not 0."""


def _gauge(of: Callable[[AddressStatistics], float]) -> AddressValues:
    return lambda sample: {
        uid: value for uid, one in sample.now.addresses.items() if (value := of(one))
    }


def _rate(counter: str) -> AddressValues:
    return lambda sample: sample.rates(counter)


ADDRESS_VALUES: Mapping[str, AddressValues] = {
    "senders": _gauge(lambda one: one.senders),
    "receivers": _gauge(lambda one: one.receivers),
    "waiting": _gauge(lambda one: one.waiting),
    "stored": _gauge(lambda one: one.stored),
    "storedBytes": _gauge(lambda one: one.stored_bytes),
    "inFlight": _gauge(lambda one: one.in_flight),
    "oldestAge": _gauge(lambda one: one.oldest_age_s),
    "enqueuedRate": _rate("enqueued"),
    "deliveredRate": _rate("delivered"),
    "bytesRate": _rate("bytes"),
    "deadLettered": _gauge(lambda one: one.dead_rejected + one.dead_attempts + one.dead_expired),
}
"""Live keys of addresses."""

SPACE_VALUES: Mapping[str, str] = {
    "addresses": "addresses",
    "connections": "connections",
    "stored": "stored",
    "storedBytes": "storedBytes",
    "messagesInRate": "messagesInPerSecond",
    "messagesOutRate": "messagesOutPerSecond",
}
"""Live keys of spaces, with their members in `LiveSpace`."""

LiveSpace = dict[str, float]


@dataclass(slots=True)
class _Sums:
    """Sums over the addresses of a space."""

    addresses: int = 0
    stored: int = 0
    stored_bytes: int = 0
    enqueued_rate: float = 0.0
    delivered_rate: float = 0.0
    bytes_rate: float = 0.0


def live_space(sample: Sample, space: str) -> LiveSpace:
    """Return the live values of a space, `NAME.NAMESPACE`."""
    sums = _by_space(sample).get(space) or _Sums()
    traffic = sample.now.spaces.get(space)
    return {
        "addresses": sums.addresses,
        "connections": traffic.connections if traffic else 0,
        "links": traffic.links if traffic else 0,
        "stored": sums.stored,
        "storedBytes": sums.stored_bytes,
        "messagesInPerSecond": sample.space_rate(space, "messages_in"),
        "messagesOutPerSecond": sample.space_rate(space, "messages_out"),
        "bytesInPerSecond": sample.space_rate(space, "bytes_in"),
        "bytesOutPerSecond": sample.space_rate(space, "bytes_out"),
    }


def totals(sample: Sample, spaces: Iterable[AddressSpace]) -> dict[str, float]:
    """Return the sums over spaces."""
    names = [full_name(one) for one in spaces]
    by_space = _by_space(sample)
    sums = [by_space[name] for name in names if name in by_space]
    traffic = [sample.now.spaces[name] for name in names if name in sample.now.spaces]
    return {
        "spaces": len(names),
        "addresses": sum(one.addresses for one in sums),
        "connections": sum(one.connections for one in traffic),
        "stored": sum(one.stored for one in sums),
        "storedBytes": sum(one.stored_bytes for one in sums),
        "enqueuedPerSecond": round(sum(one.enqueued_rate for one in sums), 1),
        "deliveredPerSecond": round(sum(one.delivered_rate for one in sums), 1),
        "bytesPerSecond": round(sum(one.bytes_rate for one in sums), 1),
    }


def full_name(space: AddressSpace) -> str:
    """Return the name of a space in statistics."""
    return f"{space.metadata.name}.{space.metadata.namespace}"


DECLARED_KEYS: Mapping[str, Callable[[Any], object]] = {
    "name": lambda one: one.metadata.name,
    "namespace": lambda one: one.metadata.namespace,
    "type": lambda one: one.spec.type,
    "plan": lambda one: one.spec.plan or "",
    "phase": lambda one: one.status.phase,
    "created": lambda one: one.metadata.creation_timestamp or "",
}
"""Keys that do not depend on a sample."""


def sort_keys(model: type[Resource]) -> tuple[str, ...]:
    """Return the sort keys of a kind; none if it cannot be sorted."""
    if model is Address:
        return (*DECLARED_KEYS, *ADDRESS_VALUES)
    if model is AddressSpace:
        return (*DECLARED_KEYS, *SPACE_VALUES)
    return ()


def is_live(key: str) -> bool:
    """Whether a sort key needs a sample."""
    return key not in DECLARED_KEYS


def sort_value(model: type[Resource], key: str, sample: Sample | None) -> Callable[[Any], Any]:
    """Return the function that gives a resource of a kind its value of a sort key."""
    if key in DECLARED_KEYS:
        return DECLARED_KEYS[key]
    assert sample is not None
    if model is AddressSpace:
        member = SPACE_VALUES[key]
        return lambda space: live_space(sample, full_name(space))[member]
    values = address_values(sample, key)
    return lambda one: values.get(one.metadata.uid, 0)


def address_values(sample: Sample, key: str) -> Mapping[str, float]:
    """Return a live value of the addresses of a sample by uid, where it is not 0; computed once."""
    name = f"addresses {key}"
    found = sample.derived.get(name)
    if found is None:
        found = sample.derived[name] = ADDRESS_VALUES[key](sample)
    return cast(Mapping[str, float], found)


def _by_space(sample: Sample) -> Mapping[str, _Sums]:
    """Return the sums by space, computed once per sample."""
    found = sample.derived.get("by_space")
    if found is None:
        by_space: dict[str, _Sums] = {}
        for one in sample.now.addresses.values():
            if (sums := by_space.get(one.space)) is None:
                sums = by_space[one.space] = _Sums()
            sums.addresses += 1
            sums.stored += one.stored
            sums.stored_bytes += one.stored_bytes
        addresses = sample.now.addresses
        for uid, rate in address_values(sample, "enqueuedRate").items():
            by_space[addresses[uid].space].enqueued_rate += rate
        for uid, rate in address_values(sample, "deliveredRate").items():
            by_space[addresses[uid].space].delivered_rate += rate
        for uid, rate in address_values(sample, "bytesRate").items():
            by_space[addresses[uid].space].bytes_rate += rate
        found = sample.derived["by_space"] = by_space
    assert isinstance(found, dict)
    return found
