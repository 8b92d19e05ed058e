"""When an address space is ready: the node serves the Plan the space is in.

The node names addresses in its proof, not spaces: a space is in force, empty or not, from the
moment the Plan is applied.
"""

from enmasse.control.status import (
    Check,
    plan_not_applied,
    plan_refused,
    terminating,
    waiting_for_another,
)

CHAIN: tuple[Check, ...] = (terminating, plan_refused, plan_not_applied, waiting_for_another)
