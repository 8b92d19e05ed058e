"""Topics of a platform process: copies, subscriptions, and recovery after a kill."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from proton import Delivery, Described, LinkException, Message, Terminus, symbol
from proton.reactor import DurableSubscription, Filter, LinkOption
from proton.utils import LinkDetached

from platform_process import Platform, Start, running
from proton_client import (
    Shared,
    address,
    connected,
    document,
    heard,
    nothing_more,
    numbered,
    send,
    stored,
    take,
)

pytestmark = pytest.mark.timeout(180)

ADDRESSES = (
    address("dead", "deadletter"),
    address("news", "topic", deadletter="dead"),
    address("held", "topic"),
    address("one", "subscription", topic="held"),
    address("two", "subscription", topic="held", subscription="{maxConsumers: 2}"),
    address("full", "topic", limits="{messages: 2, onFull: reject}"),
    address("kept", "subscription", topic="full"),
)


@pytest.fixture(scope="module")
def topics(start_platform: Start, tmp_path_factory: pytest.TempPathFactory) -> Platform:
    """A platform with topics and declared subscriptions."""
    return start_platform("-f", document(tmp_path_factory.mktemp("documents"), *ADDRESSES))


class WithoutSource(LinkOption):  # type: ignore[misc]
    """A link without a source; its name identifies the durable subscription."""

    def apply(self, receiver: Any) -> None:
        receiver.source.type = Terminus.UNSPECIFIED


def test_durable_subscription_stores_messages_while_it_is_detached(tmp_path: Path) -> None:
    path = document(tmp_path, *ADDRESSES)
    options = DurableSubscription()
    with running(tmp_path / "data", "-f", str(path)) as platform:
        with connected(platform, "durable") as connection:
            receiver = connection.create_receiver("news", credit=10, name="sub", options=options)
            send(platform, "news", *numbered(0, 3))
            assert take(receiver, 3) == [0, 1, 2]
            receiver.link.detach()
            heard(connection)
            send(platform, "news", *numbered(3, 9))
        platform.kill()
    with running(tmp_path / "data", "-f", str(path)) as platform:
        with connected(platform, "durable") as connection:
            receiver = connection.create_receiver("news", credit=20, name="sub", options=options)
            assert take(receiver, 9) == list(range(3, 12))
            assert nothing_more(receiver)


def test_attach_of_the_same_subscription_link_steals_it(
    topics: Platform,
) -> None:
    """2.6.1: the container id and the link name identify the link."""
    with connected(topics, "held") as first, connected(topics, "held") as second:
        held = first.create_receiver("news", name="sub", options=DurableSubscription())
        taken = second.create_receiver("news", name="sub", options=DurableSubscription())
        first.wait(lambda: held.link.remote_condition, timeout=20)
        assert held.link.remote_condition.name == "amqp:link:stolen"
        taken.close()


def test_closing_a_link_without_a_source_deletes_its_subscription(topics: Platform) -> None:
    with connected(topics, "ending") as connection:
        durable = DurableSubscription()
        receiver = connection.create_receiver("news", name="sub", options=durable)
        receiver.link.detach()
        heard(connection)
        send(topics, "news", *numbered(0, 2))
        with suppress(LinkException):
            # The client raises because the address of the response is not None, and closes.
            connection.create_receiver(None, name="sub", options=WithoutSource()).close()
        receiver = connection.create_receiver("news", credit=10, name="sub", options=durable)
        assert nothing_more(receiver)
        receiver.close()


@pytest.mark.parametrize("durable", [False, True])
def test_a_shared_subscription_gives_each_message_to_one_of_its_links(
    topics: Platform, durable: bool
) -> None:
    link = "shared|global" if durable else "shared|global-volatile"
    options = Shared("global", durable=durable)
    with connected(topics, "a") as first, connected(topics, "b") as second:
        receivers = [
            connection.create_receiver("news", credit=50, name=f"{link}{number}", options=options)
            for number, connection in enumerate((first, second), 1)
        ]
        send(topics, "news", *numbered(0, 20))
        got = [take(receiver, 10) for receiver in receivers]
        assert sorted(got[0] + got[1]) == list(range(20))
        for receiver in receivers:
            receiver.close()


def test_declared_subscription_survives_kill_and_refuses_senders(tmp_path: Path) -> None:
    path = document(tmp_path, *ADDRESSES)
    with running(tmp_path / "data", "-f", str(path)) as platform:
        send(platform, "held", *numbered(0, 5))
        platform.kill()
    with running(tmp_path / "data", "-f", str(path)) as platform:
        with connected(platform) as connection:
            assert take(connection.create_receiver("held::one", credit=10), 5) == [0, 1, 2, 3, 4]
            with pytest.raises((LinkDetached, LinkException), match="send to"):
                connection.create_sender("held::two")


def test_message_rejected_by_a_full_subscription_reaches_no_subscriber(topics: Platform) -> None:
    with connected(topics) as connection:
        live = connection.create_receiver("full", credit=10)
        sender = connection.create_sender("full")
        delivered = [sender.send(message, error_states=[]) for message in numbered(0, 3)]
        states = [delivery.remote_state for delivery in delivered]
        assert states == [Delivery.ACCEPTED, Delivery.ACCEPTED, Delivery.REJECTED]
        assert take(live, 2) == [0, 1]
        assert nothing_more(live)


def test_a_fresh_platform_has_a_topic_and_a_subscription(platform: Platform) -> None:
    with connected(platform) as connection:
        live = connection.create_receiver("topic", credit=10)
        send(platform, "topic", Message(body="hello"))
        assert take(live, 1) == ["hello"]
        assert take(connection.create_receiver("topic::subscription", credit=10), 1) == ["hello"]


def test_operations_on_a_subscription_affect_only_its_messages(tmp_path: Path) -> None:
    with running(tmp_path / "data", "-f", str(document(tmp_path, *ADDRESSES))) as platform:
        send(platform, "held", *numbered(0, 3))
        assert stored(platform, "held::one") == stored(platform, "held::two") == 3
        assert platform.enmasse("peek", "held::one").count("queue") == 0
        platform.enmasse("purge", "held::one")
        assert (stored(platform, "held::one"), stored(platform, "held::two")) == (0, 3)
        platform.enmasse("move", "held::two", "news", "--dry-run")
        with connected(platform) as connection:
            assert nothing_more(connection.create_receiver("held::one", credit=10))
            live = connection.create_receiver("news", credit=10)
            platform.enmasse("move", "held::two", "news")
            assert take(live, 3) == [0, 1, 2]
        assert stored(platform, "held::two") == 0


@pytest.mark.parametrize("durable", [False, True])
def test_no_local_filter_excludes_messages_of_the_same_connection(
    topics: Platform, durable: bool
) -> None:
    name = "apache.org:no-local-filter:list"
    local = Filter({symbol("no-local"): Described(symbol(name), [])})
    options = [local, DurableSubscription()] if durable else [local]
    with connected(topics, "own") as own:
        receiver = own.create_receiver("news", name=f"mine-{durable}", credit=10, options=options)
        in_force = receiver.link.remote_source.filter
        in_force.rewind()
        in_force.next()
        assert symbol("no-local") in in_force.get_object()
        own.create_sender("news").send(Message(body="own"))
        send(topics, "news", Message(body="other's"))
        assert receiver.receive(timeout=20).body == "other's"
        receiver.accept()
        receiver.close()
