"""Diagnoses why an address is not ready, or why no messages pass, by a series of checks. Pure.

A check reads the API's data and returns nothing, a note, or a problem with its remedy. The order
follows the path of an address: space, name, plan, quota, references, control loop, node,
certificate, disk, clients.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from enmasse.base.kinds import STORED
from enmasse.cli import usage
from enmasse.plan import Catalogue, dangling
from enmasse.resources import Address, AddressSpace, Resource

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

    resources: Sequence[Resource]
    """Spaces and addresses of its namespace, and all plans and services."""

    space: Document | None
    """Its address space as returned by the API."""

    plans_shown: bool = True
    """Whether `resources` includes plans and services, which tenants cannot read."""

    health: str = "ok"
    """The health report of the platform."""

    handshake: str | None = None
    """Why TLS fails for clients that trust the space's CA only, or None."""

    catalogue: Catalogue = field(init=False)

    def __post_init__(self) -> None:
        """Index the resources."""
        object.__setattr__(self, "catalogue", Catalogue(self.resources))

    @property
    def address(self) -> Address:
        """The declared address."""
        name = self.document["metadata"]["name"]
        return next(
            one for one in self.resources if isinstance(one, Address) and one.metadata.name == name
        )

    @property
    def declared_space(self) -> AddressSpace | None:
        """Its declared address space."""
        home = self.address.space
        spaces = (one for one in self.resources if isinstance(one, AddressSpace))
        return next((one for one in spaces if one.metadata.name == home), None)

    @property
    def beside(self) -> list[Address]:
        """The addresses of its space."""
        home = self.address.space
        return [one for one in self.resources if isinstance(one, Address) and one.space == home]

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
    name = facts.address.space
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


def _name(facts: Facts) -> Iterator[Finding]:
    own = facts.address
    for other in facts.beside:
        if other.key != own.key and set(other.names) & set(own.names):
            yield Finding(
                "name",
                State.TROUBLE,
                f"{other.metadata.name} also declares the address {own.spec.address!r}",
                "delete one of the two; the older one is served",
            )


def _plan(facts: Facts) -> Iterator[Finding]:
    if not facts.plans_shown:
        yield Finding("plan", State.NOTE, _NOT_SHOWN)
        return
    space = facts.declared_space
    problem = facts.catalogue.problem_of_address(facts.address, space) if space else None
    if problem is not None:
        mend = f"choose an offered plan with enmasse edit address {facts.address.spec.address}"
        yield Finding("plan", State.TROUBLE, problem.message, mend)


def _quota(facts: Facts) -> Iterator[Finding]:
    if not facts.plans_shown:
        yield Finding("quota", State.NOTE, _NOT_SHOWN)
        return
    for one in usage.of_spaces(facts.resources):
        if one.space != facts.address.space:
            continue
        over = [f"{use.resource} {use.used} of {use.limit}" for use in one.uses if use.is_over]
        if over:
            waits = _ready(facts).get("reason") == "QuotaExceeded"
            yield Finding(
                "quota",
                State.TROUBLE if waits else State.NOTE,
                f"the addresses of the space use {', '.join(over)} of plan {one.plan}",
                "delete addresses, choose smaller plans, or a larger plan for"
                " the space (enmasse plan usage)",
            )


def _references(facts: Facts) -> Iterator[Finding]:
    named = {name: one for one in facts.beside for name in one.names}
    for one in dangling(facts.address, named.get):
        yield Finding("references", State.TROUBLE, f"it {one.problem}", one.mend)


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


_NOT_SHOWN = "not checked: requires the role service-admin"

_MENDS = {
    "PlanRefused": "run enmasse logs --level warning for the reason",
    "PlanNotApplied": "wait; if it persists, check enmasse logs",
    "NotActive": "wait; if it persists, check enmasse logs",
}


def _node(facts: Facts) -> Iterator[Finding]:
    trouble = facts.health.partition(";")[2].strip()
    if trouble:
        direct = facts.address.spec.type not in STORED
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
    figures, type_ = facts.figures, facts.address.spec.type
    if not figures:
        return
    senders, receivers = figures.get("senders", 0), figures.get("receivers", 0)
    if type_ in ("anycast", "multicast") and senders and not receivers:
        yield Finding(
            "clients",
            State.NOTE,
            f"{senders} senders wait: a direct address accepts messages only"
            " while it has a receiver",
            f"start a receiver (enmasse receive {facts.address.spec.address}),"
            " or use an address of type queue",
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
                f"address space {facts.address.space!r}: {one['message']}",
                f"enmasse user create NAME --space {facts.address.space}",
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
    "name": _name,
    "plan": _plan,
    "quota": _quota,
    "references": _references,
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
    "access": "somebody can come in",
}
