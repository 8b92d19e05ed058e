"""A message as plain data, for people and for programs that read JSON."""

from dataclasses import asdict
from typing import Any

from enmasse.messaging.message import Header, Message


def as_document(message: Message) -> dict[str, Any]:
    """Return a message as plain data: the body and the non-empty sections."""
    document: dict[str, Any] = {"body": _plain(message.content)}
    set_properties = {
        name: value for name, value in asdict(message.properties).items() if value is not None
    }
    for name, section in (
        ("properties", set_properties),
        ("applicationProperties", message.application_properties),
        ("annotations", message.annotations),
        ("header", _header(message.header)),
    ):
        if section:
            document[name] = {str(key): _plain(value) for key, value in section.items()}
    return document


def _header(header: Header | None) -> dict[str, Any]:
    if header is None:
        return {}
    default = asdict(Header())
    return {name: value for name, value in asdict(header).items() if value != default[name]}


def _plain(value: Any) -> Any:
    """Return a JSON value: bytes as text if they are UTF-8, other types as their text form."""
    match value:
        case bytes():
            return value.decode(errors="replace")
        case None | bool() | int() | float() | str():
            return value
        case dict():
            return {str(key): _plain(one) for key, one in value.items()}
        case list() | tuple():
            return [_plain(one) for one in value]
    return str(value)
