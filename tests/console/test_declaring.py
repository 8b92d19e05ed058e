"""Spaces, addresses, users and plans, declared in the browser."""

import re
from contextlib import closing
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect
from proton import Message

from console.conftest import (
    HOSTILE_NAMES,
    Console,
    connect,
    get_json,
    put_address,
    put_space,
    space_path,
)

pytestmark = pytest.mark.timeout(300)


def textbox(page: Page, name: str) -> Locator:
    return page.get_by_role("textbox", name=name, exact=True)


def choose(page: Page, name: str) -> None:
    """Choose a card, as the keyboard does."""
    page.get_by_role("radio", name=name, exact=True).focus()
    page.keyboard.press("Space")


def next_step(page: Page) -> None:
    page.get_by_role("button", name="Next").click()


def test_space_is_created_by_the_wizard(console: Console) -> None:
    page = console.open("/spaces")
    page.get_by_role("link", name="Create address space").click()
    textbox(page, "Namespace").fill("shop")
    textbox(page, "Name").fill("Not Valid")
    expect(page.get_by_text("lower-case", exact=False).last).to_be_visible()
    expect(page.get_by_role("button", name="Next")).to_be_disabled()
    textbox(page, "Name").fill("shop")
    next_step(page)
    choose(page, "Small")
    next_step(page)
    next_step(page)
    expect(page.get_by_text("plan: standard-small")).to_be_visible()
    page.get_by_role("tab", name="kubectl").click()
    expect(page.get_by_text("kubectl apply -f -")).to_be_visible()
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", level=1, name="shop")).to_be_visible()
    found: Any = get_json(
        console.platform, "/apis/enmasse.io/v1beta1/namespaces/shop/addressspaces/shop"
    )
    assert found["spec"]["plan"] == "standard-small"


@pytest.fixture(scope="module")
def wizard_space(platform: Any) -> str:
    put_space(platform, "wizard")
    put_address(platform, "wizard", "prices", "topic")
    put_address(platform, "wizard", "dead", "deadletter")
    return "wizard"


@pytest.mark.parametrize(
    ("type_", "shown", "absent"),
    [
        (
            "Queue",
            ["Longest time to live", "Failed deliveries", "Duplicates"],
            ["Keep messages as a stream"],
        ),
        (
            "Topic",
            ["Keep messages as a stream", "Failed deliveries"],
            ["Duplicates", "Order of consumers"],
        ),
        (
            "Subscription",
            ["Consumers at the same time", "Order of consumers"],
            ["Longest time to live"],
        ),
        ("Anycast", ["Limits"], ["Failed deliveries", "Longest time to live"]),
        ("Multicast", ["Limits"], ["Failed deliveries", "Longest time to live"]),
        ("Dead letter", ["Limits", "Longest time to live"], ["Failed deliveries"]),
    ],
)
def test_wizard_shows_the_fields_of_each_type(
    console: Console, wizard_space: str, type_: str, shown: list[str], absent: list[str]
) -> None:
    name = f"made-{type_.lower().replace(' ', '-')}"
    page = console.open(space_path(wizard_space, "addresses/new"))
    choose(page, type_)
    textbox(page, "Address").fill(name)
    if type_ == "Subscription":
        page.get_by_role("combobox", name="Topic").select_option("prices")
    next_step(page)
    next_step(page)
    for text in shown:
        expect(page.get_by_text(text).first).to_be_visible()
    for text in absent:
        expect(page.get_by_text(text)).to_have_count(0)
    next_step(page)
    page.get_by_role("tab", name="enmasse").click()
    expect(page.get_by_text(f"enmasse create address {name}")).to_be_visible()
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", level=1, name=name)).to_be_visible()
    expect(page.get_by_text("Active").first).to_be_visible()


def test_used_up_quota_is_said_before_the_end(console: Console) -> None:
    put_space(console.platform, "tiny", plan="standard-free")
    for number in range(10):
        put_address(console.platform, "tiny", f"a{number}", "queue")
    page = console.open(space_path("tiny", "addresses/new"))
    textbox(page, "Address").fill("one-more")
    expect(page.get_by_role("heading", name=re.compile("The quota is used up"))).to_be_visible()


def test_hostile_names_are_text_everywhere(console: Console) -> None:
    put_space(console.platform, "hostile")
    for name in HOSTILE_NAMES:
        page = console.open(space_path("hostile", "addresses/new"))
        textbox(page, "Address").fill(name)
        for _ in range(3):
            next_step(page)
        page.get_by_role("button", name="Create").click()
        expect(page.get_by_role("heading", level=1)).to_have_text(name)
        assert "run" not in page.title().split(" · ")[0] or "<script>" in name
        assert page.evaluate("document.documentElement.scrollWidth") <= 1440
    page = console.open(space_path("hostile", "addresses"))
    for name in HOSTILE_NAMES:
        expect(page.locator("td bdi").get_by_text(name, exact=True)).to_be_visible()
    assert page.locator("td script").count() == 0
    page.get_by_role("textbox", name="Find an address").fill("<script>")
    expect(page.get_by_role("row")).to_have_count(2)


