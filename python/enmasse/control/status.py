"""Whether a resource is ready, decided from everything seen at once. Pure.

A resource is ready when the engine has proven that it serves it; else the first of a chain of
checks that finds something says what is missing and what would mend it. What differs from kind to
kind is in the file of the kind.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from enmasse.base.errors import EnMasseError
from enmasse.engines import Proof
from enmasse.plan import LeftOut
from enmasse.resources import Declared, Key, Status
from enmasse.resources.conditions import ready_status
from enmasse.resources.model import Phase


class Finding(NamedTuple):
    """Why a resource is not ready: phase, a reason for programs, a message for people."""

    phase: Phase
    reason: str
    message: str


class Answer(NamedTuple):
    """What became of asking a service."""

    identity: tuple[str | None, int | None]
    """uid and generation of what was asked."""

    problem: str | None
    """Why it did not answer; None: it did."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What is known when statuses are decided."""

    version: int
    """Version of the Plan that the resources compile to."""

    left_out: Mapping[Key, LeftOut]
    """What is not in that Plan, and why."""

    waiting: Mapping[Key, LeftOut]
    """What is in it and names something that is not there, and what that is."""

    proof: Proof | None
    """What the engine serves; None if it has never answered."""

    refusal: EnMasseError | None
    """Why the engine does not serve that Plan; None if it does."""

    now: datetime

    answers: Mapping[Key, Answer] | None = None
    """What authentication services elsewhere have answered; None: nobody asks them."""


Check = Callable[[Declared, Seen], Finding | None]


def terminating(resource: Declared, _: Seen) -> Finding | None:
    """It was asked to go and is served until its finalizers are done."""
    if not resource.is_terminating:
        return None
    names = ", ".join(resource.metadata.finalizers)
    return Finding("Terminating", "Deleted", f"goes when its finalizers are done: {names}")


def left_out_of_the_plan(resource: Declared, seen: Seen) -> Finding | None:
    """It cannot be served beside the rest."""
    left_out = seen.left_out.get(resource.key)
    return Finding("Pending", left_out.reason, left_out.message) if left_out else None


def plan_refused(resource: Declared, seen: Seen) -> Finding | None:
    """The engine does not serve the Plan that the resource is in."""
    if seen.refusal is None:
        return None
    phase: Phase = "Failed" if resource.status.is_ready else "Configuring"
    return Finding(phase, "PlanRefused", f"the node does not serve it yet: {seen.refusal.message}")


def plan_not_applied(_: Declared, seen: Seen) -> Finding | None:
    """The engine has not yet said that it serves the Plan."""
    if seen.proof is not None and seen.proof.version >= seen.version:
        return None
    return Finding("Configuring", "PlanNotApplied", "waiting for the node to take the Plan")


def not_served(resource: Declared, seen: Seen) -> Finding | None:
    """The engine serves the Plan, but not this resource as it is there."""
    failed = seen.proof and seen.proof.failed.get(resource.metadata.uid or "")
    return Finding("Failed", failed.reason, failed.message) if failed else None


def not_proven(resource: Declared, seen: Seen) -> Finding | None:
    """The engine serves the Plan and does not name the resource among what is active."""
    if seen.proof is not None and resource.metadata.uid in seen.proof.active:
        return None
    return Finding("Configuring", "NotActive", "the node does not report it as active")


def waiting_for_another(resource: Declared, seen: Seen) -> Finding | None:
    """It is served as far as that goes without another resource, which is gone."""
    waiting = seen.waiting.get(resource.key)
    return Finding("Pending", waiting.reason, waiting.message) if waiting else None


def decide(resource: Declared, seen: Seen, chain: tuple[Check, ...]) -> Status:
    """Return the status of a resource: the first finding of the chain, or Active."""
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
        resource.status, phase="Active", reason="Served", generation=generation, now=seen.now
    )
