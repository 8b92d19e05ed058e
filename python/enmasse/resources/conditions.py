"""Conditions of a status, each with a reason and the time of its last transition."""

from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache
from typing import Literal, TypeVar

from enmasse.base.clock import rfc3339
from enmasse.resources.model import Condition, Declared, Phase, Status

D = TypeVar("D", bound=Declared)

READY = "Ready"
"""The condition for the whole resource: the node has confirmed that it serves the resource."""

INTACT = "MessagesIntact"
"""The condition that is False after damage: messages of an address were lost, or stored messages
belong to no declared address and may be of any space."""

SHARED_MAX = 256
"""Maximum cached conditions, which resources share: thousands of resources become ready in one
second for the same reason."""


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

    Ready is true in phase Active only. The transition time changes only with the condition, so an
    unchanged status is equal to the previous one.
    """
    is_ready = phase == "Active"
    values = (is_ready, reason, message, generation, now)
    condition = _condition(previous.conditions, READY, *values)
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
    """Return the conditions of a status, with this one last; it replaces that of its type.

    Its transition time changes only with its value.
    """
    values = (holds, reason, message, generation or 0, now)
    condition = _condition(status.conditions, kind, *values)
    return (*without(status.conditions, kind), condition)


def with_unmet(resource: D, kind: str, why: tuple[str, str] | None, now: datetime) -> D:
    """Return a resource whose status has a condition with value False: the reason is for programs,
    the message for people. None removes the condition.
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
    """Return the conditions of other types."""
    return tuple(one for one in conditions if one.type != kind)


def find(conditions: Iterable[Condition], kind: str) -> Condition | None:
    """Return the condition of a type, if there is one."""
    return next((condition for condition in conditions if condition.type == kind), None)
