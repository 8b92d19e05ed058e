"""Messages, dead letters and connections in the browser."""

import re
from collections.abc import Iterator
from contextlib import closing

import pytest
from playwright.sync_api import Locator, Page, expect
from proton import Message
from proton.utils import BlockingConnection

from console.conftest import (
    Console,
    address_path,
    connect,
    put_address,
    put_space,
    send,
    space_path,
)
from platform_process import Platform

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def space(platform: Platform) -> str:
    put_space(platform, "mail")
    put_address(platform, "mail", "dead", "deadletter")
    for name in ("posted", "orders", "other", "broken"):
        put_address(platform, "mail", name, "queue", deadletter="dead")
    return "mail"


def test_message_is_sent_seen_and_moved(console: Console, space: str) -> None:
    page = console.open(address_path(space, "mail.orders", "send"))
    page.get_by_label("Body", exact=True).fill('{"order": 1, "note": "<b>&</b>"}')
    page.get_by_label("The body is").select_option("json")
    page.get_by_role("button", name="Add to application properties").click()
    page.get_by_label("Name 1 of Application properties").fill("color")
    page.get_by_label("Value 1 of Application properties").fill("red")
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page.get_by_text("1 message accepted.")).to_be_visible()
    page = console.open(address_path(space, "mail.orders", "messages"))
    row = page.get_by_role("row").nth(1)
    expect(row).to_contain_text("order")
    row.get_by_role("button").first.click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text('"note": "<b>&</b>"')).to_be_visible()
    dialog.get_by_role("button", name="Hex").click()
    expect(dialog.get_by_text("7b 22 6f 72 64 65 72")).to_be_visible()
    dialog.get_by_role("contentinfo").get_by_role("button", name="Close").click()
    page.get_by_label("Selector").fill("color = 'red'")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Move selected").click()
    page.get_by_role("dialog").get_by_label("To").select_option("other")
    page.get_by_role("dialog").get_by_role("button", name="Move").click()
    expect(page.get_by_text("1 message moved.")).to_be_visible()
    page = console.open(address_path(space, "mail.other", "messages"))
    expect(page.get_by_role("row")).to_have_count(2)


def test_wrong_selector_says_why(console: Console, space: str) -> None:
    page = console.open(address_path(space, "mail.orders", "messages"))
    page.get_by_label("Selector").fill("color = ")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name=re.compile("selector cannot be read"))).to_be_visible()
    console.problems.clear()  # the refused selector


def reject_all(platform: Platform, address: str, messages: int) -> None:
    with closing(connect(platform, "mail")) as connection:
        receiver = connection.create_receiver(address, credit=messages)
        for _ in range(messages):
            receiver.receive(timeout=10)
            receiver.reject()


def test_dead_letters_go_back_by_cause_and_after_an_edit(console: Console, space: str) -> None:
    send(console.platform, space, "broken", "one", "two", "three")
    reject_all(console.platform, "broken", 3)
    page = console.open(address_path(space, "mail.dead", "deadletters"))
    row = group_row(page, "broken", messages=3)
    expect(row).to_contain_text("Rejected by a consumer")
    row.get_by_role("button", name=re.compile("^Actions of")).click()
    page.get_by_role("menuitem", name="Edit and redrive one").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Body", exact=True).fill("mended")
    dialog.get_by_role("button", name="Redrive").click()
    expect(dialog.get_by_text("The message was sent back.")).to_be_visible()
    dialog.get_by_role("contentinfo").get_by_role("button", name="Close").click()
    group_row(page, "broken", messages=2)
    page.get_by_role("button", name=re.compile("Redrive all 2 messages")).click()
    dialog.get_by_role("button", name="Redrive").click()
    expect(dialog.get_by_text("2 messages sent back.")).to_be_visible()
    with closing(connect(console.platform, space)) as connection:
        receiver = connection.create_receiver("broken", credit=3)
        bodies = {receiver.receive(timeout=10).body for _ in range(3)}
    assert "mended" in bodies
    assert len(bodies) == 3


def test_a_body_of_data_stays_one_when_it_is_edited(console: Console, space: str) -> None:
    put_address(console.platform, space, "binary", "queue", deadletter="dead")
    with closing(connect(console.platform, space)) as connection:
        sender = connection.create_sender("binary")
        sender.send(Message(body=b"a=1", inferred=True, durable=True))
    reject_all(console.platform, "binary", 1)
    page = console.open(address_path(space, "mail.dead", "deadletters"))
    row = group_row(page, "binary", messages=1)
    row.get_by_role("button", name=re.compile("^Actions of")).click()
    page.get_by_role("menuitem", name="Edit and redrive one").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Body", exact=True)).to_have_value("a=1")
    dialog.get_by_label("Body", exact=True).fill("a=2")
    dialog.get_by_role("button", name="Redrive").click()
    expect(dialog.get_by_text("The message was sent back.")).to_be_visible()
    with closing(connect(console.platform, space)) as connection:
        received = connection.create_receiver("binary", credit=1).receive(timeout=10)
    assert received.body == b"a=2"
    assert received.inferred, "a data section, not a value"


