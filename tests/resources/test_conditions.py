"""The Ready condition."""

from datetime import UTC, datetime

from enmasse.resources.conditions import READY, find, ready_status
from enmasse.resources.model import Status

EARLY = datetime(2026, 1, 1, tzinfo=UTC)
LATE = datetime(2026, 1, 2, tzinfo=UTC)


def test_ready_is_true_in_phase_active_only() -> None:
    pending = ready_status(
        Status(), phase="Pending", reason="Wait", message="why", generation=1, now=EARLY
    )
    assert not pending.is_ready
    assert pending.messages == ("why",)
    active = ready_status(pending, phase="Active", reason="Served", generation=1, now=LATE)
    assert active.is_ready
    assert active.messages == ()
    condition = find(active.conditions, READY)
    assert condition and condition.status == "True"
    assert condition.last_transition_time == "2026-01-02T00:00:00Z"


def test_unchanged_condition_keeps_its_last_transition_time() -> None:
    first = ready_status(Status(), phase="Active", reason="Served", generation=1, now=EARLY)
    again = ready_status(first, phase="Active", reason="Served", generation=1, now=LATE)
    assert again == first


def test_other_conditions_are_kept() -> None:
    other = ready_status(Status(), phase="Active", reason="x", generation=1, now=EARLY).conditions
    renamed = other[0].model_copy(update={"type": "Other"})
    status = ready_status(
        Status(conditions=(renamed,)), phase="Active", reason="y", generation=1, now=EARLY
    )
    assert [condition.type for condition in status.conditions] == [READY, "Other"]
