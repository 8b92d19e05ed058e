"""Decides the readiness of a resource from one snapshot. Pure.

A resource is ready once the engine has confirmed it. Otherwise the first check of a chain that
applies gives the reason and the remedy. Differences between kinds are in the file of the kind.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from enmasse.base.errors import EnMasseError
from enmasse.engines import Proof
from enmasse.plan import OutcomeReason
from enmasse.resources import Declared, Key, Status
from enmasse.resources.conditions import ready_status
from enmasse.resources.model import Phase

if TYPE_CHECKING:
    from enmasse.control.messaging_node import NodeReport


class Finding(NamedTuple):
    """Why a resource is not ready: phase, a reason for programs, a message for people."""

    phase: Phase
    reason: str
    message: str


class Answer(NamedTuple):
    """The result of probing a service."""

    identity: tuple[str | None, int | None]
    """uid and generation of the probed service."""

    problem: str | None
    """The error; None: it responded."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The input of status decisions."""

    version: int
    """Version of the compiled Plan."""

    excluded: Mapping[Key, OutcomeReason]
    """Resources excluded from that Plan, with reasons."""

    waiting: Mapping[Key, OutcomeReason]
    """Resources in it with missing references, and the references."""

    proof: Proof | None
    """The confirmation of the engine; None if it never responded."""

    refusal: EnMasseError | None
    """Why the engine does not serve that Plan; None if it does."""

    now: datetime

    answers: Mapping[Key, Answer] | None = None
    """Results of probing authentication services; None: they are not probed."""

    nodes: "Mapping[str, NodeReport]" = field(default_factory=dict)
    """Reports of nodes, by name."""


Check = Callable[[Declared, Seen], Finding | None]


def terminating(resource: Declared, _: Seen) -> Finding | None:
    """Its deletion was requested, and it is served until its finalizers are done."""
    if not resource.is_terminating:
        return None
    names = ", ".join(resource.metadata.finalizers)
    return Finding("Terminating", "Deleted", f"waiting for finalizers: {names}")


def excluded_from_plan(resource: Declared, seen: Seen) -> Finding | None:
    """It conflicts with other resources."""
    excluded = seen.excluded.get(resource.key)
    return Finding("Pending", excluded.reason, excluded.message) if excluded else None


def plan_refused(resource: Declared, seen: Seen) -> Finding | None:
    """The engine does not serve the Plan with the resource."""
    if seen.refusal is None:
        return None
    phase: Phase = "Failed" if resource.status.is_ready else "Configuring"
    return Finding(phase, "PlanRefused", f"the node does not serve it yet: {seen.refusal.message}")


def plan_not_applied(_: Declared, seen: Seen) -> Finding | None:
    """The engine has not confirmed the Plan yet."""
    if seen.proof is not None and seen.proof.version >= seen.version:
        return None
    return Finding("Configuring", "PlanNotApplied", "waiting for the node to apply the Plan")


def not_served(resource: Declared, seen: Seen) -> Finding | None:
    """The engine serves the Plan, but could not serve this resource."""
    failed = seen.proof and seen.proof.failed.get(resource.metadata.uid or "")
    return Finding("Failed", failed.reason, failed.message) if failed else None


def not_proven(resource: Declared, seen: Seen) -> Finding | None:
    """The engine serves the Plan and does not list the resource as active."""
    if seen.proof is not None and resource.metadata.uid in seen.proof.active:
        return None
    return Finding("Configuring", "NotActive", "the node does not report it as active")


def waiting_for_another(resource: Declared, seen: Seen) -> Finding | None:
    """It is served as far as possible without a missing reference."""
    waiting = seen.waiting.get(resource.key)
    return Finding("Pending", waiting.reason, waiting.message) if waiting else None


def decide(
    resource: Declared, seen: Seen, chain: tuple[Check, ...], reason: str = "Served"
) -> Status:
    """Return the status of a resource: the first finding of the chain, or Active for `reason`."""
    generation = resource.metadata.generation or 0
    for check in chain:
        if (finding := check(resource, seen)) is not None:
            return ready_status(
                resource.status,
                phase=finding.phase,
                reason=finding.reason,
                message=finding.message,
                generation=generation,
                now=seen.now,
            )
    return ready_status(
        resource.status, phase="Active", reason=reason, generation=generation, now=seen.now
    )
