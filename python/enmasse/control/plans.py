"""When a plan, an infra config or an authentication service is ready: what it names is there."""

from enmasse.control.status import Check, terminating, waiting_for_another

CHAIN: tuple[Check, ...] = (terminating, waiting_for_another)
