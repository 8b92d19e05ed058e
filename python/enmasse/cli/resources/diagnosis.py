"""Explains why an address is not ready, or why no messages pass, by a series of checks. Pure.

The control plane decides; its decisions are in the conditions of the address and its space. A
check selects what concerns it from the API's data, and adds the command that remedies it. The order
follows the path of an address: space, name, plan, quota, references, control loop, node,
certificate, disk, clients.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from enmasse.base.data_dir import Leftovers
from enmasse.base.kinds import STORED
from enmasse.plan.reasons import REMEDIES

Document = Mapping[str, Any]


class State(StrEnum):
    """Severity of a finding."""

    OK = "ok"
    NOTE = "note"
    """No error, but possibly not intended."""

    ERROR = "trouble"


class Finding(NamedTuple):
    """The finding of one check."""

    check: str
    state: State
    message: str
    remedy: str = ""


@dataclass(frozen=True)
class Facts:
    """The input of the checks."""

    document: Document
    """The address as returned by the API, with statistics."""

    space: Document | None
    """Its address space as returned by the API."""

    health: str = "ok"
    """The health report of the platform."""

    nodes: Sequence[Document] = ()
    """The nodes of the platform as returned by the API; none if the caller may not read them."""

    handshake: str | None = None
    """Why TLS fails for clients that trust the space's CA only, or None."""

    @property
    def name(self) -> str:
        """The address for clients."""
        found: str = self.document["spec"]["address"]
        return found

    @property
    def type(self) -> str:
        """The type of the address."""
        found: str = self.document["spec"]["type"]
        return found

    @property
    def space_name(self) -> str:
        """Its address space."""
        found: str = self.document["metadata"]["name"]
        return found.partition(".")[0]

    @property
    def statistics(self) -> Document:
        """Its statistics."""
        found: Document = self.document.get("status", {}).get("statistics", {})
        return found


def explain_stopped(reason: str, left: Leftovers) -> list[Finding]:
    """Return why no platform responds, by the state that one left in its data folder."""
    found = [Finding("platform", State.ERROR, reason, "enmasse up")]
    if not left.has_data:
        message = "the data folder is empty or missing: no platform has used it"
        found.append(Finding("data", State.NOTE, message, "set --data, or ENMASSE_DATA"))
    if left.is_restoring:
        message = "a backup was not restored completely; no platform starts on the folder"
        found.append(Finding("data", State.ERROR, message, "repeat enmasse restore"))
    if left.owner is not None:
        message = f"process {left.owner} uses the folder and does not answer"
        remedy = "wait if it starts or stops; otherwise see its output, and end it"
        found.append(Finding("process", State.ERROR, message, remedy))
    elif left.has_endpoint:
        message = "the last process ended without stopping in order"
        found.append(Finding("process", State.NOTE, message, "see its output for the reason"))
    return found


def diagnose(facts: Facts) -> list[Finding]:
    """Return the findings of all checks in order; a check without a finding is ok."""
    found = []
    for name, check in CHECKS.items():
        findings = list(check(facts))
        found += findings or [Finding(name, State.OK, _FINE[name])]
    return found


def _space(facts: Facts) -> Iterator[Finding]:
    name = facts.space_name
    if facts.space is None:
        yield Finding(
            "address space",
            State.ERROR,
            f"address space {name!r} not found",
            f"enmasse create addressspace {name}",
        )
    elif not facts.space.get("status", {}).get("isReady"):
        status = facts.space.get("status", {})
        status_text = "; ".join(status.get("messages", [])) or status.get("phase", "Pending")
        yield Finding(
            "address space",
            State.ERROR,
            f"address space {name!r} is not ready: {status_text}",
            f"enmasse describe addressspace {name}",
        )


def _declared(check: str) -> Callable[[Facts], Iterator[Finding]]:
    """Return the check for reasons of one part of the address."""

    def find(facts: Facts) -> Iterator[Finding]:
        ready = _ready(facts)
        remedy = REMEDIES.get(ready.get("reason", ""))
        if remedy is not None and remedy.about == check and ready.get("status") != "True":
            text = remedy.text.format(address=facts.name)
            yield Finding(check, State.ERROR, ready.get("message", ""), text)

    return find


def _control(facts: Facts) -> Iterator[Finding]:
    metadata, status = facts.document["metadata"], facts.document.get("status", {})
    if metadata.get("deletionTimestamp"):
        keep = ", ".join(metadata.get("finalizers", []))
        yield Finding(
            "control",
            State.ERROR,
            f"it is being deleted and waits for finalizers: {keep}",
            "complete the work of the finalizers, or remove them with enmasse edit",
        )
        return
    # A status of an older generation describes another spec; its conditions are reported as well.
    if status.get("observedGeneration", 0) < metadata.get("generation", 0):
        yield Finding(
            "control",
            State.ERROR,
            "the control loop has not processed the last change yet",
            "see enmasse logs --level warning",
        )
    ready = _ready(facts)
    if ready.get("status") != "True":
        reason, message = ready.get("reason", "Pending"), ready.get("message", "")
        yield Finding(
            "control",
            State.ERROR,
            f"not ready since {ready.get('lastTransitionTime', 'it was made')}: {reason}"
            + (f": {message}" if message else ""),
            remedy.text
            if (remedy := REMEDIES.get(reason)) and remedy.about == "control"
            else "follow the remedies above; otherwise see enmasse logs",
        )


