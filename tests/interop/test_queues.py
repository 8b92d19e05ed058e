"""Queues with foreign clients; `README.md` beside this file is the contract."""

import pytest

from interop.clients import CLIENTS, Client, place, prepared
from platform_process import Platform, Start

pytestmark = pytest.mark.timeout(120)

ATTEMPTS = 3

DOCUMENTS = f"""
apiVersion: enmasse.io/v1beta1
kind: AddressSpace
metadata: {{name: default}}
spec: {{type: standard}}
---
apiVersion: enmasse.io/v1beta1
kind: Address
metadata: {{name: default.dead}}
spec: {{address: dead, type: deadletter}}
---
apiVersion: enmasse.io/v1beta1
kind: Address
metadata: {{name: default.orders}}
spec:
  address: orders
  type: queue
  deadletter: dead
  messageRedelivery: {{maximumDeliveryAttempts: {ATTEMPTS}}}
"""


@pytest.fixture(scope="module")
def queues(start_platform: Start, tmp_path_factory: pytest.TempPathFactory) -> Platform:
    """A platform with the queue `orders` and its dead letter."""
    documents = tmp_path_factory.mktemp("documents") / "queues.yaml"
    documents.write_text(DOCUMENTS)
    return start_platform("-f", documents)


client = prepared(c for c in CLIENTS.values() if c.queues)
"""A client with the scenarios of queues."""
jms = prepared([CLIENTS["java"]])
"""The client that speaks JMS."""


def test_queue_stores_messages_until_a_consumer_attaches(client: Client, queues: Platform) -> None:
    answer = client.call("queue", address="orders", count=50, **place(queues))
    assert answer == {"received": list(range(50))}


def test_released_and_modified_messages_are_redelivered(client: Client, queues: Platform) -> None:
    answer = client.call("judge", address="orders", **place(queues))
    assert answer == {"counts": [0, 0, 1]}


def test_browser_receives_messages_without_consuming_them(client: Client, queues: Platform) -> None:
    answer = client.call("browse", address="orders", count=20, **place(queues))
    assert answer == {"browsed": list(range(20)), "received": list(range(20))}


def test_selector_receives_matching_messages_and_leaves_the_rest(
    client: Client, queues: Platform
) -> None:
    selector = "colour = 'red' AND number BETWEEN 4 AND 12"
    answer = client.call(
        "select", address="orders", count=20, selector=selector, matching=5, **place(queues)
    )
    matching = [4, 6, 8, 10, 12]
    rest = [number for number in range(20) if number not in matching]
    assert answer == {"selected": matching, "rest": rest}


def test_higher_priorities_come_first(jms: Client, queues: Platform) -> None:
    answer = jms.call("priorities", address="orders", **place(queues))
    assert answer == {"received": list(reversed(range(10)))}


def test_a_message_group_stays_with_one_consumer(jms: Client, queues: Platform) -> None:
    answer = jms.call("groups", address="orders", count=40, **place(queues))
    assert answer == {"groups": 4, "together": True, "in_order": True, "listeners": 2}


def test_delivery_count_increases_until_the_message_is_dead_lettered(
    jms: Client, queues: Platform
) -> None:
    answer = jms.call("failing", address="orders", dead="dead", attempts=ATTEMPTS, **place(queues))
    assert answer == {"counts": list(range(ATTEMPTS)), "dead": "message 0"}


@pytest.mark.parametrize("how", ["consumer", "session", "connection"])
def test_clean_close_counts_no_delivery_attempt_for_prefetched_messages(
    jms: Client, queues: Platform, how: str
) -> None:
    times = ATTEMPTS + 1
    answer = jms.call("prefetch", address="orders", how=how, count=20, times=times, **place(queues))
    assert answer == {"counts": [0] * (20 - times)}


def test_spring_listener_is_called_once_per_delivery_attempt(jms: Client, queues: Platform) -> None:
    answer = jms.call("poison", address="orders", dead="dead", consumers=3, **place(queues))
    assert answer == {"calls": ATTEMPTS, "dead": "message 0"}


def test_an_expired_message_goes_to_the_dead_letter(jms: Client, queues: Platform) -> None:
    answer = jms.call("expiry", address="orders", dead="dead", **place(queues))
    assert answer == {"expired": "short", "empty": True}


def test_delayed_message_is_delivered_after_its_delay(jms: Client, queues: Platform) -> None:
    answer = jms.call("delay", address="orders", delay_ms=1_500, **place(queues))
    assert answer == {"order": ["now", "later"], "late": True}
