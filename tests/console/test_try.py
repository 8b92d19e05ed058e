"""Messaging in the browser: a page sends and receives as a user, over HTTP and HTTPS."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from console.conftest import Console, console_in, put_address, put_space, put_user, space_path
from platform_process import Platform

pytestmark = pytest.mark.timeout(300)

SPACE = "trial"


@pytest.fixture(scope="module", autouse=True)
def declared(platform: Platform) -> None:
    put_space(platform, SPACE)
    put_address(platform, SPACE, "orders", "queue")
    put_user(
        platform,
        SPACE,
        "alice",
        "secret",
        {"operations": ["send", "recv"], "addresses": ["orders"]},
    )


@pytest.fixture(params=["http", "https"])
def page(request: pytest.FixtureRequest, browser: Browser, platform: Platform) -> Iterator[Page]:
    with console_in(browser, platform, scheme=request.param) as console:
        console.log_in()
        yield connected(console)
        console.expect_no_problems()


def connected(console: Console) -> Page:
    page = console.open(space_path(SPACE, "try"))
    expect(page.get_by_label("Connect as")).to_have_value("alice")
    page.get_by_role("button", name="Connect", exact=True).click()
    expect(page.get_by_text("Connected")).to_be_visible()
    return page


def test_a_page_sends_and_receives_as_a_user(page: Page) -> None:
    page.get_by_label("Receive from").fill("orders")
    page.get_by_role("button", name="Receive").click()
    expect(page.get_by_text("Receiving.")).to_be_visible()
    page.get_by_label("Send to").fill("orders")
    page.get_by_label("Body", exact=True).fill('{"number": 7}')
    page.get_by_label("The body is").select_option("json")
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page.get_by_text("1 message accepted.")).to_be_visible()
    row = page.get_by_role("row").filter(has_text='{"number":7}')
    expect(row).to_be_visible()
    row.get_by_role("button").click()
    expect(page.get_by_role("dialog").get_by_text("application/json")).to_be_visible()


def test_the_rights_of_the_user_apply(page: Page) -> None:
    page.get_by_label("Receive from").fill("others")
    page.get_by_role("button", name="Receive").click()
    expect(page.get_by_text("The address refused")).to_be_visible()
    # The connection is still open.
    page.get_by_role("button", name="Disconnect").click()
    expect(page.get_by_role("button", name=re.compile("^Connect$"))).to_be_visible()
