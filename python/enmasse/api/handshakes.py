"""TLS of the HTTP API, bounded in time, number and memory before a request can be asked for.

asyncio gives each TLS connection a buffer of 256 KiB before the peer has said a word, and sixty
seconds; OpenSSL takes some 70 KiB more once a ClientHello is there. Whoever opens connections and
stops in the middle of the handshake would fill the process. So TLS begins with the first whole
record, reads a record at a time, and only few handshakes are under way at one moment: a peer that
goes on answers within a round trip.
"""

import asyncio
import ctypes
import ssl
from asyncio.sslproto import SSLProtocol, SSLProtocolState
from collections.abc import Callable
from typing import Any

from enmasse.api.waiting import Bounds, make_room

RECORD_BYTES = 16 * 1024
"""Bytes read at a time: a TLS record has at most as many (RFC 8446, section 5.1)."""

_RECORD_HEAD_BYTES = 5
_HANDSHAKE = 22
"""Type of the records that a handshake is made of."""

BURST = 256
"""After so many half-open connections at one time the memory of their ends is given back."""


class Handshakes:
    """The half-open connections of one listener."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self._knocking: set[Any] = set()
        self._under_way: set[Any] = set()
        self._most = 0

    def __len__(self) -> int:
        return len(self._knocking) + len(self._under_way)

    def knock(self, one: "Knock") -> None:
        """Count one that has not begun; who has waited longest goes if that is too many."""
        self._knocking.add(one)
        self._most = max(self._most, len(self))
        _bound(self._knocking, one, self.bounds.half_open_max - self.bounds.handshakes_max)

    def begin(self, one: "BoundedTls") -> None:
        """Count one that has begun; who has waited longest goes if that is too many."""
        self._under_way.add(one)
        _bound(self._under_way, one, self.bounds.handshakes_max)

    def end(self, one: "Knock | BoundedTls") -> None:
        """Count one less: it is open, or gone."""
        self._knocking.discard(one)
        self._under_way.discard(one)
        if not len(self) and self._most >= BURST:
            self._most = 0
            _give_back_memory()


def _bound(some: set[Any], newcomer: Any, most: int) -> None:
    make_room(some, newcomer, Bounds(waiting_max=most, waiting_of_peer_max=most))


class _HalfOpen:
    """What the bounds ask of a connection."""

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
        """Close the connection at once: nobody is there to be told."""
        self.transport.abort()


class Knock(_HalfOpen, asyncio.Protocol):
    """A connection that has not sent its first record."""

    def __init__(self, handshakes: Handshakes, begin: Callable[[float], "BoundedTls"]) -> None:
        """Hand the connection to what `begin` makes, with the seconds that are left for it."""
        self._handshakes = handshakes
        self._begin = begin
        self._said = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait."""
        self._wait(transport)
        self._handshakes.knock(self)
        limit_s = self._handshakes.bounds.request_s
        self._cut_off = asyncio.get_running_loop().call_later(limit_s, self.close)

    def data_received(self, data: bytes) -> None:
        """Take a part of the first record. What is no handshake is left to TLS to refuse."""
        self._said += data
        if self._said[0] == _HANDSHAKE:
            whole = _RECORD_HEAD_BYTES + int.from_bytes(self._said[3:_RECORD_HEAD_BYTES], "big")
            if len(self._said) < min(whole, RECORD_BYTES) or len(self._said) < _RECORD_HEAD_BYTES:
                return
        self._leave()
        tls = self._begin(self._cut_off.when() - asyncio.get_running_loop().time())
        self.transport.set_protocol(tls)
        tls.connection_made(self.transport)
        tls.take(bytes(self._said))

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._leave()

    def _leave(self) -> None:
        self._cut_off.cancel()
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
        """Hand what comes over TLS to `application`, once the handshake is done."""
        super().__init__(
            asyncio.get_running_loop(),
            application,
            context,
            None,  # type: ignore[arg-type] # nobody waits for the handshake, as in asyncio's servers
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
        """Take bytes that were read before."""
        for at in range(0, len(data), RECORD_BYTES):
            part = data[at : at + RECORD_BYTES]
            self.get_buffer(len(part))[: len(part)] = part
            self.buffer_updated(len(part))

    def buffer_updated(self, nbytes: int) -> None:
        """Take bytes; the handshake may be done with them."""
        super().buffer_updated(nbytes)
        if self.waiting_since is not None and self._state is not SSLProtocolState.DO_HANDSHAKE:
            self.waiting_since = None
            self._handshakes.end(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        """End."""
        self._handshakes.end(self)
        super().connection_lost(exc)


def over_tls(
    make: Callable[..., asyncio.Protocol], context: Callable[[], ssl.SSLContext], bounds: Bounds
) -> Callable[..., asyncio.Protocol]:
    """Return a factory of protocols that speak TLS before those that `make` makes."""
    handshakes = Handshakes(bounds)

    def protocol(*arguments: Any, **options: Any) -> asyncio.Protocol:
        def begin(limit_s: float) -> BoundedTls:
            return BoundedTls(make(*arguments, **options), context(), handshakes, limit_s)

        return Knock(handshakes, begin)

    return protocol


def _give_back_memory() -> None:
    """Have the allocator return what it holds; where it cannot, it stays for the next burst."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        asyncio.get_running_loop().run_in_executor(None, trim, 0)
