"""HTTP requests to other servers, bounded in time and bytes, without redirects.

TLS is verified with the system's CAs or a given one.
"""

import asyncio
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from enmasse.auth.grants import Unanswered

FETCH_TIMEOUT_S = 5.0
"""Time-out of one response. A login has 10 s in total and may need two."""

DOCUMENT_BYTES_MAX = 256 * 1024
"""Default maximum size of a response."""


@dataclass(frozen=True, slots=True)
class Change:
    """A request for an administrator. Its secrets are never logged."""

    method: str
    token: str = field(repr=False)
    document: object = field(default=None, repr=False)
    """JSON body; None: no body."""


class Answer:
    """The status of a response, and its document if there is one."""

    def __init__(self, status: int, body: bytes) -> None:
        self.status = status
        self._body = body

    def document(self) -> dict[str, Any]:
        """Return the JSON object of the body; empty if the body is something else."""
        document = self._decoded()
        return document if isinstance(document, dict) else {}

    def members(self) -> list[dict[str, Any]]:
        """Return the JSON objects of a list body; empty if the body is something else."""
        listed = self._decoded()
        return [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []

    def _decoded(self) -> object:
        try:
            return json.loads(self._body)
        except (ValueError, RecursionError):
            return None


class Fetch(Protocol):
    """Sends a request: GET, or POST of a form."""

    async def __call__(
        self, url: str, *, form: Mapping[str, str] | None = None, ca: str | None = None
    ) -> Answer:
        """Return the response. `ca` is the PEM text of the CA to trust.

        Raises: Unanswered on a time-out, or if the response is too long.
        """


async def fetch(
    url: str,
    *,
    form: Mapping[str, str] | None = None,
    ca: str | None = None,
    change: Change | None = None,
    timeout_s: float = FETCH_TIMEOUT_S,
    bytes_max: int = DOCUMENT_BYTES_MAX,
) -> Answer:
    """Send a request; see `Fetch`. With a `change` it modifies the server."""
    # Imported on first use: a platform without such services starts without it.
    import httpx2

    method = change.method if change else "GET" if form is None else "POST"
    headers = {"accept-encoding": "identity"}
    if change:
        headers["authorization"] = f"Bearer {change.token}"
    try:
        async with (
            asyncio.timeout(timeout_s),
            httpx2.AsyncClient(
                verify=context(ca), timeout=timeout_s, follow_redirects=False, trust_env=False
            ) as client,
            client.stream(
                method,
                url,
                data=dict(form) if form else None,
                json=change.document if change else None,
                headers=headers,
            ) as response,
        ):
            body = bytearray()
            # Raw bytes: a small compressed response must not expand to gigabytes.
            async for part in response.aiter_raw():
                body += part
                if len(body) > bytes_max:
                    raise Unanswered(f"{url} answers with more than {bytes_max} bytes")
            return Answer(response.status_code, bytes(body))
    except TimeoutError:
        raise Unanswered(f"{url} does not answer within {timeout_s:g} s") from None
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        raise Unanswered(f"{url} does not answer: {str(error) or type(error).__name__}") from None


def context(ca: str | None) -> ssl.SSLContext:
    """Return a TLS context that verifies the server.

    Raises: Unanswered if `ca` contains no certificate.
    """
    try:
        return ssl.create_default_context(cadata=ca)
    except (ssl.SSLError, ValueError) as error:
        raise Unanswered(f"the CA certificate cannot be used: {error}") from None
