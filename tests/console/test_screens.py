"""Every screen by theme and width: nothing serious for accessibility, nothing beyond the edge.

Screenshots go to `build/console-screens`; docs/console/review.md says what was seen in them.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect
from proton import Message

from console.conftest import (
    HEIGHT,
    ROOT,
    Console,
    api_client,
    connect,
    console_in,
    put_address,
    put_space,
    put_user,
    send,
    serious_violations,
    space_path,
)
from console.test_pipelines import PLANT, STATE
from mqtt_client import device
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
    "user": space_path(SPACE, f"users/{SPACE}.alice"),
    "mqtt-sessions": space_path(SPACE, "mqtt-sessions"),
    "mqtt-session": space_path(SPACE, "mqtt-sessions"),
    "retained": space_path(SPACE, "retained"),
    "try": space_path(SPACE, "try"),
    "pipeline": f"/pipelines/{SPACE}/plant",
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


ROOT_ELEMENT = "document.documentElement"
MAIN = "document.querySelector('#main')"
EDGE = 32
"""Room below a page, in pixels."""

HEIGHT_MAX = 4000
"""Maximum height of a screenshot in pixels."""


def connect_in_page(page: Page) -> None:
    page.get_by_role("button", name="Connect", exact=True).click()
    expect(page.get_by_role("button", name="Disconnect")).to_be_visible()


def open_session(page: Page) -> None:
    page.get_by_role("button", name="meter-of-the-first-floor", exact=True).click()
    expect(page.get_by_role("dialog")).to_contain_text("rooms/+/temperature")


def ask_for_a_right(page: Page) -> None:
    page.get_by_role("textbox", name="on the address").fill("orders")
    expect(page.get_by_role("heading", name="Yes")).to_be_visible()


STEPS: dict[str, Callable[[Page], None]] = {
    "mqtt-session": open_session,
    "try": connect_in_page,
    "user": ask_for_a_right,
}
"""What a person does on a screen before most of it is there."""


@pytest.fixture(scope="module", autouse=True)
def declared(platform: Platform) -> Iterator[None]:
    put_space(platform, SPACE)
    put_address(platform, SPACE, "dead", "deadletter")
    put_address(platform, SPACE, "orders", "queue", deadletter="dead")
    send(platform, SPACE, "orders", *('{"order": 1}' for _ in range(30)))
    with closing(connect(platform, SPACE)) as connection:
        receiver = connection.create_receiver("orders", credit=1)
        connection.create_sender("orders").send(Message(body="poison", durable=True))
        receiver.receive(timeout=20)
        receiver.reject()
    put_user(platform, SPACE, "alice", "secret", {"operations": ["send", "recv"]})
    path = f"/apis/enmasse.io/v1beta1/namespaces/{SPACE}/pipelines"
    with api_client(platform) as api:
        plant = PLANT | {"metadata": {"name": "plant", "namespace": SPACE}}
        assert api.post(path, json=plant).status_code == 201
    login = {"user": f"alice@{SPACE}.{SPACE}", "password": "secret"}
    put_address(platform, SPACE, "rooms", "topic")
    meter = device("meter-of-the-first-floor", kept_s=3600, **login)
    meter.client.will_set("rooms/1/lost", "lost", 1)
    meter.connect(platform)
    meter.subscribe("rooms/+/temperature", 1)
    meter.publish("rooms/1/temperature", '{"celsius": 21.5}', retain=True)
    with closing(connect(platform, SPACE, allowed_mechs="PLAIN", **login)) as connection:
        connection.create_receiver("orders", credit=0)
        yield
    meter.client.disconnect()
    meter.client.loop_stop()


def report(platform: Platform) -> None:
    """Report on the pipeline as a process that runs it does; a report is valid for a minute."""
    path = f"/apis/enmasse.io/v1beta1/namespaces/{SPACE}/pipelines/plant/report"
    with api_client(platform) as api:
        assert api.put(path, json=STATE).status_code == 200


def settled(page: Page) -> None:
    """Wait until nothing on the page is on its way any more."""
    page.get_by_role("heading", level=1).wait_for()
    expect(page.locator(".pf-v6-c-skeleton, .pf-v6-c-spinner")).to_have_count(0)


def visit(console: Console, name: str) -> None:
    """Open a screen in a window of the usual height and do what it needs to show all of it."""
    if name == "pipeline":
        report(console.platform)
    console.open(PATHS[name])
    STEPS.get(name, settled)(console.page)


def looked_at(page: Page, name: str, width: int) -> list[str]:
    """Take a screenshot; return what is wrong with the screen."""
    settled(page)
    # The page scrolls within its window: for all of it the window is as high as its content.
    content = int(
        page.evaluate(f"{MAIN}.scrollHeight + {MAIN}.getBoundingClientRect().top + {EDGE}")
    )
    page.set_viewport_size({"width": width, "height": min(max(HEIGHT, content), HEIGHT_MAX)})
    page.screenshot(path=SCREENS / f"{name}.png", full_page=False)
    found = [f"{name}: {one}" for one in serious_violations(page)]
    beyond = max(
        page.evaluate(f"{at}.scrollWidth - {at}.clientWidth") for at in (ROOT_ELEMENT, MAIN)
    )
    cut = page.evaluate(
        "[...document.querySelectorAll('.pf-v6-c-card')]"
        ".filter(card => card.scrollWidth > card.clientWidth)"
        ".map(card => card.innerText.slice(0, 40))"
    )
    found += [f"{name}: wider than its card: {one}" for one in cut]
    page.set_viewport_size({"width": width, "height": HEIGHT})
    for tab in page.locator("nav [role=tab][aria-selected=true]").all():
        expect(tab).to_be_in_viewport(ratio=1)
    return [*found, *([f"{name}: {beyond} px beyond the edge"] if beyond > 0 else [])]


def screens(browser: Browser, platform: Platform, names: Any, width: int, theme: str) -> list[str]:
    Path(SCREENS).mkdir(parents=True, exist_ok=True)
    found: list[str] = []
    with console_in(browser, platform, width=width, theme=theme) as console:
        console.log_in()
        for name in names:
            visit(console, name)
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


TENANT_SCREENS = (
    "overview",
    "spaces",
    "space",
    "addresses",
    "address",
    "connections",
    "users",
    "mqtt-sessions",
)
ROLES = {
    "tenant-view": TENANT_SCREENS,
    "tenant-edit": (
        *TENANT_SCREENS,
        "messages",
        "send",
        "dead-letters",
        "try",
        "user-new",
        "retained",
    ),
    "service-admin": ("overview", "platform", "plans", "plan", "infra", "audit", "logs"),
}


@pytest.mark.slow
@pytest.mark.parametrize("role", ROLES)
def test_screens_by_role(browser: Browser, platform: Platform, role: str) -> None:
    """Each role sees its screens, and no refusal on them."""
    where = "*" if role == "service-admin" else SPACE
    token = platform.enmasse("token", "create", f"as-{role}", "--grant", f"{role}={where}").strip()
    found: list[str] = []
    with console_in(browser, platform) as console:
        console.log_in(token.splitlines()[-1])
        for name in ROLES[role]:
            visit(console, name)
            found += looked_at(console.page, f"{name}-{role}", 1440)
            expect(console.page.get_by_text("You have no right to see this")).to_have_count(0)
        console.expect_no_problems()
    assert not "\n".join(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["spaces", "addresses", "connections", "users", "pipelines", "mqtt-sessions", "retained"],
)
def test_empty_list_says_what_to_do(browser: Browser, platform: Platform, name: str) -> None:
    def nothing(route: Route) -> None:
        route.fulfill(json={"items": [], "metadata": {"itemCount": 0, "remainingItemCount": 0}})

    with console_in(browser, platform) as console:
        console.log_in()
        plurals = {
            "spaces": "addressspaces",
            "users": "messagingusers",
            "mqtt-sessions": "mqttsessions",
        }
        console.page.route(re.compile(rf"/{plurals.get(name, name)}\?(?!.*watch=)"), nothing)
        console.page.goto(console.base + PATHS[name])
        found = looked_at(console.page, f"{name}-empty", 1440)
        expect(console.page.locator(".pf-v6-c-empty-state")).to_be_visible()
        assert not "\n".join(found)


@pytest.mark.slow
def test_list_of_100_000_addresses(browser: Browser, platform: Platform) -> None:
    """The page asks for what it shows, and names the whole number."""
    asked: list[str] = []

    def many(route: Route) -> None:
        asked.append(route.request.url)
        offset = int((re.findall(r"offset=(\d+)", route.request.url) or ["0"])[0])
        items = [
            {
                "apiVersion": "enmasse.io/v1beta1",
                "kind": "Address",
                "metadata": {"name": f"{SPACE}.a{n}", "namespace": SPACE, "uid": f"u{n}"},
                "spec": {"address": f"a{n}", "type": "queue", "plan": "standard-small-queue"},
                "status": {"phase": "Active", "isReady": True},
            }
            for n in range(offset, min(offset + 50, 100_000))
        ]
        rest = 100_000 - offset - len(items)
        metadata = {"resourceVersion": "1", "itemCount": 100_000, "remainingItemCount": rest}
        route.fulfill(json={"items": items, "metadata": metadata})

    with console_in(browser, platform) as console:
        console.log_in()
        console.page.route(re.compile(r"/addresses\?(?!.*watch=)"), many)
        console.page.goto(console.base + ADDRESSES)
        found = looked_at(console.page, "addresses-100000", 1440)
        assert not "\n".join(found)
        pages = console.page.get_by_role("button", name="1 - 50 of 100,000")
        expect(pages.first).to_be_visible()
        assert console.page.get_by_role("row").count() <= 60
    assert all("limit=" in url for url in asked), asked
