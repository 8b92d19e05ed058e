"""The HTTP client of the commands: connections, bodies, and what is no answer."""

import gzip
import http.server
import json
import socket
import threading
from collections.abc import Iterator
from http.client import HTTPException
from typing import Any

import pytest

from enmasse import __version__
from enmasse.cli.http_client import HttpClient, Unreachable


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers with what it was asked, in the way that the path names."""

    protocol_version = "HTTP/1.1"
    peers: list[int]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(body)

    def do_GET(self) -> None:
        if self.path.startswith("/lines"):
            return self._send_lines()
        asked = {"path": self.path, "headers": {k.lower(): v for k, v in self.headers.items()}}
        self._answer(json.dumps(asked).encode())

    def _answer(self, body: bytes) -> None:
        self.peers.append(self.client_address[1])
        self.send_response(200)
        if self.path.startswith("/gzip"):
            body = gzip.compress(body)
            self.send_header("Content-Encoding", "gzip")
        length = len(body) + (1 if self.path.startswith("/short") else 0)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(body)
        # Closed without notice, as a server does with an idle connection.
        self.close_connection = self.path.startswith(("/close", "/short"))

    def _send_lines(self) -> None:
        """Send chunks that end within lines."""
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for part in (b"one\ntw", b"o\r\n", "drü".encode(), b""):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the test's output clean."""


@pytest.fixture
def peers() -> list[int]:
    """The client's port in each request."""
    return []


@pytest.fixture
def client(peers: list[int]) -> Iterator[HttpClient]:
    handler = type("Own", (Handler,), {"peers": peers})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}"
        found = HttpClient(url, {"Authorization": "Bearer x"}, timeout_s=30)
        yield found
        found.close()
        server.shutdown()
        thread.join()


def test_a_request_has_an_escaped_path_its_parameters_and_headers(client: HttpClient) -> None:
    response, body = client.request(
        "GET", "/a b?c#ü%41", parameters={"x": "1 2&3"}, headers={"Accept": "text/plain"}
    )
    asked = json.loads(body)
    assert asked["path"] == "/a%20b%3Fc%23%C3%BC%2541?x=1+2%263"
    assert asked["headers"]["authorization"] == "Bearer x"
    assert asked["headers"]["accept"] == "text/plain"
    assert asked["headers"]["user-agent"] == f"enmasse/{__version__}"
    assert response.is_success
    assert response.url.endswith("?x=1+2%263")


def test_a_path_of_the_url_comes_before_the_path_of_a_request(client: HttpClient) -> None:
    below = HttpClient(f"{client.url}/clusters/a/", {}, timeout_s=30)
    assert json.loads(below.request("GET", "/apis")[1])["path"] == "/clusters/a/apis"
    below.close()


def test_a_document_is_sent_as_json(client: HttpClient) -> None:
    _, body = client.request("POST", "/", document={"name": "ü"})
    assert body == '{"name":"ü"}'.encode()


def test_a_compressed_body_is_read_as_it_was(client: HttpClient) -> None:
    _, body = client.request("POST", "/gzip", document=["x"] * 100)
    assert json.loads(body) == ["x"] * 100


def test_requests_share_a_connection_until_the_server_closes_it(
    client: HttpClient, peers: list[int]
) -> None:
    for path in ("/", "/close", "/", "/"):
        client.request("GET", path)
    assert peers[0] == peers[1]
    assert peers[1] != peers[2]
    assert peers[2] == peers[3]


def test_a_stream_is_read_in_lines_or_chunks_beside_other_requests(client: HttpClient) -> None:
    with client.stream("/lines", silence_s=30) as response:
        lines = response.lines()
        assert next(lines) == "one"
        client.request("GET", "/")
        assert list(lines) == ["two", "drü"]
    with client.stream("/lines", silence_s=30) as response:
        assert b"".join(response.chunks()) == "one\ntwo\r\ndrü".encode()


def test_a_body_that_ends_too_early_is_no_answer(client: HttpClient) -> None:
    with pytest.raises(Unreachable) as raised:
        client.request("GET", "/short")
    assert isinstance(raised.value.__cause__, HTTPException)
    assert client.request("GET", "/")[0].is_success


@pytest.mark.parametrize("url", ["ftp://127.0.0.1", "http://", "http://127.0.0.1:x", "localhost"])
def test_a_url_of_nothing_is_no_answer(url: str) -> None:
    with pytest.raises(Unreachable):
        HttpClient(url, {}, timeout_s=30).request("GET", "/")


def test_a_silent_server_is_no_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        client = HttpClient(url, {}, timeout_s=0.05)
        with pytest.raises(Unreachable, match="timed out"):
            client.request("GET", "/")
