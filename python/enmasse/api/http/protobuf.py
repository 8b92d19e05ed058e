"""Request bodies in protobuf, which kubectl uses for the Kubernetes core kinds.

Only these kinds, and only decoding: every client that sends protobuf accepts JSON responses. Field
numbers are those of `generated.proto` in k8s.io/api and k8s.io/apimachinery.
"""

import base64
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from enmasse.base.errors import Code, Invalid
from enmasse.resources.shape import RESOURCE_VALUES_MAX, too_many

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\0"

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED_BYTES = {_FIXED64: 8, _FIXED32: 4}
_DEPTH_MAX = 16


class _Field(NamedTuple):
    """Type of a field: text, bytes (base64), flag, number, or message."""

    name: str
    type: str
    message: "Mapping[int, _Field]" = {}  # noqa: RUF012
    repeated: bool = False


def _texts(**names: int) -> dict[int, _Field]:
    return {number: _Field(name, "text") for name, number in names.items()}


_PAIR = {kind: {1: _Field("key", "text"), 2: _Field("value", kind)} for kind in ("text", "bytes")}


def _map(name: str, kind: str) -> _Field:
    return _Field(name, "map", _PAIR[kind])


_OWNER = _texts(kind=1, name=3, uid=4, apiVersion=5) | {
    6: _Field("controller", "flag"),
    7: _Field("blockOwnerDeletion", "flag"),
}
_METADATA = _texts(name=1, generateName=2, namespace=3, uid=5, resourceVersion=6) | {
    11: _map("labels", "text"),
    12: _map("annotations", "text"),
    13: _Field("ownerReferences", "message", _OWNER, repeated=True),
    14: _Field("finalizers", "text", repeated=True),
}
_HEAD = {1: _Field("metadata", "message", _METADATA)}
_ATTRIBUTES = _texts(
    namespace=1, verb=2, group=3, version=4, resource=5, subresource=6, name=7
)  # fmt: skip
_ACCESS = {
    1: _Field("resourceAttributes", "message", _ATTRIBUTES),
    2: _Field("nonResourceAttributes", "message", _texts(path=1, verb=2)),
}
_KINDS: Mapping[str, Mapping[int, _Field]] = {
    "Namespace": _HEAD,
    "ConfigMap": _HEAD
    | {
        2: _map("data", "text"),
        3: _map("binaryData", "bytes"),
        4: _Field("immutable", "flag"),
    },
    "Secret": _HEAD
    | {
        2: _map("data", "bytes"),
        3: _Field("type", "text"),
        4: _map("stringData", "text"),
        5: _Field("immutable", "flag"),
    },
    "SelfSubjectAccessReview": _HEAD | {2: _Field("spec", "message", _ACCESS)},
    "SelfSubjectRulesReview": _HEAD | {2: _Field("spec", "message", _texts(namespace=1))},
    "SelfSubjectReview": _HEAD,
    "DeleteOptions": {
        1: _Field("gracePeriodSeconds", "number"),
        2: _Field("preconditions", "message", _texts(uid=1, resourceVersion=2)),
        4: _Field("propagationPolicy", "text"),
        5: _Field("dryRun", "text", repeated=True),
    },
}
_TYPE = _texts(apiVersion=1, kind=2)
_ENVELOPE = {1: _Field("type", "message", _TYPE), 2: _Field("raw", "bytes")}


def document(body: bytes) -> dict[str, Any]:
    """Return the document of a body in its JSON form.

    Unknown fields are skipped, as protobuf requires.

    Raises: Invalid if it is malformed or of another kind.
    """
    if not body.startswith(MAGIC):
        raise _malformed("does not have the Kubernetes protobuf prefix")
    reader = _Reader()
    envelope = reader.message(body[len(MAGIC) :], _ENVELOPE, 0)
    head = envelope.get("type", {})
    kind = head.get("kind", "")
    if kind not in _KINDS:
        raise Invalid(
            Code.PATCH_UNSUPPORTED,
            f"{kind or 'this object'} is not supported as protobuf; send JSON",
        )
    raw = base64.b64decode(envelope.get("raw", ""))
    return {**head, **reader.message(raw, _KINDS[kind], 0)}


class _Reader:
    """Decodes the messages of one body and counts their fields."""

    def __init__(self) -> None:
        self._fields = 0

    def message(self, data: bytes, fields: Mapping[int, _Field], depth: int) -> dict[str, Any]:
        """Return a message as a document."""
        if depth > _DEPTH_MAX:
            raise _malformed("is nested too deeply")
        found: dict[str, Any] = {}
        for number, value in _pairs(data):
            self._fields += 1
            if self._fields > RESOURCE_VALUES_MAX:
                raise _malformed(f"is not read: {too_many(RESOURCE_VALUES_MAX)}")
            field = fields.get(number)
            if field is None:
                continue
            read = self._value(field, value, depth)
            if field.type == "map":
                found.setdefault(field.name, {})[read.get("key", "")] = read.get("value", "")
            elif field.repeated:
                found.setdefault(field.name, []).append(read)
            elif read != "":  # An empty text equals an absent one.
                found[field.name] = read
        return found

    def _value(self, field: _Field, value: int | bytes, depth: int) -> Any:
        if isinstance(value, int):
            if field.type not in ("flag", "number"):
                raise _malformed(f"has a number as {field.name}")
            return bool(value) if field.type == "flag" else value
        if field.type in ("message", "map"):
            return self.message(value, field.message, depth + 1)
        if field.type == "bytes":
            return base64.b64encode(value).decode()
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise _malformed(f"has no text as {field.name}") from None


def _pairs(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of each field; fixed-width numbers are not used here."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value, at = _varint(data, at)
            yield number, value
        elif wire == _BYTES or wire in _FIXED_BYTES:
            length = _FIXED_BYTES.get(wire)
            if length is None:
                length, at = _varint(data, at)
            if at + length > len(data):
                raise _malformed("ends too early")
            if wire == _BYTES:
                yield number, data[at : at + length]
            at += length
        else:
            raise _malformed("has a field of an unknown wire type")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise _malformed("ends too early")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise _malformed("has a number of more than ten bytes")


def _malformed(problem: str) -> Invalid:
    return Invalid(Code.DOCUMENT_UNREADABLE, f"the body {problem}")
