"""The nodes of a store: identities, starts and heartbeats, outside its resources and versions.

A node is a process with a data folder. Its identity is in the folder and in the store, and at each
start the store raises the start number by compare-and-set: of two processes with one identity, or
two folders with one uid, only one can run.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

from enmasse.base.errors import Code, Conflict
from enmasse.base.node_file import NodeRecord

SILENT_S = 15.0
"""Time without a heartbeat after which a node is not Ready."""

EXCEPTIONS_MAX = 100
"""Maximum addresses that a heartbeat names."""

Role = Literal["leader", "standby"]


class Identity(NamedTuple):
    """One start of a node."""

    name: str
    uid: str
    start: int
    mark: str
    """Random text: two starts with the same number differ in it."""


@dataclass(frozen=True, slots=True)
class AddressProofs:
    """What a node proves of its addresses."""

    digest: str = ""
    """Digest of the uids that it serves as planned; equal digests mean equal sets."""

    exceptions: Mapping[str, str] = field(default_factory=dict)
    """Reasons by uid of addresses that it does not serve as planned, at most EXCEPTIONS_MAX."""

    exception_count: int = 0
    """Number of all of them."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """What a node says of itself."""

    role: Role = "standby"
    zone: str = ""
    version: str = ""
    feature_level: int = 0
    """The highest level of fields and encodings that it reads."""

    endpoints: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Host and port of every listener, by its kind."""

    connections: int = 0
    messages_per_second: float = 0.0
    """Messages received from clients and delivered to clients."""

    is_cordoned: bool = False
    """Whether it refuses new connections: it has seen its cordon."""

    proofs: AddressProofs = AddressProofs()

    def document(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "role": self.role,
            "zone": self.zone,
            "version": self.version,
            "featureLevel": self.feature_level,
            "endpoints": {name: dict(place) for name, place in self.endpoints.items()},
            "connections": self.connections,
            "messagesPerSecond": self.messages_per_second,
            "cordoned": self.is_cordoned,
            "proofs": {
                "digest": self.proofs.digest,
                "exceptions": dict(self.proofs.exceptions),
                "exceptionCount": self.proofs.exception_count,
            },
        }


def heartbeat_of(text: str) -> Heartbeat:
    """Return the heartbeat of a JSON text of this version, an older or a newer one: what it lacks
    has its default, and what is unknown or malformed is ignored.
    """
    try:
        return _heartbeat(json.loads(text))
    except (ValueError, TypeError, AttributeError):
        return Heartbeat()


def _heartbeat(document: Mapping[str, Any]) -> Heartbeat:
    proofs = document.get("proofs") or {}
    return Heartbeat(
        role="leader" if document.get("role") == "leader" else "standby",
        zone=str(document.get("zone", "")),
        version=str(document.get("version", "")),
        feature_level=int(document.get("featureLevel", 0)),
        endpoints=_endpoints(document.get("endpoints")),
        connections=int(document.get("connections", 0)),
        messages_per_second=float(document.get("messagesPerSecond", 0)),
        is_cordoned=document.get("cordoned") is True,
        proofs=AddressProofs(
            str(proofs.get("digest", "")),
            _texts(proofs.get("exceptions")),
            int(proofs.get("exceptionCount", 0)),
        ),
    )


def _endpoints(found: object) -> Mapping[str, Mapping[str, Any]]:
    """Return the well-formed ones: a status is made of them."""
    if not isinstance(found, dict):
        return {}
    return {kind: place for kind, place in found.items() if _is_endpoint(place)}


def _is_endpoint(place: object) -> bool:
    return (
        isinstance(place, dict)
        and isinstance(place.get("host"), str)
        and isinstance(place.get("port"), int)
    )


def _texts(found: object) -> Mapping[str, str]:
    return {key: str(value) for key, value in found.items()} if isinstance(found, dict) else {}


@dataclass(frozen=True, slots=True)
class Registered:
    """A node as the store has it."""

    identity: Identity
    place: str
    """`base.node_file.place_of` its folder."""

    beat: str
    """A text that changes with every heartbeat."""

    silent_s: float | None
    """Time since the last heartbeat; infinite after an orderly stop; None: not observed yet."""

    heartbeat: Heartbeat = Heartbeat()

    @property
    def is_stopped(self) -> bool:
        """Whether it has stopped in order."""
        return self.silent_s == math.inf

    @property
    def is_silent(self) -> bool:
        """Whether its process has gone, as far as the store tells."""
        return self.silent_s is not None and self.silent_s >= SILENT_S


