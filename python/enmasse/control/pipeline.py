"""Readiness of pipelines: the platform stores them and runs none."""

from enmasse.control.status import Check, Finding, Seen, terminating
from enmasse.resources import Declared


def not_run(_resource: Declared, _seen: Seen) -> Finding:
    """Only the command runs a pipeline."""
    message = "the platform runs no pipelines; run it: enmasse pipeline run -f FILE"
    return Finding("Pending", "NotRun", message)


CHAIN: tuple[Check, ...] = (terminating, not_run)
