"""Conventions of the Kubernetes API server on which clients rely."""

import asyncio
import ssl
from pathlib import Path

import pytest

from asgi_platform import ADDRESSES, SPACES, TOKEN, Served, body
from doubles import queue, space
from enmasse.api import Server, bind
from enmasse.api.access.guard import BODY_BYTES_MAX
from enmasse.auth.certificates import ensure_certificates
from enmasse.base.clock import SystemClock


async def test_messaging_readiness_fails_on_a_stopped_journal_and_on_a_stand_by(
    served: Served,
) -> None:
    stranger = served.client()
    ready = await stranger.get("/readyz/messaging")
    assert (ready.status_code, ready.text) == (200, "ok\n")
    served.engine.troubled = "the journal has stopped: no space"
    stopped = await stranger.get("/readyz/messaging")
    assert (stopped.status_code, stopped.text) == (503, "the journal has stopped: no space\n")
    assert (await stranger.get("/readyz")).status_code == 200, "the API is still ready"
    served.engine.troubled = None
    served.ready = False
    assert (await stranger.get("/readyz/messaging")).status_code == 503


@pytest.mark.parametrize("where", ["query", "body"])
async def test_delete_with_an_unknown_propagation_policy_is_refused(
    served: Served, where: str
) -> None:
    await served.http.post(SPACES, json=body(space()))
    said = {"propagationPolicy": "Bogus"}
    given = {"params": said} if where == "query" else {"json": said}
    refused = await served.http.request("DELETE", f"{SPACES}/default", **given)
    assert (refused.status_code, refused.json()["reason"]) == (422, "Invalid")
    assert '"Bogus": supported values: "Background"' in refused.json()["message"]
    assert (await served.http.get(f"{SPACES}/default")).status_code == 200
    for policy in ("Orphan", "Background", "Foreground"):
        params = {"propagationPolicy": policy, "dryRun": "All"}
        tried = await served.http.request("DELETE", f"{SPACES}/default", params=params)
        assert tried.status_code == 200


async def test_a_put_without_a_version_is_invalid(served: Served) -> None:
    await served.http.post(SPACES, json=body(space()))
    made = (await served.http.post(ADDRESSES, json=body(queue()))).json()
    one = f"{ADDRESSES}/default.orders"
    version = made["metadata"].pop("resourceVersion")
    refused = await served.http.put(one, json=made)
    assert (refused.status_code, refused.json()["reason"]) == (422, "Invalid")
    assert "metadata.resourceVersion" in refused.json()["message"]
    made["metadata"]["resourceVersion"] = version
    assert (await served.http.put(one, json=made)).status_code == 200
    # As in Kubernetes, kinds of v1 accept a PUT without a version.
    maps = "/api/v1/namespaces/default/configmaps"
    config = {"metadata": {"name": "some"}, "data": {"a": "1"}}
    assert (await served.http.post(maps, json=config)).status_code == 201
    assert (await served.http.put(f"{maps}/some", json=config)).status_code == 200


async def test_transfer_encoding_overrides_content_length(served: Served) -> None:
    listener = bind("127.0.0.1", 0)
    server = Server(served.app, listener)
    running = asyncio.ensure_future(server.run_until_stopped())
    reader, writer = await asyncio.open_connection(*listener.getsockname())
    writer.write(
        f"GET {SPACES} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
        f"Content-Length: {BODY_BYTES_MAX + 1}\r\nTransfer-Encoding: chunked\r\n"
        "Connection: close\r\n\r\n0\r\n\r\n".encode()
    )
    async with asyncio.timeout(5):
        answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 200")
    writer.close()
    server.stop()
    async with asyncio.timeout(5):
        await running


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("coded", [False, True], ids=["length", "chunked"])
async def test_oversized_request_reads_the_413_response(
    served: Served, tmp_path: Path, secure: bool, coded: bool
) -> None:
    tls = ensure_certificates(tmp_path, ["localhost"], SystemClock()) if secure else None
    listener = bind("127.0.0.1", 0)
    server = Server(served.app, listener, tls=tls)
    running = asyncio.ensure_future(server.run_until_stopped())
    context = ssl.create_default_context(cafile=str(tls.ca)) if tls else None
    named = {"server_hostname": "localhost"} if tls else {}
    reader, writer = await asyncio.open_connection(*listener.getsockname(), ssl=context, **named)
    size = 8 * BODY_BYTES_MAX
    length = "Transfer-Encoding: chunked" if coded else f"Content-Length: {size}"
    writer.write(
        f"POST {SPACES} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
        f"Content-Type: application/json\r\n{length}\r\n\r\n".encode()
    )
    piece = bytes(BODY_BYTES_MAX // 8)
    async with asyncio.timeout(30):
        for _ in range(size // len(piece)):
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece) if coded else piece)
            await writer.drain()
        if coded:
            writer.write(b"0\r\n\r\n")
        answer = await reader.readuntil(b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 413")
    writer.close()
    server.stop()
    async with asyncio.timeout(5):
        await running
