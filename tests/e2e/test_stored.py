"""Queues and dead letters of a platform process: durability and settings of addresses."""

import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from proton import Delivery, Message, Timeout, symbol
from proton.handlers import MessagingHandler
from proton.reactor import Container
from proton.utils import BlockingReceiver

from platform_process import Platform, Start, running, up_command
from proton_client import address, connected, document, fail, outcomes, send

pytestmark = pytest.mark.timeout(180)

SENDERS = 3

ADDRESSES = (
    address("dead", "deadletter"),
    address("orders", deadletter="dead", messageRedelivery="{maximumDeliveryAttempts: 2}"),
    address("expiring", expiry="dead"),
    address("fleeting", durability="memory"),
    address("rejecting", limits="{messages: 3, onFull: reject}"),
    address("blocking", limits="{messages: 3, onFull: block}"),
    address("once", duplicateDetection="{}"),
    address("later"),
)


@pytest.fixture(scope="module")
def stored(start_platform: Start, tmp_path_factory: pytest.TempPathFactory) -> Platform:
    """A platform with an address for each tested setting."""
    return start_platform("-f", document(tmp_path_factory.mktemp("documents"), *ADDRESSES))


def drain(platform: Platform, name: str, quiet_s: float = 1.0) -> list[Message]:
    """Take all messages of an address."""
    with connected(platform) as connection:
        receiver = connection.create_receiver(name, credit=500)
        return list(taken(receiver, quiet_s))


def taken(receiver: BlockingReceiver, quiet_s: float) -> Iterator[Message]:
    while True:
        try:
            message = receiver.receive(timeout=quiet_s)
        except Timeout:
            return
        receiver.accept()
        yield message


def bodies(messages: list[Message]) -> list[Any]:
    return [message.body for message in messages]


class Sending(MessagingHandler):  # type: ignore[misc]
    """Sends numbered messages until the connection breaks; knows which were accepted."""

    def __init__(self, url: str, to: str, name: str) -> None:
        super().__init__()
        self.accepted: list[str] = []
        self.warm = threading.Event()
        """500 messages were accepted."""
        self._url = url
        self._to = to
        self._name = name
        self._sent = 0
        self._ids: dict[Any, str] = {}

    def on_start(self, event: Any) -> None:
        connection = event.container.connect(self._url, reconnect=False)
        event.container.create_sender(connection, self._to)

    def on_sendable(self, event: Any) -> None:
        while event.sender.credit and len(self._ids) < 200:
            name = f"{self._name}-{self._sent}"
            self._sent += 1
            delivery = event.sender.send(Message(id=name, body=name + "." * 500))
            self._ids[delivery] = name

    def on_accepted(self, event: Any) -> None:
        self.accepted.append(self._ids.pop(event.delivery))
        if len(self.accepted) == 500:
            self.warm.set()
        self.on_sendable(event)

    def on_transport_error(self, event: Any) -> None:
        event.container.stop()

    def on_connection_closed(self, event: Any) -> None:
        event.container.stop()

    on_connection_error = on_connection_closed
    on_disconnected = on_transport_error


def end_by_kill(platform: Platform) -> None:
    platform.kill()


def end_by_signal(platform: Platform) -> None:
    platform.process.send_signal(signal.SIGTERM)
    assert platform.process.wait(5) == 0


@pytest.mark.parametrize("end", [end_by_kill, end_by_signal], ids=["SIGKILL", "SIGTERM"])
def test_messages_accepted_under_load_survive_sigkill_and_sigterm(
    tmp_path: Path, end: Callable[[Platform], None], record_property: Callable[[str, object], None]
) -> None:
    with running(tmp_path) as up, ThreadPoolExecutor(SENDERS) as threads:
        senders = [Sending(up.url(), "queue", f"s{number}") for number in range(SENDERS)]
        runs = [threads.submit(Container(sender).run) for sender in senders]
        for sender in senders:
            assert sender.warm.wait(60)
        end(up)
        for run in runs:
            run.result(30)
    accepted = [name for sender in senders for name in sender.accepted]
    with running(tmp_path) as up:
        got = Counter(message.id for message in drain(up, "queue", quiet_s=3.0))
    lost = set(accepted) - set(got)
    assert not lost, f"{len(lost)} of {len(accepted)} accepted messages are lost"
    doubled = {name for name, count in got.items() if count > 1}
    record_property("accepted", len(accepted))
    record_property("doubled", len(doubled))
    assert not doubled, "no message was sent twice"


def test_accepted_deliveries_are_not_redelivered_after_a_kill(tmp_path: Path) -> None:
    with running(tmp_path) as up:
        send(up, "queue", *(Message(body=f"m{number}") for number in range(10)))
        with connected(up) as connection:
            receiver = connection.create_receiver("queue", credit=5)
            for _ in range(5):
                receiver.receive(timeout=10)
                receiver.accept()
            connection.create_sender("queue").send(Message(body="last"))
        up.kill()
    with running(tmp_path) as up:
        got = bodies(drain(up, "queue"))
    assert got[-6:] == ["m5", "m6", "m7", "m8", "m9", "last"]


