"""Retained messages and wills of a platform process."""

from pathlib import Path
from typing import Any

import pytest
from proton import Delivery, Message, symbol
from proton.reactor import Filter
from proton.utils import BlockingConnection, LinkDetached

from mqtt_client import V311, cut, device, device_at, publish_properties
from platform_process import Platform, Start, running
from proton_client import (
    PASSWORD,
    TIMEOUT_S,
    address,
    connected,
    document,
    nothing_more,
    outcomes,
    send,
    user,
)

pytestmark = pytest.mark.timeout(180)

ADDRESSES = (address("sensors", "topic"), address("news", "multicast"), address("orders"))


def body(receiver: Any) -> bytes:
    """The body of the next message of an AMQP receiver, from MQTT."""
    # The body is memory of the message.
    message = receiver.receive(timeout=20)
    return bytes(message.body)


def retained(to: str | None, content: bytes) -> Message:
    """A message that its topic is to keep; without content it removes that one."""
    annotations = {symbol("x-opt-retain-message"): True}
    return Message(address=to, annotations=annotations, body=content, durable=True)


def retained_receiver(connection: BlockingConnection, source: str, **options: Any) -> Any:
    """A receiver that asks for the retained messages first."""
    filters: dict[symbol, Any] = {symbol("enmasse:retained"): True}
    asks = Filter(filters)
    return connection.create_receiver(source, options=asks, **options)


def read(receiver: Any, count: int) -> list[tuple[str, bytes]]:
    """Topics and contents of the next messages of a receiver, and no more."""
    found = []
    for _ in range(count):
        message = receiver.receive(timeout=TIMEOUT_S)
        found.append((message.address, bytes(message.body)))
        receiver.accept()
    assert nothing_more(receiver)
    return found


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


def test_amqp_producer_sets_and_removes_the_retained_message_of_a_topic(served: Platform) -> None:
    send(served, "sensors/amqp", retained("sensors/amqp", b"1"), retained("sensors/amqp", b"2"))
    send(served, "sensors/amqp", Message(address="sensors/amqp", body=b"not kept"))
    assert kept(served, "sensors/amqp") == [("sensors/amqp", b"2")]
    with connected(served) as connection:
        anonymous = connection.create_sender(None)
        anonymous.send(retained("sensors/amqp", b""))
    assert kept(served, "sensors/amqp", 0) == []


def test_retained_message_of_an_amqp_producer_names_its_topic(served: Platform) -> None:
    for wrong in ("sensors/other", None):
        told = outcomes(served, "sensors/named", retained(wrong, b"x"))
        assert told == [Delivery.REJECTED]
    assert kept(served, "sensors/#", 0) == []


def test_amqp_receiver_gets_retained_messages_before_live_ones(served: Platform) -> None:
    with device_at(served) as one, connected(served) as connection:
        for topic in ("sensors/7/a", "sensors/7/b", "sensors/8/a"):
            assert one.publish(topic, "kept", retain=True) == "Success"
        receiver = retained_receiver(connection, "sensors/7/+", credit=10)
        answer = receiver.link.remote_source.filter
        answer.rewind()
        assert answer.next() and answer.get_dict() == {"enmasse:retained": True}
        one.publish("sensors/7/b", "live")
        expected = [("sensors/7/a", b"kept"), ("sensors/7/b", b"kept"), ("sensors/7/b", b"live")]
        assert read(receiver, 3) == expected
        one.publish("sensors/7/a", "newer", retain=True)
        assert read(receiver, 1) == [("sensors/7/a", b"newer")]
        plain = connection.create_receiver("sensors/7/a", name="plain", credit=10)
        assert nothing_more(plain)
        for topic in ("sensors/7/a", "sensors/7/b", "sensors/8/a"):
            one.publish(topic, "", retain=True)
        assert read(retained_receiver(connection, "sensors/#", name="all", credit=10), 0) == []


def test_retained_messages_are_read_with_one_credit_at_a_time(served: Platform) -> None:
    topics = [f"sensors/many/{number:03}" for number in range(300)]
    with connected(served) as connection:
        sender = connection.create_sender(None)
        for topic in topics:
            sender.send(retained(topic, topic.encode() * 100))
        receiver = retained_receiver(connection, "sensors/many/#")
        found = [receiver.receive(timeout=TIMEOUT_S).address for _ in topics]
        assert found == topics
        for topic in topics:
            sender.send(retained(topic, b""))


def test_filter_for_retained_messages_is_refused_elsewhere(served: Platform) -> None:
    with connected(served) as connection:
        for name in ("orders", "news"):
            with pytest.raises(LinkDetached, match="enmasse:retained"):
                retained_receiver(connection, name, name=name)


def test_receiver_gets_no_retained_message_that_it_has_no_right_to(
    start_platform: Start, tmp_path: Path
) -> None:
    path = document(tmp_path, *ADDRESSES, user("reader", "sensors/open/*"), user("all", "*"))
    platform = start_platform("-f", path)
    login = {"user": "all", "password": PASSWORD}
    for topic in ("sensors/open/1", "sensors/closed/1"):
        send(platform, topic, retained(topic, b"x"), **login)
    with connected(platform, user="reader", password=PASSWORD) as connection:
        receiver = retained_receiver(connection, "sensors/open/+", credit=10)
        assert read(receiver, 1) == [("sensors/open/1", b"x")]
        with pytest.raises(LinkDetached, match="unauthorized"):
            retained_receiver(connection, "sensors/#", name="other")


def test_what_amqp_producers_retain_survives_a_kill(tmp_path: Path) -> None:
    path = document(tmp_path, *ADDRESSES)
    with running(tmp_path / "data", "-f", str(path)) as platform:
        send(platform, "sensors/kept", retained("sensors/kept", b"x"))
        platform.kill()
    with running(tmp_path / "data") as platform:
        assert kept(platform, "sensors/kept") == [("sensors/kept", b"x")]
        with connected(platform) as connection:
            receiver = retained_receiver(connection, "sensors/#", credit=10)
            assert read(receiver, 1) == [("sensors/kept", b"x")]


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