class NodeRegistry(Protocol):
    """The nodes of a store. Every process of the store has it."""

    @property
    def beat_interval_s(self) -> float:
        """Interval of heartbeats."""

    async def list(self) -> Sequence[Registered]:
        """Return all nodes, by name.

        Raises: Unavailable.
        """

    async def claim(self, former: Registered | None, identity: Identity, place: str) -> bool:
        """Make `identity` the node of its name, if that still is `former` (None: there is none);
        return whether it was. The node then counts as alive.

        Raises: Unavailable.
        """

    async def beat(self, identity: Identity, heartbeat: Heartbeat) -> None:
        """Record a heartbeat.

        Raises: Conflict (NODE_REPLACED) if the store has another start, or none; Unavailable.
        """

    async def stop(self, identity: Identity) -> None:
        """Record that a node has stopped in order; ignored if the store has another start.

        Raises: Unavailable.
        """

    async def forget(self, name: str, *, dry_run: bool = False) -> None:
        """Delete a silent node, within a turn of the store. A node that is missing is forgotten
        already. `dry_run` only checks.

        Raises: Conflict if it is not silent, or has homes; Unavailable.
        """


class Claim(NamedTuple):
    """What a starting process asks of the store."""

    name: str
    uid: str | None
    """None: a new one."""

    former: Registered | None
    """The node that it replaces."""

    start: int


def claim_of(record: NodeRecord | None, name: str, known: Sequence[Registered], file: str) -> Claim:
    """Decide how a process with the folder record `record` joins the nodes `known` as `name`. Pure.

    `file` is the path of the record, for errors.

    Raises: Conflict (NODE_TAKEN) if it must not; the message names the remedy.
    """
    named = next((one for one in known if one.identity.name == name), None)
    own = None
    if record is not None:
        own = next((one for one in known if one.identity.uid == record.uid), None)
    if record is None or (own is None and (named is None or record.start == 0)):
        # A new folder, one of a forgotten node, of another store, or one whose first start was
        # interrupted before it reached the store. The uid is new in each case, so that uid and
        # start number never occur twice.
        return Claim(name, None, named, 1)
    as_new = f"delete {file}: the folder then becomes a new node"
    if own is None:
        assert named is not None
        raise _taken(
            f"node {name!r} of this store has another data folder (uid {named.identity.uid}); start"
            f" with another --node-name, or with that folder. If that is lost, {as_new}"
        )
    if own.identity.name != name:
        raise _taken(
            f"the data folder belongs to node {own.identity.name!r}, and --node-name is {name!r};"
            f" start with --node-name {own.identity.name}, or {as_new}"
        )
    known_start, known_mark = own.identity.start, own.identity.mark
    is_latest = known_mark in (record.mark, record.next_mark)
    if not is_latest and known_start >= record.start:
        raise _taken(
            f"node {name!r} was started {known_start} times, and its data folder knows of"
            f" {record.start}: the folder was copied or restored. Start with the folder of the last"
            f" start. If that is lost, {as_new}"
        )
    # A store that was restored has an older start: the numbers go on from the folder's.
    return Claim(name, record.uid, own, max(known_start, record.start) + 1)


def running(name: str) -> Conflict:
    """Return the error of a start while another process is the node."""
    return _taken(
        f"another process runs as node {name!r}; this one has the same --node-name, or a copy of"
        " its data folder: stop that process, or start with another folder and another --node-name"
    )


def replaced(identity: Identity) -> Conflict:
    """Return the error of a node whose identity the store gave to another start, or deleted."""
    return Conflict(
        Code.NODE_REPLACED,
        f"node {identity.name!r} was started by another process, or forgotten, since its start"
        f" {identity.start}; end that process, or restart this one",
    )


def has_free_other(name: str, nodes: Sequence[Registered]) -> bool:
    """Whether a node other than `name` is alive, or may be, and admits connections. Pure.

    A cordoned node leaves the lead to it: as the leader it would refuse all clients.
    """
    return any(
        not one.is_silent and not one.heartbeat.is_cordoned
        for one in nodes
        if one.identity.name != name
    )


def check_forgettable(name: str, nodes: Sequence[Registered]) -> None:
    """Check that a node may be forgotten.

    Raises: Conflict if it is not silent, or is the last that served addresses: its folder has their
        messages.
    """
    node = next((one for one in nodes if one.identity.name == name), None)
    if node is None:
        return
    if node.silent_s is None:
        raise Conflict(
            Code.NODE_TAKEN,
            f"node {name!r} has been observed for less than {SILENT_S:.0f} s, so it may be running;"
            f" stop its process first, and try again in {SILENT_S:.0f} s",
        )
    if not node.is_silent:
        raise Conflict(
            Code.NODE_TAKEN,
            f"node {name!r} is running, or was until {SILENT_S:.0f} s ago; stop its process first",
        )
    others = [one for one in nodes if one is not node and one.heartbeat.role == "leader"]
    if node.heartbeat.role == "leader" and not any(not one.is_silent for one in others):
        raise Conflict(
            Code.NODE_TAKEN,
            f"node {name!r} was the last that served the addresses, and its data folder has their"
            " messages; start it again, or wait until another node leads",
        )


def _taken(message: str) -> Conflict:
    return Conflict(Code.NODE_TAKEN, message)
