"""Conditions: a status kept as a list of statements, each with a reason and the time it changed."""

from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache
from typing import Literal, TypeVar

from enmasse.base.clock import rfc3339
from enmasse.resources.model import Condition, Declared, Phase, Status

D = TypeVar("D", bound=Declared)

READY = "Ready"
"""The condition that stands for the whole: the node has proven that the resource is served."""

SHARED_MAX = 256
"""Conditions that are kept to be shared: thousands of resources become ready in one second, for one
reason."""


def ready_status(
    previous: Status,
    *,
    phase: Phase,
    reason: str,
    message: str = "",
    generation: int,
    now: datetime,
) -> Status:
    """Return the status of a resource whose Ready condition is decided.

    Ready is true in phase Active only. The time of change stays while the truth of the condition
    stays, so that a status decided again is equal to the one before.
    """
    is_ready = phase == "Active"
    said = (is_ready, reason, message, generation, now)
    condition = _condition(previous.conditions, READY, *said)
    others = without(previous.conditions, READY)
    return previous.model_copy(
        update={
            "is_ready": is_ready,
            "phase": phase,
            "messages": (message,) if message else (),
            "conditions": (condition, *others),
            "observed_generation": generation,
        }
    )


def stated(
    status: Status,
    kind: str,
    *,
    holds: bool,
    reason: str,
    message: str = "",
    generation: int | None,
    now: datetime,
) -> tuple[Condition, ...]:
    """Return the conditions of a status, the last of them this one instead of that of its type.

    Its time of change stays while its truth does.
    """
    said = (holds, reason, message, generation or 0, now)
    condition = _condition(status.conditions, kind, *said)
    return (*without(status.conditions, kind), condition)


def with_unmet(resource: D, kind: str, why: tuple[str, str] | None, now: datetime) -> D:
    """Return a resource whose status says that a condition does not hold and why: the reason for
    programs, the message for people. None: it says nothing of that condition.
    """
    status = resource.status
    if why is None and find(status.conditions, kind) is None:
        return resource
    conditions = without(status.conditions, kind)
    if why is not None:
        reason, message = why
        conditions = stated(
            status,
            kind,
            holds=False,
            reason=reason,
            message=message,
            generation=resource.metadata.generation,
            now=now,
        )
    return resource.with_status(status.model_copy(update={"conditions": conditions}))


def _condition(
    previous: Iterable[Condition],
    kind: str,
    holds: bool,
    reason: str,
    message: str,
    generation: int,
    now: datetime,
) -> Condition:
    before = find(previous, kind)
    truth: Literal["True", "False"] = "True" if holds else "False"
    since = before.last_transition_time if before and before.status == truth else rfc3339(now)
    return _shared(kind, truth, reason, message, since, generation)


@lru_cache(maxsize=SHARED_MAX)
def _shared(
    kind: str,
    truth: Literal["True", "False"],
    reason: str,
    message: str,
    since: str,
    generation: int,
) -> Condition:
    return Condition(
        type=kind,
        status=truth,
        reason=reason,
        message=message,
        last_transition_time=since,
        observed_generation=generation,
    )


def without(conditions: Iterable[Condition], kind: str) -> tuple[Condition, ...]:
    """Return the conditions that are not of a type."""
    return tuple(one for one in conditions if one.type != kind)


def find(conditions: Iterable[Condition], kind: str) -> Condition | None:
    """Return the condition of a type, if there is one."""
    return next((condition for condition in conditions if condition.type == kind), None)
