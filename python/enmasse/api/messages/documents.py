"""Messages in requests and responses. Pure."""

import base64
import binascii
import json
from dataclasses import asdict
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from enmasse.base.errors import Code, Fault, Invalid
from enmasse.messaging import Body, Data, Header, Message, Properties, Value, as_document
from enmasse.resources import faults as readable
from enmasse.resources.model import Model

MESSAGE_BYTES_MAX = 65_536
"""Maximum bytes of the body of a message that a request contains."""

MEMBERS_MAX = 200
"""Maximum application properties, and annotations."""

Form = Literal["plain", "typed"]
BodyKind = Literal["data", "value", "sequence", "none"]
"""The body sections of a message (3.2.6 to 3.2.8), or none."""

Scalar = str | int | float | bool


class RawBody(Model):
    """The bytes of a body of data."""

    encoding: Literal["base64"]
    body: str


class PropertiesDocument(Model):
    """Standard properties of a message that a request may set."""

    message_id: Annotated[str | None, Field(alias="message_id")] = None
    correlation_id: Annotated[str | None, Field(alias="correlation_id")] = None
    to: str | None = None
    subject: str | None = None
    reply_to: Annotated[str | None, Field(alias="reply_to")] = None
    content_type: Annotated[str | None, Field(alias="content_type")] = None
    content_encoding: Annotated[str | None, Field(alias="content_encoding")] = None
    group_id: Annotated[str | None, Field(alias="group_id")] = None


class MessageDocument(Model):
    """A message in a request."""

    body: Any = None
    encoding: Literal["text", "data", "json", "base64", "value", "none"] = "text"
    """How `body` becomes the body: a text value (data, if there is a content type), a text as data
    in UTF-8, JSON as data, bytes as data, an AMQP value, or none: the message has no body section,
    and `body` is absent.
    """

    properties: PropertiesDocument = PropertiesDocument()
    application_properties: Annotated[dict[str, Scalar], Field(max_length=MEMBERS_MAX)] = Field(
        default_factory=dict
    )
    annotations: Annotated[dict[str, Scalar], Field(max_length=MEMBERS_MAX)] = Field(
        default_factory=dict
    )
    durable: bool = True
    ttl_ms: Annotated[int, Field(strict=True, ge=1, lt=2**32)] | None = None
    priority: Annotated[int, Field(strict=True, ge=0, le=255)] | None = None

    def message(self, field: str = "message") -> Message:
        """Return the message.

        Raises: Invalid if the body does not have its encoding, or is too large.
        """
        properties = Properties(**self.properties.model_dump())
        body, size = _body(self, field)
        if size > MESSAGE_BYTES_MAX:
            raise fault(f"{field}.body", f"must have at most {MESSAGE_BYTES_MAX} bytes")
        if self.encoding == "json" and properties.content_type is None:
            named = {**asdict(properties), "content_type": "application/json"}
            properties = Properties(**named)
        priority = Header().priority if self.priority is None else self.priority
        return Message(
            body=body,
            properties=properties,
            header=Header(self.durable, priority, self.ttl_ms),
            application_properties=self.application_properties,
            annotations=self.annotations,
        )


def parsed(body: dict[str, Any], model: type[Model]) -> Any:
    """Return a request body as a model.

    Raises: Invalid naming each field at fault.
    """
    try:
        return model.model_validate(body, by_alias=True, by_name=False)
    except ValidationError as error:
        found = readable.of(error, model)
        text = "; ".join(str(one) for one in found)
        raise Invalid(Code.FIELD_INVALID, text, faults=found) from None


def shown_message(message: Message, form: Form) -> dict[str, Any]:
    """Return the members of a response that show a message.

    `typed` adds what JSON loses: the kind of the body, and its bytes.
    """
    shown: dict[str, Any] = {"message": as_document(message)}
    if form == "plain":
        return shown
    match message.body:
        case Data():
            encoded = base64.b64encode(message.body.content).decode()
            shown |= {"kind": "data", "raw": {"encoding": "base64", "body": encoded}}
        case Value():
            shown["kind"] = "value"
        case None:
            shown["kind"] = "none"
        case _:
            shown["kind"] = "sequence"
    return shown


def fault(field: str, message: str) -> Invalid:
    """Return the refusal of a field."""
    found = Fault(field, message)
    return Invalid(Code.FIELD_INVALID, str(found), faults=[found])


def _body(document: MessageDocument, field: str) -> tuple[Body, int]:
    """Return the body and its size in bytes."""
    value = document.body
    if document.encoding == "none":
        if value is not None:
            raise fault(f"{field}.body", "must be absent with the encoding 'none'")
        return None, 0
    if document.encoding in ("json", "value"):
        encoded = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
        body: Body = Data((encoded,)) if document.encoding == "json" else Value(value)
        return body, len(encoded)
    text = "" if value is None else value
    if not isinstance(text, str):
        raise fault(f"{field}.body", f"must be a text with the encoding {document.encoding!r}")
    if document.encoding == "text":
        encoded = text.encode()
        # content-type describes binary bodies, not typed values (3.2.4).
        is_typed = document.properties.content_type is None
        return (Value(text) if is_typed else Data((encoded,))), len(encoded)
    if document.encoding == "data":
        encoded = text.encode()
        return Data((encoded,)), len(encoded)
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise fault(f"{field}.body", "is not base64") from None
    return Data((data,)), len(data)
