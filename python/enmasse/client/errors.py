"""Maps the error with which a server ends a link or a connection to one of the eight errors."""

from enmasse.base.errors import (
    Code,
    Conflict,
    Denied,
    EnMasseError,
    Exhausted,
    Invalid,
    Missing,
    PeerError,
    Unavailable,
)

CONDITIONS: dict[str, tuple[type[EnMasseError], Code]] = {
    "amqp:not-found": (Missing, Code.NOT_FOUND),
    "amqp:resource-deleted": (Missing, Code.NOT_FOUND),
    "amqp:unauthorized-access": (Denied, Code.ACCESS_DENIED),
    "amqp:resource-limit-exceeded": (Exhausted, Code.LIMIT_REACHED),
    "amqp:link:message-size-exceeded": (Exhausted, Code.LIMIT_REACHED),
    "amqp:resource-locked": (Conflict, Code.STATE_CONFLICT),
    "amqp:precondition-failed": (Conflict, Code.STATE_CONFLICT),
    "amqp:link:stolen": (Conflict, Code.STATE_CONFLICT),
    "amqp:invalid-field": (Invalid, Code.REQUEST_INVALID),
    "amqp:not-allowed": (Invalid, Code.REQUEST_INVALID),
    "amqp:not-implemented": (Invalid, Code.REQUEST_INVALID),
    "amqp:decode-error": (PeerError, Code.PROTOCOL_BROKEN),
    "amqp:connection:framing-error": (PeerError, Code.PROTOCOL_BROKEN),
}
"""Other conditions map to Unavailable: a later attempt may succeed."""


def error_of(what: str, condition: str | None, description: str | None) -> EnMasseError:
    """Return the error for the end of `what`; without a condition it ended on request."""
    if condition is None:
        return Unavailable(Code.NOT_AVAILABLE, f"{what} is closed")
    kind, code = CONDITIONS.get(condition, (Unavailable, Code.NOT_AVAILABLE))
    return kind(code, f"{what}: {description or condition}", condition=condition)
