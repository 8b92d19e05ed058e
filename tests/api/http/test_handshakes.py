"""Half-open TLS handshakes of the HTTP API."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from asgi_platform import Served
from enmasse.api import Server, bind
from enmasse.api.http.handshakes import RECORD_BYTES, BoundedTls
from enmasse.api.http.peer_limits import Bounds
from enmasse.auth.certificates import TlsFiles, ensure_certificates
from enmasse.base.clock import SystemClock


def client_hello() -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


HELLO = client_hello()


@pytest.fixture
def tls(tmp_path: Path) -> TlsFiles:
    return ensure_certificates(tmp_path, ["localhost", "127.0.0.1"], SystemClock())


@asynccontextmanager
async def serving(served: Served, tls: TlsFiles, bounds: Bounds) -> AsyncIterator[int]:
    listener = bind("127.0.0.1", 0)
    server = Server(served.app, listener, bounds, tls)
    running = asyncio.ensure_future(server.run_until_stopped())
    yield listener.getsockname()[1]
    server.stop()
    async with asyncio.timeout(10):
        await running


async def health(port: int, tls: TlsFiles, context: ssl.SSLContext | None = None) -> bytes:
    context = context or ssl.create_default_context(cafile=str(tls.ca))
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=context, server_hostname="localhost"
    )
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    answer = await reader.read()
    writer.close()
    return answer


@pytest.mark.parametrize("said", [b"", HELLO[:3], HELLO[:100], HELLO], ids=len)
async def test_stalled_tls_handshake_is_closed_at_its_deadline(
    served: Served, tls: TlsFiles, said: bytes
) -> None:
    async with serving(served, tls, Bounds(request_s=0.1)) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(said)
        async with asyncio.timeout(8):
            with_alert = await reader.read()
        assert (len(with_alert) > 0) == (said == HELLO), "only a complete hello gets an answer"
        writer.close()


@pytest.mark.parametrize("said", [HELLO[:100], HELLO], ids=["begun", "whole"])
async def test_half_open_handshakes_are_bounded_by_closing_the_oldest(
    served: Served, tls: TlsFiles, said: bytes
) -> None:
    bounds = Bounds(request_s=60, half_open_max=6, handshakes_max=3)
    async with serving(served, tls, bounds) as port:
        opened = []
        for _ in range(5):
            opened.append(await asyncio.open_connection("127.0.0.1", port))
            opened[-1][1].write(said)
        async with asyncio.timeout(5):
            for reader, _ in opened[:2]:
                with suppress(ConnectionResetError):
                    await reader.read()
            assert (await health(port, tls)).startswith(b"HTTP/1.1 200")
        for _, writer in opened:
            writer.close()


async def test_client_hello_in_one_byte_segments_is_accepted(served: Served, tls: TlsFiles) -> None:
    async with serving(served, tls, Bounds()) as port:
        context = ssl.create_default_context(cafile=str(tls.ca))
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        async with asyncio.timeout(10):
            while True:
                try:
                    client.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    for byte in outgoing.read():
                        writer.write(bytes([byte]))
                        await writer.drain()
                    incoming.write(await reader.read(1 << 16))
        assert client.version() == "TLSv1.3"
        writer.close()


async def test_plaintext_on_a_tls_listener_is_closed_at_once(served: Served, tls: TlsFiles) -> None:
    async with serving(served, tls, Bounds(request_s=60)) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        async with asyncio.timeout(5):
            await reader.read()
        writer.close()


async def test_tls_1_2_offers_only_aead_ciphers(served: Served, tls: TlsFiles) -> None:
    async with serving(served, tls, Bounds()) as port:
        for ciphers, works in (("ECDHE+AESGCM", True), ("ECDHE+AES+SHA384:ECDHE+AES+SHA", False)):
            context = ssl.create_default_context(cafile=str(tls.ca))
            context.maximum_version = ssl.TLSVersion.TLSv1_2
            context.set_ciphers(ciphers)
            if works:
                assert (await health(port, tls, context)).startswith(b"HTTP/1.1 200")
            else:
                cbc = [one["name"] for one in context.get_ciphers() if "GCM" not in one["name"]]
                assert cbc
                context.set_ciphers(":".join(one for one in cbc if not one.startswith("TLS_")))
                with pytest.raises((ssl.SSLError, ConnectionError)):
                    await health(port, tls, context)


def test_connection_reads_one_tls_record_at_a_time() -> None:
    assert BoundedTls.max_size == RECORD_BYTES
