"""Sessions of MQTT that outlive their connections, on a platform process."""

from pathlib import Path
from typing import Any

import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from proton import Message

from mqtt_bytes import wire_to
from mqtt_client import V5, V311, Device, break_off, cut, device, device_at, publish_properties
from platform_process import Platform, Start, running
from proton_client import address, connected, document, send

pytestmark = pytest.mark.timeout(180)

ADDRESSES = (address("sensors", "topic"), address("alarms", "topic"))

VERSIONS = pytest.mark.parametrize("version", [V311, V5])


@pytest.fixture(scope="module")
def served(start_platform: Start, tmp_path_factory: pytest.TempPathFactory) -> Platform:
    """A platform with topics."""
    return start_platform("-f", document(tmp_path_factory.mktemp("documents"), *ADDRESSES))


@VERSIONS
def test_session_keeps_messages_while_its_client_is_away(served: Platform, version: Any) -> None:
    options = {"version": version, "kept_s": 3600}
    name = f"away-{version}"
    with device_at(served, name, **options) as one:
        assert not one.session_present
        one.subscribe("sensors/+", 1)
        one.subscribe("alarms/#", 1)
        one.publish("sensors/1", "live")
        assert one.take(1) == [("sensors/1", b"live")]
    with device_at(served) as other:
        for number in range(5):
            other.publish(f"sensors/{number}", str(number))
    send(served, "alarms/fire", Message(body="fire", durable=True, address="alarms/fire"))
    with device_at(served, name, **options) as one:
        assert one.session_present
        expected = [(f"sensors/{number}", str(number).encode()) for number in range(5)]
        assert sorted(one.take(6)) == sorted([*expected, ("alarms/fire", b"fire")])
        one.unsubscribe("sensors/+")
    with device_at(served) as other:
        other.publish("sensors/1", "unheard")
        other.publish("alarms/1", "heard")
    with device_at(served, name, **options) as one:
        assert one.take(1) == [("alarms/1", b"heard")]
        assert one.nothing_more()
    with device_at(served, name, version=version) as one:
        assert not one.session_present
    with device_at(served, name, **options) as one:
        assert not one.session_present
        assert one.nothing_more()


def test_clean_start_discards_the_session_and_keeps_a_new_one(served: Platform) -> None:
    with device_at(served, "clean", kept_s=3600) as one:
        one.subscribe("sensors/+", 1)
    with device_at(served) as other:
        other.publish("sensors/1", "lost")
    fresh = device("clean", kept_s=3600)
    fresh.clean_start = True
    fresh.connect(served)
    assert not fresh.session_present
    fresh.subscribe("alarms/+", 1)
    assert fresh.nothing_more()
    fresh.client.disconnect()
    fresh.client.loop_stop()
    with device_at(served) as other:
        other.publish("sensors/1", "lost")
        other.publish("alarms/1", "kept")
    with device_at(served, "clean", kept_s=3600) as one:
        assert one.session_present
        assert one.take(1) == [("alarms/1", b"kept")]
        assert one.nothing_more()


@VERSIONS
def test_session_survives_a_kill(tmp_path: Path, version: Any) -> None:
    path = document(tmp_path, *ADDRESSES)
    options = {"version": version, "kept_s": 3600}
    with running(tmp_path / "data", "-f", str(path)) as platform:
        with device_at(platform, "kept", **options) as one:
            one.subscribe("sensors/+", 1)
        with device_at(platform) as other:
            other.publish("sensors/1", "before")
            platform.kill()
    with running(tmp_path / "data") as platform:
        with device_at(platform) as other:
            other.publish("sensors/2", "after")
        with device_at(platform, "kept", **options) as one:
            assert one.session_present
            assert one.take(2) == [("sensors/1", b"before"), ("sensors/2", b"after")]


@pytest.mark.parametrize("qos", [1, 2])
def test_message_that_was_sent_does_not_expire_over_a_kill(tmp_path: Path, qos: int) -> None:
    """[5: 4.3.3-7]"""
    path = document(tmp_path, *ADDRESSES)
    with (
        running(tmp_path / "data", "-f", str(path)) as platform,
        wire_to(platform) as one,
        device_at(platform) as other,
    ):
        one.connect("unanswered", kept_s=3600)
        assert one.subscribe("sensors/+", qos) == qos
        short = publish_properties(MessageExpiryInterval=1)
        other.publish("sensors/1", "sent", qos, properties=short)
        assert one.message().payload == b"sent"
        platform.kill()
    with running(tmp_path / "data") as platform:
        with device_at(platform) as other:
            other.subscribe("alarms/+", 1)
            assert other.nothing_more(1.2)
        with wire_to(platform) as one:
            assert one.connect("unanswered", clean=False, kept_s=3600)
            assert one.message().payload == b"sent"