def test_list_is_sorted_filtered_and_changed_in_bulk(console: Console) -> None:
    put_space(console.platform, "bulk")
    documents = "\n---\n".join(
        f"{{apiVersion: enmasse.io/v1beta1, kind: Address,"
        f" metadata: {{name: bulk.q{number:03}, namespace: bulk}},"
        f" spec: {{type: queue, address: q{number:03}}}}}"
        for number in range(120)
    )
    path = console.platform.data.parent / "bulk.yaml"
    path.write_text(documents)
    console.platform.enmasse("apply", "-f", str(path))
    with closing(connect(console.platform, "bulk")) as connection:
        for address, messages in (("q007", 3), ("q110", 5)):
            sender = connection.create_sender(address)
            for _ in range(messages):
                sender.send(Message(body="x", durable=True))
    page = console.open(space_path("bulk", "addresses?sort=-stored"))
    first = page.get_by_role("row").nth(1)
    expect(first).to_contain_text("q110")
    page.get_by_role("button", name="Address", exact=True).click()
    expect(page).to_have_url(re.compile("addresses$|addresses\\?$"))
    page.get_by_role("button", name="Go to next page").first.click()
    page.get_by_role("button", name="Go to next page").first.click()
    expect(page.get_by_role("row")).to_have_count(21)
    page.get_by_role("textbox", name="Find an address").fill("7")
    expect(page.get_by_role("row").nth(1)).to_contain_text("q007")
    expect(page.get_by_role("link", name="q001", exact=True)).to_have_count(0)
    page.get_by_label("Select row 0", exact=True).check()
    page.get_by_role("button", name="Purge 1").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text("3 stored messages will be lost")).to_be_visible()
    dialog.get_by_role("button", name="Purge").click()
    expect(page.get_by_text("3 messages purged from 1 address.")).to_be_visible()
    page.get_by_label("Select row 0", exact=True).check()
    page.get_by_label("Select row 1", exact=True).check()
    page.get_by_role("button", name="Delete 2").click()
    dialog.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("link", name="q007", exact=True)).to_have_count(0)


def test_user_is_created_and_its_rights_tested(console: Console) -> None:
    put_space(console.platform, "people")
    page = console.open(space_path("people", "users/new"))
    page.get_by_label("User name").fill("alice")
    page.get_by_label("Password", exact=True).fill("correct-horse-battery")
    page.get_by_label("Addresses").fill("orders/#")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", level=1, name="alice")).to_be_visible()
    page.get_by_label("on the address").fill("orders/new")
    expect(page.get_by_text("Success alert")).to_be_visible()
    page.get_by_label("on the address").fill("payments")
    expect(page.get_by_text("Danger alert")).to_be_visible()
    put_address(console.platform, "people", "orders/new", "queue")
    login = {"user": "alice@people.people", "password": "correct-horse-battery"}
    with closing(connect(console.platform, "people", allowed_mechs="PLAIN", **login)) as connection:
        connection.create_sender("orders/new").send(Message(body="x"))


def test_change_of_a_plan_shows_what_it_reaches(console: Console) -> None:
    # Other tests share the platform: no queue of theirs has this plan, whose change would make its
    # messages expire.
    put_space(console.platform, "a-reached")
    put_address(console.platform, "a-reached", "one", "queue", plan="standard-medium-queue")
    page = console.open("/operator/plans/addressplans/enmasse-infra/standard-medium-queue")
    editor = page.get_by_label("Document (YAML)")
    editor.fill(editor.input_value().replace("broker: 0.1", "broker: 5 x"))
    expect(page.get_by_role("heading", name=re.compile("would refuse this"))).to_be_visible()
    changed = editor.input_value().replace("broker: 5 x", "broker: 0.1")
    editor.fill(f"{changed.rstrip()}\n  messageTtl: {{maximum: 5000}}\n")
    expect(page.get_by_text("a-reached/one", exact=True)).to_be_visible()
    expect(page.get_by_text("ttl.maximumMs", exact=False).first).to_be_visible()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", level=1, name="Plans")).to_be_visible()
    page = console.open("/operator/audit?q=standard-medium-queue")
    expect(
        page.get_by_text("update addressplans enmasse-infra/standard-medium-queue").first
    ).to_be_visible()


def test_address_is_created_by_keyboard_only(console: Console) -> None:
    put_space(console.platform, "keys")
    page = console.open(space_path("keys", "addresses"))
    page.get_by_role("link", name="Create address").first.focus()
    page.keyboard.press("Enter")
    page.get_by_role("radio", name="Topic", exact=True).focus()
    page.keyboard.press("Space")
    page.keyboard.press("Tab")
    page.keyboard.type("typed")
    for _ in range(3):
        expect(page.get_by_role("button", name="Next")).to_be_enabled()
        page.get_by_role("button", name="Next").focus()
        page.keyboard.press("Enter")
    page.get_by_role("button", name="Create").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1, name="typed")).to_be_visible()
