"""What clients of a platform were told, in the order in which they were told it."""

from enum import StrEnum
from typing import NamedTuple


class What(StrEnum):
    """What happened to a message, as its clients saw it."""

    SENT = "sent"
    ACCEPTED = "accepted"
    """The producer was told that the platform has it."""
    REFUSED = "refused"
    """The producer was told that the platform does not have it."""
    RECEIVED = "received"
    SPOILED = "spoiled"
    """It was received, but not as it was sent."""
    TAKEN = "taken"
    """The consumer accepted it; the platform may not know yet."""
    CONFIRMED = "confirmed"
    """The transaction in which the consumer accepted it was committed."""
    RETURNED = "returned"
    """The consumer released, modified or rejected it: it is to come again."""
    LEFT = "left"
    """The consumer's connection ended: what it held is to come again. About no message."""


class Event(NamedTuple):
    """One line of the history."""

    at_s: float
    """Since the run began."""
    what: What
    message: str
    """Id of the message; empty where the event is about none."""
    link: int = 0
    """The consumer's connection, a number used once; 0 for producers."""


class Kill(NamedTuple):
    """A death of the platform."""

    at_s: float
    up_s: float
    """When it was ready again."""


class History:
    """Grows by what clients are told. Its size is bounded by the messages that the load sends."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.kills: list[Kill] = []
