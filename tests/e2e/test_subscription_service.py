"""Subscriptions of AMQP clients: the subscription service of a platform process."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from proton import Message
from proton.utils import BlockingReceiver, LinkDetached

from mqtt_client import device_at
from platform_process import Platform, Start, running
from proton_client import (
    PASSWORD,
    TIMEOUT_S,
    address,
    connected,
    document,
    nothing_more,
    send,
    take,
    user,
)
from subscription_client import Service

pytestmark = pytest.mark.timeout(120)

ADDRESSES = (address("news", "topic"), address("other", "topic"), address("work"))


@pytest.fixture(scope="module")
def served(start_platform: Start, tmp_path_factory: pytest.TempPathFactory) -> Platform:
    """A platform with two topics and a queue."""
    return start_platform("-f", document(tmp_path_factory.mktemp("documents"), *ADDRESSES))


@contextmanager
def service(platform: Platform, container: str = "", **login: Any) -> Iterator[Service]:
    """The service, over a connection of its own."""
    with connected(platform, container, **login) as connection:
        yield Service(connection)


def payloads(receiver: BlockingReceiver, count: int) -> list[str]:
    """Take so many messages from clients of MQTT; return their payloads."""
    found = []
    for _ in range(count):
        # The bytes are those of the message: proton frees them with it.
        message: Any = receiver.receive(timeout=TIMEOUT_S)
        found.append(bytes(message.body).decode())
        receiver.accept()
    return found


def topics(receiver: BlockingReceiver, count: int) -> list[str]:
    """Take so many messages; return the addresses that they were sent to."""
    found = []
    for _ in range(count):
        found.append(str(receiver.receive(timeout=TIMEOUT_S).address))
        receiver.accept()
    return found


@pytest.mark.parametrize("name", ["$mqtt.to.gateway.publish", "plain"])
def test_subscription_lives_until_it_is_closed(served: Platform, name: str) -> None:
    with connected(served) as connection:
        subscriptions = Service(connection)
        assert subscriptions.list(name) == {}
        subscriptions.subscribe(name, news_all=1, other=0)
        assert subscriptions.list(name) == {"news/#": 1, "other": 0}
        receiver = connection.create_receiver(name)
        with device_at(served) as device:
            device.publish("news/1", "one")
            device.publish("other", "two")
            assert sorted(topics(receiver, 2)) == ["news/1", "other"]
            subscriptions.ask(name, "unsubscribe", ["news/#", "unknown"])
            assert subscriptions.list(name) == {"other": 0}
            device.publish("news/1", "three")
            device.publish("other", "four")
        assert payloads(receiver, 1) == ["four"]
        assert nothing_more(receiver)
        with pytest.raises(LinkDetached, match="closed"):
            subscriptions.ask(name, "close")
            receiver.receive(timeout=TIMEOUT_S)
        assert subscriptions.list(name) == {}
        with pytest.raises(LinkDetached, match="not-found"):
            connection.create_receiver(name)


def test_filters_added_while_a_receiver_is_attached_reach_it(served: Platform) -> None:
    with connected(served) as connection, service(served) as elsewhere:
        Service(connection).subscribe("growing", news_a=1)
        receiver = connection.create_receiver("growing", credit=10)
        Service(connection, "$mqtt.subscriptionservice").subscribe("growing", news_b=1)
        elsewhere.subscribe("growing", news_c=1)
        assert elsewhere.list("growing") == {"news/a": 1, "news/b": 1, "news/c": 1}
        with device_at(served) as device:
            for topic in ("news/a", "news/b", "news/c"):
                device.publish(topic, topic)
        assert sorted(topics(receiver, 3)) == ["news/a", "news/b", "news/c"]
        elsewhere.ask("growing", "close")
        with pytest.raises(LinkDetached, match="closed"):
            receiver.receive(timeout=TIMEOUT_S)


def test_messages_wait_while_no_receiver_is_attached(served: Platform) -> None:
    with connected(served) as connection:
        Service(connection).subscribe("waiting", news_all=1)
    with device_at(served) as device:
        for number in range(3):
            device.publish("news/w", str(number))
    with connected(served) as connection:
        receiver = connection.create_receiver("waiting", credit=10)
        assert payloads(receiver, 1) == ["0"]
        unsettled: Any = receiver.receive(timeout=TIMEOUT_S)
        assert bytes(unsettled.body) == b"1"
        receiver.close()
        again = connection.create_receiver("waiting", credit=10)
        assert payloads(again, 2) == ["1", "2"]
        assert nothing_more(again)
        again.close()
        Service(connection).ask("waiting", "close")


def test_message_arrives_as_it_was_sent(served: Platform) -> None:
    with connected(served) as connection:
        Service(connection).subscribe("whole", news_all=1)
        receiver = connection.create_receiver("whole")
        sent = Message(address="news/x", subject="s", body={"a": [1, 2]}, durable=True)
        send(served, "news/x", sent)
        found = receiver.receive(timeout=TIMEOUT_S)
        receiver.accept()
        assert (found.address, found.subject, found.body) == ("news/x", "s", {"a": [1, 2]})
        assert found.durable
        receiver.close()
        Service(connection).ask("whole", "close")


def test_queue_is_consumed_with_others(served: Platform) -> None:
    with connected(served) as connection:
        Service(connection).subscribe("consumer", work=1)
        receiver = connection.create_receiver("consumer")
        send(served, "work", Message(body="job", durable=True))
        assert take(receiver, 1) == ["job"]
        receiver.close()
        Service(connection).ask("consumer", "close")


def test_later_receiver_takes_over(served: Platform) -> None:
    with connected(served, "one") as first, connected(served, "two") as second:
        Service(first).subscribe("moving", news_all=1)
        receiver = first.create_receiver("moving")
        later = second.create_receiver("moving")
        first.wait(lambda: receiver.link.remote_condition is not None)
        assert receiver.link.remote_condition.name == "amqp:link:stolen"
        with device_at(served) as device:
            device.publish("news/m", "x")
        assert payloads(later, 1) == ["x"]
        later.close()
        Service(second).ask("moving", "close")


def test_answers_reach_the_address_of_a_gateway(served: Platform) -> None:
    with connected(served) as connection:
        control = connection.create_receiver("$mqtt.to.device.control", credit=1)
        name = "$mqtt.to.device.publish"
        Service(connection).subscribe(name, news_all=2)
        Service(connection).ask(name, "list", reply_to="$mqtt.to.device.control")
        answer = control.receive(timeout=TIMEOUT_S)
        assert (answer.subject, answer.body) == ("subscriptions", {"news/#": 2})
        Service(connection).ask(name, "close")


@pytest.mark.parametrize(
    ("subject", "body", "fields", "reason"),
    [
        (None, {"news": 1}, {"correlation_id": "x"}, "properties.subject"),
        ("list_topics", {"news": 1}, {"correlation_id": "x"}, "properties.subject"),
        ("subscribe", {"news": 1}, {}, "properties.correlation-id"),
        ("subscribe", ["news"], {"correlation_id": "x"}, "body of subscribe must be a map"),
        ("subscribe", {"news": 7}, {"correlation_id": "x"}, 'QoS of "news"'),
        ("subscribe", {"news/#/a": 1}, {"correlation_id": "x"}, '"news/#/a" is no topic filter'),
        ("unsubscribe", "news", {"correlation_id": "x"}, "body of unsubscribe must be a list"),
        ("list", None, {"correlation_id": "x"}, "properties.reply-to"),
    ],
)
def test_request_with_a_wrong_field_is_rejected(
    served: Platform, subject: str | None, body: Any, fields: dict[str, Any], reason: str
) -> None:
    with service(served) as subscriptions:
        condition, description = subscriptions.refusal(subject, body, **fields)
        assert condition == "amqp:invalid-field"
        assert reason in description


def test_subscription_needs_a_name_and_filters_that_exist(served: Platform) -> None:
    with service(served) as subscriptions:
        taken = subscriptions.refusal("subscribe", {"news": 1}, correlation_id="news")
        assert (taken[0], '"news"' in taken[1]) == ("amqp:not-allowed", True)
        both = {"news": 1, "missing": 1}
        missing = subscriptions.refusal("subscribe", both, correlation_id="half")
        assert (missing[0], '"missing"' in missing[1]) == ("amqp:not-found", True)
        assert subscriptions.list("half") == {}


def test_each_filter_needs_the_right_and_each_user_has_own_subscriptions(tmp_path: Path) -> None:
    path = document(tmp_path, *ADDRESSES, user("amy", "news", "news/#"), user("bob", "other"))
    login = {"password": PASSWORD, "sasl_enabled": True}
    with running(tmp_path / "data", "-f", str(path), "--insecure") as platform:
        with (
            connected(platform, "a", user="amy", **login) as amy,
            connected(platform, "b", user="bob", **login) as bob,
        ):
            subscriptions, others = Service(amy), Service(bob)
            both = {"news/#": 1, "other": 1}
            condition, why = subscriptions.refusal("subscribe", both, correlation_id="mine")
            assert (condition, '"other"' in why) == ("amqp:unauthorized-access", True)
            assert subscriptions.list("mine") == {}
            subscriptions.subscribe("mine", news_all=1)
            with pytest.raises(LinkDetached, match="unauthorized-access"):
                bob.create_receiver("mine")
            assert others.list("mine") == {}
            others.ask("mine", "close")
            others.subscribe("mine", other=1)
            receiver, other = amy.create_receiver("mine"), bob.create_receiver("mine")
            amy.create_sender("news").send(Message(address="news", body="n"))
            bob.create_sender("other").send(Message(address="other", body="o"))
            assert (take(receiver, 1), take(other, 1)) == (["n"], ["o"])
            changed = tmp_path / "changed.yaml"
            changed.write_text(user("amy", "nothing"))
            platform.enmasse("apply", "-f", str(changed))
            with pytest.raises(LinkDetached, match="unauthorized-access"):
                receiver.receive(timeout=TIMEOUT_S)


def test_address_that_opens_all_names_leaves_those_of_gateways(tmp_path: Path) -> None:
    path = document(tmp_path, address('"#"', "topic").replace('default."#"', "default.all"))
    with running(tmp_path / "data", "-f", str(path)) as platform:
        with connected(platform) as connection:
            subscriptions = Service(connection)
            condition, _ = subscriptions.refusal("subscribe", {"a": 1}, correlation_id="any")
            assert condition == "amqp:not-allowed"
            subscriptions.ask("$mqtt.to.x.publish", "subscribe", {"a/+": 1})
            receiver = connection.create_receiver("$mqtt.to.x.publish")
            with device_at(platform) as device:
                device.publish("b/1", "not")
                device.publish("a/1", "this")
            assert payloads(receiver, 1) == ["this"]


def test_subscription_survives_a_crash_of_the_node(tmp_path: Path) -> None:
    path = document(tmp_path, *ADDRESSES)
    with running(tmp_path / "data", "-f", str(path)) as platform:
        with service(platform) as subscriptions:
            subscriptions.subscribe("kept", news_all=1, other=0)
            subscriptions.subscribe("closed", news_all=1)
            subscriptions.ask("closed", "close")
        send(platform, "news/1", Message(address="news/1", body="before", durable=True))
        platform.kill()
    with running(tmp_path / "data") as platform, connected(platform) as connection:
        subscriptions = Service(connection)
        assert subscriptions.list("kept") == {"news/#": 1, "other": 0}
        assert subscriptions.list("closed") == {}
        with device_at(platform) as device:
            device.publish("news/2", "after")
        receiver = connection.create_receiver("kept", credit=10)
        assert take(receiver, 1) == ["before"]
        assert payloads(receiver, 1) == ["after"]
        assert nothing_more(receiver)
