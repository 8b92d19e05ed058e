"""Time to live and dead letters, T-DL-1 to T-DL-5 of docs/acceptance.md."""

import time
from typing import Any

import httpx2
import pytest
from proton import Message
from proton.utils import BlockingReceiver

from platform_process import Platform, Start
from proton_client import (
    address,
    connected,
    document,
    fail,
    nothing_more,
    received,
    send,
    take,
)

pytestmark = pytest.mark.timeout(180)

GIVEN = "/apis/enmasse.io/v1beta1/namespaces/default"
ATTEMPTS = "{maximumDeliveryAttempts: 2}"

ADDRESSES = (
    address("dead", "deadletter"),
    address("expired", "deadletter"),
    address("clamped", expiry="expired", messageTtl="{minimum: 500, maximum: 5000}"),
    address("limited", expiry="expired", messageTtl="{maximum: 600}"),
    address("timed", "topic", expiry="expired", messageTtl="{maximum: 600}"),
    address("kept", "subscription", topic="timed"),
    address("tried", deadletter="dead", messageRedelivery=ATTEMPTS),
    address("patient"),
    address("news", "topic", deadletter="dead", messageRedelivery=ATTEMPTS),
    address("reader", "subscription", topic="news"),
)


@pytest.fixture(scope="module")
def platform(start_platform: Start, tmp_path_factory: pytest.TempPathFactory) -> Platform:
    return start_platform("-f", document(tmp_path_factory.mktemp("documents"), *ADDRESSES))


def http(platform: Platform) -> httpx2.Client:
    token = (platform.data / "token").read_text().strip()
    headers = {"authorization": f"Bearer {token}"}
    return httpx2.Client(base_url=platform.url("http") + GIVEN, headers=headers)


def status(client: httpx2.Client, name: str) -> dict[str, Any]:
    found: dict[str, Any] = client.get(f"/addresses/default.{name}").json()["status"]
    return found


def until(client: httpx2.Client, name: str, ready: bool) -> dict[str, Any]:
    """Wait until an address is ready, or is not ready; return its status."""
    deadline = time.monotonic() + 20
    while (found := status(client, name))["isReady"] is not ready:
        assert time.monotonic() < deadline, found
    return found


def lives(platform: Platform, to: str, ttl_s: float | None) -> tuple[Any, float, float]:
    """The body of an expired message, and the bounds of its lifetime in seconds."""
    with connected(platform) as connection:
        receiver = connection.create_receiver("expired", credit=1)
        message = Message(body=f"{to} {ttl_s}")
        if ttl_s is not None:
            message.ttl = ttl_s
        sender = connection.create_sender(to)
        before = time.monotonic()
        sender.send(message)
        after = time.monotonic()
        (body,) = take(receiver, 1)
        now = time.monotonic()
        return body, now - after, now - before


@pytest.mark.parametrize(
    ("to", "ttl_s", "lives_s"),
    [
        ("clamped", 0.1, 0.5),
        ("clamped", 1.2, 1.2),
        ("clamped", 60.0, 5.0),
        ("clamped", None, 5.0),
        ("limited", None, 0.6),
        ("limited", 0.1, 0.1),
        ("timed", 60.0, 0.6),
    ],
)
def test_T_DL_1_ttl_is_clamped_to_the_bounds_of_the_address(
    platform: Platform, to: str, ttl_s: float | None, lives_s: float
) -> None:
    body, fewest_s, most_s = lives(platform, to, ttl_s)
    assert body == f"{to} {ttl_s}"
    # Tolerances: 0.1 s between two clocks, 1 s for expiry on an idle queue, 2 s for a busy machine.
    assert lives_s - 0.1 <= most_s
    assert fewest_s <= lives_s + 3


def test_T_DL_1_status_shows_ttl_bounds_until_they_are_removed(platform: Platform) -> None:
    with http(platform) as client:
        assert status(client, "clamped")["messageTtl"] == {"minimum": 500, "maximum": 5000}
        platform.enmasse("create", "address", "freed", "--type", "queue", "--ttl-max", "500ms")
        assert status(client, "freed")["messageTtl"] == {"maximum": 500}
        patch = client.patch(
            "/addresses/default.freed",
            json={"spec": {"messageTtl": None}},
            headers={"content-type": "application/merge-patch+json"},
        )
        assert patch.status_code == 200
        generation = patch.json()["metadata"]["generation"]
        deadline = time.monotonic() + 20
        while (found := status(client, "freed"))["observedGeneration"] < generation:
            assert time.monotonic() < deadline, found
        assert not found.get("messageTtl")
    send(platform, "freed", Message(body="stays"))
    with connected(platform) as connection:
        browser = connection.create_receiver("freed", credit=1)
        message = browser.receive(timeout=20)
        assert message.body == "stays" and not message.ttl
        browser.accept()


