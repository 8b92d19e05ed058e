"""HTTP/1.1 of one peer, closed if a request is slow or the peer holds too many connections.

uvicorn bounds only the time between requests. Without this module a client could keep connections
with no request, or half of one, open without limit.
"""

import asyncio
import ssl
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.wsproto_impl import WSProtocol

from enmasse.api.console.paths import WEB_SOCKET
from enmasse.api.http.handshakes import over_tls
from enmasse.api.http.http2 import PREFACE, Http2Connection
from enmasse.api.http.peer_limits import Bounds, make_room
from enmasse.auth.certificates import TlsFiles

CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""TLS 1.2 with authenticated encryption only, as in the node: no CBC (RFC 9325, 4.2)."""

_COMPLETE_STATES = (h11.DONE, h11.MUST_CLOSE, h11.CLOSED, h11.ERROR)


class BoundedConfig(uvicorn.Config):
    """uvicorn's settings and our limits."""

    def __init__(self, app: Any, bounds: Bounds, tls: TlsFiles | None, **options: Any) -> None:
        # Longer than the interval at which a client or a page asks again: it would otherwise send a
        # request into a connection that is just being closed.
        options["timeout_keep_alive"] = bounds.silent_s
        super().__init__(app, http=BoundedProtocol, ws=BoundedWebSocket, **options)
        self.bounds = bounds
        self._tls = tls

    def load(self) -> None:
        """Load the application, and the certificate if there is one.

        TLS is part of our protocol: uvicorn's own has no limits.
        """
        super().load()
        if self._tls is not None:
            context = Renewed(self._tls).context
            context()
            made: Any = over_tls(BoundedProtocol, context, self.bounds)
            self.http_protocol_class = made


class BoundedWebSocket(WSProtocol):
    """A WebSocket of one peer. It has had a complete request, so it is not waiting."""

    waiting_since: float | None = None

    @property
    def host(self) -> str:
        """The peer's IP address."""
        return self.client[0] if self.client else ""

    def close(self) -> None:
        """Close the connection immediately."""
        self.transport.close()


class Renewed:
    """TLS with replaceable files: each handshake uses the newest certificate."""

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._changed: tuple[int, int] | None = None
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

    def context(self) -> ssl.SSLContext:
        """Return the context for the next handshake.

        Raises: OSError if the files are unreadable the first time.
        """
        try:
            self._reload_if_changed()
        except OSError:
            if self._changed is None:
                raise
            # Partly written files: keep the previous certificate.
        return self._context

    def _reload_if_changed(self) -> None:
        files = (self._files.certificate, self._files.key)
        changed = (files[0].stat().st_mtime_ns, files[1].stat().st_mtime_ns)
        if changed == self._changed:
            return
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(*files)
        context.set_ciphers(CIPHERS)
        context.set_alpn_protocols(["h2", "http/1.1"])
        self._context, self._changed = context, changed


class BoundedProtocol(H11Protocol):
    """One connection."""

    def __init__(self, config: uvicorn.Config, *arguments: Any, **options: Any) -> None:
        super().__init__(config, *arguments, **options)
        assert isinstance(config, BoundedConfig)
        self._bounds = config.bounds
        self._timer: asyncio.TimerHandle | None = None
        self._waiting_since = self.loop.time()
        self._upgraded = False
        self._first_bytes: bytes | None = b""
        """The first bytes, while they may be the HTTP/2 preface; then None."""

    @property
    def host(self) -> str:
        """The peer's IP address."""
        return self.client[0] if self.client else ""

    @property
    def waiting_since(self) -> float | None:
        """Start of the wait for a complete request; None while one is handled."""
        answering = not getattr(self.cycle, "response_complete", True)
        return None if answering and self._timer is None else self._waiting_since

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timer and enforce the connection limit."""
        super().connection_made(transport)
        encrypted = transport.get_extra_info("ssl_object")
        if encrypted is not None and encrypted.selected_alpn_protocol() == "h2":
            self._switch(b"")
            return
        self._watch_request()
        connections: set[Any] = self.connections
        make_room(connections, self, self._bounds)

    def data_received(self, data: bytes) -> None:
        """Receive a part of a request; the first bytes determine the HTTP version."""
        if self._first_bytes is not None:
            data = self._first_bytes + data
            if data.startswith(PREFACE):
                self._switch(data)
                return
            self._first_bytes = data if PREFACE.startswith(data) else None
            if self._first_bytes is not None:
                return
        super().data_received(data)
        self._watch_request()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Continue as a WebSocket."""
        self._upgraded = True
        self._stop_timer()
        super().handle_websocket_upgrade(event)

    def _should_upgrade(self) -> bool:
        """Whether the request opens a WebSocket; elsewhere `Upgrade` is ignored (RFC 9110, 7.8)."""
        return self._get_upgrade() == b"websocket" and self.scope["path"] == WEB_SOCKET

    def on_response_complete(self) -> None:
        """Wait for the next request: uvicorn bounds the idle time, we bound the request."""
        super().on_response_complete()
        self._waiting_since = self.loop.time()
        self._watch_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection."""
        self._stop_timer()
        super().connection_lost(exc)

    def close(self) -> None:
        """Close the connection immediately."""
        self._stop_timer()
        self.transport.close()

    def _watch_request(self) -> None:
        """Run the timer exactly while an incomplete request is awaited."""
        if self._upgraded:
            return
        # uvicorn takes a connection as silent after an answer, even with half a request.
        silent = self.timeout_keep_alive_task is not None and not self.conn.trailing_data[0]
        if silent or self.conn.their_state in _COMPLETE_STATES:
            self._stop_timer()
        elif self._timer is None and not self.transport.is_closing():
            self._timer = self.loop.call_later(self._bounds.request_s, self.close)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _switch(self, first_bytes: bytes) -> None:
        """Continue as HTTP/2 with the bytes received so far."""
        self._stop_timer()
        self.connections.discard(self)
        scope = {"client": self.client, "server": self.server, "scheme": self.scheme}
        assert self.config.loaded_app is not None
        protocol = Http2Connection(self.config.loaded_app, self.server_state, self._bounds, scope)
        self.transport.set_protocol(protocol)
        protocol.connection_made(self.transport)
        if first_bytes:
            protocol.data_received(first_bytes)
