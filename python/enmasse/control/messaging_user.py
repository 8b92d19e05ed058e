"""Readiness of a user: the node serves the Plan with the user.

The node does not confirm users: they are in force once the Plan is applied.
"""

from enmasse.control.status import (
    Check,
    excluded_from_plan,
    plan_not_applied,
    plan_refused,
    terminating,
)

CHAIN: tuple[Check, ...] = (terminating, excluded_from_plan, plan_refused, plan_not_applied)
