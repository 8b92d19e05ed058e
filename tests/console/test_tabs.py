"""Several tabs of one browser, and impatient clicks."""

import pytest
from playwright.sync_api import Browser, Page, expect

from console.conftest import Console, address_path, console_in, put_address, put_space, space_path
from console.test_access import token
from platform_process import Platform

pytestmark = pytest.mark.timeout(300)


def another_tab(console: Console, path: str) -> Page:
    page = console.page.context.new_page()
    page.goto(console.base + path)
    page.get_by_role("heading", level=1).wait_for()
    return page


def test_a_login_in_another_tab_leaves_the_first_usable(
    browser: Browser, platform: Platform
) -> None:
    put_space(platform, "tabs")
    with console_in(browser, platform) as console:
        console.log_in()
        page = console.open(space_path("tabs", "addresses/new"))
        # The cookie is that of all tabs; the first page still has the old CSRF token.
        console.log_in()
        page.get_by_role("textbox", name="Address").fill("first")
        for _ in range(3):
            page.get_by_role("button", name="Next").dblclick()
        page.get_by_role("button", name="Create", exact=True).dblclick()
        expect(page.get_by_role("heading", name="first")).to_be_visible()


def test_another_user_in_another_tab_is_shown(browser: Browser, platform: Platform) -> None:
    put_space(platform, "shared")
    put_address(platform, "shared", "orders", "queue")
    with console_in(browser, platform) as console:
        console.log_in(token(platform, "one-editor", "tenant-edit", "shared"))
        page = console.open(address_path("shared", "shared.orders", "send"))
        expect(page.get_by_role("button", name="Account: one-editor")).to_be_visible()
        console.log_in(token(platform, "two-editor", "tenant-edit", "shared"))
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        expect(page.get_by_text("This page goes on as two-editor")).to_be_visible()
        expect(page.get_by_role("button", name="Account: two-editor")).to_be_visible()
        # A double click sends once.
        page.get_by_role("button", name="Send", exact=True).dblclick()
        expect(page.get_by_text("1 message accepted.")).to_be_visible()
        page.get_by_role("tab", name="Messages").click()
        expect(page.get_by_role("row")).to_have_count(2)


def test_a_logout_in_another_tab_ends_the_first(browser: Browser, platform: Platform) -> None:
    with console_in(browser, platform) as console:
        console.log_in()
        page = console.open("/spaces/default/default/addresses")
        other = another_tab(console, "/overview")
        other.get_by_role("button", name="Account: ").click()
        other.get_by_role("menuitem", name="Log out").click()
        expect(other.get_by_label("API token")).to_be_visible()
        page.bring_to_front()
        expect(page.get_by_text("The session is over")).to_be_visible(timeout=10_000)
        # One login is enough for both.
        console.log_in()
        expect(page.get_by_label("API token")).to_be_visible()
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        expect(page.get_by_role("link", name="queue", exact=True)).to_be_visible()


def test_what_another_tab_deleted_is_not_edited(browser: Browser, platform: Platform) -> None:
    put_space(platform, "gone")
    put_address(platform, "gone", "orders", "queue")
    with console_in(browser, platform) as console:
        console.log_in()
        page = console.open(space_path("gone", "users/new"))
        expect(page.get_by_label("User name")).to_be_visible()
        listing = another_tab(console, space_path("gone", "addresses"))
        platform.enmasse("delete", "addressspace", "gone", "--namespace", "gone")
        expect(page.get_by_role("heading", name="does not exist any more")).to_be_visible()
        expect(listing.get_by_role("heading", name="does not exist any more")).to_be_visible()
        # Back and forward come to pages that say the same.
        page.goto(console.base + space_path("gone", "addresses/new"))
        expect(page.get_by_role("heading", name="does not exist any more")).to_be_visible()
        page.go_back()
        expect(page.get_by_role("heading", name="does not exist any more")).to_be_visible()
