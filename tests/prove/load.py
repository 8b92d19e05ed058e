"""Producers and consumers that go on through every death of the platform.

They write down what they are told.
"""

import os
import random
import socket
import threading
import time
import zlib
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import Any

from proton import Delivery, Message
from proton.handlers import MessagingHandler
from proton.reactor import Container

from prove.history import Event, History, What

ORDERS, PAYMENTS, ONCE, DEAD = "orders", "payments", "once", "dead"
ADDRESSES = (ORDERS, PAYMENTS, ONCE, DEAD)
"""DEAD is the dead letter of ORDERS and PAYMENTS; ONCE detects duplicates."""
PRODUCERS = {ORDERS: 2, PAYMENTS: 1, ONCE: 1}
CONSUMERS = {ORDERS: 2, PAYMENTS: 2, ONCE: 1, DEAD: 1}

PULSE_S = 0.05
UNSETTLED_MAX = 100
"""Messages that a producer has on the way."""
BACKLOG_MAX = 5_000
"""Messages sent and not taken; producers wait then."""
MESSAGES_MAX = 600_000
"""Messages of a run, which bound its history; a long run spreads them evenly over its time."""
COMMITTED_SHARE = 0.3
"""Share of a consumer's groups that it accepts in a transaction."""
LEAVING_SHARE = 0.0005
"""Share of messages at which a consumer closes or drops its connection."""
LARGE_BYTES = 200_000


