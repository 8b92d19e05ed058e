"""A message: the sections of AMQP 1.0 (part 3, 3.2)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any
from uuid import UUID

from enmasse.messaging.types import Timestamp

MessageId = str | int | bytes | UUID
"""Types of a message-id or correlation-id; an int is at least 0."""

Moment = datetime | Timestamp
"""A point in time; a `Timestamp` beyond the range of `datetime`."""


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a message (3.2.1)."""

    durable: bool = False
    priority: int = 4
    ttl_ms: int | None = None
    first_acquirer: bool = False
    delivery_count: int = 0


@dataclass(frozen=True, slots=True)
class Properties:
    """The standard properties of a message (3.2.4), in the order of the wire."""

    message_id: MessageId | None = None
    user_id: bytes | None = None
    to: str | None = None
    subject: str | None = None
    reply_to: str | None = None
    correlation_id: MessageId | None = None
    content_type: str | None = None
    content_encoding: str | None = None
    absolute_expiry_time: Moment | None = None
    creation_time: Moment | None = None
    group_id: str | None = None
    group_sequence: int | None = None
    reply_to_group_id: str | None = None


@dataclass(frozen=True, slots=True)
class Data:
    """A binary body (3.2.6), in one or several sections."""

    parts: tuple[bytes, ...]

    @property
    def content(self) -> bytes:
        """All sections as one."""
        return b"".join(self.parts)


@dataclass(frozen=True, slots=True)
class Sequence:
    """A body of lists (3.2.7), in one or several sections."""

    parts: tuple[list[Any], ...]


@dataclass(frozen=True, slots=True)
class Value:
    """A body of one value (3.2.8)."""

    value: Any


Body = Data | Sequence | Value | None
"""The body of a message; None if absent."""


@dataclass(frozen=True, slots=True)
class Message:
    """An immutable message.

    `annotations` are the message annotations (3.2.3), `delivery_annotations` those for the next hop
    (3.2.2). Mappings have values of `enmasse.messaging.types`.
    """

    body: Body = None
    properties: Properties = Properties()
    application_properties: Mapping[str, Any] = field(default_factory=dict)
    header: Header | None = None
    annotations: Mapping[str, Any] = field(default_factory=dict)
    delivery_annotations: Mapping[str, Any] = field(default_factory=dict)
    footer: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("application_properties", "annotations", "delivery_annotations", "footer"):
            mapping = getattr(self, name)
            if not isinstance(mapping, MappingProxyType):
                object.__setattr__(self, name, MappingProxyType(dict(mapping)))

    @classmethod
    def of(cls, content: Any, **properties: Any) -> "Message":
        """Return a message with `content`: bytes become data, everything else a value.

        `properties` are those of `Properties`, by name.
        """
        body: Body = Data((bytes(content),)) if _is_bytes(content) else Value(content)
        return cls(body, Properties(**properties))

    @property
    def content(self) -> Any:
        """The body as a plain value: bytes, a value, or the lists of a sequence."""
        match self.body:
            case Data():
                return self.body.content
            case Value(value):
                return value
            case Sequence(parts):
                return list(parts)
            case None:
                return None

    @property
    def text(self) -> str:
        """The body as text: a string unchanged, data as UTF-8 (invalid bytes are replaced)."""
        content = self.content
        if isinstance(content, bytes):
            return content.decode(errors="replace")
        return "" if content is None else str(content)


def _is_bytes(content: object) -> bool:
    return isinstance(content, bytes | bytearray | memoryview)
