"""MQTT and AMQP clients of a platform process on the same addresses."""

from pathlib import Path
from typing import Any

import pytest
from proton import Message

from mqtt_client import V5, V311, Refused, device, device_at, publish_properties
from platform_process import Platform, Start
from proton_client import (
    PASSWORD,
    address,
    connected,
    document,
    heard,
    send,
    take,
    user,
)

pytestmark = pytest.mark.timeout(180)

ADDRESSES = (
    address("orders"),
    address("work", "anycast"),
    address("news", "multicast"),
    address("sensors", "topic"),
    address("log", "topic", retention="{bytes: 1048576}"),
    address("dead", "deadletter"),
)

VERSIONS = pytest.mark.parametrize("version", [V311, V5])


def body(receiver: Any) -> bytes:
    """The body of the next message of an AMQP receiver, from MQTT."""
    # The body is memory of the message.
    message = receiver.receive(timeout=20)
    return bytes(message.body)


@pytest.fixture(scope="module")
def served(start_platform: Start, tmp_path_factory: pytest.TempPathFactory) -> Platform:
    """A platform with an address of each type."""
    return start_platform("-f", document(tmp_path_factory.mktemp("documents"), *ADDRESSES))


def text(message: Any) -> str:
    """The body of an AMQP message from MQTT."""
    return bytes(message.body).decode()


@VERSIONS
@pytest.mark.parametrize("qos", [0, 1])
def test_topic_carries_messages_between_clients_of_mqtt(
    served: Platform, version: Any, qos: int
) -> None:
    options = {"version": version}
    with device_at(served, **options) as one, device_at(served, **options) as other:
        assert one.subscribe("sensors/+/temp", qos) in ("Granted QoS 0", "Granted QoS 1")
        for number in range(10):
            other.send(f"sensors/{number}/temp", str(number), qos)
        expected = [(f"sensors/{number}/temp", str(number).encode()) for number in range(10)]
        assert one.take(10) == expected
        other.send("sensors/1/humidity", "1", qos)
        one.unsubscribe("sensors/+/temp")
        other.send("sensors/1/temp", "1", qos)
        assert one.nothing_more()


@pytest.mark.parametrize("name", ["sensors/a", "news/a", "log/a", "orders", "work"])
def test_amqp_receiver_gets_what_a_device_publishes(served: Platform, name: str) -> None:
    with connected(served) as connection, device_at(served) as one:
        receiver = connection.create_receiver(name, credit=10)
        properties = publish_properties(
            ContentType="text/plain",
            ResponseTopic="replies/1",
            CorrelationData=b"\x00\x01",
            MessageExpiryInterval=60,
            PayloadFormatIndicator=1,
            UserProperty=[("unit", "C"), ("unit", "F"), ("amqp.subject", "reading")],
        )
        sent = one.send(name, "hello", 1, properties=properties)
        message: Any = receiver.receive(timeout=20)
        assert (text(message), message.address, message.durable) == ("hello", name, True)
        assert (message.content_type, message.reply_to) == ("text/plain", "replies/1")
        assert bytes(message.correlation_id) == b"\x00\x01"
        assert 59.0 < message.ttl <= 60.0 and message.subject == "reading"
        assert message.properties == {"unit": "C"}
        assert message.annotations["x-opt-mqtt-qos"] == 1
        receiver.accept()
        heard(connection)
        assert one.answer(sent) == "Success"


