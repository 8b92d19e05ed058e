"""Sockets and signals of the HTTP server."""

import asyncio
import signal
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from asgi_platform import ADDRESSES, TOKEN, Served
from enmasse.api import Server, bind
from enmasse.api.http.peer_limits import Bounds
from enmasse.auth.certificates import ensure_certificates
from enmasse.base.clock import SystemClock
from enmasse.base.errors import Code, Unavailable


def test_bind_to_zero_selects_a_free_port() -> None:
    listener = bind("127.0.0.1", 0)
    assert listener.getsockname()[1] > 0
    listener.close()


def test_bind_to_a_used_tcp_port_names_it_with_a_remedy() -> None:
    first = bind("127.0.0.1", 0)
    port = first.getsockname()[1]
    with pytest.raises(Unavailable, match=f"127.0.0.1:{port}: Address already in use; free it"):
        bind("127.0.0.1", port)
    first.close()


def test_bind_to_a_foreign_host_names_it() -> None:
    with pytest.raises(Unavailable, match="cannot listen on 192.0.2.1") as refusal:
        bind("192.0.2.1", 0)
    assert refusal.value.code == Code.PORT_TAKEN


def test_bind_accepts_an_ipv6_address() -> None:
    listener = bind("::1", 0)
    assert listener.family == socket.AF_INET6
    listener.close()


@asynccontextmanager
async def serving(served: Served, bounds: Bounds | None = None) -> AsyncIterator[int]:
    """Serve on a free port, then stop."""
    listener = bind("127.0.0.1", 0)
    server = Server(served.app, listener, bounds)
    running = asyncio.ensure_future(server.run_until_stopped())
    yield listener.getsockname()[1]
    server.stop()
    async with asyncio.timeout(5):
        await running


async def test_accepted_connections_have_tcp_nodelay(
    served: Served,
) -> None:
    listener = bind("127.0.0.1", 0)
    server = Server(served.app, listener)
    running = asyncio.ensure_future(server.run_until_stopped())
    port = listener.getsockname()[1]
    async with httpx2.AsyncClient() as http:
        await http.get(f"http://127.0.0.1:{port}/healthz")
        (connection,) = server.server_state.connections
        ours = connection.transport.get_extra_info("socket")
        assert ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    server.stop()
    async with asyncio.timeout(5):
        await running


async def health(port: int) -> str:
    async with httpx2.AsyncClient() as http:
        return (await http.get(f"http://127.0.0.1:{port}/healthz")).text


async def test_server_serves_and_stops_without_changing_signal_handlers(served: Served) -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    async with serving(served) as port:
        assert await health(port) == "ok\n"
        assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"GET /heal",
        b"GET /healthz HTTP/1.1\r\nHost: loc",
        f"POST {ADDRESSES} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
        "Content-Length: 9\r\n\r\nhalf".encode(),
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /again",
    ],
    ids=["nothing", "line", "head", "body", "second"],
)
async def test_incomplete_request_is_closed_at_its_deadline(served: Served, said: bytes) -> None:
    async with serving(served, Bounds(request_s=0.05)) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(said)
        async with asyncio.timeout(8):
            await reader.read()
        writer.close()


async def test_an_idle_connection_is_closed_at_its_own_deadline(served: Served) -> None:
    assert Bounds().silent_s > 10, "a page asks again every few seconds"
    async with serving(served, Bounds(silent_s=0.05)) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        async with asyncio.timeout(3):
            assert (await reader.read()).startswith(b"HTTP/1.1 200")
        writer.close()


async def test_oldest_idle_connections_are_closed_for_a_new_one(served: Served) -> None:
    bounds = Bounds(request_s=60, waiting_of_peer_max=3)
    async with serving(served, bounds) as port:
        opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(5)]
        async with asyncio.timeout(5):
            assert await opened[0][0].read() == b""
            assert await opened[1][0].read() == b""
        assert await health(port) == "ok\n"
        kept = opened[-1]
        kept[1].write(b"GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n")
        async with asyncio.timeout(5):
            assert (await kept[0].read()).startswith(b"HTTP/1.1 200")
        for _, writer in opened:
            writer.close()


async def test_renewed_certificate_is_served_to_new_connections(
    served: Served, tmp_path: Path
) -> None:
    clock = SystemClock()
    files = ensure_certificates(tmp_path, ["localhost", "127.0.0.1"], clock)
    listener = bind("127.0.0.1", 0)
    server = Server(served.app, listener, tls=files)
    running = asyncio.ensure_future(server.run_until_stopped())
    port = listener.getsockname()[1]
    trust = ssl.create_default_context(cafile=str(files.ca))

    async def seen() -> tuple[int, bytes]:
        async with httpx2.AsyncClient(verify=trust) as http:
            answer = await http.get(f"https://127.0.0.1:{port}/healthz")
            stream = answer.extensions["network_stream"]
            return answer.status_code, stream.get_extra_info("ssl_object").getpeercert(True)

    first = await seen()
    assert first[0] == 200
    ensure_certificates(tmp_path, ["localhost", "127.0.0.1", "mq.example.com"], clock)
    second = await seen()
    assert (second[0], second[1] != first[1]) == (200, True)
    server.stop()
    async with asyncio.timeout(5):
        await running
