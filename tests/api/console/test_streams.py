"""Open streams of a session: they end with it."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from starlette.requests import Request

from asgi_platform import ADDRESSES, Served
from browsers import SESSION, Browser
from enmasse.api.access import reviews
from enmasse.api.access.reviews import STILL, while_allowed
from enmasse.resources import Key
from enmasse.resources.api_token import TOKENS_NAMESPACE
from enmasse.store import Event
from tokens import token_secret

WATCH = {"watch": "true", "timeoutSeconds": "30"}


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reviews, "CHECK_S", 0.05)


async def watching(served: Served, page: Browser) -> asyncio.Task[int]:
    """Start a watch without events; its result is the status of the answer."""
    begun, follow = asyncio.Event(), served.store.watch

    def begin(since: int) -> AsyncIterator[Event]:
        begun.set()
        return follow(since)

    served.store.watch = begin  # type: ignore[method-assign]

    async def watch() -> int:
        return (await page.http.get(ADDRESSES, params=WATCH)).status_code

    task = asyncio.get_running_loop().create_task(watch())
    await begun.wait()
    return task


async def test_logout_ends_an_idle_stream(served: Served, tenant: Browser) -> None:
    async with asyncio.timeout(5):
        task = await watching(served, tenant)
        assert (await tenant.send("DELETE", SESSION)).status_code == 204
        assert await task == 200


async def test_a_lost_role_ends_an_idle_stream(served: Served, tenant: Browser) -> None:
    async with asyncio.timeout(5):
        task = await watching(served, tenant)
        await served.store.put([token_secret("ci.x", tenant_edit="other")])
        assert await task == 200


async def test_a_deleted_token_ends_an_idle_stream(served: Served, tenant: Browser) -> None:
    async with asyncio.timeout(5):
        task = await watching(served, tenant)
        await served.store.delete([Key("Secret", TOKENS_NAMESPACE, "ci")])
        assert await task == 200


async def test_a_checked_stream_keeps_every_event() -> None:
    async def lines() -> AsyncIterator[int]:
        checks = asyncio.Semaphore(0)
        for number in range(3):
            # Longer than the interval of checks: the wait for an event survives them.
            asyncio.get_running_loop().call_later(3 * reviews.CHECK_S, checks.release)
            await checks.acquire()
            yield number

    request = Request({"type": "http", STILL: lambda: True})
    assert [one async for one in while_allowed(request, lines())] == [0, 1, 2]