@pytest.mark.parametrize("name", ["sensors/a", "news/a", "log/a", "orders", "work"])
def test_device_gets_what_an_amqp_sender_sends(served: Platform, name: str) -> None:
    with device_at(served) as one:
        assert one.subscribe(name, 1) == "Granted QoS 1"
        message = Message(
            body="hello",
            durable=True,
            subject="reading",
            content_type="text/plain",
            reply_to="replies/1",
            correlation_id="42",
            ttl=60.0,
            properties={"unit": "C", "level": 3},
        )
        send(served, name, message)
        got = one.message()
        assert (got.topic, got.payload, got.qos) == (name, b"hello", 1)
        told: Any = got.properties
        assert (told.ContentType, told.ResponseTopic) == ("text/plain", "replies/1")
        assert (told.CorrelationData, told.PayloadFormatIndicator) == (b"42", 1)
        assert told.MessageExpiryInterval in (59, 60)
        assert sorted(told.UserProperty) == [
            ("amqp.subject", "reading"),
            ("level", "3"),
            ("unit", "C"),
        ]
        send(served, name, Message(body=b"\x00"))
        assert one.message().qos == 0


def test_queue_is_shared_by_consumers_of_both_protocols(served: Platform) -> None:
    with connected(served) as connection, device_at(served) as one, device_at(served) as other:
        receiver = connection.create_receiver("orders", credit=10)
        send(served, "orders", *(Message(body=str(number)) for number in range(10)))
        mine = [int(body) for body in take(receiver, 10)]
        receiver.close()
        assert one.subscribe("orders", 1) == other.subscribe("$share/workers/orders", 1)
        send(served, "orders", *(Message(body=str(number)) for number in range(10, 50)))
        found = [int(one.message().payload), int(other.message().payload)]
        while len(found) < 40:
            found += [int(payload) for payload in (*one.waiting(), *other.waiting())]
        assert sorted(mine + found) == list(range(50))


def test_rejected_message_is_answered_with_the_words_of_its_consumer(served: Platform) -> None:
    with connected(served) as connection, device_at(served) as one:
        receiver = connection.create_receiver("work", credit=1)
        sent = one.send("work", "hello", 1)
        receiver.receive(timeout=20)
        receiver.reject()
        heard(connection)
        assert one.answer(sent) == "Implementation specific error"


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        ("nowhere", "Topic name invalid"),
        ("orders/1", "Topic name invalid"),
        ("dead", "Not authorized"),
        ("$SYS/x", "Topic name invalid"),
        ("news/1", "No matching subscribers"),
        ("sensors/1", "Success"),
    ],
)
def test_publication_is_answered_with_the_code_of_its_fate(
    served: Platform, topic: str, code: str
) -> None:
    with device_at(served) as one:
        assert one.publish(topic, "x") == code
        one.send(topic, "x", 0)
        assert one.subscribe("sensors/1", 0) == "Granted QoS 0", "the connection stays"


def test_failed_publication_of_mqtt_3_ends_the_connection(served: Platform) -> None:
    with device_at(served, version=V311) as one:
        one.send("nowhere", "x", 0)
        assert one.publish("sensors/1", "x") == "Success"
        one.send("nowhere", "x", 1)
        assert one.end() == "Unspecified error"


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        ("nowhere", "Topic filter invalid"),
        ("nowhere/#", "Topic filter invalid"),
        ("$share/group/news/1", "Shared subscription not supported"),
        ("sensors/#", "Granted QoS 2"),
        ("+/a", "Granted QoS 2"),
        ("sensors/*", "Granted QoS 2"),
    ],
)
def test_filter_is_answered_with_its_code(served: Platform, topic: str, code: str) -> None:
    with device_at(served) as one:
        assert one.subscribe(topic, 2) == code


def test_star_is_a_letter_in_topics_and_filters(served: Platform) -> None:
    with device_at(served) as one:
        one.subscribe("sensors/*", 1)
        one.publish("sensors/1", "no")
        one.publish("sensors/*", "yes")
        assert one.take(1) == [("sensors/*", b"yes")]
        assert one.nothing_more()


def test_new_connection_of_a_client_id_takes_over(served: Platform) -> None:
    with device_at(served, "same") as one:
        one.subscribe("sensors/1", 1)
        with device_at(served, "same", version=V311) as other:
            assert one.end() == "Session taken over"
            assert other.publish("sensors/1", "x") == "Success"


