"""Documents of another server, asked for over HTTP: bounded in time and bytes, never redirected.

TLS is verified, by the system's authorities or by the one that is given.
"""

import json
import ssl
from collections.abc import Mapping
from typing import Any, Protocol

import httpx2

from enmasse.auth.grants import Unanswered

FETCH_TIMEOUT_S = 5.0
"""Time for one answer. A login waits 10 s in all, and may need two."""

DOCUMENT_BYTES_MAX = 256 * 1024
"""Longest answer that is read."""


class Answer:
    """The status of an answer, and its document if it is one."""

    def __init__(self, status: int, body: bytes) -> None:
        self.status = status
        self._body = body

    def document(self) -> dict[str, Any]:
        """Return the JSON object of the body; an empty one if it is none."""
        try:
            document = json.loads(self._body)
        except (ValueError, RecursionError):
            return {}
        return document if isinstance(document, dict) else {}


class Fetch(Protocol):
    """Asks a server: GET, or POST of a form."""

    async def __call__(
        self, url: str, *, form: Mapping[str, str] | None = None, ca: str | None = None
    ) -> Answer:
        """Return the answer. `ca` is the PEM text of the authority to trust.

        Raises: Unanswered if there is none in time, or it is too long.
        """


async def fetch(
    url: str, *, form: Mapping[str, str] | None = None, ca: str | None = None
) -> Answer:
    """Ask a server; see `Fetch`."""
    method = "GET" if form is None else "POST"
    try:
        async with (
            httpx2.AsyncClient(
                verify=context(ca), timeout=FETCH_TIMEOUT_S, follow_redirects=False, trust_env=False
            ) as client,
            client.stream(method, url, data=dict(form) if form else None) as response,
        ):
            body = bytearray()
            async for part in response.aiter_bytes():
                body += part
                if len(body) > DOCUMENT_BYTES_MAX:
                    raise Unanswered(f"{url} answers with more than {DOCUMENT_BYTES_MAX} bytes")
            return Answer(response.status_code, bytes(body))
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        raise Unanswered(f"{url} does not answer: {str(error) or type(error).__name__}") from None


def context(ca: str | None) -> ssl.SSLContext:
    """Return how a server's certificate is verified.

    Raises: Unanswered if `ca` holds no certificate.
    """
    try:
        return ssl.create_default_context(cadata=ca)
    except (ssl.SSLError, ValueError) as error:
        raise Unanswered(f"the CA certificate cannot be used: {error}") from None
