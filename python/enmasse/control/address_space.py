"""Readiness of an address space: the node serves the Plan with the space.

The node confirms addresses, not spaces: a space is in force, empty or not, once the Plan is
applied.
"""

from datetime import datetime

from enmasse.control.status import (
    Check,
    plan_not_applied,
    plan_refused,
    terminating,
    waiting_for_another,
)
from enmasse.engines import Unnamed
from enmasse.plan import OutcomeReason
from enmasse.resources import AddressSpace
from enmasse.resources.conditions import INTACT, with_unmet

LOGIN = "LoginPossible"
"""The condition of closed spaces without users."""

NAMES = "NamesHeld"
"""The condition of spaces that lack one of their names."""

CHAIN: tuple[Check, ...] = (terminating, plan_refused, plan_not_applied, waiting_for_another)


def with_login(space: AddressSpace, problem: OutcomeReason | None, now: datetime) -> AddressSpace:
    """Return a space whose status reports that no client can log in."""
    return _with_unmet(space, LOGIN, problem, now)


def with_names(space: AddressSpace, problem: OutcomeReason | None, now: datetime) -> AddressSpace:
    """Return a space whose status reports names that belong to others."""
    return _with_unmet(space, NAMES, problem, now)


def with_unnamed(space: AddressSpace, unnamed: Unnamed, now: datetime) -> AddressSpace:
    """Return a space whose status reports messages without a declared address."""
    why = unnamed.messages and (
        "MessagesUnnamed",
        f"{unnamed.messages:,} stored messages belong to no declared address and are not delivered:"
        f" in {unnamed.files:,} files of the journal the declaration of their address is damaged",
    )
    return with_unmet(space, INTACT, why or None, now)


def _with_unmet(
    space: AddressSpace, kind: str, problem: OutcomeReason | None, now: datetime
) -> AddressSpace:
    why = (problem.reason, problem.message) if problem else None
    return with_unmet(space, kind, why, now)
