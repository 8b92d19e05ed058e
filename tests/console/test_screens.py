"""Every screen by theme and width: nothing serious for accessibility, nothing beyond the edge.

Screenshots go to `build/console-screens`; docs/console/review.md says what was seen in them.
"""

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from console.conftest import (
    ROOT,
    console_in,
    put_address,
    put_space,
    send,
    serious_violations,
    space_path,
)
from platform_process import Platform

pytestmark = pytest.mark.timeout(600)

SCREENS = ROOT / "build/console-screens"
SPACE = "screens"
ADDRESSES = space_path(SPACE, "addresses")
PATHS = {
    "overview": "/overview",
    "spaces": "/spaces",
    "space-new": "/spaces/new",
    "space": space_path(SPACE),
    "addresses": ADDRESSES,
    "address-new": f"{ADDRESSES}/new",
    "address": f"{ADDRESSES}/{SPACE}.orders",
    "messages": f"{ADDRESSES}/{SPACE}.orders/messages",
    "send": f"{ADDRESSES}/{SPACE}.orders/send",
    "settings": f"{ADDRESSES}/{SPACE}.orders/settings",
    "dead-letters": f"{ADDRESSES}/{SPACE}.dead/deadletters",
    "connections": space_path(SPACE, "connections"),
    "users": space_path(SPACE, "users"),
    "user-new": space_path(SPACE, "users/new"),
    "connect": space_path(SPACE, "connect"),
    "events": space_path(SPACE, "events"),
    "pipelines": "/pipelines",
    "platform": "/operator/platform",
    "plans": "/operator/plans",
    "plan": "/operator/plans/addressplans/enmasse-infra/standard-small-queue",
    "infra": "/operator/infra",
    "authentication": "/operator/authentication",
    "node-connections": "/operator/connections",
    "logs": "/operator/logs",
    "audit": "/operator/audit",
    "backups": "/operator/backups",
}
QUICK = ("overview", "addresses", "address-new", "address", "messages", "plan")
"""The screens of `make check`: one of each kind."""


@pytest.fixture(scope="module", autouse=True)
def declared(platform: Platform) -> None:
    put_space(platform, SPACE)
    put_address(platform, SPACE, "dead", "deadletter")
    put_address(platform, SPACE, "orders", "queue", deadletter="dead")
    send(platform, SPACE, "orders", *('{"order": 1}' for _ in range(30)))


def settled(page: Page) -> None:
    """Wait until nothing on the page is on its way any more."""
    page.get_by_role("heading", level=1).wait_for()
    expect(page.locator(".pf-v6-c-skeleton, .pf-v6-c-spinner")).to_have_count(0)


def looked_at(page: Page, name: str, width: int) -> list[str]:
    """Take a screenshot; return what is wrong with the screen."""
    settled(page)
    page.screenshot(path=SCREENS / f"{name}.png", full_page=False)
    found = [f"{name}: {one}" for one in serious_violations(page)]
    beyond = page.evaluate("document.documentElement.scrollWidth")
    return [*found, *([f"{name}: {beyond} px wide"] if beyond > width else [])]


def screens(browser: Browser, platform: Platform, names: Any, width: int, theme: str) -> list[str]:
    Path(SCREENS).mkdir(parents=True, exist_ok=True)
    found: list[str] = []
    with console_in(browser, platform, width=width, theme=theme) as console:
        console.log_in()
        for name in names:
            console.page.goto(console.base + PATHS[name])
            found += looked_at(console.page, f"{name}-{theme}-{width}", width)
        console.expect_no_problems()
    return found


def test_screens_of_each_kind_are_accessible(browser: Browser, platform: Platform) -> None:
    assert not "\n".join(screens(browser, platform, QUICK, 1440, "light"))


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_every_screen(browser: Browser, platform: Platform, width: int, theme: str) -> None:
    assert not "\n".join(screens(browser, platform, PATHS, width, theme))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["overview", "spaces", "addresses", "connections", "users", "plans", "audit"]
)
def test_failed_request_says_why(browser: Browser, platform: Platform, name: str) -> None:
    """Every list shows the platform's own words and offers another try."""

    def fail(route: Route) -> None:
        status = {"kind": "Status", "message": "the disk is full; free some space", "code": 507}
        route.fulfill(status=507, json=status)

    with console_in(browser, platform) as console:
        console.log_in()
        console.page.route(
            re.compile(
                r"/apis/.*(overview|addressspaces|addresses|connections|messagingusers|plans|audit)(\?|$)"
            ),
            fail,
        )
        console.page.goto(console.base + PATHS[name])
        expect(console.page.get_by_text("the disk is full; free some space").first).to_be_visible()
