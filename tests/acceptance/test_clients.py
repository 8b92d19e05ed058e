"""Clients and patterns, T-CL-1 to T-CL-10 of docs/acceptance.md; each with every client that has
the pattern."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from proton import Message
from proton.reactor import Copy, Selector
from proton.utils import LinkDetached

from interop.clients import CLIENTS, Client, place, prepared
from platform_process import Platform, Start
from proton_client import (
    PASSWORD,
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
    user,
)

pytestmark = pytest.mark.timeout(180)

ADDRESSES = (
    address("orders"),
    address("secret"),
    address("news", "topic"),
    address("private", "topic"),
)
ALLOWED = user("alice", "orders", "news")
ALICE = {"user": "alice", "password": PASSWORD}


@pytest.fixture(scope="module")
def platform(start_platform: Start, tmp_path_factory: pytest.TempPathFactory) -> Platform:
    return start_platform("-f", document(tmp_path_factory.mktemp("documents"), *ADDRESSES))


@pytest.fixture(scope="module")
def closed(start_platform: Start, tmp_path_factory: pytest.TempPathFactory) -> Platform:
    """A platform whose user has a right to `orders` and `news` only."""
    return start_platform("-f", document(tmp_path_factory.mktemp("documents"), *ADDRESSES, ALLOWED))


client = prepared(CLIENTS.values())
queue_client = prepared(c for c in CLIENTS.values() if c.queues)
"""A client with the scenarios of queues."""
websocket_client = prepared(c for c in CLIENTS.values() if c.websocket)


def test_T_CL_1_ten_messages_are_delivered_in_order(client: Client, platform: Platform) -> None:
    options = {"count": 10, "size": 100, "settled": False, **place(platform)}
    answer = client.call("exchange", address="orders", **options)
    assert (answer["received"], answer["in_order"], answer["intact"]) == (10, True, True)
    assert answer["outcomes"] == {"accepted": 10}


@pytest.mark.parametrize("listener", ["ws", "wss"])
def test_T_CL_3_ten_messages_are_delivered_over_a_websocket(
    websocket_client: Client, platform: Platform, listener: str
) -> None:
    options = {"count": 10, "size": 100, "settled": False, **place(platform, listener)}
    answer = websocket_client.call("exchange", address="orders", **options)
    assert answer["outcomes"] == {"accepted": 10}


def test_T_CL_4_two_receivers_share_messages_evenly(platform: Platform) -> None:
    with connected(platform) as connection:
        receivers = [connection.create_receiver("orders", credit=5, name=name) for name in "ab"]
        send(platform, "orders", *numbered(0, 10))
        one, other = shared(connection, receivers, 10)
        assert sorted(one + other) == list(range(10))
        assert len(one) == len(other) == 5


def test_T_CL_5_every_receiver_of_a_topic_gets_every_message(
    client: Client, platform: Platform
) -> None:
    answer = client.call("multicast", address="news", count=50, **place(platform))
    assert answer == {"received": [50, 50, 50]}


def test_T_CL_6_browse_then_consume(queue_client: Client, platform: Platform) -> None:
    answer = queue_client.call("browse", address="orders", count=10, **place(platform))
    assert answer == {"browsed": list(range(10)), "received": list(range(10))}


def test_T_CL_6_browse_then_consume_with_proton(platform: Platform) -> None:
    send(platform, "orders", *numbered(0, 10))
    with connected(platform) as connection:
        browser = connection.create_receiver("orders", credit=20, name="look", options=Copy())
        assert take(browser, 10) == list(range(10))
        browser.close()
    assert received(platform, "orders", 10) == list(range(10))


def test_T_CL_7_drain_returns_the_available_messages(client: Client, platform: Platform) -> None:
    answer = client.call("drain", address="orders", count=3, **place(platform))
    assert answer["received"] == 3
    platform.enmasse("purge", "orders")


def test_T_CL_8_selector_on_a_queue_leaves_the_rest(
    queue_client: Client, platform: Platform
) -> None:
    answer = queue_client.call(
        "select",
        address="orders",
        count=10,
        selector="colour = 'red'",
        matching=5,
        **place(platform),
    )
    assert answer == {"selected": [0, 2, 4, 6, 8], "rest": [1, 3, 5, 7, 9]}


def test_T_CL_8_selector_on_a_queue_leaves_the_rest_with_proton(platform: Platform) -> None:
    colours = ("red", "blue")
    messages = [Message(body=n, properties={"colour": colours[n % 2]}) for n in range(10)]
    send(platform, "orders", *messages)
    with connected(platform) as connection:
        options = Selector("colour = 'red'")
        receiver = connection.create_receiver("orders", credit=20, options=options)
        assert take(receiver, 5) == [0, 2, 4, 6, 8]
        assert nothing_more(receiver)
        heard(connection)
    assert received(platform, "orders", 5) == [1, 3, 5, 7, 9]


def test_T_CL_9_selector_on_a_topic_filters_messages(platform: Platform) -> None:
    messages = [Message(body=n, properties={"n": n}) for n in range(10)]
    with connected(platform) as connection, ThreadPoolExecutor(1) as beside:
        receiver = connection.create_receiver("news", credit=20, options=Selector("n > 6"))
        every = connection.create_receiver("news", credit=20, name="every")
        sent = beside.submit(send, platform, "news", *messages)
        assert take(receiver, 3) == [7, 8, 9]
        assert take(every, 10) == list(range(10))
        sent.result()


@pytest.mark.parametrize("name", ["secret", "private"])
def test_T_CL_10_a_user_without_a_right_is_refused(
    client: Client, closed: Platform, name: str
) -> None:
    options = {"mechanism": "PLAIN", **ALICE, **place(closed)}
    answer = client.call("refused", address=name, **options)
    unauthorized = "amqp:unauthorized-access"
    assert answer == {"sender": unauthorized, "receiver": unauthorized}


@pytest.mark.parametrize("name", ["secret", "private"])
def test_T_CL_10_a_user_without_a_right_is_refused_with_proton(closed: Platform, name: str) -> None:
    with connected(closed, allowed_mechs="PLAIN", **ALICE) as connection:
        with pytest.raises(LinkDetached) as refused:
            connection.create_receiver(name)
        assert refused.value.condition == "amqp:unauthorized-access"
        take_part = connection.create_sender("orders")
        take_part.send(Message(body="allowed"))
