"""Explains why an address is not ready, or why no messages pass, by a series of checks. Pure.

The control plane decides; its decisions are in the conditions of the address and its space. A
check selects what concerns it from the API's data, and adds the command that remedies it. The order
follows the path of an address: space, name, plan, quota, references, control loop, node,
certificate, disk, clients.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from enmasse.base.kinds import STORED

Document = Mapping[str, Any]


class State(StrEnum):
    """Severity of a finding."""

    OK = "ok"
    NOTE = "note"
    """No error, but possibly not intended."""

    TROUBLE = "trouble"


class Finding(NamedTuple):
    """The finding of one check."""

    check: str
    state: State
    message: str
    mend: str = ""


@dataclass(frozen=True)
class Facts:
    """The input of the checks."""

    document: Document
    """The address as returned by the API, with statistics."""

    space: Document | None
    """Its address space as returned by the API."""

    health: str = "ok"
    """The health report of the platform."""

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
    def figures(self) -> Document:
        """Its statistics."""
        found: Document = self.document.get("status", {}).get("statistics", {})
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
            State.TROUBLE,
            f"address space {name!r} not found",
            f"enmasse create addressspace {name}",
        )
    elif not facts.space.get("status", {}).get("isReady"):
        status = facts.space.get("status", {})
        said = "; ".join(status.get("messages", [])) or status.get("phase", "Pending")
        yield Finding(
            "address space",
            State.TROUBLE,
            f"address space {name!r} is not ready: {said}",
            f"enmasse describe addressspace {name}",
        )


_CHOOSE = "choose an offered plan with enmasse edit address {address}"
_ROOM = (
    "delete addresses, choose smaller plans, or a larger plan for the space (enmasse plan usage)"
)
_REFERENCE = "declare it first, or name another"

REASONS: dict[str, tuple[str, str]] = {
    "AddressTaken": ("name", "delete one of the two; the older one is served"),
    **dict.fromkeys(
        ("TypeNotOffered", "PlanUnknown", "PlanWrongType", "PlanNotOffered"), ("plan", _CHOOSE)
    ),
    **dict.fromkeys(("QuotaExceeded", "ReferenceWaits"), ("quota", _ROOM)),
    **dict.fromkeys(
        ("TopicMissing", "DeadletterMissing", "ExpiryMissing"), ("references", _REFERENCE)
    ),
    "TopicWrongType": ("references", "name one of type topic"),
    **dict.fromkeys(
        ("DeadletterWrongType", "ExpiryWrongType"), ("references", "name one of type deadletter")
    ),
}
"""The check and the remedy of reasons why an address is not ready."""


def _declared(check: str) -> Callable[[Facts], Iterator[Finding]]:
    """Return the check that reports a reason of REASONS."""

    def find(facts: Facts) -> Iterator[Finding]:
        ready = _ready(facts)
        name, mend = REASONS.get(ready.get("reason", ""), ("", ""))
        if name == check and ready.get("status") != "True":
            remedy = mend.format(address=facts.name)
            yield Finding(check, State.TROUBLE, ready.get("message", ""), remedy)

    return find


def _control(facts: Facts) -> Iterator[Finding]:
    metadata, status = facts.document["metadata"], facts.document.get("status", {})
    if metadata.get("deletionTimestamp"):
        keep = ", ".join(metadata.get("finalizers", []))
        yield Finding(
            "control",
            State.TROUBLE,
            f"it is being deleted and waits for finalizers: {keep}",
            "complete the work of the finalizers, or remove them with enmasse edit",
        )
        return
    # A status of an older generation describes another spec; its conditions are reported as well.
    if status.get("observedGeneration", 0) < metadata.get("generation", 0):
        yield Finding(
            "control",
            State.TROUBLE,
            "the control loop has not processed the last change yet",
            "see enmasse logs --level warning",
        )
    ready = _ready(facts)
    if ready.get("status") != "True":
        reason, message = ready.get("reason", "Pending"), ready.get("message", "")
        yield Finding(
            "control",
            State.TROUBLE,
            f"not ready since {ready.get('lastTransitionTime', 'it was made')}: {reason}"
            + (f": {message}" if message else ""),
            _MENDS.get(reason, "follow the remedies above; otherwise see enmasse logs"),
        )


_MENDS = {
    "PlanRefused": "run enmasse logs --level warning for the reason",
    "PlanNotApplied": "wait; if it persists, check enmasse logs",
    "NotActive": "wait; if it persists, check enmasse logs",
}


def _node(facts: Facts) -> Iterator[Finding]:
    trouble = facts.health.partition(";")[2].strip()
    if trouble:
        direct = facts.type not in STORED
        state = State.NOTE if direct else State.TROUBLE
        yield Finding(
            "node",
            state,
            f"the node reports: {trouble}",
            "correct the cause and restart the platform",
        )
    elif facts.health != "ok":
        yield Finding("node", State.TROUBLE, facts.health, "wait until it is ready")


def _room(facts: Facts) -> Iterator[Finding]:
    status, stored = facts.document.get("status", {}), facts.figures.get("stored", {})
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
            State.TROUBLE,
            f"it is full ({', '.join(full)}): new messages"
            f" {then.get(limits.get('onFull', ''), 'wait')}",
            "receive from it, enmasse purge, or a larger limit (enmasse edit)",
        )
    if facts.figures.get("damaged"):
        yield Finding(
            "room",
            State.NOTE,
            f"{facts.figures['damaged']:,} messages were lost to damage at rest",
            "check the disk and enmasse logs",
        )


def _clients(facts: Facts) -> Iterator[Finding]:
    figures, type_ = facts.figures, facts.type
    if not figures:
        return
    senders, receivers = figures.get("senders", 0), figures.get("receivers", 0)
    if type_ in ("anycast", "multicast") and senders and not receivers:
        yield Finding(
            "clients",
            State.NOTE,
            f"{senders} senders wait: a direct address accepts messages only"
            " while it has a receiver",
            f"start a receiver (enmasse receive {facts.name}), or use an address of type queue",
        )
    depth = figures.get("stored", {}).get("messages", 0)
    if depth and not receivers and type_ in ("queue", "subscription"):
        yield Finding(
            "clients", State.NOTE, f"{depth:,} messages are stored and there is no receiver"
        )


def _allowance(facts: Facts) -> Iterator[Finding]:
    for one in _conditions(facts):
        if one["type"] == "Sending" and one["status"] == "False":
            yield Finding(
                "allowance",
                State.TROUBLE,
                f"senders of the space get no credit: {one['message']}",
                "wait for the next period, or choose a larger plan (enmasse plan usage)",
            )


def _access(facts: Facts) -> Iterator[Finding]:
    for one in _conditions(facts):
        if one["type"] == "LoginPossible" and one["status"] == "False":
            yield Finding(
                "access",
                State.NOTE,
                f"address space {facts.space_name!r}: {one['message']}",
                f"enmasse user create NAME --space {facts.space_name}",
            )


def _conditions(facts: Facts) -> list[Document]:
    """Return the finding in the address space's conditions."""
    found: list[Document] = (facts.space or {}).get("status", {}).get("conditions", [])
    return found


