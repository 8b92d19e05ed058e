"""Wills of AMQP clients: the last-will service of a platform process."""

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from proton import Condition, Message, ProtonException
from proton.reactor import Container
from proton.utils import BlockingConnection, SendException

from cuttable_proxy import Way
from mqtt_client import device_at
from platform_process import Platform, Start, running
from proton_client import (
    PASSWORD,
    QUIET_S,
    TIMEOUT_S,
    address,
    connected,
    document,
    nothing_more,
    numbered,
    received,
    send,
    take,
    user,
)

pytestmark = pytest.mark.timeout(120)

SERVICES = ("$lwt", "$mqtt.willservice", "$mqtt.lwtservice")
ADDRESSES = (address("gone"), address("other"), address("news", "topic"))


@pytest.fixture(scope="module")
def served(start_platform: Start, tmp_path_factory: pytest.TempPathFactory) -> Platform:
    """A platform with a queue and a topic for wills."""
    return start_platform("-f", document(tmp_path_factory.mktemp("documents"), *ADDRESSES))


def will(body: Any, to: str = "gone", **fields: Any) -> Message:
    """A message with a will."""
    return Message(address=to, subject="will", body=body, durable=True, **fields)


@contextmanager
def lost(platform: Platform, container: str) -> Iterator[BlockingConnection]:
    """A connection that breaks off at the end, as with a crash of the client."""
    with closing(Way(platform.port())) as way:
        reactor = Container()
        reactor.container_id = container
        url = f"amqp://127.0.0.1:{way.port}"
        connection = BlockingConnection(url, timeout=TIMEOUT_S, container=reactor)
        yield connection
    # The answer to its close does not come.
    connection.timeout = QUIET_S
    with suppress(ProtonException):
        connection.close()


@pytest.mark.parametrize("service", SERVICES)
def test_lost_connection_publishes_the_will(served: Platform, service: str) -> None:
    with lost(served, "lost") as connection:
        connection.create_sender(service, name="will").send(will(service))
    assert received(served, "gone", 1) == [service]


def test_detach_discards_the_will(served: Platform) -> None:
    with connected(served, "clean") as connection:
        sender = connection.create_sender("$lwt")
        sender.send(will("discarded"))
        sender.close()
    with connected(served, "clean") as connection:
        connection.create_sender("$lwt").send(will("discarded, too"))
    assert received(served, "gone", 0) == []


def test_detach_with_an_error_publishes_the_will(served: Platform) -> None:
    with connected(served, "failing") as connection:
        sender = connection.create_sender("$lwt")
        sender.send(will("failed"))
        sender.link.condition = Condition("amqp:internal-error", "the client failed")
        sender.close()
        assert received(served, "gone", 1) == ["failed"]


def test_close_with_an_error_publishes_the_will(served: Platform) -> None:
    with connected(served, "closing") as connection:
        connection.create_sender("$lwt").send(will("closed"))
        connection.conn.condition = Condition("amqp:internal-error", "the client failed")
        connection.close()
    assert received(served, "gone", 1) == ["closed"]


def test_new_will_replaces_the_former_one(served: Platform) -> None:
    with lost(served, "replacing") as connection:
        sender = connection.create_sender("$lwt")
        for number in range(5):
            sender.send(will(number))
    assert received(served, "gone", 1) == [4]


def test_each_link_has_a_will_of_its_own(served: Platform) -> None:
    with lost(served, "two") as connection:
        for name in ("one", "other"):
            connection.create_sender("$lwt", name=name).send(will(name))
    assert sorted(received(served, "gone", 2)) == ["one", "other"]


def test_will_reaches_mqtt_with_its_properties(served: Platform) -> None:
    with device_at(served) as watcher:
        watcher.subscribe("news/#", 2, retainAsPublished=True)
        with lost(served, "mapped") as connection:
            message = will(b"bytes", "news/7", properties={"color": "red"})
            message.inferred = True
            message.annotations = {"x-opt-retain-message": True, "x-opt-mqtt-qos": 2}
            connection.create_sender("$lwt").send(message)
        published = watcher.message()
    assert (published.topic, published.payload) == ("news/7", b"bytes")
    assert (published.qos, published.retain) == (2, True)
    assert published.properties.UserProperty == [("color", "red")]
    with device_at(served) as later:
        later.subscribe("news/7", 1)
        assert later.take(1) == [("news/7", b"bytes")]
        later.publish("news/7", "", retain=True)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (Message(address="gone", subject="other", body="x"), "properties.subject"),
        (Message(subject="will", body="x"), "properties.to"),
        (Message(address="news/#", subject="will", body="x"), "properties.to"),
        (Message(address="$mqtt/retained", subject="will", body="x"), "properties.to"),
    ],
)
def test_message_without_a_will_is_rejected(
    served: Platform, message: Message, reason: str
) -> None:
    with connected(served) as connection:
        link = connection.create_sender("$lwt").link
        connection.wait(lambda: link.credit > 0)
        delivery = link.send(message)
        connection.wait(lambda: delivery.settled)
        assert delivery.remote_state == delivery.REJECTED
        assert delivery.remote.condition.name == "amqp:invalid-field"
        assert reason in delivery.remote.condition.description


def test_will_needs_the_right_to_send(tmp_path: Path) -> None:
    path = document(tmp_path, *ADDRESSES, user("amy", "news"))
    login = {"user": "amy", "password": PASSWORD, "sasl_enabled": True}
    with running(tmp_path / "data", "-f", str(path), "--insecure") as platform:
        with connected(platform, "amy", **login) as connection:
            sender = connection.create_sender("$lwt")
            with pytest.raises(SendException):
                sender.send(will("x", "gone"))
            sender.send(will("x", "news"))


def test_will_survives_a_crash_of_the_node(tmp_path: Path) -> None:
    path = document(tmp_path, *ADDRESSES)
    with running(tmp_path / "data", "-f", str(path)) as platform:
        with lost(platform, "sensor") as connection:
            connection.create_sender("$lwt").send(will("crashed"))
            clean = connection.create_sender("$lwt", name="clean")
            clean.send(will("discarded"))
            clean.close()
            # What is stored later is on disk after what the detach has removed.
            send(platform, "other", *numbered(0, 3, durable=True))
            platform.kill()
    with running(tmp_path / "data") as platform:
        with connected(platform) as connection, closing(connection):
            receiver = connection.create_receiver("gone")
            assert take(receiver, 1) == ["crashed"]
            assert nothing_more(receiver)
        assert platform.enmasse("session", "list", "--output", "json").count("clientId") == 0
