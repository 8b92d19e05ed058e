"""HTTP/2: a peer with the state machine of `h2` on a socket, and complete clients."""

import asyncio
import json
import ssl
import subprocess
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx2
import pytest
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import ConnectionTerminated, DataReceived, ResponseReceived, StreamEnded, StreamReset
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Message, Receive, Scope, Send

from asgi_platform import ADDRESSES, SPACES, TOKEN, Served
from enmasse.api import Server, bind
from enmasse.api.http.http2 import PREFACE, RUNNING_MAX, STREAMS_MAX, FrameLengths
from enmasse.api.http.peer_limits import Bounds
from enmasse.auth.certificates import ensure_certificates
from enmasse.base.clock import SystemClock

HEAD = [(":method", "GET"), (":scheme", "http"), (":authority", "localhost"), (":path", "/")]


CONTINUATION = b"\0\x40\0\x09\0\0\0\0\x01" + bytes(1 << 14)


class Application:
    """An application whose response depends on the path."""

    def __init__(self) -> None:
        self.seen: list[Scope] = []
        self.disconnected = 0
        self.waiting = 0
        self.go = asyncio.Event()
        self._news = asyncio.Event()

    async def holds(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds."""
        async with asyncio.timeout(5):
            while not condition():
                self._news.clear()
                await self._news.wait()

    def _count(self, *, waiting: int = 0, disconnected: int = 0) -> None:
        self.waiting += waiting
        self.disconnected += disconnected
        self._news.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.seen.append(scope)
        body, more = b"", True
        path = scope["path"]
        if path == "/early":
            more = False
        if path == "/deaf":
            self._count(waiting=1)
            await self.go.wait()
        while more:
            message: Message = await receive()
            if message["type"] == "http.disconnect":
                self._count(disconnected=1)
                return
            body += message["body"]
            more = message["more_body"]
        if path == "/fault":
            raise ValueError("broken")
        if path == "/big":
            body = bytes(300_000)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"a", b"b")]})
        if path == "/held":
            self._count(waiting=1)
            while (await receive())["type"] != "http.disconnect":
                pass
            self._count(disconnected=1)
            return
        if path == "/late":
            raise ValueError("broken late")
        await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body"})


class Peer:
    """A client that drives `h2` over a socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.h2 = H2Connection()
        self.h2.initiate_connection()
        self.status: dict[int, str] = {}
        self.body: defaultdict[int, bytes] = defaultdict(bytes)
        self.ended: set[int] = set()
        self.reset: dict[int, int] = {}
        self.goodbye: int | None = None
        self.gives_back = True

    def request(self, *more: tuple[str, str], path: str = "/", body: bytes | None = None) -> int:
        """Send a request; one without a body is complete."""
        number = self.h2.get_next_available_stream_id()
        fields = {**dict(HEAD), ":path": path, **dict(more)}
        self.h2.send_headers(number, list(fields.items()), end_stream=body is None)
        if body:
            self.h2.send_data(number, body)
        return number

    async def until(self, done: Callable[[], bool]) -> None:
        """Exchange bytes until a condition holds or the connection ends."""
        async with asyncio.timeout(10):
            self.writer.write(self.h2.data_to_send())
            while not done():
                data = await self.reader.read(1 << 16)
                if not data:
                    assert done(), "the connection has ended"
                    return
                for event in self.h2.receive_data(data):
                    self._take(event)
                self.writer.write(self.h2.data_to_send())

    def _take(self, event: Any) -> None:
        if isinstance(event, ResponseReceived):
            self.status[event.stream_id or 0] = dict(event.headers)[b":status"].decode()
        elif isinstance(event, DataReceived):
            self.body[event.stream_id or 0] += event.data or b""
            if self.gives_back:
                size = event.flow_controlled_length or 0
                self.h2.acknowledge_received_data(size, event.stream_id or 0)
        elif isinstance(event, StreamEnded):
            self.ended.add(event.stream_id or 0)
        elif isinstance(event, StreamReset):
            self.reset[event.stream_id or 0] = int(event.error_code or 0)
        elif isinstance(event, ConnectionTerminated):
            self.goodbye = int(event.error_code or 0)


class Serving:
    """A server of an application, and its peers."""

    def __init__(self, port: int, app: Application, server: Server) -> None:
        self.port, self.app, self.server = port, app, server
        self.writers: list[asyncio.StreamWriter] = []

    async def peer(self) -> Peer:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.writers.append(writer)
        return Peer(reader, writer)


@asynccontextmanager
async def serving(bounds: Bounds | None = None) -> AsyncIterator[Serving]:
    app = Application()
    listener = bind("127.0.0.1", 0)
    server = Server(app, listener, bounds)
    running = asyncio.ensure_future(server.run_until_stopped())
    one = Serving(listener.getsockname()[1], app, server)
    try:
        yield one
    finally:
        for writer in one.writers:
            writer.close()
        app.go.set()
        server.stop()
        async with asyncio.timeout(8):
            await running


async def test_concurrent_http2_requests_share_one_connection() -> None:
    async with serving() as one:
        peer = await one.peer()
        first = peer.request(("b", "c"), path="/a%20b?x=1")
        second = peer.request((":method", "POST"), body=b"hello")
        peer.h2.end_stream(second)
        await peer.until(lambda: {first, second} <= peer.ended)
        assert (peer.status[first], peer.body[second]) == ("200", b"hello")
        scope = one.app.seen[0]
        assert (scope["http_version"], scope["path"], scope["raw_path"]) == ("2", "/a b", b"/a%20b")
        assert scope["query_string"] == b"x=1"
        assert scope["headers"] == [(b"host", b"localhost"), (b"b", b"c")]
        assert scope["client"][0] == "127.0.0.1"


async def test_fragmented_http2_preface_is_accepted() -> None:
    async with serving() as one:
        peer = await one.peer()
        number = peer.request()
        data = peer.h2.data_to_send()
        assert data.startswith(PREFACE)
        for at in range(len(PREFACE)):
            peer.writer.write(data[at : at + 1])
            await peer.writer.drain()
        peer.writer.write(data[len(PREFACE) :])
        await peer.until(lambda: number in peer.ended)


async def test_http2_response_respects_flow_control_windows() -> None:
    async with serving() as one:
        peer = await one.peer()
        peer.gives_back = False
        number = peer.request(path="/big")
        await peer.until(lambda: len(peer.body[number]) == 65_535)
        quick = peer.request(path="/held")
        # Response headers need no window.
        await peer.until(lambda: quick in peer.status)
        assert (len(peer.body[number]), number in peer.ended) == (65_535, False)
        peer.gives_back = True
        peer.h2.increment_flow_control_window(400_000)
        peer.h2.increment_flow_control_window(400_000, number)
        await peer.until(lambda: number in peer.ended)
        assert len(peer.body[number]) == 300_000


async def test_stalled_http2_response_is_reset_with_cancel() -> None:
    async with serving(Bounds(stalled_s=0.05)) as one:
        peer = await one.peer()
        peer.gives_back = False
        number = peer.request(path="/big")
        await peer.until(lambda: number in peer.reset)
        assert peer.reset[number] == ErrorCodes.CANCEL


async def test_unread_http2_request_body_is_bounded_by_its_window() -> None:
    async with serving() as one:
        peer = await one.peer()
        number = peer.request((":method", "POST"), path="/deaf", body=b"")
        while peer.h2.local_flow_control_window(number):
            room = peer.h2.local_flow_control_window(number)
            peer.h2.send_data(number, bytes(min(room, peer.h2.max_outbound_frame_size)))
        peer.writer.write(peer.h2.data_to_send())
        await one.app.holds(lambda: one.app.waiting == 1)
        assert peer.h2.local_flow_control_window(number) == 0
        one.app.go.set()
        await peer.until(lambda: peer.h2.local_flow_control_window(number) > 0)
        peer.h2.end_stream(number)
        await peer.until(lambda: number in peer.ended)
        assert len(peer.body[number]) == 65_535


async def test_early_http2_response_resets_the_rest_of_its_request() -> None:
    async with serving() as one:
        peer = await one.peer()
        number = peer.request((":method", "POST"), path="/early", body=b"part")
        await peer.until(lambda: number in peer.reset)
        assert (peer.status[number], peer.reset[number]) == ("200", ErrorCodes.NO_ERROR)


@pytest.mark.parametrize(
    ("path", "status"), [("/fault", "500"), ("/late", "200")], ids=["before", "after the head"]
)
async def test_application_error_ends_only_its_http2_stream(path: str, status: str) -> None:
    async with serving() as one:
        peer = await one.peer()
        number = peer.request(path=path)
        await peer.until(lambda: number in peer.ended or number in peer.reset)
        assert peer.status[number] == status
        assert peer.reset.get(number) == (None if status == "500" else ErrorCodes.INTERNAL_ERROR)
        again = peer.request()
        await peer.until(lambda: again in peer.ended)


async def test_reset_http2_stream_disconnects_its_request() -> None:
    async with serving() as one:
        peer = await one.peer()
        number = peer.request(path="/held")
        await peer.until(lambda: number in peer.status)
        peer.h2.reset_stream(number)
        peer.writer.write(peer.h2.data_to_send())
        await one.app.holds(lambda: one.app.disconnected == 1)


async def test_closed_http2_connection_disconnects_its_requests() -> None:
    async with serving() as one:
        peer = await one.peer()
        number = peer.request(path="/held")
        await peer.until(lambda: number in peer.status)
        peer.writer.close()
        await one.app.holds(lambda: one.app.disconnected == 1)


async def test_rapid_http2_resets_close_the_connection() -> None:
    async with serving() as one:
        peer = await one.peer()
        for _ in range(RUNNING_MAX + 1):
            number = peer.request(path="/deaf")
            peer.h2.reset_stream(number)
        await peer.until(lambda: peer.goodbye is not None)
        assert peer.goodbye == ErrorCodes.ENHANCE_YOUR_CALM
        assert len(one.app.seen) <= RUNNING_MAX


async def test_exceeding_max_concurrent_streams_closes_the_connection() -> None:
    async with serving() as one:
        peer = await one.peer()
        await peer.until(lambda: peer.h2.remote_settings.max_concurrent_streams == STREAMS_MAX)
        # This client ignores the limit that the server announced.
        peer.h2.remote_settings._settings[3].append(1000)
        peer.h2.remote_settings.acknowledge()
        for _ in range(STREAMS_MAX + 1):
            peer.request(path="/deaf")
        await peer.until(lambda: peer.goodbye is not None)
        assert peer.goodbye == ErrorCodes.PROTOCOL_ERROR


@pytest.mark.parametrize("said", [b"", PREFACE, PREFACE + b"\0"], ids=["nothing", "no", "half"])
async def test_http2_connection_without_a_request_is_closed_at_its_deadline(said: bytes) -> None:
    async with serving(Bounds(request_s=0.05)) as one:
        reader, writer = await asyncio.open_connection("127.0.0.1", one.port)
        writer.write(said)
        async with asyncio.timeout(5):
            await reader.read()
        writer.close()


async def test_incomplete_http2_request_is_reset_at_its_deadline() -> None:
    async with serving(Bounds(request_s=0.05)) as one:
        peer = await one.peer()
        number = peer.request((":method", "POST"), body=b"half")
        await peer.until(lambda: number in peer.reset)
        await one.app.holds(lambda: one.app.disconnected == 1)


async def test_idle_http2_connection_ends_with_goaway() -> None:
    async with serving(Bounds(silent_s=0.05)) as one:
        peer = await one.peer()
        number = peer.request()
        await peer.until(lambda: number in peer.ended and peer.goodbye is not None)
        assert peer.goodbye == ErrorCodes.NO_ERROR


@pytest.mark.parametrize(
    "frames",
    [
        b"\0\0\0\x01\x05\0\0\0\x01",  # HEADERS with an empty block
        b"\0\x40\x01\0\0\0\0\0\x01",  # the header of a frame that is too long
        # a field block without an end
        b"\0\x40\0\x01\0\0\0\0\x01" + bytes(1 << 14) + 4 * CONTINUATION,
        b"\0\0\x04\x03\0\0\0\0\0\0\0\0\0",  # RST_STREAM of stream 0
        b"\0\0\x01\x01\x05\0\0\0\x01\xff",  # a block that is not HPACK
    ],
    ids=["empty", "long", "block", "stream 0", "hpack"],
)
async def test_malformed_http2_frames_end_the_connection(frames: bytes) -> None:
    async with serving() as one:
        peer = await one.peer()
        peer.writer.write(peer.h2.data_to_send() + frames)
        async with asyncio.timeout(5):
            await peer.reader.read()
            while await peer.reader.read(1 << 16):
                pass
        again = await one.peer()
        number = again.request()
        await again.until(lambda: number in again.ended)


@given(st.lists(st.integers(1, 60), max_size=30), st.data())
def test_http2_frame_length_is_checked_across_fragments(sizes: list[int], data: Any) -> None:
    frames = b"".join(size.to_bytes(3) + b"\0\0\0\0\0\1" + bytes(size) for size in sizes)
    said = PREFACE + frames
    cuts = sorted(data.draw(st.sets(st.integers(0, len(said)), max_size=8)))
    parts = [said[a:b] for a, b in pairwise([0, *cuts, len(said)])]
    most = data.draw(st.integers(1, 60))
    lengths = FrameLengths()
    assert all(lengths.allow(part, most) for part in parts) == all(n <= most for n in sizes)


async def test_shutdown_completes_running_requests_and_refuses_new_streams() -> None:
    async with serving() as one:
        peer = await one.peer()
        number = peer.request(path="/deaf")
        peer.writer.write(peer.h2.data_to_send())
        await one.app.holds(lambda: one.app.waiting == 1)
        one.server.stop()
        # The server still responds to requests until it has processed the stop.
        answered = 0
        while not peer.reset:
            peer.request()
            before = answered
            await peer.until(lambda before=before: len(peer.ended) > before or bool(peer.reset))
            answered = len(peer.ended)
        assert [*peer.reset.values()] == [ErrorCodes.REFUSED_STREAM]
        one.app.go.set()
        await peer.until(lambda: number in peer.ended and peer.goodbye is not None)


def document(name: str) -> dict[str, Any]:
    spec = {"type": "anycast", "address": name}
    return {"metadata": {"name": f"default.{name}"}, "spec": spec}


def curl(*arguments: str) -> str:
    command: Sequence[str] = ("curl", "--silent", "--show-error", "--max-time", "20", *arguments)
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout


async def test_curl_and_httpx_use_the_api_over_http2(served: Served, tmp_path: Path) -> None:
    files = ensure_certificates(tmp_path, ["localhost", "127.0.0.1"], SystemClock())
    listener = bind("127.0.0.1", 0)
    server = Server(served.app, listener, tls=files)
    running = asyncio.ensure_future(server.run_until_stopped())
    url = f"https://127.0.0.1:{listener.getsockname()[1]}"
    trust = ssl.create_default_context(cafile=str(files.ca))
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with httpx2.AsyncClient(
        http1=False, http2=True, verify=trust, base_url=url, headers=headers
    ) as http:
        space = {"metadata": {"name": "default"}, "spec": {"type": "standard"}}
        assert (await http.post(SPACES, json=space)).status_code == 201
        made = await asyncio.gather(
            *(http.post(ADDRESSES, json=document(f"a{number}")) for number in range(50))
        )
        assert {(one.http_version, one.status_code) for one in made} == {("HTTP/2", 201)}
        watched = 0
        parameters = {"watch": "true", "resourceVersion": "0", "timeoutSeconds": "30"}
        async with http.stream("GET", ADDRESSES, params=parameters) as answer:
            async for line in answer.aiter_lines():
                watched += json.loads(line)["type"] == "ADDED"
                if watched == 50:
                    break
    token = ("--header", f"Authorization: Bearer {TOKEN}", "--cacert", str(files.ca))
    for version, flag in (("2", "--http2"), ("1.1", "--http1.1")):
        said = await asyncio.to_thread(
            curl, *token, flag, "--write-out", "\n%{http_version}", f"{url}{ADDRESSES}?limit=1"
        )
        listed, found = said.rsplit("\n", 1)
        assert (found, json.loads(listed)["kind"]) == (version, "AddressList")
    (tmp_path / "long").write_bytes(bytes(2 << 20))
    upload = ("--data-binary", f"@{tmp_path / 'long'}", "--output", "/dev/null")
    said = await asyncio.to_thread(
        curl, *token, "--http2", *upload, "--write-out", "%{http_code}", f"{url}{ADDRESSES}"
    )
    assert said == "413"
    server.stop()
    async with asyncio.timeout(5):
        await running
