"""The answers to operations on messages, as OpenAPI describes them.

Handlers write them as plain data; tests read their answers back by these models.
"""

from typing import Annotated, Any, Literal

from pydantic import Field

from enmasse.api.messages.documents import BodyKind, RawBody
from enmasse.engines import Operation
from enmasse.resources.model import Model

_Continue = Annotated[str | None, Field(alias="continue")]


class ShownMessage(Model):
    """A message in JSON. Values without a JSON type are texts."""

    body: Any
    properties: dict[str, Any] | None = None
    application_properties: dict[str, Any] | None = None
    annotations: dict[str, Any] | None = None

    header: dict[str, Any] | None = None
    """The members that differ from their default."""


class ShownStoredMessage(Model):
    """A message of a queue, a subscription, a dead letter or a stream."""

    id: int | None = None
    """Of all but streams."""

    offset: int | None = None
    """Of streams."""

    partition: int | None = None
    """Of streams."""

    state: Literal["waiting", "scheduled", "delayed"] | None = None
    bytes: int
    enqueued: str | None = None
    attempts: int | None = None
    expires: str | None = None
    due: str | None = None

    message: ShownMessage | None = None
    """Absent if the message is too large to be shown, or has a problem."""

    problem: str | None = None
    """Why the message cannot be decoded."""

    kind: BodyKind | None = None
    """Of the typed form: the kind of the body."""

    raw: RawBody | None = None
    """Of the typed form: the bytes of a body of data."""


class _Head(Model):
    kind: Literal["MessageOperation"]
    api_version: str

    address: str
    """The address, as clients name it."""


class OperationAnswer(_Head):
    """One slice of an operation."""

    operation: Operation
    dry_run: bool | None = None

    messages: int
    """Messages of this slice."""

    bytes: int
    items: tuple[ShownStoredMessage, ...] | None = None
    """Of peek."""

    continue_: _Continue = None
    """There may be more: the value for the next request."""


class SendAnswer(_Head):
    """The outcome of the last message sent."""

    operation: Literal["send"]
    outcome: Literal["accepted", "rejected", "released", "modified"]

    messages: int
    """Accepted messages."""

    condition: str | None = None
    """Of rejected: the condition of the error."""

    description: str | None = None


class DeadLetterGroup(Model):
    """Dead letters of one cause and origin."""

    cause: str
    origin: str
    messages: int
    bytes: int
    oldest: str
    newest: str
    description: str | None = None

    filter: str
    """The SQL filter expression that matches the group."""

    ids: tuple[int, ...]
    """Some of the messages."""


class DeadLettersAnswer(_Head):
    """Dead letters by cause and origin."""

    operation: Literal["deadletters"]
    messages: int
    bytes: int

    complete: bool
    """Whether all dead letters were examined."""

    groups: tuple[DeadLetterGroup, ...]
    continue_: _Continue = None
