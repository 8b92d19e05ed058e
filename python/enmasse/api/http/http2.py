"""HTTP/2 of one peer (RFC 9113): many requests at a time on one connection, by the machine of `h2`.

A connection is of HTTP/2 by ALPN, or in clear text by its preface (RFC 9113, 3.3). Each request is
an ASGI application call. What a peer sends stays within the windows of flow control, which open as
the application takes it; what it does not take of an answer waits with the application.
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
"""What a connection of HTTP/2 begins with (RFC 9113, 3.4)."""

STREAMS_MAX = 100
"""Requests of one connection at a time, as `h2` has it; one more breaks the protocol."""

RUNNING_MAX = 2 * STREAMS_MAX
"""Those that the peer has taken back, and that have not ended, counted too. One more ends the
connection: taking back costs the peer less than asking costs us (CVE-2023-44487)."""


HEAD_BYTES_MAX = 1 << 16
"""Largest block of header fields, as it is on the wire."""

_FRAME_HEAD = 9
_HEADERS, _CONTINUATION, _END_HEADERS = 1, 9, 4


class Lengths:
    """Refuses frames that are too long by their heads: `h2` takes them in before it does."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._left = len(PREFACE)
        self._block = 0

    def allow(self, data: bytes, most: int) -> bool:
        """Whether no frame that begins in the next bytes is longer than `most`."""
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
        """Look at the head of a frame (RFC 9113, 4.1): length, type, flags, stream."""
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
    """One request and its answer."""

    def __init__(self, connection: "Http2Connection", number: int, scope: Scope) -> None:
        self.number = number
        self.scope = scope
        self.whole = False
        """Whether all of the request is here."""

        self.gone = False
        """Whether the client no longer waits for the answer."""

        self.owed = 0
        """Bytes taken from the windows, and not given back yet."""

        self.changed = asyncio.Event()
        self.cut_off: asyncio.TimerHandle | None = None
        self._connection = connection
        self._body = bytearray()
        self._told = self._started = self._ended = False

    async def run(self, app: ASGIApp) -> None:
        """Answer the request."""
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
        """Take a part of the body; `size` is what it takes of the windows."""
        self._body += data
        self.owed += size
        self.changed.set()

    def end(self) -> None:
        """Note that the request is whole."""
        self.whole = True
        if self.cut_off is not None:
            self.cut_off.cancel()
        self.changed.set()

    def lose(self) -> None:
        """Note that the client no longer waits for the answer."""
        self.gone = True
        self.end()

    async def _receive(self) -> Message:
        while not (self._body or (self.whole and not self._told) or self.gone or self._ended):
            self.changed.clear()
            await self.changed.wait()
        if self.gone or self._ended or (self._told and not self._body):
            return {"type": "http.disconnect"}
        body = bytes(self._body)
        self._body.clear()
        self._connection.give_back(self)
        self._told = self.whole
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
        """Return how much may be sent now, at least a byte; 0 if the client is gone."""
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
        """Answer requests by `app`. `scope` is what all requests have: client, server, scheme."""
        self.bounds = bounds
        self._app = app
        self._state = state
        self._scope = scope
        self._loop = asyncio.get_running_loop()
        self._h2 = H2Connection(H2Configuration(client_side=False, header_encoding=None))
        self._lengths = Lengths()
        self._streams: dict[int, Stream] = {}
        self._running = 0
        self._is_ending = False
        self._is_full = False
        """Whether the peer does not read."""

        self._waiting_since = self._loop.time()
        self._cut_off = self._loop.call_later(bounds.request_s, self.close)

    @property
    def host(self) -> str:
        """The peer's address."""
        client = self._scope["client"]
        return client[0] if client else ""

    @property
    def waiting_since(self) -> float | None:
        """When it began to wait for a whole request; None while one is answered."""
        answering = any(stream.whole for stream in self._streams.values())
        return None if answering else self._waiting_since

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say what we allow, and see that not too many wait."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        connections: set[Any] = self._state.connections
        connections.add(self)
        self._h2.initiate_connection()
        self._flush()
        make_room(connections, self, self.bounds)

    def data_received(self, data: bytes) -> None:
        """Take frames."""
        if not self._lengths.allow(data, self._h2.max_inbound_frame_size):
            self._say_goodbye(ErrorCodes.FRAME_SIZE_ERROR)
            return
        try:
            for event in self._h2.receive_data(data):
                if (take := _TAKES.get(type(event))) is not None:
                    take(self, event)
        except ProtocolError as error:
            # h2 has written the GOAWAY that says so
            log.info("connection of HTTP/2 ends", reason=str(error))
            self._flush()
            self.close()
        self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        connections: set[Any] = self._state.connections
        connections.discard(self)
        self._cut_off.cancel()
        for stream in self._streams.values():
            stream.lose()

    def pause_writing(self) -> None:
        """Do no more for a peer that does not read: not even answer its pings."""
        self._is_full = True
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        """Go on."""
        self._is_full = False
        self.transport.resume_reading()
        self._wake()

    def shutdown(self) -> None:
        """Take no more requests, and close when those that run are answered."""
        self._is_ending = True
        if not self._streams:
            self._say_goodbye(ErrorCodes.NO_ERROR)

    def close(self) -> None:
        """Close the connection, whatever is under way."""
        self._cut_off.cancel()
        for stream in self._streams.values():
            stream.lose()
        self.transport.close()

    def room(self, stream: Stream) -> int:
        """Return how many bytes of an answer the peer takes now."""
        if self._is_full:
            return 0
        window = self._h2.local_flow_control_window(stream.number)
        return max(0, min(window, self._h2.max_outbound_frame_size))

    def send_head(self, stream: Stream, status: int, headers: Any) -> None:
        """Send the head of an answer."""
        whole = [(b":status", str(status).encode()), *self._state.default_headers, *headers]
        self._h2.send_headers(stream.number, whole)
        self._flush()

    def send_data(self, stream: Stream, data: bytes, last: bool) -> None:
        """Send a part of an answer for which there is room."""
        self._h2.send_data(stream.number, data, end_stream=last)
        self._flush()

    def give_back(self, stream: Stream) -> None:
        """Open the windows by what the application has taken."""
        if stream.owed and not self.transport.is_closing():
            self._h2.acknowledge_received_data(stream.owed, stream.number)
            self._flush()
        stream.owed = 0

    def finish(self, stream: Stream, error: ErrorCodes | None) -> None:
        """Be done with a request; take the answer back with an error, if there is one."""
        if self._streams.pop(stream.number, None) is None:
            return
        if not stream.gone and not self.transport.is_closing():
            self.give_back(stream)
            if error is not None:
                self._h2.reset_stream(stream.number, error)
            elif not stream.whole:
                # the rest of the request is not wanted (RFC 9113, 8.1)
                self._h2.reset_stream(stream.number, ErrorCodes.NO_ERROR)
            self._flush()
        stream.lose()
        self._rest()

    def _request(self, event: RequestReceived) -> None:
        number = event.stream_id
        assert number is not None
        pseudo = {name: value for name, value in event.headers if name.startswith(b":")}
        if self._is_ending or b":path" not in pseudo:
            code = ErrorCodes.REFUSED_STREAM if self._is_ending else ErrorCodes.CONNECT_ERROR
            self._h2.reset_stream(number, code)
            return
        if self._running >= RUNNING_MAX:
            self._say_goodbye(ErrorCodes.ENHANCE_YOUR_CALM)
            return
        stream = Stream(self, number, self._scope | _head(pseudo, event.headers))
        self._streams[number] = stream
        self._cut_off.cancel()
        stream.cut_off = self._loop.call_later(
            self.bounds.request_s, self.finish, stream, ErrorCodes.CANCEL
        )
        self._running += 1
        # uvicorn's server waits for these when it stops
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
            if stream.owed:
                self._h2.acknowledge_received_data(stream.owed, stream.number)
                stream.owed = 0
            stream.lose()
            self._rest()

    def _wake(self, _event: Event | None = None) -> None:
        for stream in self._streams.values():
            stream.changed.set()

    def _terminated(self, _event: ConnectionTerminated) -> None:
        self.close()

    def _rest(self) -> None:
        """Wait for the next request, or end if none is to come."""
        if self._streams:
            return
        self._waiting_since = self._loop.time()
        if self._is_ending:
            self._say_goodbye(ErrorCodes.NO_ERROR)
        elif not self.transport.is_closing():
            self._cut_off = self._loop.call_later(self.bounds.silent_s, self.shutdown)

    def _say_goodbye(self, code: ErrorCodes) -> None:
        if not self.transport.is_closing():
            self._h2.close_connection(code)
            self._flush()
        self.close()

    def _flush(self) -> None:
        data = self._h2.data_to_send()
        if data and not self.transport.is_closing():
            self.transport.write(data)


_TAKES: dict[type[Event], Callable[[Http2Connection, Any], None]] = {
    RequestReceived: Http2Connection._request,
    DataReceived: Http2Connection._data,
    StreamEnded: Http2Connection._whole,
    StreamReset: Http2Connection._reset,
    WindowUpdated: Http2Connection._wake,
    RemoteSettingsChanged: Http2Connection._wake,
    ConnectionTerminated: Http2Connection._terminated,
}


def _head(pseudo: dict[bytes, bytes], headers: list[Any]) -> dict[str, Any]:
    """Return what ASGI says of the head of a request (`:authority` is the host)."""
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