def given_up(platform: Platform, receiver: BlockingReceiver, origin: str) -> None:
    """Fail a message twice and check that it becomes a dead letter."""
    for attempt in range(2):
        assert receiver.receive(timeout=20).delivery_count == attempt
        fail(receiver)
    assert nothing_more(receiver)
    with connected(platform) as connection:
        dead = connection.create_receiver("dead", credit=1)
        message = dead.receive(timeout=20)
        dead.accept()
    said = {str(name): value for name, value in message.annotations.items()}
    assert said["x-opt-dead-letter-cause"] == "maximum-delivery-attempts"
    assert said["x-opt-dead-letter-origin"] == origin
    assert said["x-opt-dead-letter-count"] == 2


@pytest.mark.parametrize(("to", "source"), [("tried", "tried"), ("news", "news::reader")])
def test_T_DL_2_message_is_dead_lettered_after_two_failed_attempts(
    platform: Platform, to: str, source: str
) -> None:
    send(platform, to, Message(body="bad"))
    with connected(platform) as connection:
        given_up(platform, connection.create_receiver(source, credit=1), source)


def test_T_DL_2_released_delivery_is_not_a_failed_attempt(platform: Platform) -> None:
    send(platform, "tried", Message(body="again"))
    with connected(platform) as connection:
        receiver = connection.create_receiver("tried", credit=1)
        for _ in range(5):
            assert receiver.receive(timeout=20).delivery_count == 0
            receiver.release(delivered=False)
        assert take(receiver, 1) == ["again"]
    assert received(platform, "dead", 0) == []


def test_T_DL_2_failed_message_is_redelivered_without_an_attempt_limit(platform: Platform) -> None:
    send(platform, "patient", Message(body="again"))
    with connected(platform) as connection:
        receiver = connection.create_receiver("patient", credit=1)
        for attempt in range(20):
            assert receiver.receive(timeout=20).delivery_count == attempt
            fail(receiver)
        assert take(receiver, 1) == ["again"]


def test_T_DL_3_a_rejected_message_is_a_dead_letter_at_once(platform: Platform) -> None:
    send(platform, "tried", Message(body="poison"))
    with connected(platform) as connection:
        receiver = connection.create_receiver("tried", credit=1)
        receiver.receive(timeout=20)
        receiver.reject()
        assert nothing_more(receiver)
    assert received(platform, "dead", 1) == ["poison"]


def test_T_DL_4_address_is_not_ready_without_its_dead_letter_address(platform: Platform) -> None:
    resource = {
        "apiVersion": "enmasse.io/v1beta1",
        "kind": "Address",
        "metadata": {"name": "default.dangling"},
        "spec": {"address": "dangling", "type": "queue", "deadletter": "late"},
    }
    with http(platform) as client:
        refused = client.post("/addresses", json=resource)
        assert refused.status_code == 422
        assert refused.json()["details"]["causes"][0]["field"] == "spec.deadletter"
        platform.enmasse("create", "address", "late", "--type", "deadletter")
        assert client.post("/addresses", json=resource).status_code == 201
        until(client, "dangling", ready=True)
        platform.enmasse("delete", "address", "late", "--force")
        waiting = until(client, "dangling", ready=False)
        assert "late" in " ".join(waiting["messages"])
        platform.enmasse("create", "address", "late", "--type", "deadletter")
        until(client, "dangling", ready=True)


@pytest.mark.parametrize("to", ["clamped", "timed"])
def test_T_DL_5_expired_messages_go_to_the_expiry_address(platform: Platform, to: str) -> None:
    send(platform, to, *[Message(body=f"{to} {number}", ttl=0.5) for number in range(5)])
    assert received(platform, "expired", 5) == [f"{to} {number}" for number in range(5)]