def test_a_message_that_cannot_be_decoded_does_not_hide_the_others(
    console: Console, space: str
) -> None:
    put_address(console.platform, space, "deep", "queue")
    nested: object = "x"
    for _ in range(60):
        nested = [nested]
    with closing(connect(console.platform, space)) as connection:
        sender = connection.create_sender("deep")
        for content in (nested, "plain"):
            sender.send(Message(body=content, durable=True))
    page = console.open(address_path(space, "mail.deep", "messages"))
    expect(page.get_by_role("row").filter(has_text="plain")).to_be_visible()
    page.get_by_role("row").nth(1).get_by_role("button").first.click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text("The message cannot be decoded here")).to_be_visible()
    expect(dialog.get_by_text("nests deeper than 16 levels", exact=False)).to_be_visible()


def group_row(page: Page, origin: str, *, messages: int) -> Locator:
    """Wait for the row of the dead letters of a queue, with this number of messages."""
    row = page.get_by_role("row").filter(has=page.get_by_text(origin, exact=True))
    expect(row.get_by_role("link", name=str(messages), exact=True)).to_be_visible()
    return row


def test_actions_on_a_group_of_dead_letters_leave_the_other_groups(
    console: Console, space: str
) -> None:
    put_address(console.platform, space, "lost", "deadletter")
    for origin, *bodies in (("late", "one", "two"), ("early", "three")):
        put_address(console.platform, space, origin, "queue", deadletter="lost")
        send(console.platform, space, origin, *bodies)
        reject_all(console.platform, origin, len(bodies))
    page = console.open(address_path(space, "mail.lost", "deadletters"))
    group_row(page, "late", messages=2)
    row = group_row(page, "early", messages=1)
    row.get_by_role("link", name="1", exact=True).click()
    expect(page.get_by_text("'early'")).to_be_visible()
    expect(page.get_by_role("row")).to_have_count(2)
    page.get_by_role("button", name="Remove the filter").click()
    expect(page.get_by_role("row")).to_have_count(4)
    page = console.open(address_path(space, "mail.lost", "deadletters"))
    row.get_by_role("button", name=re.compile("^Actions of")).click()
    page.get_by_role("menuitem", name="Purge").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text("1 message that match")).to_be_visible()
    dialog.get_by_role("button", name="Purge").click()
    expect(dialog.get_by_text("1 message purged.")).to_be_visible()
    dialog.get_by_role("contentinfo").get_by_role("button", name="Close").click()
    expect(row).to_have_count(0)
    group_row(page, "late", messages=2)


@pytest.fixture
def client(platform: Platform, space: str) -> Iterator[BlockingConnection]:
    with closing(connect(platform, space)) as connection:
        yield connection


def test_connection_is_seen_and_closed(
    console: Console, space: str, client: BlockingConnection
) -> None:
    client.create_receiver("orders", credit=7)
    page = console.open(address_path(space, "mail.orders"))
    expect(page.get_by_text("consumer", exact=True).first).to_be_visible()
    page = console.open(space_path(space, "connections"))
    page.get_by_role("row").nth(1).get_by_role("link").click()
    expect(page.get_by_role("grid", name="Links")).to_contain_text("orders")
    page.get_by_role("button", name="Close", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Close", exact=True).last.click()
    expect(page.get_by_text("The connection was closed.")).to_be_visible()
    expect(page.get_by_role("heading", name="No clients are connected")).to_be_visible()


def test_stream_is_read_from_an_offset(console: Console, space: str) -> None:
    put_address(console.platform, space, "log", "topic", retention={"age": "1d"})
    send(console.platform, space, "log", *(f"event {number}" for number in range(5)))
    page = console.open(address_path(space, "mail.log", "messages"))
    expect(page.get_by_role("row")).to_have_count(6)
    page.get_by_label("Read from").select_option("offset")
    page.get_by_label("Offset").fill("3")
    expect(page.get_by_role("row")).to_have_count(3)
    expect(page.get_by_role("row").nth(1)).to_contain_text("event 3")


def test_a_message_of_a_stream_that_cannot_be_decoded_has_a_row(
    console: Console, space: str
) -> None:
    put_address(console.platform, space, "odd", "topic", retention={"age": "1d"})
    nested: object = "x"
    for _ in range(60):
        nested = [nested]
    with closing(connect(console.platform, space)) as connection:
        sender = connection.create_sender("odd")
        for body in ("before", nested, "after"):
            sender.send(Message(body=body))
    page = console.open(address_path(space, "mail.odd", "messages"))
    expect(page.get_by_role("row")).to_have_count(4)
    row = page.get_by_role("row").nth(2)
    expect(row.get_by_role("gridcell").nth(0)).to_have_text("1")
    expect(row).to_contain_text("Cannot be decoded")
    row.get_by_role("button").first.click()
    expect(page.get_by_role("dialog")).to_contain_text("The message cannot be decoded here")


def test_command_sends_over_the_api(platform: Platform, space: str) -> None:
    where = ("--space", space, "--namespace", space)
    said = platform.enmasse("post", "posted", "--body", "hello", "-p", "team=north", *where)
    assert "1 accepted" in said
    assert '"north"' in platform.enmasse("peek", "posted", *where, "-o", "json")