def test_messages_with_memory_durability_are_lost_on_restart(tmp_path: Path) -> None:
    with running(tmp_path) as up:
        up.enmasse("create", "address", "fleeting", "--type", "queue", "--durability", "memory")
        send(up, "fleeting", Message(body="a"))
        send(up, "queue", Message(body="b"))
    with running(tmp_path) as up:
        assert drain(up, "fleeting") == []
        assert bodies(drain(up, "queue")) == ["b"]


def test_recreated_address_is_empty(tmp_path: Path) -> None:
    with running(tmp_path) as up:
        send(up, "queue", Message(body="a"))
        up.enmasse("delete", "address", "queue", "--force")
        up.enmasse("create", "address", "queue", "--type", "queue")
        assert drain(up, "queue") == []
        send(up, "queue", Message(body="b"))
    with running(tmp_path) as up:
        assert bodies(drain(up, "queue")) == ["b"]


def test_start_with_another_store_is_refused_and_preserves_messages(tmp_path: Path) -> None:
    with running(tmp_path) as up:
        send(up, "queue", Message(body="a"))
        end_by_signal(up)
    files, elsewhere = list(tmp_path.glob("resources.db*")), tmp_path / "elsewhere"
    elsewhere.mkdir()
    for file in files:
        file.rename(elsewhere / file.name)
    tried = subprocess.run(up_command(tmp_path), capture_output=True, text=True, timeout=60)
    assert tried.returncode != 0
    assert "belong to the store" in tried.stderr and "served.json" in tried.stderr, tried.stderr
    for file in tmp_path.glob("resources.db*"):
        file.unlink()
    for file in files:
        (elsewhere / file.name).rename(file)
    with running(tmp_path) as up:
        assert bodies(drain(up, "queue")) == ["a"]


def test_rejected_message_goes_to_the_dead_letter_with_its_cause(stored: Platform) -> None:
    send(stored, "orders", Message(body="bad", durable=True))
    with connected(stored) as connection:
        receiver = connection.create_receiver("orders", credit=1)
        receiver.receive(timeout=10)
        receiver.reject()
    (dead,) = drain(stored, "dead")
    assert dead.body == "bad"
    assert dead.annotations["x-opt-dead-letter-cause"] == "rejected"
    assert dead.annotations["x-opt-dead-letter-origin"] == "orders"
    assert dead.annotations["x-opt-dead-letter-time"] > 1_600_000_000_000


def test_message_is_dead_lettered_after_its_last_delivery_attempt(stored: Platform) -> None:
    send(stored, "orders", Message(body="tried"))
    with connected(stored) as connection:
        receiver = connection.create_receiver("orders", credit=1)
        for attempt in range(2):
            message = receiver.receive(timeout=10)
            assert message.delivery_count == attempt
            fail(receiver)
    (dead,) = drain(stored, "dead")
    assert dead.annotations["x-opt-dead-letter-cause"] == "maximum-delivery-attempts"
    assert dead.annotations["x-opt-dead-letter-count"] == 2


def test_message_expires_on_an_idle_queue(stored: Platform) -> None:
    with connected(stored) as connection:
        receiver = connection.create_receiver("dead", credit=1)
        sender = connection.create_sender("expiring")
        before = time.monotonic()
        sender.send(Message(body="short", ttl=1.5))
        after = time.monotonic()
        dead = receiver.receive(timeout=20)
        now = time.monotonic()
        receiver.accept()
    assert dead.body == "short"
    assert dead.annotations["x-opt-dead-letter-cause"] == "expired"
    # Tolerances: 0.1 s between the two clocks, and 2 s beyond the bound on a busy machine.
    assert now - before >= 1.4 and now - after <= 4.5
    assert drain(stored, "expiring") == []


def test_full_queue_with_on_full_reject_rejects_messages(stored: Platform) -> None:
    send(stored, "rejecting", *(Message(body=str(number)) for number in range(3)))
    assert outcomes(stored, "rejecting", Message(body="too many")) == [Delivery.REJECTED]
    assert bodies(drain(stored, "rejecting")) == ["0", "1", "2"]
    send(stored, "rejecting", Message(body="room"))
    assert bodies(drain(stored, "rejecting")) == ["room"]


def test_full_queue_with_on_full_block_grants_no_credit(stored: Platform) -> None:
    send(stored, "blocking", *(Message(body=str(number)) for number in range(3)))
    with connected(stored) as connection:
        sender = connection.create_sender("blocking")
        with pytest.raises(Timeout):
            sender.send(Message(body="too many"), timeout=1)
        assert bodies(drain(stored, "blocking"))[:3] == ["0", "1", "2"]


def test_a_duplicate_is_accepted_and_not_stored(stored: Platform) -> None:
    for _ in range(2):
        send(stored, "once", *(Message(id=f"m{number}", body=number) for number in range(3)))
    assert bodies(drain(stored, "once")) == [0, 1, 2]


def test_scheduled_message_is_delivered_when_due(stored: Platform) -> None:
    due = {symbol("x-opt-delivery-delay"): 1500}
    with connected(stored) as connection:
        receiver = connection.create_receiver("later", credit=2)
        sender = connection.create_sender("later")
        began = time.monotonic()
        sender.send(Message(body="later", annotations=due))
        sender.send(Message(body="now"))
        assert receiver.receive(timeout=10).body == "now"
        receiver.accept()
        assert receiver.receive(timeout=20).body == "later"
        assert time.monotonic() - began >= 1.4
        receiver.accept()
