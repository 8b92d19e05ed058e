"""T-CL-11 and T-CL-12 of docs/acceptance.md: MQTT clients, alone and together with AMQP clients."""

from typing import Any

import pytest
from proton import Message

from mqtt_client import V5, V311, device_at
from platform_process import Platform, Start
from proton_client import TIMEOUT_S, address, connected, document, nothing_more, send

pytestmark = pytest.mark.timeout(180)

COUNT = 20

VERSIONS = pytest.mark.parametrize("version", [V311, V5], ids=["3.1.1", "5.0"])
QOS = pytest.mark.parametrize("qos", [0, 1, 2])


@pytest.fixture(scope="module")
def platform(start_platform: Start, tmp_path_factory: pytest.TempPathFactory) -> Platform:
    addresses = address("news", "topic"), address("orders")
    return start_platform("-f", document(tmp_path_factory.mktemp("documents"), *addresses))


@VERSIONS
@QOS
def test_T_CL_11_publications_of_each_qos_arrive_in_order(
    platform: Platform, version: Any, qos: int
) -> None:
    topic = f"news/{version}/{qos}"
    with device_at(platform, version=version) as subscriber:
        subscriber.subscribe(topic, qos)
        with device_at(platform, version=version) as publisher:
            for number in range(COUNT):
                publisher.publish(topic, str(number), qos)
        expected = [(topic, str(number).encode()) for number in range(COUNT)]
        assert subscriber.take(COUNT) == expected
        assert subscriber.nothing_more()


@VERSIONS
@QOS
def test_T_CL_11_a_retained_message_reaches_a_later_subscriber(
    platform: Platform, version: Any, qos: int
) -> None:
    topic = f"news/retained/{version}/{qos}"
    with device_at(platform, version=version) as publisher:
        publisher.publish(topic, "first", qos, retain=True)
        publisher.publish(topic, "last", 1, retain=True)
    with device_at(platform, version=version) as subscriber:
        subscriber.subscribe(topic, qos)
        message = subscriber.message()
        assert (message.topic, message.payload, message.retain) == (topic, b"last", True)


@VERSIONS
@QOS
def test_T_CL_12_mqtt_to_amqp(platform: Platform, version: Any, qos: int) -> None:
    with device_at(platform, version=version) as publisher:
        for number in range(COUNT):
            publisher.publish("orders", str(number), qos)
    with connected(platform) as connection:
        receiver = connection.create_receiver("orders", credit=COUNT + 1)
        bodies = []
        for _ in range(COUNT):
            # The body is memory of the message.
            message = receiver.receive(timeout=TIMEOUT_S)
            bodies.append(bytes(message.body).decode())
            receiver.accept()
        assert nothing_more(receiver)
    assert bodies == [str(number) for number in range(COUNT)]


@VERSIONS
@QOS
def test_T_CL_12_amqp_to_mqtt(platform: Platform, version: Any, qos: int) -> None:
    topic = f"news/amqp/{version}/{qos}"
    with device_at(platform, version=version) as subscriber:
        subscriber.subscribe(topic, qos)
        messages = [Message(body=str(number), durable=True) for number in range(COUNT)]
        send(platform, topic, *messages)
        assert subscriber.take(COUNT) == [(topic, str(number).encode()) for number in range(COUNT)]
