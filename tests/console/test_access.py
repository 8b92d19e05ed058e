"""Login, roles and logout in the browser."""

import re

import pytest
from playwright.sync_api import Browser, expect

from console.conftest import Console, console_in, put_address, put_space
from platform_process import Platform

pytestmark = pytest.mark.timeout(300)


def link_of(platform: Platform) -> str:
    return platform.enmasse("console", "--print").strip().splitlines()[-1]


def test_link_of_the_command_logs_in_once(browser: Browser, platform: Platform) -> None:
    link = link_of(platform)
    with console_in(browser, platform) as console:
        console.page.goto(link)
        expect(console.page.get_by_role("heading", name="Overview")).to_be_visible()
        assert "code=" not in console.page.url
        stored = console.page.evaluate("JSON.stringify({...localStorage, ...sessionStorage})")
        assert stored == "{}"
        assert console.page.evaluate("document.cookie") == ""
    with console_in(browser, platform) as console:
        console.page.goto(link)
        expect(console.page.get_by_label("API token")).to_be_visible()
        expect(console.page.get_by_role("heading", name="Danger alert")).to_be_visible()


def test_wrong_token_is_refused_and_logout_ends_the_session(
    browser: Browser, platform: Platform
) -> None:
    with console_in(browser, platform) as console:
        page = console.page
        page.goto(f"{console.base}/spaces?q=a")
        page.get_by_label("API token").fill("nonsense.token")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("heading", name="Danger alert")).to_be_visible()
        page.get_by_label("API token").fill((platform.data / "token").read_text().strip())
        page.get_by_role("button", name="Log in").click()
        expect(page).to_have_url(re.compile(r"/console/spaces\?q=a"))
        page.get_by_role("button", name="Account: ").click()
        page.get_by_role("menuitem", name="Log out").click()
        expect(page.get_by_label("API token")).to_be_visible()
        page.goto(f"{console.base}/spaces")
        expect(page.get_by_label("API token")).to_be_visible()


def token(platform: Platform, name: str, role: str, namespaces: str) -> str:
    made = platform.enmasse("token", "create", name, "--grant", f"{role}={namespaces}")
    return made.strip().splitlines()[-1].split()[-1]


def test_reader_is_offered_no_change(browser: Browser, platform: Platform) -> None:
    with console_in(browser, platform) as console:
        console.log_in(token(platform, "reader", "tenant-view", "default"))
        page = console.open("/spaces/default/default/addresses")
        expect(page.get_by_role("link", name="queue", exact=True)).to_be_visible()
        expect(page.get_by_role("link", name="Create address")).to_have_count(0)
        expect(page.get_by_role("button", name="Delete")).to_have_count(0)
        expect(page.get_by_text("Operations")).to_have_count(0)
        page.get_by_role("link", name="queue", exact=True).click()
        expect(page.get_by_role("tab", name="Settings")).to_be_visible()
        expect(page.get_by_role("tab", name="Messages")).to_have_count(0)
        page = console.open("/operator/audit")
        expect(page.get_by_role("heading", name="You have no right to see this")).to_be_visible()


def test_tenant_sees_usage_beside_the_allowance(browser: Browser, platform: Platform) -> None:
    put_space(platform, "allowed", plan="standard-free")
    put_address(platform, "allowed", "orders", "queue", plan="standard-free-queue")
    with console_in(browser, platform) as console:
        console.log_in(token(platform, "allowed-edit", "tenant-edit", "allowed"))
        page = console.open("/spaces/allowed/allowed")
        expect(page.get_by_role("progressbar", name=re.compile("Messages in"))).to_be_visible()
        expect(page.get_by_text("of 100,000")).to_be_visible()
        expect(page.get_by_text("of 1 GiB")).to_be_visible()
        expect(page.get_by_text("of 50", exact=True).first).to_be_visible()
        page.goto(f"{console.base}/spaces/allowed/allowed/addresses/new")
        page.get_by_role("textbox", name="Address").fill("more")
        page.get_by_role("button", name="Next").click()
        expect(page.get_by_role("radio", name=re.compile("Free Queue"))).to_be_checked()
        assert page.get_by_role("radio").count() == 1
        console.expect_no_problems()


def test_deleted_token_ends_an_open_page(browser: Browser, platform: Platform) -> None:
    with console_in(browser, platform) as console:
        console.log_in(token(platform, "short", "tenant-view", "default"))
        console.open("/spaces/default/default/addresses")
        platform.enmasse("token", "delete", "short")
        expect(console.page.get_by_label("API token")).to_be_visible()
        expect(console.page.get_by_text("The session is over")).to_be_visible()


@pytest.mark.parametrize(
    "path", ["/nowhere", "/spaces/none/none", "/spaces/default/default/addresses/default.none"]
)
def test_missing_things_say_so(browser: Browser, platform: Platform, path: str) -> None:
    with console_in(browser, platform) as console:
        console.log_in()
        console.page.goto(console.base + path)
        expect(
            console.page.get_by_role(
                "heading", name=re.compile("no such page|does not exist any more")
            )
        ).to_be_visible()


@pytest.mark.parametrize("tab", ["", "messages", "send", "settings"])
def test_page_of_a_deleted_address_says_so(console: Console, tab: str) -> None:
    name = f"deleted-{tab or 'overview'}"
    put_space(console.platform, name)
    put_address(console.platform, name, "orders", "queue")
    page = console.open(f"/spaces/{name}/{name}/addresses/{name}.orders/{tab}".rstrip("/"))
    expect(page.get_by_role("tab", name="Settings")).to_be_visible()
    console.platform.enmasse("delete", "address", "orders", "--space", name, "--namespace", name)
    expect(page.get_by_role("heading", name="does not exist any more")).to_be_visible()
    console.problems.clear()  # the reads of what is gone


def test_console_recovers_from_an_outage(browser: Browser, console: Console) -> None:
    """The browser loses its network, and finds it again."""
    page = console.open("/spaces/default/default/addresses")
    expect(page.get_by_role("link", name="queue", exact=True)).to_be_visible()
    page.context.set_offline(True)
    expect(page.get_by_text("has not answered for")).to_be_visible()
    expect(page.get_by_role("link", name="queue", exact=True)).to_be_visible()
    console.platform.enmasse("create", "address", "meanwhile", "--type", "queue")
    page.context.set_offline(False)
    expect(page.get_by_text("has not answered for")).to_have_count(0)
    expect(page.get_by_role("link", name="meanwhile", exact=True)).to_be_visible()
