"""Protobuf bodies, which kubectl sends for the built-in kinds of Kubernetes."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asgi_platform import Served
from enmasse.api.http.protobuf import MAGIC, MEDIA_TYPE, document
from enmasse.base.errors import Invalid

PROTOBUF = {"Content-Type": MEDIA_TYPE}


def varint(value: int) -> bytes:
    head = b""
    while value > 0x7F:
        head += bytes([value & 0x7F | 0x80])
        value >>= 7
    return head + bytes([value])


def field(number: int, value: bytes | str | int) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def body(kind: str, raw: bytes, version: str = "v1") -> bytes:
    head = field(1, version) + field(2, kind)
    return MAGIC + field(1, head) + field(2, raw) + field(3, "") + field(4, "")


def pair(key: str, value: bytes | str) -> bytes:
    return field(1, key) + field(2, value)


METADATA = (
    field(1, "s")
    + field(2, "")
    + field(8, b"")
    + field(11, pair("team", "north"))
    + field(11, pair("tier", "1"))
    + field(14, "example.com/a")
)


def test_protobuf_secret_is_decoded() -> None:
    raw = field(1, METADATA) + field(2, pair("a", b"\xff")) + field(3, "Opaque") + field(5, 1)
    assert document(body("Secret", raw + field(4, pair("b", "text")))) == {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": "s",
            "labels": {"team": "north", "tier": "1"},
            "finalizers": ["example.com/a"],
        },
        "data": {"a": "/w=="},
        "stringData": {"b": "text"},
        "type": "Opaque",
        "immutable": True,
    }


def test_protobuf_access_review_is_decoded() -> None:
    attributes = field(1, "default") + field(2, "create") + field(5, "addresses")
    raw = field(1, b"") + field(2, field(1, attributes)) + field(3, field(1, 0))
    found = document(body("SelfSubjectAccessReview", raw, "authorization.k8s.io/v1"))
    assert found["spec"] == {
        "resourceAttributes": {"namespace": "default", "verb": "create", "resource": "addresses"}
    }


async def test_protobuf_body_is_accepted_like_json(served: Served) -> None:
    path = "/api/v1/namespaces"
    made = await served.http.post(
        path, content=body("Namespace", field(1, field(1, "north"))), headers=PROTOBUF
    )
    assert (made.status_code, made.json()["metadata"]["name"]) == (201, "north")
    refused = await served.http.post(path, content=body("Pod", b""), headers=PROTOBUF)
    assert (refused.status_code, refused.json()["reason"]) == (415, "UnsupportedMediaType")


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"{}",
        MAGIC + b"\x0a",
        MAGIC + b"\x0a\x05abc",
        MAGIC + b"\xff" * 11,
        MAGIC + b"\x0b",
        body("Secret", field(1, 3)),
        body("Secret", field(3, b"\xff")),
    ],
)
def test_malformed_protobuf_is_refused(bad: bytes) -> None:
    with pytest.raises(Invalid):
        document(bad)


@given(st.binary(max_size=200), st.sampled_from(["Secret", "ConfigMap", "Namespace"]))
def test_random_bytes_never_crash_the_protobuf_decoder(data: bytes, kind: str) -> None:
    for text in (MAGIC + data, body(kind, data)):
        with contextlib.suppress(Invalid):
            assert isinstance(document(text), dict)
