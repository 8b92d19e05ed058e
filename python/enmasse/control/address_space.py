"""When an address space is ready: the node names it among what is active."""

from enmasse.control.status import Check, not_proven, plan_not_applied, plan_refused

CHAIN: tuple[Check, ...] = (plan_refused, plan_not_applied, not_proven)
