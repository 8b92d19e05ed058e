"""TLS handshakes of the HTTP API, bounded in time, number and memory.

asyncio allocates 256 KiB per TLS connection before the peer has sent anything, and waits sixty
seconds; OpenSSL needs about 70 KiB more after a ClientHello. A client that stops in the middle of
many handshakes would exhaust memory. TLS therefore starts with the first complete record, reads one
record at a time, and few handshakes run concurrently: an active peer completes within a round trip.
"""

import asyncio
import ctypes
import ssl
from asyncio.sslproto import SSLProtocol, SSLProtocolState
from collections.abc import Callable
from typing import Any

from enmasse.api.http.peer_limits import Bounds, make_room

RECORD_BYTES = 16 * 1024
"""Bytes per read: the maximum size of a TLS record (RFC 8446, 5.1)."""

_RECORD_HEAD_BYTES = 5
_HANDSHAKE = 22
"""Record type of a handshake."""

BURST = 256
"""Number of concurrent half-open connections after which their memory is returned to the system."""


class Handshakes:
    """The half-open connections of one listener."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self._awaiting_record: set[Any] = set()
        self._handshaking: set[Any] = set()
        self._most = 0

    def __len__(self) -> int:
        return len(self._awaiting_record) + len(self._handshaking)

    def add_waiting(self, one: "AwaitingRecord") -> None:
        """Add a connection without a complete record; beyond the limit the oldest is closed."""
        self._awaiting_record.add(one)
        self._most = max(self._most, len(self))
        _bound(self._awaiting_record, one, self.bounds.half_open_max - self.bounds.handshakes_max)

    def begin(self, one: "BoundedTls") -> None:
        """Add a connection whose handshake has begun; beyond the limit the oldest is closed."""
        self._handshaking.add(one)
        _bound(self._handshaking, one, self.bounds.handshakes_max)

    def end(self, one: "AwaitingRecord | BoundedTls") -> None:
        """Remove a connection: it is open, or closed."""
        self._awaiting_record.discard(one)
        self._handshaking.discard(one)
        if not len(self) and self._most >= BURST:
            self._most = 0
            _trim_heap()


def _bound(some: set[Any], added: Any, most: int) -> None:
    make_room(some, added, Bounds(waiting_max=most, waiting_of_peer_max=most))


class _HalfOpen:
    """State that the limits need of each connection."""

    transport: asyncio.Transport
    host = ""
    waiting_since: float | None = None
    _handshakes: Handshakes

    def _wait(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        peer = transport.get_extra_info("peername")
        self.host = peer[0] if isinstance(peer, tuple) else ""
        self.waiting_since = asyncio.get_running_loop().time()

    def close(self) -> None:
        """Close the connection immediately, without a TLS alert."""
        self.transport.abort()


class AwaitingRecord(_HalfOpen, asyncio.Protocol):
    """A connection before its first complete record."""

    def __init__(self, handshakes: Handshakes, begin: Callable[[float], "BoundedTls"]) -> None:
        """Pass the connection to the protocol of `begin`, with the remaining seconds."""
        self._handshakes = handshakes
        self._begin = begin
        self._received = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the timer."""
        self._wait(transport)
        self._handshakes.add_waiting(self)
        limit_s = self._handshakes.bounds.request_s
        self._timer = asyncio.get_running_loop().call_later(limit_s, self.close)

    def data_received(self, data: bytes) -> None:
        """Receive a part of the first record. TLS refuses anything other than a handshake."""
        self._received += data
        if self._received[0] == _HANDSHAKE:
            whole = _RECORD_HEAD_BYTES + int.from_bytes(self._received[3:_RECORD_HEAD_BYTES], "big")
            if (
                len(self._received) < min(whole, RECORD_BYTES)
                or len(self._received) < _RECORD_HEAD_BYTES
            ):
                return
        self._leave()
        tls = self._begin(self._timer.when() - asyncio.get_running_loop().time())
        self.transport.set_protocol(tls)
        tls.connection_made(self.transport)
        tls.take(bytes(self._received))

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection."""
        self._leave()

    def _leave(self) -> None:
        self._timer.cancel()
        self._handshakes.end(self)


class BoundedTls(_HalfOpen, SSLProtocol):
    """The TLS of one connection."""

    max_size = RECORD_BYTES
    _state: SSLProtocolState

    def __init__(
        self,
        application: asyncio.Protocol,
        context: ssl.SSLContext,
        handshakes: Handshakes,
        limit_s: float,
    ) -> None:
        """Pass decrypted data to `application` once the handshake is complete."""
        super().__init__(
            asyncio.get_running_loop(),
            application,
            context,
            None,  # type: ignore[arg-type] # no caller awaits it, as in asyncio's servers
            server_side=True,
            ssl_handshake_timeout=max(limit_s, 0.001),  # type: ignore[arg-type]
        )
        self._handshakes = handshakes

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake."""
        self._wait(transport)
        self._handshakes.begin(self)
        super().connection_made(transport)

    def take(self, data: bytes) -> None:
        """Process bytes that were read before the TLS began."""
        for at in range(0, len(data), RECORD_BYTES):
            part = data[at : at + RECORD_BYTES]
            self.get_buffer(len(part))[: len(part)] = part
            self.buffer_updated(len(part))

    def buffer_updated(self, nbytes: int) -> None:
        """Process received bytes; they may complete the handshake."""
        super().buffer_updated(nbytes)
        if self.waiting_since is not None and self._state is not SSLProtocolState.DO_HANDSHAKE:
            self.waiting_since = None
            self._handshakes.end(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Remove the connection."""
        self._handshakes.end(self)
        super().connection_lost(exc)


def over_tls(
    make: Callable[..., asyncio.Protocol], context: Callable[[], ssl.SSLContext], bounds: Bounds
) -> Callable[..., asyncio.Protocol]:
    """Return a factory of protocols that run TLS below the protocols of `make`."""
    handshakes = Handshakes(bounds)

    def protocol(*arguments: Any, **options: Any) -> asyncio.Protocol:
        def begin(limit_s: float) -> BoundedTls:
            return BoundedTls(make(*arguments, **options), context(), handshakes, limit_s)

        return AwaitingRecord(handshakes, begin)

    return protocol


def _trim_heap() -> None:
    """Return free memory of the allocator to the system, where the C library supports it."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        asyncio.get_running_loop().run_in_executor(None, trim, 0)
