"""A client of HTTP/1.1 on the standard library.

A command's whole run costs less than importing a library with HTTP/2, proxies and asyncio, none of
which it needs.
"""

import json
import select
import ssl
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from enmasse import __version__

CHUNK_BYTES = 64 << 10
DEFAULT_PORTS = {"http": 80, "https": 443}

_PATH_SAFE = "/:@!$&'()*+,;=~"
"""Characters of a path that need no escape (RFC 3986, section 3.3)."""


class Unreachable(Exception):
    """The server does not answer, or not in HTTP; `__cause__` has the reason."""


class Response:
    """A response; `text` and `json` read its whole body, iterating reads it as it arrives."""

    def __init__(self, url: str, response: HTTPResponse) -> None:
        self.url = url
        self.status = response.status
        self._response = response

    @property
    def is_success(self) -> bool:
        """Whether the status is one of success."""
        return 200 <= self.status < 300

    def read(self) -> bytes:
        """Return the rest of the body.

        Raises: Unreachable if it ends too early.
        """
        with _translated():
            body = self._response.read()
        if body and self._response.getheader("Content-Encoding") == "gzip":
            # Imported here: only answers of 128 KiB and more are compressed.
            import gzip

            with _translated():
                return gzip.decompress(body)
        return body

    def lines(self) -> Iterator[str]:
        """Yield the lines of the body as they arrive, without their ends."""
        while line := self._line():
            yield line.decode(errors="replace").rstrip("\r\n")

    def chunks(self) -> Iterator[bytes]:
        """Yield the body in parts as they arrive."""
        while chunk := self._chunk():
            yield chunk

    def _line(self) -> bytes:
        with _translated():
            return self._response.readline()

    def _chunk(self) -> bytes:
        with _translated():
            return self._response.read1(CHUNK_BYTES)


class HttpClient:
    """Requests to one server.

    `request` uses one connection, which stays open; `stream` has one of its own.
    """

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        *,
        timeout_s: float,
        trusted: ssl.SSLContext | None = None,
    ) -> None:
        """Talk to the server at `url`; without `trusted`, the CAs of the system are trusted."""
        self.url = url
        self._headers = {"User-Agent": f"enmasse/{__version__}", "Accept": "*/*", **headers}
        self._timeout_s = timeout_s
        self._trusted = trusted
        self._connection: HTTPConnection | None = None

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def request(
        self,
        method: str,
        path: str,
        *,
        parameters: Mapping[str, str] | None = None,
        document: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[Response, bytes]:
        """Send a request, with a document as JSON, and return the response and its body.

        Raises: Unreachable if there is no complete response in time.
        """
        own = {"Accept-Encoding": "gzip", **(headers or {})}
        body = None
        if document is not None:
            own = {"Content-Type": "application/json", **own}
            body = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
        target = _target(path, parameters)
        is_kept = self._is_open()
        try:
            return self._exchange(method, target, own, body)
        except Unreachable as error:
            # The server may close an idle connection at any time (RFC 9112, section 9.3.1); a GET
            # can be sent again.
            if not (is_kept and method == "GET" and isinstance(error.__cause__, ConnectionError)):
                raise
        return self._exchange(method, target, own, body)

    @contextmanager
    def stream(
        self,
        path: str,
        *,
        parameters: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        silence_s: float | None,
    ) -> Iterator[Response]:
        """GET a response that is read as it arrives; `silence_s` is the maximum idle time."""
        connection = self._connected()
        try:
            connection.sock.settimeout(silence_s)
            yield self._send(connection, "GET", _target(path, parameters), headers or {}, None)
        finally:
            connection.close()

    def _exchange(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | None
    ) -> tuple[Response, bytes]:
        """Send a request over the open connection or a new one, and read the response."""
        try:
            if self._connection is None or not self._is_open():
                self.close()
                self._connection = self._connected()
            response = self._send(self._connection, method, target, headers, body)
            return response, response.read()
        except BaseException:
            # A connection with a response outstanding serves no further request.
            self.close()
            raise

    def _is_open(self) -> bool:
        """Whether there is a connection that the server has not closed, as far as is known."""
        kept = self._connection
        return kept is not None and kept.sock is not None and not _is_readable(kept)

    def _connected(self) -> HTTPConnection:
        with _translated():
            parts = urlsplit(self.url)
            host, port = parts.hostname or "", parts.port or DEFAULT_PORTS.get(parts.scheme)
            if not host or port is None:
                raise HTTPException("the URL is not one of http or https")
            if parts.scheme == "https":
                # Loading the system's CAs takes as long as a request: only for TLS.
                trusted = self._trusted or ssl.create_default_context()
                connection: HTTPConnection = HTTPSConnection(
                    host, port, timeout=self._timeout_s, context=trusted
                )
            else:
                connection = HTTPConnection(host, port, timeout=self._timeout_s)
            connection.connect()
            return connection

    def _send(
        self,
        connection: HTTPConnection,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None,
    ) -> Response:
        target = urlsplit(self.url).path.rstrip("/") + target
        with _translated():
            connection.request(method, target, body, {**self._headers, **headers})
            return Response(self.url + target, connection.getresponse())


def _target(path: str, parameters: Mapping[str, str] | None) -> str:
    query = f"?{urlencode(parameters)}" if parameters else ""
    return quote(path, safe=_PATH_SAFE) + query


def _is_readable(connection: HTTPConnection) -> bool:
    """Whether an idle connection has something to read, which can only be its end."""
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return bool(poll.poll(0))


@contextmanager
def _translated() -> Iterator[None]:
    """Translate what the standard library raises into Unreachable."""
    try:
        yield
    except (OSError, HTTPException, ValueError, EOFError, zlib.error) as error:
        raise Unreachable(str(error) or type(error).__name__) from error
