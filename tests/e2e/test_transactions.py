"""Transactions as qpid-proton does them: all that was committed is there, and nothing else."""

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from proton import Condition, Described, Message, Timeout, symbol
from proton.handlers import TransactionalClientHandler
from proton.reactor import AtMostOnce, Container, Filter
from proton.utils import BlockingConnection

from running import Platform, Start, running

pytestmark = pytest.mark.timeout(180)

MESSAGES = 50

DOCUMENT = """
apiVersion: enmasse.io/v1beta1
kind: AddressSpace
metadata: {name: default}
spec: {type: standard}
""" + "".join(
    f"""---
apiVersion: enmasse.io/v1beta1
kind: Address
metadata: {{name: default.{name}}}
spec: {{address: {name}, {spec}}}
"""
    for name, spec in {
        "sent": "type: queue",
        "received": "type: queue",
        "unsent": "type: queue",
        "returned": "type: queue",
        "lost": "type: queue",
        "kept": "type: queue",
        "fleeting": "type: queue, durability: memory",
        "full": "type: queue, limits: {messages: 10, onFull: reject}",
        "news": "type: topic",
        "log": "type: topic, retention: {bytes: 1GiB}",
        "direct": "type: anycast",
    }.items()
)


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("documents") / "addresses.yaml"
    path.write_text(DOCUMENT)
    return path


@pytest.fixture(scope="module")
def platform(start_platform: Start, document: Path) -> Platform:
    return start_platform("-f", document)


class Transaction(TransactionalClientHandler):  # type: ignore[misc]
    """One transaction on one connection, and its `end`: commit, abort, or close the connection."""

    def __init__(self, platform: Platform, end: str) -> None:
        super().__init__(prefetch=0, auto_accept=False)
        self.ended: str | None = None
        self.failure: Condition | None = None
        self.rejected: list[Condition] = []
        self._url = platform.url()
        self._end = end
        self.connection: Any = None
        self.transaction: Any = None

    def run(self) -> str | None:
        Container(self).run()
        return self.ended

    def on_start(self, event: Any) -> None:
        self.connection = event.container.connect(self._url, reconnect=False)
        self.link(event.container)
        event.container.declare_transaction(self.connection, handler=self)

    @abstractmethod
    def link(self, container: Any) -> None:
        """Attach what the transaction is about."""

    @abstractmethod
    def begin(self) -> None:
        """Do it: the transaction is declared."""

    def on_transaction_declared(self, event: Any) -> None:
        self.transaction = event.transaction
        self.begin()

    def discharge(self) -> None:
        if self._end == "commit":
            self.transaction.commit()
        elif self._end == "abort":
            self.transaction.abort()
        else:
            self.ended = "closed"
            self.connection.close()

    def on_transaction_committed(self, event: Any) -> None:
        self.over("committed")

    def on_transaction_aborted(self, event: Any) -> None:
        self.over("aborted")

    def on_transaction_commit_failed(self, event: Any) -> None:
        self.failure = event.delivery.remote.condition
        self.over("failed")

    def over(self, how: str) -> None:
        self.ended = how
        self.connection.close()


class Sending(Transaction):
    """Sends messages to an address, each answered before the discharge."""

    def __init__(self, platform: Platform, to: str, end: str, count: int = MESSAGES) -> None:
        super().__init__(platform, end)
        self.sender: Any = None
        self._to = to
        self._count = count
        self._sent = 0
        self._settled = 0

    def link(self, container: Any) -> None:
        self.sender = container.create_sender(self.connection, self._to)

    def begin(self) -> None:
        self.on_sendable(None)

    def on_sendable(self, event: Any) -> None:
        ready = self.transaction and self.sender
        while ready and self.sender.credit and self._sent < self._count:
            self.transaction.send(self.sender, Message(body=f"message {self._sent}"))
            self._sent += 1

    def on_rejected(self, event: Any) -> None:
        if event.link == self.sender:
            self.rejected.append(event.delivery.remote.condition)

    def on_settled(self, event: Any) -> None:
        if event.link == self.sender:
            self._settled += 1
            if self._settled == self._count:
                self.discharge()


class Receiving(Transaction):
    """Takes messages of an address, all within the transaction."""

    def __init__(self, platform: Platform, source: str, end: str) -> None:
        super().__init__(platform, end)
        self._source = source
        self.bodies: list[Any] = []

    def link(self, container: Any) -> None:
        self.receiver = container.create_receiver(self.connection, self._source)

    def begin(self) -> None:
        self.receiver.flow(MESSAGES)

    def on_message(self, event: Any) -> None:
        self.bodies.append(event.message.body)
        self.accept(event.delivery, self.transaction)
        if len(self.bodies) == MESSAGES:
            self.discharge()


@contextmanager
def connected(platform: Platform) -> Iterator[BlockingConnection]:
    with closing(BlockingConnection(platform.url(), timeout=20)) as connection:
        yield connection


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


