"""Encodes an OpenAPI v2 document in protobuf, the form that kubectl reads.

Field numbers are those of `OpenAPIv2.proto` in github.com/google/gnostic-models, reduced to the
messages that `v2` produces.
"""

import json
import struct
from collections.abc import Callable, Mapping
from typing import Any

MEDIA_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
"""Media type of the response. Requests use another name with an @, which Go cannot parse."""

REQUESTED_TYPES = (
    MEDIA_TYPE,
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "application/com.github.googleapis.gnostic.openapiv2@68f4ded+protobuf",
)
"""Media types by which clients request it, in lower case; the last one is the oldest."""

_VARINT, _FIXED64, _BYTES = 0, 1, 2
_EXTENSION = "x-"
"""Prefix of extension fields, which share one field of the protobuf."""

Write = Callable[[int, Any], bytes]
"""Encodes a value as the protobuf field of a number."""


def encoded(document: Mapping[str, Any]) -> bytes:
    """Return a document in protobuf.

    Raises: KeyError for a field without a number here.
    """
    return _body(document, _DOCUMENT)


def _varint(value: int) -> bytes:
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*made, value))


def _raw(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(data)) + data


def _text(number: int, value: str) -> bytes:
    return _raw(number, value.encode())


def _whole(number: int, value: int) -> bytes:
    return _varint(number << 3 | _VARINT) + _varint(value)


def _double(number: int, value: float) -> bytes:
    return _varint(number << 3 | _FIXED64) + struct.pack("<d", value)


def _any(number: int, value: Any) -> bytes:
    return _raw(number, _text(2, json.dumps(value)))  # JSON is YAML


def _each(write: Write) -> Write:
    return lambda number, values: b"".join(write(number, one) for one in values)


def _named(write: Write) -> Write:
    """Encode each item of a mapping as a message of its name and its value."""
    return lambda number, values: b"".join(
        _raw(number, _text(1, name) + write(2, one)) for name, one in values.items()
    )


def _inside(number: int, write: Write) -> Write:
    """Encode a value as the only field of a message, such as a oneof."""
    return lambda outer, value: _raw(outer, write(number, value))


def _message(fields: Mapping[str, tuple[int, Write]]) -> Write:
    return lambda number, value: _raw(number, _body(value, fields))


def _body(value: Mapping[str, Any], fields: Mapping[str, tuple[int, Write]]) -> bytes:
    parts = []
    for name, one in value.items():
        if name.startswith(_EXTENSION):
            number, write = fields[_EXTENSION]
            parts.append(write(number, {name: one}))
        else:
            number, write = fields[name]
            parts.append(write(number, one))
    return b"".join(parts)


def _schema(number: int, value: Mapping[str, Any]) -> bytes:
    return _raw(number, _body(value, _SCHEMA))


def _parameter(number: int, value: Mapping[str, Any]) -> bytes:
    write = {
        "body": _inside(1, _message(_BODY_PARAMETER)),
        "query": _inside(2, _inside(3, _message(_QUERY_PARAMETER))),
        "path": _inside(2, _inside(4, _message(_PATH_PARAMETER))),
    }[value["in"]]
    return _inside(1, write)(number, value)


_TEXTS = _each(_text)
_ANYS = _named(_any)

_SCHEMA: dict[str, tuple[int, Write]] = {
    "$ref": (1, _text),
    "format": (2, _text),
    "description": (4, _text),
    "default": (5, _any),
    "maximum": (7, _double),
    "exclusiveMaximum": (8, _whole),
    "minimum": (9, _double),
    "exclusiveMinimum": (10, _whole),
    "maxLength": (11, _whole),
    "minLength": (12, _whole),
    "pattern": (13, _text),
    "maxItems": (14, _whole),
    "minItems": (15, _whole),
    "maxProperties": (17, _whole),
    "minProperties": (18, _whole),
    "required": (19, _TEXTS),
    "enum": (20, _each(_any)),
    "additionalProperties": (21, _inside(1, _schema)),
    "type": (22, _inside(1, _text)),
    "items": (23, _inside(1, _schema)),
    "properties": (25, _inside(1, _named(_schema))),
    _EXTENSION: (31, _ANYS),
}
_BODY_PARAMETER: dict[str, tuple[int, Write]] = {
    "name": (2, _text),
    "in": (3, _text),
    "required": (4, _whole),
    "schema": (5, _schema),
}
_PATH_PARAMETER: dict[str, tuple[int, Write]] = {
    "required": (1, _whole),
    "in": (2, _text),
    "name": (4, _text),
    "type": (5, _text),
}
_QUERY_PARAMETER: dict[str, tuple[int, Write]] = {
    "in": (2, _text),
    "name": (4, _text),
    "type": (6, _text),
    "minimum": (13, _double),
    "enum": (21, _each(_any)),
}
_RESPONSE: dict[str, tuple[int, Write]] = {
    "description": (1, _text),
    "schema": (2, _inside(1, _schema)),
}
_OPERATION: dict[str, tuple[int, Write]] = {
    "tags": (1, _TEXTS),
    "produces": (6, _TEXTS),
    "consumes": (7, _TEXTS),
    "parameters": (8, _each(_parameter)),
    "responses": (9, _inside(1, _named(_inside(1, _message(_RESPONSE))))),
    _EXTENSION: (13, _ANYS),
}
_PATH: dict[str, tuple[int, Write]] = {
    "get": (2, _message(_OPERATION)),
    "put": (3, _message(_OPERATION)),
    "post": (4, _message(_OPERATION)),
    "delete": (5, _message(_OPERATION)),
    "patch": (8, _message(_OPERATION)),
    "parameters": (9, _each(_parameter)),
}
_API_KEY: dict[str, tuple[int, Write]] = {
    "type": (1, _text),
    "name": (2, _text),
    "in": (3, _text),
}
_DOCUMENT: dict[str, tuple[int, Write]] = {
    "swagger": (1, _text),
    "info": (2, _message({"title": (1, _text), "version": (2, _text)})),
    "paths": (8, _inside(2, _named(_message(_PATH)))),
    "definitions": (9, _inside(1, _named(_schema))),
    "security": (12, _each(_inside(1, _named(_inside(1, _TEXTS))))),
    "securityDefinitions": (13, _inside(1, _named(_inside(2, _message(_API_KEY))))),
}
