"""Documents of another server, asked for over HTTP: bounded in time and bytes, never redirected.

TLS is verified, by the system's authorities or by the one that is given.
"""

import asyncio
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from enmasse.auth.grants import Unanswered

FETCH_TIMEOUT_S = 5.0
"""Time for one answer. A login waits 10 s in all, and may need two."""

DOCUMENT_BYTES_MAX = 256 * 1024
"""Longest answer that is read, unless more is said."""


@dataclass(frozen=True, slots=True)
class Change:
    """What an administrator asks for. What is secret in it is never shown."""

    method: str
    token: str = field(repr=False)
    document: object = field(default=None, repr=False)
    """What is sent as JSON; None: nothing."""


class Answer:
    """The status of an answer, and its document if it is one."""

    def __init__(self, status: int, body: bytes) -> None:
        self.status = status
        self._body = body

    def document(self) -> dict[str, Any]:
        """Return the JSON object of the body; an empty one if it is none."""
        document = self._decoded()
        return document if isinstance(document, dict) else {}

    def members(self) -> list[dict[str, Any]]:
        """Return the JSON objects of the list that the body is; none if it is no list."""
        listed = self._decoded()
        return [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []

    def _decoded(self) -> object:
        try:
            return json.loads(self._body)
        except (ValueError, RecursionError):
            return None


class Fetch(Protocol):
    """Asks a server: GET, or POST of a form."""

    async def __call__(
        self, url: str, *, form: Mapping[str, str] | None = None, ca: str | None = None
    ) -> Answer:
        """Return the answer. `ca` is the PEM text of the authority to trust.

        Raises: Unanswered if there is none in time, or it is too long.
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
    """Ask a server; see `Fetch`. With a `change` something is asked of it."""
    # Imported with the first question: a platform that asks nobody starts without it.
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
            # Raw: a few bytes that unpack to gigabytes are not unpacked.
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
    """Return how a server's certificate is verified.

    Raises: Unanswered if `ca` holds no certificate.
    """
    try:
        return ssl.create_default_context(cadata=ca)
    except (ssl.SSLError, ValueError) as error:
        raise Unanswered(f"the CA certificate cannot be used: {error}") from None
