"""Live values of spaces and namespaces, and the keys by which lists are sorted. Pure."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from enmasse.api.monitoring.samples import Sample
from enmasse.engines import AddressStatistics
from enmasse.resources import Address, AddressSpace, Resource

AddressValue = Callable[[Sample, str], float]
"""Returns a value of an address by its uid."""

ADDRESS_VALUES: Mapping[str, AddressValue] = {
    "senders": lambda sample, uid: sample.address(uid).senders,
    "receivers": lambda sample, uid: sample.address(uid).receivers,
    "waiting": lambda sample, uid: sample.address(uid).waiting,
    "stored": lambda sample, uid: sample.address(uid).stored,
    "storedBytes": lambda sample, uid: sample.address(uid).stored_bytes,
    "inFlight": lambda sample, uid: sample.address(uid).in_flight,
    "oldestAge": lambda sample, uid: sample.address(uid).oldest_age_s,
    "enqueuedRate": lambda sample, uid: sample.rate(uid, "enqueued"),
    "deliveredRate": lambda sample, uid: sample.rate(uid, "delivered"),
    "bytesRate": lambda sample, uid: sample.rate(uid, "bytes"),
    "deadLettered": lambda sample, uid: _dead_lettered(sample.address(uid)),
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


def sort_value(key: str, sample: Sample | None) -> Callable[[Any], Any]:
    """Return the function that gives a resource its value of a sort key."""
    if key in DECLARED_KEYS:
        return DECLARED_KEYS[key]
    assert sample is not None
    if key in SPACE_VALUES and key not in ADDRESS_VALUES:
        member = SPACE_VALUES[key]
        return lambda space: live_space(sample, full_name(space))[member]
    value = ADDRESS_VALUES[key]

    def of(one: Resource) -> float:
        if isinstance(one, AddressSpace):
            return live_space(sample, full_name(one))[SPACE_VALUES[key]]
        return value(sample, one.metadata.uid or "")

    return of


def _dead_lettered(one: AddressStatistics) -> int:
    return one.dead_rejected + one.dead_attempts + one.dead_expired


def _by_space(sample: Sample) -> Mapping[str, _Sums]:
    """Return the sums by space, computed once per sample."""
    found = sample.derived.get("by_space")
    if found is None:
        by_space: dict[str, _Sums] = {}
        for uid, one in sample.now.addresses.items():
            sums = by_space.setdefault(one.space, _Sums())
            sums.addresses += 1
            sums.stored += one.stored
            sums.stored_bytes += one.stored_bytes
            sums.enqueued_rate += sample.rate(uid, "enqueued")
            sums.delivered_rate += sample.rate(uid, "delivered")
            sums.bytes_rate += sample.rate(uid, "bytes")
        found = sample.derived["by_space"] = by_space
    assert isinstance(found, dict)
    return found
