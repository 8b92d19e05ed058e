"""Compresses large responses if the client accepts gzip (RFC 9110, section 12.5.3). Plain ASGI.

As in the Kubernetes API server: only whole bodies of at least 128 KiB, at the fastest level.
A body sent in parts, such as a watch or a backup, is not compressed.
"""

import asyncio
import zlib
from functools import lru_cache

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

BODY_BYTES_MIN = 128 << 10
"""Smaller bodies cost more time to compress than to send."""

LEVEL = 1
_GZIP = 16 + zlib.MAX_WBITS


class Compression:
    """Compresses responses of an application."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] == "http" and accepts_gzip(
            Headers(scope=scope).get("accept-encoding", "")
        ):
            await self._app(scope, receive, _Compressed(send))
        else:
            await self._app(scope, receive, send)


@lru_cache(maxsize=64)  # Most clients send the same one with every request.
def accepts_gzip(accepted: str) -> bool:
    """Whether an `Accept-Encoding` allows gzip: by name or by `*`, and not with weight 0."""
    weights: dict[str, float] = {}
    for one in accepted.split(","):
        coding, *parameters = (part.strip().lower() for part in one.split(";"))
        weight = next((text[2:] for text in parameters if text.startswith("q=")), "1")
        try:
            weights[coding] = float(weight)
        except ValueError:
            weights[coding] = 0.0
    return weights.get("gzip", weights.get("*", 0.0)) > 0


class _Compressed:
    """Forwards a response. The start of a compressible response has a Content-Length and waits for
    the body; the start of a stream has none and is sent immediately.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._held: Message | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start" and _is_compressible(
            Headers(raw=message["headers"])
        ):
            self._held = message
            return
        if self._held is not None:
            start, self._held = self._held, None
            message = await _compressed(start, message)
            await self._send(start)
        await self._send(message)


def _is_compressible(headers: Headers) -> bool:
    length = int(headers.get("content-length", "0"))
    return length >= BODY_BYTES_MIN and "content-encoding" not in headers


async def _compressed(start: Message, message: Message) -> Message:
    """Return the body to send; adds the headers for it to `start`."""
    if message.get("more_body"):
        return message
    packed = await asyncio.to_thread(_packed, message.get("body", b""))
    headers = MutableHeaders(scope=start)
    headers["content-encoding"] = "gzip"
    headers["content-length"] = str(len(packed))
    headers.add_vary_header("Accept-Encoding")
    return {**message, "body": packed}


def _packed(body: bytes) -> bytes:
    packer = zlib.compressobj(LEVEL, wbits=_GZIP)
    return packer.compress(body) + packer.flush()
