"""Faults while pages are open: the platform away, another leader, and more than a page can hold."""

import re
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from console.conftest import Console, console_in, put_address, put_space, space_path
from platform_process import running
from postgres_server import PostgresServer

pytestmark = pytest.mark.timeout(300)

AWAY_S = 30
LEADER_TIMEOUT_MS = 90_000
MESSAGES = 10_000
PART = 200
"""Messages that the page reads at once."""

ADDRESSES = "/spaces/default/default/addresses"


@pytest.mark.slow
def test_a_page_recovers_after_the_platform_was_away(browser: Browser, tmp_path: Path) -> None:
    with ExitStack() as stack:
        first = ExitStack()
        platform = first.enter_context(running(tmp_path))
        console = stack.enter_context(console_in(browser, platform))
        console.log_in()
        page = console.open(ADDRESSES)
        expect(page.get_by_role("link", name="queue", exact=True)).to_be_visible()
        platform.kill()
        first.close()
        expect(page.get_by_text("has not answered for")).to_be_visible()
        # What was known stays; a person sees for how long it is old.
        expect(page.get_by_role("link", name="queue", exact=True)).to_be_visible()
        threading.Event().wait(AWAY_S)
        port = str(platform.port("http"))
        again = stack.enter_context(running(tmp_path, "--http-port", port))
        put_address(again, "default", "after", "queue")
        expect(page.get_by_text("has not answered for")).to_have_count(0, timeout=30_000)
        # The session is in the store: the page needs neither a login nor a reload.
        expect(page.get_by_role("link", name="after", exact=True)).to_be_visible()


@pytest.mark.slow
def test_a_page_continues_at_another_leader(
    browser: Browser, postgres: PostgresServer, tmp_path: Path
) -> None:
    environment = {"ENMASSE_STORE": postgres.new_database()}
    with ExitStack() as stack:
        leader = stack.enter_context(running(tmp_path / "one", environment=environment))
        standby = stack.enter_context(
            running(tmp_path / "two", "--node-name", "two", environment=environment)
        )
        console = stack.enter_context(console_in(browser, standby))
        console.log_in()
        page = console.open("/operator/platform")
        stand_by = page.get_by_text("this process is a stand-by")
        expect(stand_by.first).to_be_visible()
        worker = page.get_by_role("progressbar", name="Worker 0 busy")
        expect(worker).to_have_count(0)
        leader.kill()
        # The stand-by answers all the time; its live values begin once it leads, without a reload.
        expect(worker).to_be_visible(timeout=LEADER_TIMEOUT_MS)
        expect(stand_by).to_have_count(0)
        page = console.open(ADDRESSES)
        expect(page.get_by_role("link", name="queue", exact=True)).to_be_visible()
        put_address(standby, "default", "after", "queue")
        expect(page.get_by_role("link", name="after", exact=True)).to_be_visible()


@pytest.mark.slow
def test_ten_thousand_messages_are_read_in_parts(console: Console) -> None:
    put_space(console.platform, "many")
    put_address(console.platform, "many", "orders", "queue")
    where = ("--space", "many.many")
    console.platform.enmasse("send", "orders", "--count", str(MESSAGES), "--durable", *where)
    page = console.open(space_path("many", "addresses/many.orders/messages"))
    more = page.get_by_role("button", name=re.compile("Show more"))
    for read in range(PART, MESSAGES, PART):
        expect(more).to_contain_text(f"({read:,} messages so far)")
        more.click()
    expect(page.get_by_role("grid", name="Messages")).to_have_attribute(
        "aria-rowcount", str(MESSAGES)
    )
    expect(more).to_have_count(0)
    # Only rows in sight are elements.
    assert page.get_by_role("row").count() < 300
    page.get_by_role("textbox", name="Selector").fill("JMSPriority = 9")
    page.keyboard.press("Enter")
    expect(page.get_by_text("No message matches")).to_be_visible()
    page.get_by_role("button", name="Purge selected").wait_for()
