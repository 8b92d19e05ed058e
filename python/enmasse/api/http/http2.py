"""HTTP/2 of one peer (RFC 9113): concurrent requests on one connection, on top of `h2`.

ALPN selects HTTP/2, or in clear text its preface (RFC 9113, 3.3). Each request is an ASGI
application call. Flow control bounds the data of both directions: a window opens as the application
reads the request, and the application waits while the peer does not read the response.
"""

import asyncio
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

import structlog
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import ProtocolError
from starlette.types import ASGIApp, Message, Scope
from uvicorn.server import ServerState

from enmasse.api.http.peer_limits import Bounds, make_room

log = structlog.get_logger(__name__)

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""The first bytes of an HTTP/2 connection (RFC 9113, 3.4)."""

STREAMS_MAX = 100
"""Concurrent requests of a connection, as advertised by `h2`; more are a protocol error."""

RUNNING_MAX = 2 * STREAMS_MAX
"""Running requests, including those that the peer has reset. More end the connection: a reset costs
the peer less than the request costs the server (CVE-2023-44487)."""


HEAD_BYTES_MAX = 1 << 16
"""Maximum encoded bytes of a header block."""

_FRAME_HEAD = 9
_HEADERS, _CONTINUATION, _END_HEADERS = 1, 9, 4


class FrameLengths:
    """Refuses too long frames by their frame headers, because `h2` would buffer them first."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._left = len(PREFACE)
        self._block = 0

    def allow(self, data: bytes, most: int) -> bool:
        """Whether every frame that begins in these bytes has at most `most` bytes."""
        at = 0
        while at < len(data):
            if self._left:
                step = min(self._left, len(data) - at)
                self._left -= step
            else:
                step = min(_FRAME_HEAD - len(self._head), len(data) - at)
                self._head += data[at : at + step]
                if len(self._head) == _FRAME_HEAD and not self._allow_head(most):
                    return False
            at += step
        return True

    def _allow_head(self, most: int) -> bool:
        """Check a frame header (RFC 9113, 4.1): length, type, flags, stream."""
        length, type_, flags = int.from_bytes(self._head[:3], "big"), self._head[3], self._head[4]
        if type_ in (_HEADERS, _CONTINUATION):
            self._block += length
            if self._block > HEAD_BYTES_MAX:
                return False
            if flags & _END_HEADERS:
                self._block = 0
        self._left = length
        self._head.clear()
        return length <= most


class Stream:
    """One request and its response."""

    def __init__(self, connection: "Http2Connection", number: int, scope: Scope) -> None:
        self.number = number
        self.scope = scope
        self.whole = False
        """Whether the request is complete."""

        self.gone = False
        """Whether the client has abandoned the request."""

        self.unacknowledged_bytes = 0
        """Received bytes that have not yet been returned to the flow-control windows."""

        self.changed = asyncio.Event()
        self.timer: asyncio.TimerHandle | None = None
        self._connection = connection
        self._body = bytearray()
        self._request_delivered = self._started = self._ended = False

    async def run(self, app: ASGIApp) -> None:
        """Run the application for the request."""
        try:
            await app(self.scope, self._receive, self._send)
        except Exception:
            log.exception("request failed: internal error", path=self.scope["path"])
            if not self._started:
                await self._send({"type": "http.response.start", "status": 500, "headers": []})
                await self._send({"type": "http.response.body", "body": b"internal error\n"})
        finally:
            self._connection.finish(self, None if self._ended else ErrorCodes.INTERNAL_ERROR)

    def take(self, data: bytes, size: int) -> None:
        """Receive a part of the body; `size` is its share of the flow-control windows."""
        self._body += data
        self.unacknowledged_bytes += size
        self.changed.set()

    def end(self) -> None:
        """Mark the request as complete."""
        self.whole = True
        if self.timer is not None:
            self.timer.cancel()
        self.changed.set()

    def abandon(self) -> None:
        """Mark the request as abandoned by the client."""
        self.gone = True
        self.end()

    async def _receive(self) -> Message:
        while not (
            self._body or (self.whole and not self._request_delivered) or self.gone or self._ended
        ):
            self.changed.clear()
            await self.changed.wait()
        if self.gone or self._ended or (self._request_delivered and not self._body):
            return {"type": "http.disconnect"}
        body = bytes(self._body)
        self._body.clear()
        self._connection.release_window(self)
        self._request_delivered = self.whole
        return {"type": "http.request", "body": body, "more_body": not self.whole}

    async def _send(self, message: Message) -> None:
        if self.gone:
            return
        if message["type"] == "http.response.start":
            self._started = True
            self._connection.send_head(self, message["status"], message.get("headers", ()))
            return
        last = not message.get("more_body", False)
        body = b"" if self.scope["method"] == "HEAD" else message.get("body", b"")
        while body and not self.gone:
            room = await self._room()
            part, body = body[:room], body[room:]
            if part:
                self._connection.send_data(self, part, last and not body)
                self._ended = last and not body
        if last and not self._ended and not self.gone:
            self._connection.send_data(self, b"", True)
            self._ended = True

    async def _room(self) -> int:
        """Wait until data can be sent, and return how much; 0 if the client is gone."""
        try:
            async with asyncio.timeout(self._connection.bounds.stalled_s):
                while not self.gone and not (room := self._connection.room(self)):
                    self.changed.clear()
                    await self.changed.wait()
        except TimeoutError:
            self._connection.finish(self, ErrorCodes.CANCEL)
        return 0 if self.gone else room


