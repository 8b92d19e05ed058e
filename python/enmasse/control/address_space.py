"""When an address space is ready: the node serves the Plan the space is in.

The node names addresses in its proof, not spaces: a space is in force, empty or not, from the
moment the Plan is applied.
"""

from datetime import datetime

from enmasse.control.status import (
    Check,
    plan_not_applied,
    plan_refused,
    terminating,
    waiting_for_another,
)
from enmasse.plan import LeftOut
from enmasse.resources import AddressSpace
from enmasse.resources.conditions import with_unmet

LOGIN = "LoginPossible"
"""The condition of spaces into which nobody can come, since they have no users."""

NAMES = "NamesHeld"
"""The condition of spaces that do not answer to all of their names."""

CHAIN: tuple[Check, ...] = (terminating, plan_refused, plan_not_applied, waiting_for_another)


def with_login(space: AddressSpace, problem: LeftOut | None, now: datetime) -> AddressSpace:
    """Return a space whose status says so if nobody can come in."""
    return _with_unmet(space, LOGIN, problem, now)


def with_names(space: AddressSpace, problem: LeftOut | None, now: datetime) -> AddressSpace:
    """Return a space whose status says so if somebody else has one of its names."""
    return _with_unmet(space, NAMES, problem, now)


def _with_unmet(
    space: AddressSpace, kind: str, problem: LeftOut | None, now: datetime
) -> AddressSpace:
    why = (problem.reason, problem.message) if problem else None
    return with_unmet(space, kind, why, now)
