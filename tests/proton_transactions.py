"""Transactions of qpid-proton: one on one connection, and its outcome."""

from abc import abstractmethod
from typing import Any

from proton import Condition, Delivery, Message
from proton.handlers import MessagingHandler, TransactionalClientHandler, TransactionHandler
from proton.reactor import Container

from platform_process import Platform

MESSAGES = 50
"""Messages of one transaction."""

TRANSACTIONAL = 0x34
"""The descriptor of a transactional state (part 4, 4.5.8)."""
OUTCOMES = {0x24: "accepted", 0x25: "rejected", 0x26: "released", 0x27: "modified"}


def outcome_of(delivery: Delivery) -> str:
    """Name the outcome of a delivery, and say whether it is a transactional state."""
    if delivery.remote_state != TRANSACTIONAL:
        return OUTCOMES.get(int(delivery.remote_state), "none")
    _, outcome = delivery.remote.data
    return f"{OUTCOMES[int(outcome.descriptor)]} in a transaction"


class Transaction(TransactionalClientHandler):  # type: ignore[misc]
    """One transaction on one connection, and its `end`: commit, abort, or close the connection."""

    def __init__(self, platform: Platform, end: str) -> None:
        super().__init__(prefetch=0, auto_accept=False)
        self.ended: str | None = None
        self.failure: Condition | None = None
        self.outcomes: set[str] = set()
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

    def on_settled(self, event: Any) -> None:
        if event.link == self.sender:
            self.outcomes.add(outcome_of(event.delivery))
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


class Answering(MessagingHandler):  # type: ignore[misc]
    """A service that answers each request in a transaction, and its client with a temporary queue.

    The client waits for all replies; the service accepts a request and sends the reply within one
    transaction, over a link to the anonymous terminus.
    """

    def __init__(self, platform: Platform, requests: str, count: int) -> None:
        super().__init__(auto_accept=False)
        self.replies: list[Any] = []
        self.ended = "nothing"
        self._url = platform.url()
        self._requests = requests
        self._count = count
        self._committed = 0

    def run(self) -> str:
        Container(self).run()
        return self.ended

    def on_start(self, event: Any) -> None:
        container = event.container
        self._client = container.connect(self._url, reconnect=False)
        self._service = container.connect(self._url, reconnect=False)
        self._asking = container.create_sender(self._client, self._requests)
        self._replies = container.create_receiver(self._client, None, dynamic=True)
        self._served = container.create_receiver(self._service, self._requests)
        self._relay = container.create_sender(self._service, None)

    def on_link_opened(self, event: Any) -> None:
        if event.link == self._replies:
            reply_to = event.link.remote_source.address
            for number in range(self._count):
                self._asking.send(Message(reply_to=reply_to, body=f"message {number}"))

    def on_message(self, event: Any) -> None:
        if event.link == self._replies:
            self.accept(event.delivery)
            self.replies.append(event.message.body)
            self._end()
            return
        request = event.message
        reply = Message(address=request.reply_to, body=request.body.upper())
        handler = _Reply(self, self._relay, event.delivery, reply)
        event.container.declare_transaction(self._service, handler=handler)

    def committed(self) -> None:
        self._committed += 1
        self._end()

    def failed(self, why: str) -> None:
        self.ended = why
        self._close()

    def _end(self) -> None:
        if self._committed == self._count == len(self.replies):
            self.ended = "committed"
            self._close()

    def _close(self) -> None:
        self._client.close()
        self._service.close()


class _Reply(TransactionHandler):  # type: ignore[misc]
    """The transaction of one request."""

    def __init__(self, service: Answering, relay: Any, request: Delivery, reply: Message) -> None:
        super().__init__()
        self._service = service
        self._relay = relay
        self._request = request
        self._reply = reply

    def on_transaction_declared(self, event: Any) -> None:
        event.transaction.accept(self._request)
        event.transaction.send(self._relay, self._reply)
        event.transaction.commit()

    def on_transaction_committed(self, event: Any) -> None:
        self._service.committed()

    def on_transaction_commit_failed(self, event: Any) -> None:
        self._service.failed(str(event.delivery.remote.condition))
