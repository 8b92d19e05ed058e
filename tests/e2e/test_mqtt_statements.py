"""Normative statements of MQTT that a node keeps, on a platform process."""

import itertools
from contextlib import closing
from typing import Any

import pytest
import websocket
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from mqtt_bytes import (
    CONNACK,
    PUBACK,
    PUBCOMP,
    PUBREC,
    PUBREL,
    field,
    packet,
    wire_to,
)
from mqtt_client import V5, V311, cut, device, device_at, publish_properties
from platform_process import Platform, Start
from proton_client import TIMEOUT_S, address, document

pytestmark = pytest.mark.timeout(180)

ADDRESSES = (address("sensors", "topic"), address("radio", "multicast"))

VERSIONS = pytest.mark.parametrize("version", [V311, V5])

_NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def served(start_platform: Start, tmp_path_factory: pytest.TempPathFactory) -> Platform:
    """A platform with a topic and a multicast."""
    return start_platform("-f", document(tmp_path_factory.mktemp("documents"), *ADDRESSES))


@pytest.fixture
def topic() -> str:
    """A topic of the test's own."""
    return f"sensors/statement{next(_NUMBERS)}"


@VERSIONS
@pytest.mark.parametrize("retain", [False, True])
def test_will_is_retained_as_it_says(
    served: Platform, topic: str, version: Any, retain: bool
) -> None:
    """[5: 3.1.2-14] [5: 3.1.2-15] [3: 3.1.2-16] [3: 3.1.2-17]"""
    with device_at(served) as watcher:
        watcher.subscribe(topic, 1)
        one = device(version=version)
        one.client.will_set(topic, "gone", qos=1, retain=retain)
        one.connect(served)
        cut(one)
        assert watcher.take(1) == [(topic, b"gone")]
    # The will is kept after the disk has it, and live subscribers need not wait for that.
    for _ in range(20):
        with device_at(served) as later:
            later.subscribe(topic, 1)
            found = later.waiting()
        if found or not retain:
            break
    assert found == ([b"gone"] if retain else [])


@VERSIONS
def test_connection_without_a_will_publishes_none(
    served: Platform, topic: str, version: Any
) -> None:
    """[3: 3.1.2-12]"""
    with device_at(served) as watcher:
        watcher.subscribe("sensors/#", 1, retainHandling=2)
        one = device(version=version)
        one.connect(served)
        cut(one)
        watcher.publish(topic, "last")
        assert watcher.take(1) == [(topic, b"last")]


def test_user_properties_of_a_will_keep_their_order(served: Platform, topic: str) -> None:
    """[5: 3.1.3-10]"""
    pairs = [("b", "1"), ("a", "2"), ("b", "0"), ("", "")]
    with device_at(served) as watcher:
        watcher.subscribe(topic, 1)
        properties: Any = Properties(PacketTypes.WILLMESSAGE)
        properties.UserProperty = pairs
        one = device()
        one.client.will_set(topic, "gone", qos=1, properties=properties)
        one.connect(served)
        cut(one)
        received: Any = watcher.message().properties
        assert received.UserProperty == pairs


@pytest.mark.parametrize("qos", [1, 2])
def test_message_that_was_sent_does_not_expire(served: Platform, topic: str, qos: int) -> None:
    """[5: 4.3.3-7]"""
    short = publish_properties(MessageExpiryInterval=1)
    with wire_to(served) as one, device_at(served) as other:
        one.connect(f"unanswered{qos}", kept_s=3600)
        assert one.subscribe(topic, qos) == qos
        other.publish(topic, "sent", qos, properties=short)
        assert one.message().payload == b"sent"
    with device_at(served) as other:
        other.publish(topic, "not sent", qos, properties=short)
        other.subscribe("sensors/tick", 1)
        assert other.nothing_more(1.2)
    with wire_to(served) as one:
        assert one.connect(f"unanswered{qos}", clean=False, kept_s=3600)
        again = one.message()
        assert (again.payload, again.qos) == (b"sent", qos)
        one.acknowledge(PUBACK if qos == 1 else PUBREC, again.packet_id)
        if qos == 2:
            assert one.answer(PUBREL)[:2] == again.packet_id.to_bytes(2)
        assert one.nothing_comes()


def test_message_that_expires_before_its_delivery_is_deleted(served: Platform, topic: str) -> None:
    """[5: 3.3.2-5]"""
    with device_at(served, "expiring", kept_s=3600) as one:
        one.subscribe(topic, 1)
    with device_at(served) as other:
        other.publish(topic, "short", properties=publish_properties(MessageExpiryInterval=1))
        other.publish(topic, "long", properties=publish_properties(MessageExpiryInterval=3600))
        other.subscribe("sensors/tick", 1)
        assert other.nothing_more(1.2)
    with device_at(served, "expiring", kept_s=3600) as one:
        assert one.take(1) == [(topic, b"long")]
        assert one.nothing_more()


@pytest.mark.parametrize("name", ["sensors", "radio"])
def test_client_gets_its_own_messages_unless_it_wants_none(served: Platform, name: str) -> None:
    """[5: 3.8.3-3]"""
    topic = f"{name}/own"
    with device_at(served) as one, device_at(served) as other:
        one.subscribe(topic, 1, noLocal=True)
        other.subscribe(topic, 1)
        one.publish(topic, "own")
        other.publish(topic, "foreign")
        assert one.take(1) == [(topic, b"foreign")]
        assert one.nothing_more()
        assert other.take(2) == [(topic, b"own"), (topic, b"foreign")]


