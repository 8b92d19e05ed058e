"""Retained messages and wills of a platform process."""

from pathlib import Path
from typing import Any

import pytest

from mqtt_client import V311, cut, device, device_at, publish_properties
from platform_process import Platform, Start, running
from proton_client import address, connected, document

pytestmark = pytest.mark.timeout(180)

ADDRESSES = (address("sensors", "topic"), address("news", "multicast"), address("orders"))


def body(receiver: Any) -> bytes:
    """The body of the next message of an AMQP receiver, from MQTT."""
    # The body is memory of the message.
    message = receiver.receive(timeout=20)
    return bytes(message.body)


@pytest.fixture(scope="module")
def served(start_platform: Start, tmp_path_factory: pytest.TempPathFactory) -> Platform:
    """A platform with a few addresses."""
    return start_platform("-f", document(tmp_path_factory.mktemp("documents"), *ADDRESSES))


def kept(
    platform: Platform, topic: str, count: int = 1, qos: int = 1
) -> list[tuple[str, bytes | bytearray]]:
    """The retained messages that a new subscription gets: so many, and no more."""
    with device_at(platform) as one:
        one.subscribe(topic, qos)
        messages = [one.message() for _ in range(count)]
        assert all(message.retain for message in messages)
        assert one.nothing_more()
        return [(message.topic, message.payload) for message in messages]


def test_last_retained_message_of_each_topic_greets_new_subscriptions(served: Platform) -> None:
    with device_at(served) as one:
        for number in range(3):
            for topic in ("sensors/1/t", "sensors/2/t"):
                assert one.publish(topic, str(number), retain=True) == "Success"
        assert one.publish("sensors/3/t", "x") == "Success"
        one.publish("sensors/1/t", "not kept")
    assert sorted(kept(served, "sensors/+/t", 2)) == [("sensors/1/t", b"2"), ("sensors/2/t", b"2")]
    assert kept(served, "sensors/1/t", qos=0) == [("sensors/1/t", b"2")]
    with device_at(served) as one:
        one.publish("sensors/1/t", "", retain=True)
    assert kept(served, "sensors/#") == [("sensors/2/t", b"2")]
    with device_at(served) as one:
        one.publish("sensors/2/t", "", retain=True)
    assert kept(served, "sensors/#", 0) == []


def test_live_subscriber_gets_no_retain_flag_unless_it_asks(served: Platform) -> None:
    with device_at(served) as one:
        one.subscribe("sensors/+/flag", 1)
        one.publish("sensors/1/flag", "a", retain=True)
        assert not one.message().retain
        one.subscribe("sensors/+/flag", 1, retainAsPublished=True, retainHandling=2)
        one.publish("sensors/1/flag", "b", retain=True)
        assert one.message().retain
        one.publish("sensors/1/flag", "", retain=True)


def test_retain_handling_chooses_when_retained_messages_come(served: Platform) -> None:
    with device_at(served) as one:
        one.publish("sensors/handled", "x", retain=True)
        one.subscribe("sensors/handled", 1, retainHandling=2)
        one.subscribe("sensors/handled", 1, retainHandling=1)
        assert one.nothing_more()
        one.subscribe("sensors/handled", 1, retainHandling=0)
        assert one.take(1) == [("sensors/handled", b"x")]
        one.publish("sensors/handled", "", retain=True)


def test_retained_message_expires(served: Platform) -> None:
    with device_at(served) as one, device_at(served) as other:
        properties = publish_properties(MessageExpiryInterval=1)
        one.publish("sensors/short", "x", retain=True, properties=properties)
        other.subscribe("news/tick", 1)
        assert other.nothing_more(1.2)
    assert kept(served, "sensors/short", 0) == []


def test_queue_keeps_no_retained_message(served: Platform) -> None:
    with device_at(served) as one:
        assert one.publish("orders", "x", retain=True) == "Success"
        one.subscribe("orders", 1)
        message = one.message()
        assert (message.payload, message.retain) == (b"x", False)


def test_retained_messages_survive_a_kill(tmp_path: Path) -> None:
    path = document(tmp_path, *ADDRESSES)
    with running(tmp_path / "data", "-f", str(path)) as platform:
        with device_at(platform, version=V311) as one:
            one.publish("sensors/kept", "x", retain=True)
        platform.kill()
    with running(tmp_path / "data") as platform:
        assert kept(platform, "sensors/kept") == [("sensors/kept", b"x")]


def test_will_is_published_when_the_connection_breaks_off(served: Platform) -> None:
    with device_at(served) as watcher, connected(served) as connection:
        watcher.subscribe("sensors/wills/+", 1)
        receiver = connection.create_receiver("sensors/wills/one", credit=1)
        one = device()
        one.client.will_set("sensors/wills/one", "gone", qos=1, retain=True)
        one.connect(served)
        cut(one)
        message = watcher.message()
        assert (message.topic, message.payload, message.qos) == ("sensors/wills/one", b"gone", 1)
        assert body(receiver) == b"gone"
    with device_at(served) as one:
        one.publish("sensors/wills/one", "", retain=True)


def test_will_is_discarded_by_a_disconnect_and_published_at_a_take_over(served: Platform) -> None:
    with device_at(served) as watcher:
        watcher.subscribe("sensors/wills/+", 1)
        one = device("willing")
        one.client.will_set("sensors/wills/first", "gone", qos=0)
        one.connect(served)
        one.client.disconnect()
        one.client.loop_stop()
        other = device("willing")
        other.client.will_set("sensors/wills/second", "gone", qos=0)
        other.connect(served)
        with device_at(served, "willing"):
            assert other.end() == "Session taken over"
            assert watcher.take(1) == [("sensors/wills/second", b"gone")]
            assert watcher.nothing_more()
