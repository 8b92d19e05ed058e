"""Features of brokered spaces, T-BR-1 to T-BR-6 of docs/acceptance.md; every space has them."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from proton import Message
from proton.reactor import Container, DurableSubscription, LinkOption

from interop.clients import CLIENTS, place
from platform_process import Platform, Start
from proton_client import (
    Pumping,
    Shared,
    Taking,
    address,
    connected,
    document,
    heard,
    nothing_more,
    numbered,
    received,
    send,
    shared,
    take,
)
from proton_transactions import Receiving, Sending

pytestmark = pytest.mark.timeout(180)

SIZES = (1024 * 1024, 512 * 1024, 256 * 1024)
LOAD = 60_895

ADDRESSES = (
    address("queue"),
    address("grouped"),
    address("transacted"),
    address("loaded"),
    address("news", "topic"),
    address("held", "topic"),
)


@pytest.fixture(scope="module")
def platform(start_platform: Start, tmp_path_factory: pytest.TempPathFactory) -> Platform:
    """A platform with queues and topics."""
    folder = tmp_path_factory.mktemp("documents")
    return start_platform("-f", document(folder, *ADDRESSES))


def test_T_BR_1_message_group_goes_to_one_consumer(platform: Platform) -> None:
    groups = ["A"] * 15 + ["B"] * 5
    messages = [Message(body=(group, n), group_id=group) for n, group in enumerate(groups)]
    with connected(platform) as connection:
        receivers = [
            connection.create_receiver("grouped", credit=50, name=name) for name in ("a", "b")
        ]
        send(platform, "grouped", *messages)
        got = shared(connection, receivers, 20)
    of_a = [[n for group, n in bodies if group == "A"] for bodies in got]
    assert sorted(of_a, key=len) == [[], list(range(15))]


def test_T_BR_2_transactions_commit_and_roll_back(platform: Platform) -> None:
    bodies = [f"message {number}" for number in range(50)]
    assert Sending(platform, "transacted", "commit").run() == "committed"
    receiving = Receiving(platform, "transacted", "commit")
    assert (receiving.run(), receiving.bodies) == ("committed", bodies)
    assert Sending(platform, "transacted", "abort").run() == "aborted"
    assert received(platform, "transacted", 0) == []
    assert Sending(platform, "transacted", "commit").run() == "committed"
    receiving = Receiving(platform, "transacted", "abort")
    assert (receiving.run(), receiving.bodies) == ("aborted", bodies)
    assert received(platform, "transacted", 50) == bodies


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_T_BR_3_load_in_two_batches_arrives_in_order(platform: Platform) -> None:
    half = LOAD // 2
    for first, count in ((0, half), (half, LOAD - half)):
        Container(Pumping(platform, "loaded", first, count)).run()
        taking = Taking(platform, "loaded", count)
        Container(taking).run()
        assert taking.bodies == list(range(first, first + count))
    assert received(platform, "loaded", 0) == []


WILDCARDS = {
    "news/#": ["news/a", "news/a/b", "news/a/b/c", "news/x/b", "news/x/b/c"],
    "news/+": ["news/a"],
    "news/*": ["news/a"],
    "news/+/b": ["news/a/b", "news/x/b"],
    "news/*/b/*": ["news/a/b/c", "news/x/b/c"],
    "news/a/#": ["news/a", "news/a/b", "news/a/b/c"],
    "news/#/c": ["news/a/b/c", "news/x/b/c"],
    "news/+/#": ["news/a", "news/a/b", "news/a/b/c", "news/x/b", "news/x/b/c"],
}


def test_T_BR_4_wildcards_match_at_several_levels(platform: Platform) -> None:
    names = sorted({name for names in WILDCARDS.values() for name in names})
    with connected(platform) as connection:
        receivers = {
            pattern: connection.create_receiver(pattern, credit=20) for pattern in WILDCARDS
        }
        for name in names:
            send(platform, name, *[Message(address=name, body=name)] * 2)
        for pattern, expected in WILDCARDS.items():
            got = Counter(take(receivers[pattern], 2 * len(expected)))
            assert got == dict.fromkeys(expected, 2), pattern
        assert all(nothing_more(receiver, 0.1) for receiver in receivers.values())


def test_T_BR_5_non_durable_subscription_ends_with_its_link(platform: Platform) -> None:
    with connected(platform) as connection:
        receiver = connection.create_receiver("news", credit=20, name="own")
        send(platform, "news", *numbered(0, 10))
        assert take(receiver, 10) == list(range(10))
        receiver.close()
        send(platform, "news", *numbered(10, 5))
        receiver = connection.create_receiver("news", credit=20, name="own")
        assert nothing_more(receiver)


def test_T_BR_5_durable_subscription_stores_messages_while_detached(platform: Platform) -> None:
    with connected(platform, "durable") as connection:
        durable = DurableSubscription()
        receiver = connection.create_receiver("news", credit=20, name="sub", options=durable)
        receiver.link.detach()
        heard(connection)
        send(platform, "news", *numbered(0, 10))
        receiver = connection.create_receiver("news", credit=20, name="sub", options=durable)
        assert take(receiver, 10) == list(range(10))
        receiver.close()


class Subscribing(Receiving):
    """Takes the messages of a durable subscription in a transaction."""

    def run(self) -> str | None:
        container = Container(self)
        container.container_id = "transacted"
        container.run()
        return self.ended

    def link(self, container: Any) -> None:
        self.receiver = container.create_receiver(
            self.connection, self._source, name="sub", options=DurableSubscription()
        )


def test_T_BR_5_durable_subscription_is_consumed_in_a_transaction(platform: Platform) -> None:
    with connected(platform, "transacted") as connection:
        receiver = connection.create_receiver("held", name="sub", options=DurableSubscription())
        receiver.link.detach()
        heard(connection)
    assert Sending(platform, "held", "abort").run() == "aborted"
    assert Sending(platform, "held", "commit").run() == "committed"
    for end, ended in (("abort", "aborted"), ("commit", "committed")):
        subscribing = Subscribing(platform, "held", end)
        assert subscribing.run() == ended
        assert subscribing.bodies == [f"message {number}" for number in range(50)]
    with connected(platform, "transacted") as connection:
        receiver = connection.create_receiver(
            "held", credit=10, name="sub", options=DurableSubscription()
        )
        assert nothing_more(receiver)
        receiver.close()


SHARED: dict[str, tuple[str, LinkOption]] = {
    "durable": ("together|global", Shared("global", durable=True)),
    "not-durable": ("together|global-volatile", Shared("global")),
}


@pytest.mark.parametrize("kind", SHARED)
def test_T_BR_5_shared_subscription_divides_messages_among_its_links(
    platform: Platform, kind: str
) -> None:
    link, options = SHARED[kind]
    with connected(platform) as connection:
        receivers = [
            connection.create_receiver("news", credit=5, name=f"{link}{number}", options=options)
            for number in (1, 2)
        ]
        send(platform, "news", *numbered(0, 20))
        one, other = shared(connection, receivers, 20)
        assert sorted(one + other) == list(range(20))
        assert one and other
        for receiver in receivers:
            receiver.close()


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_T_BR_5_jms_subscriptions_of_every_kind_work(platform: Platform) -> None:
    client = CLIENTS["java"]
    client.prepare()
    answer = client.call("subscriptions", address="news", **place(platform))
    assert answer["own"] == [1, 2]
    assert answer["durable"] == [[0, 1, 2], list(range(3, 12)), []]
    for kind in ("shared", "shared_global", "shared_volatile"):
        assert answer[kind] == [10, 10, 20]


@pytest.mark.parametrize("durable", [False, True], ids=["not-durable", "durable"])
@pytest.mark.parametrize("size", SIZES)
def test_T_BR_6_large_messages_pass_queues_and_topics(
    platform: Platform, size: int, durable: bool
) -> None:
    body = "x" * size
    messages = [Message(body=body, durable=durable)] * 5
    send(platform, "queue", *messages)
    assert received(platform, "queue", 5) == [body] * 5
    with connected(platform) as connection, ThreadPoolExecutor(1) as beside:
        receiver = connection.create_receiver("news", credit=20)
        sent = beside.submit(send, platform, "news", *messages)
        assert take(receiver, 5) == [body] * 5
        sent.result()
