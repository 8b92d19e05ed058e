"""When a user is ready: the node serves the Plan the user is in.

The node names no users in its proof: a Plan's users are in force from the moment it is applied.
"""

from enmasse.control.status import (
    Check,
    left_out_of_the_plan,
    plan_not_applied,
    plan_refused,
    terminating,
)

CHAIN: tuple[Check, ...] = (terminating, left_out_of_the_plan, plan_refused, plan_not_applied)
