"""Large responses are compressed for clients that accept gzip."""

import gzip
import json

import httpx2
import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from asgi_platform import Served
from enmasse.api.http.compression import BODY_BYTES_MIN, Compression, accepts_gzip


@pytest.mark.parametrize(
    ("accepted", "expected"),
    [
        ("gzip", True),
        ("deflate, GZIP;q=0.5", True),
        ("*", True),
        ("gzip;q=0, *", False),
        ("*;q=0", False),
        ("identity", False),
        ("gzip;q=x", False),
        ("", False),
    ],
)
def test_accept_encoding_decides_whether_gzip_is_used(accepted: str, expected: bool) -> None:
    assert accepts_gzip(accepted) is expected


async def sent_by(app: ASGIApp) -> list[Message]:
    """The messages of an application to a client that accepts gzip."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        raise AssertionError("the request body is not read")

    scope = {"type": "http", "headers": [(b"accept-encoding", b"gzip")]}
    await Compression(app)(scope, receive, send)
    return sent


async def answer(*parts: bytes, headers: dict[str, str] | None = None) -> httpx2.Response:
    """The response on the wire of an application that sends these parts."""

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        raw = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
        await send({"type": "http.response.start", "status": 200, "headers": raw})
        for number, part in enumerate(parts, 1):
            message: Message = {"type": "http.response.body", "body": part}
            await send({**message, "more_body": number < len(parts)})

    sent = await sent_by(app)
    body = b"".join(one.get("body", b"") for one in sent[1:])
    given = [(name.decode(), value.decode()) for name, value in sent[0]["headers"]]
    return httpx2.Response(200, headers=given, extensions={"body": body})


async def test_large_complete_body_is_compressed() -> None:
    body = b"x" * BODY_BYTES_MIN
    got = await answer(body, headers={"content-length": str(len(body)), "vary": "Accept"})
    assert got.headers["content-encoding"] == "gzip"
    assert got.headers["vary"] == "Accept, Accept-Encoding"
    packed = got.extensions["body"]
    assert got.headers["content-length"] == str(len(packed))
    assert gzip.decompress(packed) == body


async def test_small_streamed_and_encoded_bodies_are_not_compressed() -> None:
    large = b"x" * BODY_BYTES_MIN
    length = str(len(large))
    for parts, headers in (
        ((large[1:],), {"content-length": str(len(large) - 1)}),
        ((large, large), {}),
        ((large, large), {"content-length": str(2 * len(large))}),
        ((large,), {"content-encoding": "br", "content-length": length}),
    ):
        got = await answer(*parts, headers=headers)
        assert got.extensions["body"] == b"".join(parts)
        assert got.headers.get("content-encoding") == headers.get("content-encoding")


async def test_response_headers_of_a_stream_are_sent_at_once() -> None:
    """The client of a watch waits for the headers, even if no event follows for long."""

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    assert len(await sent_by(app)) == 1


async def test_large_list_response_is_compressed(served: Served) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "large"}}
    created = await served.http.post(path, json=made | {"data": {"text": "x" * BODY_BYTES_MIN}})
    assert created.status_code == 201
    listed = await served.http.get(path, headers={"Accept-Encoding": "gzip"})
    assert listed.headers["content-encoding"] == "gzip"
    assert json.loads(listed.content)["items"][-1]["data"]["text"] == "x" * BODY_BYTES_MIN
    plain = await served.http.get(path, headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.json() == listed.json()