def test_client_gets_a_client_id(served: Platform) -> None:
    with device_at(served) as one, device_at(served) as other:
        assert one.publish("sensors/1", "x") == other.publish("sensors/1", "x") == "Success"


def test_large_payloads_pass(served: Platform) -> None:
    payload = bytes(range(256)) * 4096
    with connected(served) as connection, device_at(served) as one, device_at(served) as other:
        receiver = connection.create_receiver("sensors/1", credit=1)
        other.subscribe("sensors/1", 1)
        assert one.publish("sensors/1", payload) == "Success"
        assert body(receiver) == payload
        assert other.take(1) == [("sensors/1", payload)]


def test_undeclared_names_are_open_to_mqtt_only(platform: Platform) -> None:
    with device_at(platform) as one, device_at(platform, version=V311) as other:
        other.subscribe("any/+", 1)
        assert one.publish("any/name", "x") == "Success"
        assert other.take(1) == [("any/name", b"x")]
    with connected(platform) as connection:
        heard(connection)
        with pytest.raises(Exception, match="amqp:not-found"):
            connection.create_sender("any/name")


CLOSED = """
apiVersion: enmasse.io/v1beta1
kind: AddressSpace
metadata: {name: default}
spec: {type: standard, authenticationService: {name: standard}}
"""


@pytest.fixture(scope="module")
def closed(start_platform: Start, tmp_path_factory: pytest.TempPathFactory) -> Platform:
    """A platform whose users have rights."""
    path: Path = tmp_path_factory.mktemp("documents") / "closed.yaml"
    parts = [
        CLOSED,
        address("sensors", "topic"),
        address("orders"),
        user("alice", "sensors/a/#", "orders"),
        user("bob", "*"),
    ]
    path.write_text("---\n".join(parts))
    return start_platform("-f", path)


def test_rights_are_checked_for_each_topic_and_filter(closed: Platform) -> None:
    login = {"user": "alice", "password": PASSWORD}
    with device_at(closed, **login) as one:
        assert one.publish("sensors/a/1", "x") == "Success"
        assert one.publish("sensors/b/1", "x") == "Not authorized"
        assert one.subscribe("sensors/a/+", 1) == "Granted QoS 1"
        assert one.subscribe("sensors/#", 1) == "Not authorized"
        assert one.subscribe("sensors/b", 1) == "Not authorized"
        assert one.subscribe("orders", 1) == "Granted QoS 1"


@pytest.mark.parametrize(
    ("version", "code"), [(V311, "Bad user name or password"), (V5, "Bad user name or password")]
)
def test_wrong_password_is_refused(closed: Platform, version: Any, code: str) -> None:
    with pytest.raises(Refused, match=code):
        device(version=version, user="alice", password="wrong").connect(closed)
    with pytest.raises(Refused):
        device(version=version).connect(closed)


def test_changed_rights_reach_a_live_connection(closed: Platform, tmp_path: Path) -> None:
    with device_at(closed, user="bob", password=PASSWORD) as one:
        assert one.subscribe("sensors/#", 1) == "Granted QoS 1"
        changed = tmp_path / "bob.yaml"
        changed.write_text(user("bob", "orders"))
        closed.enmasse("apply", "-f", str(changed))
        assert one.end() == "Not authorized"


@pytest.mark.parametrize("listener", ["ws", "wss", "mqtts"])
def test_every_transport_carries_mqtt(served: Platform, listener: str) -> None:
    transport = "websockets" if listener.startswith("ws") else "tcp"
    one = device(transport=transport)
    if listener in ("wss", "mqtts"):
        one.client.tls_set(ca_certs=str(served.data / "tls" / "ca.crt"))
    one.connect(served, listener)
    try:
        assert one.publish("sensors/1", "x") == "Success"
    finally:
        one.client.disconnect()
        one.client.loop_stop()