def _ready(facts: Facts) -> Document:
    conditions = facts.document.get("status", {}).get("conditions", [])
    return next((one for one in conditions if one["type"] == "Ready"), {})


def _certificate(facts: Facts) -> Iterator[Finding]:
    for one in _conditions(facts):
        if one["type"] == "CertificateProvided" and one["status"] == "False":
            mend = "trust status.caCert of the space, or remove spec.endpoints[].cert"
            yield Finding("certificate", State.NOTE, one["message"], mend)
    if facts.handshake is not None:
        mend = "see enmasse logs for certificate errors"
        yield Finding("certificate", State.TROUBLE, facts.handshake, mend)


CHECKS: dict[str, Callable[[Facts], Iterator[Finding]]] = {
    "address space": _space,
    **{check: _declared(check) for check in ("name", "plan", "quota", "references")},
    "control": _control,
    "node": _node,
    "certificate": _certificate,
    "room": _room,
    "allowance": _allowance,
    "clients": _clients,
    "access": _access,
}
"""The checks, in order."""

_FINE = {
    "address space": "exists and is ready",
    "name": "the name is unique",
    "plan": "it is offered",
    "quota": "there is room",
    "references": "all lead somewhere",
    "control": "the node serves the address",
    "node": "the node and its disk work",
    "certificate": "TLS works for clients that trust the CA of the space",
    "room": "it is not full",
    "allowance": "the allowance is not used up",
    "clients": ("no sender waits for receivers, and no stored message waits for consumers"),
    "access": "at least one client can log in",
}
