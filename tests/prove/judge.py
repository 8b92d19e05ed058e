"""What became of each message: a pure function of the history."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from prove.history import Event, What


class Verdict(StrEnum):
    """What may be said of a message at the end."""

    OK = "ok"
    """The platform kept its word: delivered and accepted, or refused and never seen."""
    LOST = "lost"
    """The platform had it, and no consumer ever could accept it."""
    DUPLICATE = "duplicate"
    """It came more often than at-least-once delivery explains."""
    UNKNOWN = "unknown"
    """The producer never heard of it, and neither did a consumer: both is allowed."""


@dataclass
class Judged:
    """A message and the verdict on it."""

    verdict: Verdict
    why: str
    began_s: float
    """When it was first sent, or seen."""
    ended_s: float
    """When anything was last heard of it."""
    deliveries: int


@dataclass
class _Message:
    began_s: float
    ended_s: float
    sent: bool = False
    accepted: bool = False
    refused: bool = False
    deliveries: int = 0
    holder: int | None = None
    """The connection that received it last and has not given it back."""
    taken: bool = False
    """Some consumer accepted it."""
    confirmed: bool = False
    spoiled: bool = False
    faults: list[str] = field(default_factory=list)


def judge(events: Iterable[Event]) -> dict[str, Judged]:
    """Return the verdict on every message of a history that ends with the addresses drained.

    A message is held by one connection at a time, until it is given back or that connection ends.
    One that a consumer accepted may come again if the connection ended before the acceptance was
    confirmed, and never after.
    """
    messages: dict[str, _Message] = {}
    ended: set[int] = set()
    for event in events:
        if event.what is What.LEFT:
            ended.add(event.link)
            continue
        message = messages.setdefault(event.message, _Message(event.at_s, event.at_s))
        message.ended_s = event.at_s
        if event.what in (What.RECEIVED, What.SPOILED):
            _received(message, event, ended)
        else:
            _told(message, event)
    return {name: _judged(message) for name, message in messages.items()}


def _told(message: _Message, event: Event) -> None:
    match event.what:
        case What.SENT:
            # Sent again under its id: what was said of it before is open again.
            message.sent, message.refused = True, False
        case What.ACCEPTED:
            message.accepted = True
        case What.REFUSED:
            message.refused = True
        case What.TAKEN:
            message.taken = True
        case What.CONFIRMED:
            message.confirmed = True
        case What.RETURNED:
            message.holder = None


def _received(message: _Message, event: Event, ended: set[int]) -> None:
    message.deliveries += 1
    message.spoiled |= event.what is What.SPOILED
    if not message.sent:
        message.faults.append("nobody sent it")
    if message.refused and not message.accepted:
        message.faults.append("seen though its producer was told that it was refused")
    if message.confirmed:
        message.faults.append("delivered again after the commit of its acceptance")
    elif message.holder is not None and message.holder not in ended:
        state = "accepted" if message.taken else "held"
        message.faults.append(f"seen again while {state} by a connection that lives")
    message.holder = event.link


def _judged(message: _Message) -> Judged:
    verdict, why = _verdict(message)
    return Judged(verdict, why, message.began_s, message.ended_s, message.deliveries)


def _verdict(message: _Message) -> tuple[Verdict, str]:
    if message.faults:
        return Verdict.DUPLICATE, message.faults[0]
    if message.spoiled:
        return Verdict.LOST, "it came with another content"
    if message.taken:
        return Verdict.OK, "delivered"
    if message.deliveries:
        return Verdict.LOST, "seen, not accepted, and never seen again"
    if message.accepted:
        return Verdict.LOST, "its producer was told that it was accepted, and it was never seen"
    if message.refused:
        return Verdict.OK, "refused"
    return Verdict.UNKNOWN, "its producer was told nothing, and it was never seen"