class Http2Connection(asyncio.Protocol):
    """One connection."""

    transport: asyncio.Transport

    def __init__(
        self, app: ASGIApp, state: ServerState, bounds: Bounds, scope: dict[str, Any]
    ) -> None:
        """Serve requests by `app`. `scope` has what all requests share: client, server, scheme."""
        self.bounds = bounds
        self._app = app
        self._state = state
        self._scope = scope
        self._loop = asyncio.get_running_loop()
        self._h2 = H2Connection(H2Configuration(client_side=False, header_encoding=None))
        self._lengths = FrameLengths()
        self._streams: dict[int, Stream] = {}
        self._running = 0
        self._is_ending = False
        self._is_write_paused = False
        """Whether the write buffer is full because the peer does not read."""

        self._waiting_since = self._loop.time()
        self._timer = self._loop.call_later(bounds.request_s, self.close)

    @property
    def host(self) -> str:
        """The peer's address."""
        client = self._scope["client"]
        return client[0] if client else ""

    @property
    def waiting_since(self) -> float | None:
        """Start of the wait for a complete request; None while a request is being served."""
        answering = any(stream.whole for stream in self._streams.values())
        return None if answering else self._waiting_since

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the settings, and enforce the limit of waiting connections."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        connections: set[Any] = self._state.connections
        connections.add(self)
        self._h2.initiate_connection()
        self._flush()
        make_room(connections, self, self.bounds)

    def data_received(self, data: bytes) -> None:
        """Process received frames."""
        if not self._lengths.allow(data, self._h2.max_inbound_frame_size):
            self._close_with(ErrorCodes.FRAME_SIZE_ERROR)
            return
        try:
            for event in self._h2.receive_data(data):
                if (take := _HANDLERS.get(type(event))) is not None:
                    take(self, event)
        except ProtocolError as error:
            # h2 has already queued the GOAWAY for this error.
            log.info("connection of HTTP/2 ends", reason=str(error))
            self._flush()
            self.close()
        self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        """Abandon all requests."""
        connections: set[Any] = self._state.connections
        connections.discard(self)
        self._timer.cancel()
        for stream in self._streams.values():
            stream.abandon()

    def pause_writing(self) -> None:
        """Stop reading from a peer that does not read: a reply to its pings would also queue up."""
        self._is_write_paused = True
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        """Continue reading and sending."""
        self._is_write_paused = False
        self.transport.resume_reading()
        self._wake()

    def shutdown(self) -> None:
        """Refuse new requests, and close once the running ones are answered."""
        self._is_ending = True
        if not self._streams:
            self._close_with(ErrorCodes.NO_ERROR)

    def close(self) -> None:
        """Close the connection and abandon its requests."""
        self._timer.cancel()
        for stream in self._streams.values():
            stream.abandon()
        self.transport.close()

    def room(self, stream: Stream) -> int:
        """Return how many bytes of a response can be sent now."""
        if self._is_write_paused:
            return 0
        window = self._h2.local_flow_control_window(stream.number)
        return max(0, min(window, self._h2.max_outbound_frame_size))

    def send_head(self, stream: Stream, status: int, headers: Any) -> None:
        """Send the status and headers of a response."""
        whole = [(b":status", str(status).encode()), *self._state.default_headers, *headers]
        self._h2.send_headers(stream.number, whole)
        self._flush()

    def send_data(self, stream: Stream, data: bytes, last: bool) -> None:
        """Send a part of a response; there must be room for it."""
        self._h2.send_data(stream.number, data, end_stream=last)
        self._flush()

    def release_window(self, stream: Stream) -> None:
        """Return the bytes that the application has read to the flow-control windows."""
        if stream.unacknowledged_bytes and not self.transport.is_closing():
            self._h2.acknowledge_received_data(stream.unacknowledged_bytes, stream.number)
            self._flush()
        stream.unacknowledged_bytes = 0

    def finish(self, stream: Stream, error: ErrorCodes | None) -> None:
        """Remove a request; with an error, reset its stream."""
        if self._streams.pop(stream.number, None) is None:
            return
        if not stream.gone and not self.transport.is_closing():
            self.release_window(stream)
            if error is not None:
                self._h2.reset_stream(stream.number, error)
            elif not stream.whole:
                # The response is complete, so the rest of the request is useless (RFC 9113, 8.1).
                self._h2.reset_stream(stream.number, ErrorCodes.NO_ERROR)
            self._flush()
        stream.abandon()
        self._become_idle()

    def _request(self, event: RequestReceived) -> None:
        number = event.stream_id
        assert number is not None
        pseudo = {name: value for name, value in event.headers if name.startswith(b":")}
        if self._is_ending or b":path" not in pseudo:
            code = ErrorCodes.REFUSED_STREAM if self._is_ending else ErrorCodes.CONNECT_ERROR
            self._h2.reset_stream(number, code)
            return
        if self._running >= RUNNING_MAX:
            self._close_with(ErrorCodes.ENHANCE_YOUR_CALM)
            return
        stream = Stream(self, number, self._scope | _head(pseudo, event.headers))
        self._streams[number] = stream
        self._timer.cancel()
        stream.timer = self._loop.call_later(
            self.bounds.request_s, self.finish, stream, ErrorCodes.CANCEL
        )
        self._running += 1
        # uvicorn waits for these tasks at shutdown.
        task = self._loop.create_task(stream.run(self._app))
        self._state.tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running -= 1
        self._state.total_requests += 1
        self._state.tasks.discard(task)

    def _data(self, event: DataReceived) -> None:
        size, number = event.flow_controlled_length or 0, event.stream_id
        assert number is not None
        if (stream := self._streams.get(number)) is not None:
            stream.take(event.data or b"", size)
        elif size:
            self._h2.acknowledge_received_data(size, number)

    def _whole(self, event: StreamEnded) -> None:
        if (stream := self._streams.get(event.stream_id or 0)) is not None:
            stream.end()

    def _reset(self, event: StreamReset) -> None:
        if (stream := self._streams.pop(event.stream_id or 0, None)) is not None:
            if stream.unacknowledged_bytes:
                self._h2.acknowledge_received_data(stream.unacknowledged_bytes, stream.number)
                stream.unacknowledged_bytes = 0
            stream.abandon()
            self._become_idle()

    def _wake(self, _event: Event | None = None) -> None:
        for stream in self._streams.values():
            stream.changed.set()

    def _terminated(self, _event: ConnectionTerminated) -> None:
        self.close()

    def _become_idle(self) -> None:
        """Wait for the next request, or close a connection that is shutting down."""
        if self._streams:
            return
        self._waiting_since = self._loop.time()
        if self._is_ending:
            self._close_with(ErrorCodes.NO_ERROR)
        elif not self.transport.is_closing():
            self._timer = self._loop.call_later(self.bounds.silent_s, self.shutdown)

    def _close_with(self, code: ErrorCodes) -> None:
        if not self.transport.is_closing():
            self._h2.close_connection(code)
            self._flush()
        self.close()

    def _flush(self) -> None:
        data = self._h2.data_to_send()
        if data and not self.transport.is_closing():
            self.transport.write(data)


_HANDLERS: dict[type[Event], Callable[[Http2Connection, Any], None]] = {
    RequestReceived: Http2Connection._request,
    DataReceived: Http2Connection._data,
    StreamEnded: Http2Connection._whole,
    StreamReset: Http2Connection._reset,
    WindowUpdated: Http2Connection._wake,
    RemoteSettingsChanged: Http2Connection._wake,
    ConnectionTerminated: Http2Connection._terminated,
}


def _head(pseudo: dict[bytes, bytes], headers: list[Any]) -> dict[str, Any]:
    """Return the ASGI scope of a request (`:authority` is the host)."""
    path, _, query = pseudo[b":path"].partition(b"?")
    plain = [(name, value) for name, value in headers if not name.startswith(b":")]
    if b":authority" in pseudo:
        plain = [one for one in plain if one[0] != b"host"]
        plain.insert(0, (b"host", pseudo[b":authority"]))
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "2",
        "method": pseudo[b":method"].decode("ascii", "replace"),
        "root_path": "",
        "path": unquote(path.decode("ascii", "replace")),
        "raw_path": path,
        "query_string": query,
        "headers": plain,
        "state": {},
    }
