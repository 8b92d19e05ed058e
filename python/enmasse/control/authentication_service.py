"""Readiness of an authentication service: its server responds."""

from enmasse.control.status import Check, Finding, Seen, terminating, waiting_for_another
from enmasse.resources import AuthenticationService, Declared


def not_responding(resource: Declared, seen: Seen) -> Finding | None:
    """The server does not respond, or has not been queried yet."""
    if seen.answers is None or not isinstance(resource, AuthenticationService):
        return None
    if not resource.uses_remote_server:
        return None
    answer = seen.answers.get(resource.key)
    if answer is None or answer.identity != (resource.metadata.uid, resource.metadata.generation):
        return Finding("Configuring", "NotAsked", "waiting for its answer")
    if answer.problem is None:
        return None
    message = f"its last answer was invalid and is retried: {answer.problem}"
    phase = resource.status.phase
    return Finding(
        "Failed" if phase in ("Active", "Failed") else "Configuring", "NotAnswering", message
    )


CHAIN: tuple[Check, ...] = (terminating, waiting_for_another, not_responding)
