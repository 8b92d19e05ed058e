"""A web page of the console: its cookies, and the headers that browsers add."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
from starlette.types import ASGIApp

SESSION = "/console/session"


@dataclass
class Browser:
    """One browser with its cookies."""

    http: httpx2.AsyncClient
    csrf: str = ""

    async def log_in(self, **given: str) -> httpx2.Response:
        """Log in by `token` or `code`, and remember the CSRF token."""
        answer = await self.http.post(SESSION, json=given)
        self.csrf = answer.json().get("csrf") or ""
        return answer

    async def send(self, method: str, path: str, **options: Any) -> httpx2.Response:
        """Send a request as the page does: with the CSRF token."""
        headers = {"X-CSRF-Token": self.csrf} | options.pop("headers", {})
        return await self.http.request(method, path, headers=headers, **options)


@asynccontextmanager
async def browser(
    app: ASGIApp, scheme: str = "http", host: str = "localhost", peer: str = "127.0.0.1"
) -> AsyncIterator[Browser]:
    """Yield a browser at an application."""
    transport = httpx2.ASGITransport(app, client=(peer, 1), raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=transport, base_url=f"{scheme}://{host}") as http:
        yield Browser(http)
