"""When an address is ready: the node names it as active, and what it refers to is there."""

from enmasse.control.status import (
    Check,
    left_out_of_the_plan,
    not_proven,
    plan_not_applied,
    plan_refused,
    waiting_for_another,
)

CHAIN: tuple[Check, ...] = (
    left_out_of_the_plan,
    plan_refused,
    plan_not_applied,
    not_proven,
    waiting_for_another,
)
