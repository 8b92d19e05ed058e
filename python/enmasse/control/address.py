"""When an address is ready: the node names it among what is active."""

from enmasse.control.status import (
    Check,
    left_out_of_the_plan,
    not_proven,
    plan_not_applied,
    plan_refused,
)

CHAIN: tuple[Check, ...] = (left_out_of_the_plan, plan_refused, plan_not_applied, not_proven)