def send(platform: Platform, to: str, count: int = MESSAGES) -> list[str]:
    bodies = [f"message {number}" for number in range(count)]
    with connected(platform) as connection:
        sender = connection.create_sender(to)
        for body in bodies:
            sender.send(Message(body=body))
    return bodies


@pytest.mark.parametrize("name", ["sent", "fleeting"])
def test_what_is_sent_in_a_transaction_is_there_with_its_commit(
    platform: Platform, name: str
) -> None:
    assert Sending(platform, name, "commit").run() == "committed"
    assert drain(platform, name) == [f"message {number}" for number in range(MESSAGES)]


def test_what_is_sent_in_a_transaction_that_is_rolled_back_is_not_there(platform: Platform) -> None:
    assert Sending(platform, "unsent", "abort").run() == "aborted"
    assert drain(platform, "unsent") == []


def test_what_is_received_in_a_transaction_is_gone_with_its_commit(platform: Platform) -> None:
    sent = send(platform, "received")
    receiving = Receiving(platform, "received", "commit")
    assert (receiving.run(), receiving.bodies) == ("committed", sent)
    assert drain(platform, "received") == []


def test_what_is_received_in_a_transaction_that_is_rolled_back_comes_again(
    platform: Platform,
) -> None:
    sent = send(platform, "returned")
    receiving = Receiving(platform, "returned", "abort")
    assert (receiving.run(), receiving.bodies) == ("aborted", sent)
    assert drain(platform, "returned") == sent


def test_a_connection_that_ends_rolls_its_transaction_back(platform: Platform) -> None:
    sent = send(platform, "lost")
    assert Sending(platform, "lost", "close").run() == "closed"
    assert Receiving(platform, "lost", "close").run() == "closed"
    assert drain(platform, "lost") == sent


def test_a_commit_that_does_not_fit_says_why_and_stores_nothing(platform: Platform) -> None:
    sending = Sending(platform, "full", "commit", count=11)
    assert sending.run() == "failed"
    assert sending.failure is not None
    assert sending.failure.name == "amqp:transaction:rollback"
    assert "holds 10 messages" in str(sending.failure.description)
    assert drain(platform, "full") == []


def test_a_direct_address_takes_no_part(platform: Platform) -> None:
    with connected(platform) as connection:
        receiver = connection.create_receiver("direct", credit=10)
        sending = Sending(platform, "direct", "commit", count=3)
        assert sending.run() == "committed"
        assert [condition.name for condition in sending.rejected] == ["amqp:not-implemented"] * 3
        with pytest.raises(Timeout):
            receiver.receive(timeout=0.5)


def test_subscribers_of_a_topic_get_what_is_committed(platform: Platform) -> None:
    with connected(platform) as connection:
        receiver = connection.create_receiver("news", credit=2 * MESSAGES)
        assert Sending(platform, "news", "abort").run() == "aborted"
        assert Sending(platform, "news", "commit").run() == "committed"
        bodies = [receiver.receive(timeout=20).body for _ in range(MESSAGES)]
        assert bodies == [f"message {number}" for number in range(MESSAGES)]


def logged(platform: Platform, count: int) -> list[tuple[int, Any]]:
    """Read so many messages of the stream from its beginning: offsets and bodies."""
    name = "rabbitmq:stream-offset-spec"
    first = Filter({symbol(name): Described(symbol(name), "first")})
    with connected(platform) as connection:
        receiver = connection.create_receiver("log", credit=count, options=[AtMostOnce(), first])
        messages = [receiver.receive(timeout=20) for _ in range(count)]
    return [(int(one.annotations["x-stream-offset"]), one.body) for one in messages]


def test_messages_of_a_stream_get_their_offsets_with_the_commit(
    document: Path, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    committed = [(number, f"message {number}") for number in range(MESSAGES)]
    with running(data, "-f", document) as platform:
        assert Sending(platform, "log", "abort").run() == "aborted"
        assert Sending(platform, "log", "close").run() == "closed"
        assert Sending(platform, "log", "commit").run() == "committed"
        assert logged(platform, MESSAGES) == committed
        platform.kill()
    with running(data) as platform:
        send(platform, "log", 1)
        assert logged(platform, MESSAGES + 1) == [*committed, (MESSAGES, "message 0")]


def test_only_what_was_committed_is_there_after_kill_9(document: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(data, "-f", document) as platform:
        assert Sending(platform, "kept", "commit").run() == "committed"
        send(platform, "received")
        assert Receiving(platform, "received", "commit").run() == "committed"
        assert Sending(platform, "unsent", "close").run() == "closed"
        platform.kill()
    with running(data) as platform:
        assert len(drain(platform, "kept")) == MESSAGES
        assert drain(platform, "received") == []
        assert drain(platform, "unsent") == []
