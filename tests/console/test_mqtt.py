"""What MQTT clients leave in an address space: sessions and retained messages."""

import pytest
from playwright.sync_api import expect

from console.conftest import Console, api_client, put_address, space_path
from mqtt_client import device_at

pytestmark = pytest.mark.timeout(300)
SPACE = space_path("default")
SESSIONS = "/apis/enmasse.io/v1beta1/namespaces/default/addressspaces/default/mqttsessions"


def test_a_session_is_ended(console: Console) -> None:
    put_address(console.platform, "default", "sensors", "topic")
    with device_at(console.platform, "meter", kept_s=3600) as meter:
        meter.subscribe("sensors/+/t", 1)
    page = console.open(f"{SPACE}/mqtt-sessions")
    row = page.get_by_role("row").filter(has_text="meter")
    expect(row).to_contain_text("away")
    expect(row).to_contain_text("sensors/+/t")
    row.get_by_role("button", name="Actions of meter").click()
    page.get_by_role("menuitem", name="End session").click()
    page.get_by_role("dialog").get_by_role("button", name="End session").click()
    expect(page.get_by_role("heading", name="No MQTT sessions")).to_be_visible()
    with api_client(console.platform) as api:
        assert api.get(SESSIONS).json()["items"] == []


def test_retained_messages_are_deleted_by_filter(console: Console) -> None:
    put_address(console.platform, "default", "rooms", "topic")
    with device_at(console.platform) as sensor:
        for topic in ("rooms/1/t", "rooms/2/t", "rooms/2/door"):
            sensor.publish(topic, f'{{"of": "{topic}"}}', retain=True)
    page = console.open(f"{SPACE}/retained")
    page.get_by_role("textbox", name="Topic filter").fill("rooms/+/t")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="rooms/2/door", exact=True)).to_have_count(0)
    page.get_by_role("button", name="rooms/1/t", exact=True).click()
    body = page.get_by_role("dialog").get_by_label("Body of the message")
    expect(body).to_contain_text('"of": "rooms/1/t"')
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Delete matching").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_text("2 retained messages deleted.")).to_be_visible()
    page.get_by_role("button", name="Reset").click()
    expect(page.get_by_role("button", name="rooms/2/door", exact=True)).to_be_visible()
