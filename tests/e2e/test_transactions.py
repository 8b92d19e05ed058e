"""Transactions with qpid-proton: only committed work takes effect."""

from pathlib import Path
from typing import Any

import pytest
from proton import Described, Message, Timeout, symbol
from proton.reactor import AtMostOnce, Filter

from platform_process import Platform, Start, running
from proton_client import address, connected, document, send
from proton_transactions import MESSAGES, Answering, Receiving, Sending

pytestmark = pytest.mark.timeout(180)

ADDRESSES = (
    *(address(name) for name in ("sent", "received", "unsent", "returned", "lost", "kept")),
    address("fleeting", durability="memory"),
    address("full", limits="{messages: 10, onFull: reject}"),
    address("news", "topic"),
    address("log", "topic", retention="{bytes: 1GiB}"),
    address("direct", "anycast"),
)


@pytest.fixture(scope="module")
def declared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return document(tmp_path_factory.mktemp("documents"), *ADDRESSES)


@pytest.fixture(scope="module")
def platform(start_platform: Start, declared: Path) -> Platform:
    return start_platform("-f", declared)


def drain(platform: Platform, name: str, quiet_s: float = 1.0) -> list[Any]:
    """Take all messages of an address; their bodies."""
    bodies: list[Any] = []
    with connected(platform) as connection:
        receiver = connection.create_receiver(name, credit=500)
        while True:
            try:
                bodies.append(receiver.receive(timeout=quiet_s).body)
            except Timeout:
                return bodies
            receiver.accept()


def fill(platform: Platform, to: str) -> list[str]:
    """Send as many messages as a transaction has; return their bodies."""
    bodies = [f"message {number}" for number in range(MESSAGES)]
    send(platform, to, *(Message(body=body) for body in bodies))
    return bodies


@pytest.mark.parametrize("name", ["sent", "fleeting"])
def test_messages_sent_in_a_transaction_are_stored_on_commit(platform: Platform, name: str) -> None:
    assert Sending(platform, name, "commit").run() == "committed"
    assert drain(platform, name) == [f"message {number}" for number in range(MESSAGES)]


def test_messages_sent_in_a_transaction_are_discarded_on_rollback(platform: Platform) -> None:
    assert Sending(platform, "unsent", "abort").run() == "aborted"
    assert drain(platform, "unsent") == []


def test_messages_received_in_a_transaction_are_removed_on_commit(platform: Platform) -> None:
    sent = fill(platform, "received")
    receiving = Receiving(platform, "received", "commit")
    assert (receiving.run(), receiving.bodies) == ("committed", sent)
    assert drain(platform, "received") == []


def test_messages_received_in_a_transaction_are_redelivered_on_rollback(
    platform: Platform,
) -> None:
    sent = fill(platform, "returned")
    receiving = Receiving(platform, "returned", "abort")
    assert (receiving.run(), receiving.bodies) == ("aborted", sent)
    assert drain(platform, "returned") == sent


def test_closed_connection_rolls_its_transaction_back(platform: Platform) -> None:
    sent = fill(platform, "lost")
    assert Sending(platform, "lost", "close").run() == "closed"
    assert Receiving(platform, "lost", "close").run() == "closed"
    assert drain(platform, "lost") == sent


def test_commit_beyond_the_queue_limit_fails_and_stores_nothing(platform: Platform) -> None:
    sending = Sending(platform, "full", "commit", count=11)
    assert sending.run() == "failed"
    assert sending.failure is not None
    assert sending.failure.name == "amqp:transaction:rollback"
    assert "holds 10 messages" in str(sending.failure.description)
    assert drain(platform, "full") == []


@pytest.mark.parametrize(
    ("name", "cause"),
    [("direct", "amqp:not-implemented"), ("full", "amqp:resource-limit-exceeded")],
)
def test_a_commit_with_a_refused_message_fails_and_names_the_cause(
    platform: Platform, name: str, cause: str
) -> None:
    with connected(platform) as connection:
        receiver = connection.create_receiver(name, credit=10)
        sending = Sending(platform, name, "commit", count=11)
        assert sending.run() == "failed"
        assert sending.failure is not None
        assert sending.failure.name == "amqp:transaction:rollback"
        assert cause in str(sending.failure.description)
        assert sending.outcomes <= {"accepted in a transaction", "rejected in a transaction"}
        with pytest.raises(Timeout):
            receiver.receive(timeout=0.5)


def test_a_transacted_service_answers_to_a_temporary_queue(platform: Platform) -> None:
    answering = Answering(platform, "sent", count=5)
    assert answering.run() == "committed"
    assert answering.replies == [f"MESSAGE {number}" for number in range(5)]
    assert drain(platform, "sent") == []


def test_topic_subscribers_receive_only_committed_messages(platform: Platform) -> None:
    with connected(platform) as connection:
        receiver = connection.create_receiver("news", credit=2 * MESSAGES)
        assert Sending(platform, "news", "abort").run() == "aborted"
        assert Sending(platform, "news", "commit").run() == "committed"
        bodies = [receiver.receive(timeout=20).body for _ in range(MESSAGES)]
        assert bodies == [f"message {number}" for number in range(MESSAGES)]


def logged(platform: Platform, count: int) -> list[tuple[int, Any]]:
    """Read `count` messages of the stream from its beginning; return offsets and bodies."""
    name = "rabbitmq:stream-offset-spec"
    first = Filter({symbol(name): Described(symbol(name), "first")})
    with connected(platform) as connection:
        receiver = connection.create_receiver("log", credit=count, options=[AtMostOnce(), first])
        messages = [receiver.receive(timeout=20) for _ in range(count)]
    return [(int(one.annotations["x-stream-offset"]), one.body) for one in messages]


def test_stream_messages_get_offsets_on_commit(declared: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    committed = [(number, f"message {number}") for number in range(MESSAGES)]
    with running(data, "-f", str(declared)) as platform:
        assert Sending(platform, "log", "abort").run() == "aborted"
        assert Sending(platform, "log", "close").run() == "closed"
        assert Sending(platform, "log", "commit").run() == "committed"
        assert logged(platform, MESSAGES) == committed
        platform.kill()
    with running(data) as platform:
        send(platform, "log", Message(body="message 0"))
        assert logged(platform, MESSAGES + 1) == [*committed, (MESSAGES, "message 0")]


def test_only_committed_transactions_survive_kill_9(declared: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(data, "-f", str(declared)) as platform:
        assert Sending(platform, "kept", "commit").run() == "committed"
        fill(platform, "received")
        assert Receiving(platform, "received", "commit").run() == "committed"
        assert Sending(platform, "unsent", "close").run() == "closed"
        platform.kill()
    with running(data) as platform:
        assert len(drain(platform, "kept")) == MESSAGES
        assert drain(platform, "received") == []
        assert drain(platform, "unsent") == []