def test_unacknowledged_message_comes_again(served: Platform) -> None:
    one = device("silent", kept_s=3600, manual_ack=True)
    one.connect(served)
    one.subscribe("sensors/+", 1)
    with device_at(served) as other:
        other.publish("sensors/1", "again")
    assert one.take(1) == [("sensors/1", b"again")]
    one.client.loop_stop()
    with device_at(served, "silent", kept_s=3600) as again:
        assert again.take(1) == [("sensors/1", b"again")]
    with device_at(served, "silent", kept_s=3600) as again:
        assert again.nothing_more()


def test_shared_subscription_divides_messages(served: Platform) -> None:
    with device_at(served) as one, device_at(served) as other, connected(served):
        assert one.subscribe("$share/group/sensors/#", 1) == "Granted QoS 1"
        assert other.subscribe("$share/group/sensors/#", 1) == "Granted QoS 1"
        for number in range(20):
            other.publish(f"sensors/{number}", str(number))
        found = [int(payload) for payload in (*one.waiting(), *other.waiting())]
        while len(found) < 20:
            found += [int(payload) for payload in (*one.waiting(), *other.waiting())]
        assert sorted(found) == list(range(20))


def willing(platform: Platform, name: str, delay_s: int, kept_s: int) -> Device:
    """A connected client with a delayed will."""
    one = device(name, kept_s=kept_s)
    properties = Properties(PacketTypes.WILLMESSAGE)
    properties.WillDelayInterval = delay_s
    one.client.will_set(f"alarms/{name}", "gone", qos=1, properties=properties)
    one.connect(platform)
    return one


def test_delayed_will_is_published_unless_its_client_returns(served: Platform) -> None:
    """[5: 3.1.3-9]"""
    with device_at(served) as watcher:
        watcher.subscribe("alarms/+", 1)
        first = willing(served, "first", 1, 60)
        cut(first)
        second = willing(served, "second", 1, 60)
        cut(second)
        with device_at(served, "second", kept_s=60) as again:
            assert again.session_present
            assert watcher.take(1) == [("alarms/first", b"gone")]
            assert watcher.nothing_more(1.5)


def test_session_ends_with_its_expiry_and_publishes_its_will(served: Platform) -> None:
    """[5: 4.1.0-2]"""
    with device_at(served) as watcher:
        watcher.subscribe("alarms/+", 1)
        one = willing(served, "short", 30, 1)
        one.subscribe("sensors/+", 1)
        cut(one)
        assert watcher.take(1) == [("alarms/short", b"gone")]
    with device_at(served, "short", kept_s=60) as again:
        assert not again.session_present


def test_will_is_published_after_a_crash_of_the_platform(tmp_path: Path) -> None:
    path = document(tmp_path, *ADDRESSES)
    with running(tmp_path / "data", "-f", str(path)) as platform:
        with device_at(platform, "watcher", kept_s=600) as watcher:
            watcher.subscribe("alarms/+", 1)
        one = device("victim")
        one.client.will_set("alarms/victim", "gone", qos=1)
        one.connect(platform)
        other = device("polite")
        other.client.will_set("alarms/polite", "gone", qos=1)
        other.connect(platform)
        other.client.disconnect()
        other.client.loop_stop()
        one.client.loop_stop()
        platform.kill()
    with running(tmp_path / "data") as platform:
        with device_at(platform, "watcher", kept_s=600) as watcher:
            assert watcher.take(1) == [("alarms/victim", b"gone")]
            assert watcher.nothing_more()


def test_exactly_once_publication_continues_after_its_connection_broke_off(
    served: Platform,
) -> None:
    with device_at(served) as watcher:
        watcher.subscribe("sensors/+", 2)
        one = device("exact", kept_s=60)
        one.connect(served)
        for number in range(20):
            one.send(f"sensors/{number}", str(number), 2)
        break_off(one)
        numbers = [int(payload) for _, payload in watcher.take(20)]
        assert numbers == sorted(set(numbers))
        assert watcher.nothing_more()
        one.client.disconnect()
        one.client.loop_stop()