def test_replaced_subscription_loses_no_message(served: Platform, topic: str) -> None:
    """[5: 3.8.4-4]"""
    with device_at(served) as one, device_at(served) as other:
        one.publish(topic, "retained", retain=True)
        one.subscribe(topic, 0, retainHandling=2)
        for batch in range(10):
            sent = [other.send(topic, f"{batch}.{count}", 1) for count in range(20)]
            one.subscribe(topic, 1 + batch % 2, retainHandling=2)
            assert {other.answer(message) for message in sent} == {"Success"}
        assert one.take(200) == [
            (topic, f"{batch}.{count}".encode()) for batch in range(10) for count in range(20)
        ]
        one.subscribe(topic, 1, retainHandling=0)
        message = one.message()
        assert (message.payload, message.retain) == (b"retained", True)
        assert one.nothing_more()


def test_shared_subscription_has_at_most_the_granted_qos(served: Platform, topic: str) -> None:
    """[5: 4.8.2-3]"""
    for granted, published in itertools.product(range(3), range(3)):
        with device_at(served) as one:
            one.subscribe(f"$share/qos{granted}{published}/{topic}", granted)
            one.send(topic, "x", published)
            assert one.message().qos == min(granted, published)


def share(group: str, topic: str) -> str:
    return f"$share/{group}/{topic}"


def test_delivery_of_a_shared_subscription_is_completed_with_its_client(
    served: Platform, topic: str
) -> None:
    """[5: 4.8.2-4]"""
    with wire_to(served) as first:
        first.connect("shared-first", kept_s=3600)
        assert first.subscribe(share("completed", topic), 2) == 2
        with device_at(served) as other:
            other.publish(topic, "once", 2)
            sent = first.message()
            first.acknowledge(PUBREC, sent.packet_id)
            assert first.answer(PUBREL)[:2] == sent.packet_id.to_bytes(2)
    with wire_to(served) as second:
        second.connect("shared-second")
        assert second.subscribe(share("completed", topic), 2) == 2
        assert second.nothing_comes()
        with wire_to(served) as first:
            assert first.connect("shared-first", clean=False, kept_s=3600)
            assert first.answer(PUBREL)[:2] == sent.packet_id.to_bytes(2)
            first.acknowledge(PUBCOMP, sent.packet_id)
            assert first.nothing_comes()
        assert second.nothing_comes()


def test_received_message_of_a_session_that_ends_goes_to_no_other_client(
    served: Platform, topic: str
) -> None:
    """[5: 4.8.2-5]"""
    with wire_to(served) as second:
        with wire_to(served) as first:
            first.connect("ending")
            assert first.subscribe(share("ended", topic), 2) == 2
            with device_at(served) as other:
                other.publish(topic, "once", 2)
                sent = first.message()
                first.acknowledge(PUBREC, sent.packet_id)
                assert first.answer(PUBREL)[:2] == sent.packet_id.to_bytes(2)
            second.connect("staying")
            assert second.subscribe(share("ended", topic), 2) == 2
        assert second.nothing_comes()


@pytest.mark.parametrize("qos", [1, 2])
def test_message_that_a_client_refused_goes_to_no_other(
    served: Platform, topic: str, qos: int
) -> None:
    """[5: 4.8.2-6]"""
    group = f"refused{qos}"
    with wire_to(served) as first, wire_to(served) as second, device_at(served) as other:
        first.connect("refusing")
        assert first.subscribe(share(group, topic), qos) == qos
        other.publish(topic, "unwanted", qos)
        sent = first.message()
        second.connect("waiting")
        assert second.subscribe(share(group, topic), qos) == qos
        first.acknowledge(PUBACK if qos == 1 else PUBREC, sent.packet_id, 0x80)
        assert second.nothing_comes()
        assert first.nothing_comes()


@pytest.mark.parametrize("level", [4, 5])
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_packets_and_frames_of_a_web_socket_need_not_be_aligned(
    served: Platform, topic: str, level: int, size: int
) -> None:
    """[5: 6.0.0-2] [3: 6.0.0-2]"""
    properties = b"\0" if level == 5 else b""
    head = b"\0\x04MQTT" + bytes((level, 2, 0, 0))
    packets = [
        packet(0x10, head + properties + field(f"frames{level}{size}".encode())),
        packet(0x82, b"\0\x01" + properties + field(topic.encode()) + b"\0"),
        packet(0x30, field(topic.encode()) + properties + b"in pieces"),
    ]
    connection = websocket.create_connection(
        f"ws://127.0.0.1:{served.port('ws')}/mqtt", subprotocols=["mqtt"], timeout=TIMEOUT_S
    )
    with closing(connection):
        sent = b"".join(packets)
        for begin in range(0, len(sent), size):
            connection.send_binary(sent[begin : begin + size])
        received = b""
        while not received.endswith(b"in pieces"):
            received += connection.recv()
        assert received[0] >> 4 == CONNACK
