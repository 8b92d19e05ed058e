"""Messages, outcomes, and the interface of a session. Pure: no I/O, no event loop."""

from enmasse.messaging.document import as_document
from enmasse.messaging.message import (
    Body,
    Data,
    Header,
    Message,
    MessageId,
    Properties,
    Sequence,
    Value,
)
from enmasse.messaging.outcome import Accepted, Modified, Outcome, Rejected, Released
from enmasse.messaging.session import Delivery, Receiver, Sender, Session, Start

__all__ = [
    "Accepted",
    "Body",
    "Data",
    "Delivery",
    "Header",
    "Message",
    "MessageId",
    "Modified",
    "Outcome",
    "Properties",
    "Receiver",
    "Rejected",
    "Released",
    "Sender",
    "Sequence",
    "Session",
    "Start",
    "Value",
    "as_document",
]
