"""Conditions: a status kept as a list of statements, each with a reason and the time it changed."""

from collections.abc import Iterable
from datetime import datetime

from enmasse.base.clock import rfc3339
from enmasse.resources.model import Condition, Phase, Status

READY = "Ready"
"""The condition that stands for the whole: the node has proven that the resource is served."""


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
    truth = "True" if is_ready else "False"
    before = find(previous.conditions, READY)
    unchanged = before is not None and before.status == truth
    condition = Condition(
        type=READY,
        status="True" if is_ready else "False",
        reason=reason,
        message=message,
        last_transition_time=(
            before.last_transition_time if before and unchanged else rfc3339(now)
        ),
        observed_generation=generation,
    )
    others = tuple(other for other in previous.conditions if other.type != READY)
    return previous.model_copy(
        update={
            "is_ready": is_ready,
            "phase": phase,
            "messages": (message,) if message else (),
            "conditions": (condition, *others),
            "observed_generation": generation,
        }
    )


def find(conditions: Iterable[Condition], kind: str) -> Condition | None:
    """Return the condition of a type, if there is one."""
    return next((condition for condition in conditions if condition.type == kind), None)