def _node(facts: Facts) -> Iterator[Finding]:
    problem = facts.health.partition(";")[2].strip()
    if problem:
        direct = facts.type not in STORED
        state = State.NOTE if direct else State.ERROR
        yield Finding(
            "node",
            state,
            f"the node reports: {problem}",
            "correct the cause and restart the platform",
        )
    elif facts.health != "ok":
        yield Finding("node", State.ERROR, facts.health, "wait until it is ready")


def _nodes(facts: Facts) -> Iterator[Finding]:
    for node in facts.nodes:
        name, status = node["metadata"]["name"], node.get("status", {})
        if not status.get("isReady"):
            why = "; ".join(status.get("messages", [])) or "it has not been observed yet"
            message, _, remedy = why.partition("; ")
            yield Finding("nodes", State.NOTE, f"node {name} is not ready: {message}", remedy)
        elif node["spec"].get("cordoned"):
            message = f"node {name} is cordoned: it admits no new connections"
            yield Finding("nodes", State.NOTE, message, f"enmasse node uncordon {name}")


def _room(facts: Facts) -> Iterator[Finding]:
    status, stored = facts.document.get("status", {}), facts.statistics.get("stored", {})
    limits = status.get("limits", {})
    full = [
        f"{stored[name]:,} of {limits[name]:,} {name}"
        for name in ("messages", "bytes")
        if stored.get(name) and limits.get(name) and stored[name] >= limits[name]
    ]
    if full:
        then = {"reject": "refused", "dropOldest": "replace the oldest"}
        yield Finding(
            "room",
            State.ERROR,
            f"it is full ({', '.join(full)}): new messages"
            f" {then.get(limits.get('onFull', ''), 'wait')}",
            "receive from it, enmasse purge, or a larger limit (enmasse edit)",
        )
    if facts.statistics.get("damaged"):
        yield Finding(
            "room",
            State.NOTE,
            f"{facts.statistics['damaged']:,} messages were lost to damage at rest",
            "check the disk and enmasse logs",
        )
    yield from _of_space("room")(facts)


def _clients(facts: Facts) -> Iterator[Finding]:
    statistics, type_ = facts.statistics, facts.type
    if not statistics:
        return
    senders, receivers = statistics.get("senders", 0), statistics.get("receivers", 0)
    if type_ in ("anycast", "multicast") and senders and not receivers:
        yield Finding(
            "clients",
            State.NOTE,
            f"{senders} senders wait: a direct address accepts messages only"
            " while it has a receiver",
            f"start a receiver (enmasse receive {facts.name}), or use an address of type queue",
        )
    depth = statistics.get("stored", {}).get("messages", 0)
    if depth and not receivers and type_ in ("queue", "subscription"):
        yield Finding(
            "clients", State.NOTE, f"{depth:,} messages are stored and there is no receiver"
        )


class _OfSpace(NamedTuple):
    """What a condition of the address space means for its addresses, while it is false."""

    check: str
    state: State
    message: str = "{}"
    remedy: str = ""


_CONDITIONS = {
    "Sending": _OfSpace(
        "allowance",
        State.ERROR,
        "senders of the space get no credit: {}",
        "wait for the next period, or choose a larger plan (enmasse plan usage)",
    ),
    "LoginPossible": _OfSpace(
        "access",
        State.NOTE,
        "address space {space!r}: {}",
        "enmasse user create NAME --space {space}",
    ),
    "MessagesIntact": _OfSpace(
        "room",
        State.NOTE,
        remedy="restore a backup from before the damage (enmasse restore), or delete these"
        " messages: enmasse up --discard-unnamed",
    ),
    "CertificateProvided": _OfSpace(
        "certificate",
        State.NOTE,
        remedy="trust status.caCert of the space, or remove spec.endpoints[].cert",
    ),
}


def _of_space(check: str) -> Callable[[Facts], Iterator[Finding]]:
    """Return the check of the space's conditions."""

    def find(facts: Facts) -> Iterator[Finding]:
        conditions = (facts.space or {}).get("status", {}).get("conditions", [])
        for one in conditions:
            meant = _CONDITIONS.get(one["type"])
            if meant is not None and meant.check == check and one["status"] == "False":
                message = meant.message.format(one["message"], space=facts.space_name)
                remedy = meant.remedy.format(space=facts.space_name)
                yield Finding(check, meant.state, message, remedy)

    return find


def _ready(facts: Facts) -> Document:
    conditions = facts.document.get("status", {}).get("conditions", [])
    return next((one for one in conditions if one["type"] == "Ready"), {})


def _certificate(facts: Facts) -> Iterator[Finding]:
    yield from _of_space("certificate")(facts)
    if facts.handshake is not None:
        remedy = "see enmasse logs for certificate errors"
        yield Finding("certificate", State.ERROR, facts.handshake, remedy)


CHECKS: dict[str, Callable[[Facts], Iterator[Finding]]] = {
    "address space": _space,
    **{check: _declared(check) for check in ("name", "plan", "quota", "references")},
    "control": _control,
    "node": _node,
    "nodes": _nodes,
    "certificate": _certificate,
    "room": _room,
    "allowance": _of_space("allowance"),
    "clients": _clients,
    "access": _of_space("access"),
}
"""The checks, in order."""

_FINE = {
    "address space": "exists and is ready",
    "name": "the name is unique",
    "plan": "it is offered",
    "quota": "there is room",
    "references": "all references are valid",
    "control": "the node serves the address",
    "node": "the node and its disk work",
    "nodes": "all nodes are ready",
    "certificate": "TLS works for clients that trust the CA of the space",
    "room": "it is not full",
    "allowance": "the allowance is not used up",
    "clients": ("no sender waits for receivers, and no stored message waits for consumers"),
    "access": "at least one client can log in",
}
