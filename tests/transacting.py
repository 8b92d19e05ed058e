"""Transactions of qpid-proton: one on one connection, and how it ends."""

from abc import abstractmethod
from typing import Any

from proton import Condition, Message
from proton.handlers import TransactionalClientHandler
from proton.reactor import Container

from running import Platform

MESSAGES = 50
"""Messages of one transaction."""


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