def body_of(name: str) -> str:
    """The content of a message of this id: up to 3,000 characters, now and then many more."""
    number = zlib.crc32(name.encode())
    size = LARGE_BYTES if number % 400 == 0 else number % 3_000
    return f"{name}/" * (size // len(name) + 1)


class Load:
    """All clients, in one thread: what they write down is in the order in which it happened."""

    def __init__(self, history: History, seed: int, seconds: float) -> None:
        self.history = history
        self._rate = MESSAGES_MAX / seconds
        self.port: int | None = None
        """Where the platform listens; None while it does not."""
        self.draining = False
        """Nothing new is sent, and everything is accepted."""
        self.over = threading.Event()
        """The clients have ended, by themselves only if one failed."""
        self.sent = 0
        self.taken = 0
        self._began_s = time.monotonic()
        self._links = 0
        self._stopping = False
        self._failure: BaseException | None = None
        self._clients: list[_Client] = [
            _Producer(self, random.Random(f"{seed} producer {to} {number}"), to, number)
            for to, count in PRODUCERS.items()
            for number in range(count)
        ] + [
            _Consumer(self, random.Random(f"{seed} consumer {of} {number}"), of)
            for of, count in CONSUMERS.items()
            for number in range(count)
        ]
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        """Begin; the clients connect once `port` is known."""
        self._thread.start()

    def stop(self) -> None:
        """End all clients; raise what made one fail."""
        self._stopping = True
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    @property
    def quiet(self) -> bool:
        """Nobody waits for an answer, and nobody holds a message."""
        return all(client.quiet for client in self._clients)

    @property
    def may_send(self) -> bool:
        """Whether producers may send more."""
        due = min(MESSAGES_MAX, BACKLOG_MAX + self._rate * self.now_s())
        room = self.sent - self.taken < BACKLOG_MAX and self.sent < due
        return room and not self.draining

    def now_s(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self._began_s

    def write(self, what: What, message: str = "", link: int = 0) -> None:
        """Add a line to the history."""
        self.history.events.append(Event(self.now_s(), what, message, link))

    def next_link(self) -> int:
        """Return a number for a connection."""
        self._links += 1
        return self._links

    def _run(self) -> None:
        try:
            Container(_Pulse(self)).run()
        except BaseException as error:  # told by stop()
            self._failure = error
        finally:
            self.over.set()

    def pulse(self, container: Container) -> None:
        """Let every client do what is due; end if that was asked for."""
        if self._stopping:
            container.stop()
            return
        for client in self._clients:
            client.pulse(container)


class _Pulse(MessagingHandler):  # type: ignore[misc]
    """Wakes the clients at an interval."""

    def __init__(self, load: Load) -> None:
        super().__init__()
        self._load = load

    def on_start(self, event: Any) -> None:
        event.container.schedule(PULSE_S, self)

    def on_timer_task(self, event: Any) -> None:
        self._load.pulse(event.container)
        event.container.schedule(PULSE_S, self)


class _Client(MessagingHandler, ABC):  # type: ignore[misc]
    """A connection that is made again whenever it ends."""

    def __init__(self, load: Load, chance: random.Random) -> None:
        super().__init__(prefetch=100, auto_accept=False)
        self.load = load
        self.chance = chance
        self.connection: Any = None
        self.link = 0

    def pulse(self, container: Container) -> None:
        if self.connection is not None:
            self.tick()
        elif self.load.port is not None:
            self.link = self.load.next_link()
            url = f"amqp://127.0.0.1:{self.load.port}"
            self.connection = container.connect(url, handler=self, reconnect=False)
            # Proton names every coordinator link "txn-ctrl". In one container id an equal name
            # steals the link.
            self.connection.container = f"prove-{id(self)}"
            self.attach(container)

    def leave(self) -> None:
        """Close the connection, unless it has ended, with all that it holds."""
        if self.connection is not None:
            self.load.write(What.LEFT, link=self.link)
            self.connection.close()
            self.connection = None
            self.forget()

    def drop(self) -> None:
        """Cut the TCP connection without a close frame."""
        # Proton's reactor keeps the socket there; it has no public way to cut it.
        fd = os.dup(self.connection.transport._selectable.fileno())
        # A killed platform has closed it already.
        with socket.socket(fileno=fd) as cut, suppress(OSError):
            cut.shutdown(socket.SHUT_RDWR)
        self.load.write(What.LEFT, link=self.link)
        self.connection = None
        self.forget()

    def _lost(self, event: Any) -> None:
        if event.connection == self.connection:
            self.leave()

    on_disconnected = on_transport_error = on_transport_closed = _lost
    on_connection_closed = on_connection_error = on_link_error = _lost

    @property
    @abstractmethod
    def quiet(self) -> bool:
        """It waits for no answer and holds no message."""

    @abstractmethod
    def attach(self, container: Container) -> None:
        """Make links on a new connection."""

    @abstractmethod
    def tick(self) -> None:
        """Do what is due."""

    @abstractmethod
    def forget(self) -> None:
        """Let go of what belonged to the connection."""


class _Sending:
    """Messages in flight to an address, and their outcomes."""

    def __init__(self, load: Load) -> None:
        self.load = load
        self.unsettled: dict[Any, str] = {}

    def send(self, sender: Any, name: str) -> None:
        self.load.sent += 1
        self.load.write(What.SENT, name)
        self.unsettled[sender.send(Message(id=name, body=body_of(name)))] = name

    def answered(self, delivery: Any) -> str | None:
        """The message that this is about, if it is one of these.

        Of one that is in doubt nothing is written.
        """
        name = self.unsettled.pop(delivery, None)
        if name is not None and not in_doubt(delivery):
            accepted = delivery.remote_state == Delivery.ACCEPTED
            self.load.write(What.ACCEPTED if accepted else What.REFUSED, name)
        return name


def in_doubt(delivery: Any) -> bool:
    """Whether the disk has failed, by the answer: the message may or may not be stored."""
    error = delivery.remote.condition
    return error is not None and error.name == "amqp:internal-error"


class _Producer(_Client):
    """Sends in groups; where duplicates are detected, sends again what it was told nothing of."""

    def __init__(self, load: Load, chance: random.Random, to: str, number: int) -> None:
        super().__init__(load, chance)
        self._to = to
        self._name = f"{to}-{number}"
        self._count = 0
        self._sender: Any = None
        self._sending = _Sending(load)
        self._again: list[str] = []

    @property
    def quiet(self) -> bool:
        return not self._sending.unsettled and not self._again

    def attach(self, container: Container) -> None:
        # Named by the client: an equal name on another connection of the container is stolen.
        self._sender = container.create_sender(self.connection, self._to, name=f"to-{id(self)}")

    def forget(self) -> None:
        for name in self._sending.unsettled.values():
            self._in_doubt(name)
        self._sending.unsettled.clear()

    def _in_doubt(self, name: str) -> None:
        if self._to == ONCE:
            self._again.append(name)

    def tick(self) -> None:
        if len(self._sending.unsettled) > UNSETTLED_MAX // 2:
            return
        group = self.chance.randint(1, UNSETTLED_MAX - len(self._sending.unsettled))
        while group > 0 and self._sender.credit > 0 and (self._again or self.load.may_send):
            group -= 1
            if self._again:
                self._sending.send(self._sender, self._again.pop(0))
                continue
            self._count += 1
            self._sending.send(self._sender, f"{self._name}-{self._count}")

    def on_settled(self, event: Any) -> None:
        name = self._sending.answered(event.delivery)
        if name is not None and in_doubt(event.delivery):
            self._in_doubt(name)
        if event.connection == self.connection:
            self.tick()


class _Consumer(_Client):
    """Accepts most messages, returns the rest, and sometimes closes or drops its
    connection while it holds messages.

    Some groups are accepted in a transaction. Only those are confirmed: the contract promises a
    settlement to be on disk once its discharge is accepted, and no other.
    """

    def __init__(self, load: Load, chance: random.Random, of: str) -> None:
        super().__init__(load, chance)
        self._of = of
        self._held: list[tuple[Any, str]] = []
        self._group = 1
        self._container: Any = None
        self._committing: list[tuple[Any, str]] = []

    @property
    def quiet(self) -> bool:
        return not self._held and not self._committing

    def attach(self, container: Container) -> None:
        self._container = container
        container.create_receiver(self.connection, self._of, name=f"of-{id(self)}")

    def forget(self) -> None:
        self._held.clear()
        self._committing.clear()

    def on_message(self, event: Any) -> None:
        if event.connection != self.connection:
            return
        name = str(event.message.id)
        intact = event.message.body == body_of(name)
        self.load.write(What.RECEIVED if intact else What.SPOILED, name, self.link)
        self._held.append((event.delivery, name))
        if not self.load.draining and self.chance.random() < LEAVING_SHARE:
            self.chance.choice((self.leave, self.drop))()
        elif len(self._held) >= self._group:
            self._settle()

    def tick(self) -> None:
        self._settle()

    def _settle(self) -> None:
        group, self._held = self._held, []
        self._group = self.chance.randint(1, 40)
        if not group:
            return
        if not self._committing and self.chance.random() < COMMITTED_SHARE:
            self._committing = group
            self._container.declare_transaction(
                self.connection, handler=self, settle_before_discharge=True
            )
            return
        for delivery, name in group:
            self._decide(delivery, name)

    def on_transaction_declared(self, event: Any) -> None:
        if event.connection != self.connection:
            return
        for delivery, name in self._committing:
            self.load.taken += 1
            self.load.write(What.TAKEN, name, self.link)
            event.transaction.accept(delivery)
        event.transaction.commit()

    def on_transaction_committed(self, event: Any) -> None:
        self._end_transaction(event, What.CONFIRMED)

    def on_transaction_commit_failed(self, event: Any) -> None:
        self._end_transaction(event, What.RETURNED)

    def on_transaction_declare_failed(self, event: Any) -> None:
        if event.connection == self.connection:
            self.leave()

    def _end_transaction(self, event: Any, end: What) -> None:
        if event.connection != self.connection:
            return
        for _, name in self._committing:
            self.load.write(end, name, self.link)
        self._committing = []

    def _decide(self, delivery: Any, name: str) -> None:
        roll = 0.0 if self.load.draining else self.chance.random()
        if roll < 0.85:
            self.load.taken += 1
            self.load.write(What.TAKEN, name, self.link)
            self.accept(delivery)
            return
        self.load.write(What.RETURNED, name, self.link)
        if roll < 0.92:
            self.release(delivery, delivered=False)
        elif roll < 0.97 or self._of not in (ORDERS, PAYMENTS):
            delivery.local.failed = True
            self.release(delivery, delivered=True)
        else:
            self.reject(delivery)
