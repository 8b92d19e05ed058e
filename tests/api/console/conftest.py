"""Sessions of the console, as browsers hold them."""

from collections.abc import AsyncIterator

import httpx2
import pytest

from asgi_platform import TOKEN, Served
from browsers import Browser, browser
from tokens import token_secret


@pytest.fixture
async def tenant(served: Served) -> AsyncIterator[Browser]:
    """A browser with a session by a token that edits the namespace `default`."""
    await served.store.put([token_secret("ci.x", tenant_edit="default")])
    async with browser(served.app) as page:
        assert (await page.log_in(token="ci.x")).status_code == 201
        yield page


@pytest.fixture
async def owner(served: Served) -> AsyncIterator[Browser]:
    """A browser with a session of the owner."""
    async with browser(served.app) as page:
        assert (await page.log_in(token=TOKEN)).status_code == 201
        yield page


def statuses(answers: list[httpx2.Response]) -> list[int]:
    return sorted(one.status_code for one in answers)
