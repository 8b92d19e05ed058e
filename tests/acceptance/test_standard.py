"""Messaging of a standard space, T-ST-1 to T-ST-14 of docs/acceptance.md."""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest
from proton import LinkException, Message
from proton.reactor import DurableSubscription, Selector
from proton.utils import LinkDetached

from platform_process import Platform, Start, running
from proton_client import (
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

pytestmark = pytest.mark.timeout(180)

SIZES = (1024 * 1024, 512 * 1024, 256 * 1024)
GIVEN = "/apis/enmasse.io/v1beta1/namespaces/default"

ADDRESSES = (
    address("direct", "anycast"),
    address("copies", "multicast"),
    *(address(f"small-{number}") for number in range(3)),
    address("Large_Queue"),
    address("xlarge-queue"),
    address("prioritized"),
    address("news", "topic"),
    address("t", "topic"),
    address("diary", "topic"),
    address("kept", "subscription", topic="diary"),
    address("archive", "topic"),
    address("kept-too", "subscription", topic="archive", subscription="{maxConsumers: 2}"),
    address("held", "topic"),
    address("one", "subscription", topic="held"),
    address("two", "subscription", topic="held", subscription="{maxConsumers: 2}"),
)


@pytest.fixture(scope="module")
def platform(start_platform: Start, tmp_path_factory: pytest.TempPathFactory) -> Platform:
    """A platform with a standard space and addresses of each type."""
    return start_platform("-f", document(tmp_path_factory.mktemp("documents"), *ADDRESSES))


def test_T_ST_1_anycast_gives_each_receiver_one_message(platform: Platform) -> None:
    with connected(platform) as connection, ThreadPoolExecutor(1) as beside:
        names = ("a", "b", "c")
        receivers = [connection.create_receiver("direct", credit=1, name=name) for name in names]
        sent = beside.submit(send, platform, "direct", *numbered(0, 3))
        connection.wait(lambda: all(receiver.fetcher.has_message for receiver in receivers))
        got = [body for receiver in receivers for body in take(receiver, 1)]
        heard(connection)
        sent.result()
    assert sorted(got) == [0, 1, 2]


def test_T_ST_2_multicast_copies_to_every_receiver(platform: Platform) -> None:
    with connected(platform) as connection, ThreadPoolExecutor(1) as beside:
        names = ("a", "b", "c")
        receivers = [connection.create_receiver("copies", credit=50, name=name) for name in names]
        sent = beside.submit(send, platform, "copies", *numbered(0, 50))
        for receiver in receivers:
            assert take(receiver, 50) == list(range(50))
        heard(connection)
        sent.result()


def test_T_ST_3_concurrent_small_queues_are_independent(platform: Platform) -> None:
    names = [f"small-{number}" for number in range(3)]
    with ThreadPoolExecutor(3) as threads:
        list(threads.map(lambda name: send(platform, name, *numbered(0, 512)), names))
        for got in threads.map(lambda name: received(platform, name, 512), names):
            assert got == list(range(512))


@pytest.mark.parametrize("name", ["Large_Queue", "xlarge-queue"])
def test_T_ST_4_large_queue_is_shared_by_two_receivers_in_order(
    platform: Platform, name: str
) -> None:
    send(platform, name, *numbered(0, 512))
    with connected(platform) as connection:
        receivers = [connection.create_receiver(name, credit=16, name=link) for link in "ab"]
        one, other = shared(connection, receivers, 512)
    assert sorted(one + other) == list(range(512))
    assert one == sorted(one) and other == sorted(other)


def test_T_ST_5_queue_delivers_by_priority_then_order(platform: Platform) -> None:
    messages = [Message(body=number, priority=number * 7 % 10) for number in range(1024)]
    send(platform, "prioritized", *messages)
    got = received(platform, "prioritized", 1024)
    assert got == sorted(range(1024), key=lambda number: (-(number * 7 % 10), number))


@pytest.mark.parametrize("durable", [False, True], ids=["not-durable", "durable"])
@pytest.mark.parametrize("size", SIZES)
def test_T_ST_7_large_messages_pass_a_queue(platform: Platform, size: int, durable: bool) -> None:
    body = "x" * size
    send(platform, "small-0", *[Message(body=body, durable=durable)] * 10)
    assert received(platform, "small-0", 10) == [body] * 10


@pytest.mark.parametrize("durable", [False, True], ids=["not-durable", "durable"])
@pytest.mark.parametrize("size", SIZES)
def test_T_ST_7_large_messages_pass_a_topic(platform: Platform, size: int, durable: bool) -> None:
    body = "x" * size
    messages = [Message(body=body, durable=durable)] * 10
    with connected(platform) as connection, ThreadPoolExecutor(1) as beside:
        receivers = [connection.create_receiver("t", credit=20, name=name) for name in "ab"]
        # A receiver that does not read during the sends misses messages.
        sent = beside.submit(send, platform, "t", *messages)
        for receiver in receivers:
            assert take(receiver, 10) == [body] * 10
        sent.result()


@pytest.mark.parametrize("count", [512, 2048])
def test_T_ST_8_every_subscriber_gets_every_message(platform: Platform, count: int) -> None:
    with connected(platform) as connection, ThreadPoolExecutor(1) as beside:
        names = ("a", "b", "c")
        receivers = [connection.create_receiver("t", credit=count, name=name) for name in names]
        sent = beside.submit(send, platform, "t", *numbered(0, count))
        for receiver in receivers:
            assert take(receiver, count) == list(range(count))
        sent.result()


SELECTORS = {
    "n = 1": [1],
    "n > 3": [4],
    "n < 1 + 1": [0, 1],
    "n * 2 = 6": [3],
    "n > 0 AND n < 3": [1, 2],
    "n BETWEEN 1 AND 2": [1, 2],
    "colour = 'red'": [0, 2, 4],
    "even": [0, 2, 4],
    "extra IS NOT NULL": [2],
    "colour LIKE 'bl%'": [1, 3],
    "colour IN ('blue', 'green')": [1, 3],
    "JMSXGroupID = 'g2'": [2],
}


@pytest.mark.parametrize("selector", SELECTORS)
def test_T_ST_9_selector_and_its_negation_divide_the_messages(
    platform: Platform, selector: str
) -> None:
    messages = [
        Message(
            body=n,
            group_id=f"g{n}",
            properties={"n": n, "even": n % 2 == 0, "colour": "blue" if n % 2 else "red"}
            | ({"extra": "x"} if n == 2 else {}),
        )
        for n in range(5)
    ]
    selected = SELECTORS[selector]
    with connected(platform) as connection:
        some = connection.create_receiver("t", credit=10, options=Selector(selector))
        rest = Selector(f"NOT ({selector})")
        others = connection.create_receiver("t", credit=10, name="rest", options=rest)
        every = connection.create_receiver("t", credit=10, name="every")
        send(platform, "t", *messages)
        assert take(every, 5) == [0, 1, 2, 3, 4]
        assert take(some, len(selected)) == selected
        assert take(others, 5 - len(selected)) == [n for n in range(5) if n not in selected]
        assert nothing_more(some) and nothing_more(others)


def test_T_ST_10_wildcards_match_below_a_declared_topic(platform: Platform) -> None:
    with connected(platform) as connection:
        below = connection.create_receiver("t/#", credit=100)
        children = connection.create_receiver("t/world/+", credit=100)
        for name in ("t/foo", "t/bar", "t/baz/foobar"):
            send(platform, name, *[Message(address=name, body=name)] * 4)
        for name in ("t/world/one", "t/world/two", "t/world/three/four"):
            send(platform, name, *[Message(address=name, body=name)] * 2)
        got = Counter(take(below, 12 + 6))
        assert got["t/foo"] == got["t/bar"] == got["t/baz/foobar"] == 4
        assert Counter(take(children, 4)) == {"t/world/one": 2, "t/world/two": 2}
        assert nothing_more(children)


@pytest.mark.parametrize("source", ["diary::kept", "archive::kept-too", "news"])
def test_T_ST_11_durable_subscription_stores_messages_while_detached(
    platform: Platform, source: str
) -> None:
    topic, _, declared = source.partition("::")
    options = None if declared else DurableSubscription()
    with connected(platform, "subscriber") as connection:
        receiver = connection.create_receiver(source, credit=10, name="sub", options=options)
        send(platform, topic, *numbered(0, 3))
        assert take(receiver, 3) == [0, 1, 2]
        receiver.link.detach()
        heard(connection)
        send(platform, topic, *numbered(3, 9))
        receiver = connection.create_receiver(source, credit=20, name="sub", options=options)
        assert take(receiver, 9) == list(range(3, 12))
        assert nothing_more(receiver)
        receiver.close()


def test_T_ST_12_subscription_enforces_its_consumer_limit(platform: Platform) -> None:
    with connected(platform) as connection:
        connection.create_receiver("held::one", name="first")
        with pytest.raises((LinkDetached, LinkException), match="consumer limit"):
            connection.create_receiver("held::one", name="second")
        receivers = [
            connection.create_receiver("held::two", credit=5, name=name) for name in ("a", "b")
        ]
        with pytest.raises((LinkDetached, LinkException), match="consumer limit"):
            connection.create_receiver("held::two", name="c")
        send(platform, "held", *numbered(0, 20))
        one, other = shared(connection, receivers, 20)
        assert sorted(one + other) == list(range(20))
        assert one and other


def ended_by_signal(platform: Platform) -> None:
    platform.process.terminate()
    assert platform.process.wait(10) == 0


@pytest.mark.parametrize("end", [ended_by_signal, Platform.kill], ids=["SIGTERM", "SIGKILL"])
def test_T_ST_13_messages_survive_a_restart(
    tmp_path: Path, end: Callable[[Platform], None]
) -> None:
    addresses = (
        address("orders"),
        address("news", "topic"),
        address("kept", "subscription", topic="news"),
    )
    with running(tmp_path / "data", "-f", str(document(tmp_path, *addresses))) as up:
        send(up, "orders", *numbered(0, 50, durable=True))
        send(up, "news", *numbered(0, 50, durable=True))
        end(up)
    with running(tmp_path / "data") as up:
        assert received(up, "orders", 50) == list(range(50))
        assert received(up, "news::kept", 50) == list(range(50))


DECLARED: dict[str, dict[str, Any]] = {
    "anycast": {},
    "multicast": {},
    "queue": {"limits": {"messages": 7}},
    "topic": {"messageTtl": {"maximum": 60_000}},
    "subscription": {"topic": "news", "subscription": {"maxConsumers": 3}},
    "deadletter": {"durability": "memory"},
}


@pytest.mark.parametrize("kind", DECLARED)
def test_T_ST_14_the_api_creates_lists_gets_and_deletes(platform: Platform, kind: str) -> None:
    name = f"default.made-{kind}"
    spec = {"address": f"made-{kind}", "type": kind, **DECLARED[kind]}
    resource = {
        "apiVersion": "enmasse.io/v1beta1",
        "kind": "Address",
        "metadata": {"name": name},
        "spec": spec,
    }
    token = (platform.data / "token").read_text().strip()
    with httpx2.Client(
        base_url=platform.url("http") + GIVEN, headers={"authorization": f"Bearer {token}"}
    ) as http:
        assert http.post("/addresses", json=resource).status_code == 201
        assert http.post("/addresses", json=resource).status_code == 409
        got = http.get(f"/addresses/{name}").json()
        assert {field: got["spec"][field] for field in spec} == spec
        listed = http.get("/addresses").json()
        assert name in [item["metadata"]["name"] for item in listed["items"]]
        assert http.delete(f"/addresses/{name}").status_code == 200
        assert http.get(f"/addresses/{name}").status_code == 404
