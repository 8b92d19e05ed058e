"""The links of a connection in asyncio: futures for outcomes, an iterator for deliveries."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, Self

from enmasse.base.errors import EnMasseError
from enmasse.client.errors import error_of
from enmasse.messaging import Accepted, Message, Outcome
from enmasse.native import decode_message, encode_message


class Wire(Protocol):
    """What a link asks of its connection: the half of `enmasse.native.Client` that it uses."""

    def send(self, link: int, messages: list[bytes], *, settled: bool) -> int:
        """Pass on encoded messages, from the front, and return the number accepted."""

    def credit(self, link: int, count: int) -> None:
        """Grant credit for so many more messages."""

    def drain(self, link: int) -> None:
        """Take back the credit of a receiver."""

    def settle(self, link: int, delivery: int, outcome: Outcome) -> None:
        """Give a message its outcome."""

    def detach(self, link: int) -> None:
        """End a link."""


class Link:
    """The common part of both directions: attach and detach."""

    def __init__(self, wire: Wire, number: int, address: str | None) -> None:
        self.number = number
        self.error: EnMasseError | None = None
        self.filters: list[str] = []
        """Names of the filters that the server applies."""

        self._wire = wire
        self._address = address
        self._up: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._down: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def __str__(self) -> str:
        return f"the link to {self._address or 'the anonymous terminus'}"

    async def attached(self) -> None:
        """Wait until the server has answered; raises what it answered with."""
        await asyncio.shield(self._up)

    async def close(self) -> None:
        """Detach, and wait until the server has answered."""
        if not self._down.done():
            self._wire.detach(self.number)
            await asyncio.shield(self._down)

    def on_attached(self, address: str | None, filters: list[str]) -> None:
        """The server has answered with the terminus."""
        self._address = address if address is not None else self._address
        self.filters = filters
        if not self._up.done():
            self._up.set_result(None)

    def on_down(self, condition: str | None, description: str | None) -> None:
        """The link has ended: refused or detached."""
        self.on_lost(error_of(str(self), condition, description))

    def on_lost(self, error: EnMasseError) -> None:
        """The link has ended, by itself or with its connection."""
        self.error = error
        if not self._up.done():
            self._up.set_exception(self.error)
            # Read at once, or asyncio logs an exception that no task awaits.
            self._up.exception()
        if not self._down.done():
            self._down.set_result(None)
        self.end()

    def end(self) -> None:
        """Notify waiting tasks that nothing more arrives."""
        raise AssertionError("a link sends or receives")


@dataclass(slots=True, eq=False)
class Posted:
    """A message in flight: it is accepted by the link first, then gets an outcome."""

    data: bytes
    settled: bool
    taken: asyncio.Future[None]
    outcome: asyncio.Future[Outcome]


class ClientSender(Link):
    """A `Sender` of a `Connection`; with `settled` all it sends is."""

    def __init__(
        self, wire: Wire, number: int, address: str | None, *, settled: bool = False
    ) -> None:
        super().__init__(wire, number, address)
        self._settled = settled
        self._waiting: deque[Posted] = deque()
        self._outcomes: dict[int, asyncio.Future[Outcome]] = {}
        self._next = 0
        self._flush_due = False

    @property
    def address(self) -> str | None:
        """Where messages go."""
        return self._address

    async def send(self, message: Message, *, settled: bool = False) -> Outcome:
        """Send a message and wait for its outcome."""
        return await (await self.post(message, settled=settled))

    async def post(self, message: Message, *, settled: bool = False) -> asyncio.Future[Outcome]:
        """Send a message and return its outcome to come."""
        if self.error is not None:
            raise self.error
        loop = asyncio.get_running_loop()
        settled = settled or self._settled
        posted = Posted(
            encode_message(message), settled, loop.create_future(), loop.create_future()
        )
        self._waiting.append(posted)
        if not self._flush_due:
            # messages posted in one turn of the loop go in one call
            self._flush_due = True
            loop.call_soon(self._flush)
        try:
            await posted.taken
        except asyncio.CancelledError:
            if posted in self._waiting:
                self._waiting.remove(posted)
            raise
        return posted.outcome

    def _flush(self) -> None:
        self._flush_due = False
        while self._waiting and self.error is None:
            settled = self._waiting[0].settled
            batch = []
            for posted in self._waiting:
                if posted.settled != settled:
                    break
                batch.append(posted.data)
            try:
                taken = self._wire.send(self.number, batch, settled=settled)
            except EnMasseError:
                # the link has ended; an event with the reason follows
                return
            for _ in range(taken):
                self._took(self._waiting.popleft())
            if taken < len(batch):
                return

    def _took(self, posted: Posted) -> None:
        if posted.settled:
            posted.outcome.set_result(Accepted())
        else:
            self._outcomes[self._next] = posted.outcome
        self._next += 1
        if not posted.taken.done():
            posted.taken.set_result(None)

    def on_credit(self) -> None:
        """The link has room for more."""
        self._flush()

    def on_settled(self, first: int, last: int, outcome: Outcome) -> None:
        """Messages have their outcome."""
        for number in range(first, last + 1):
            waiting = self._outcomes.pop(number, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(outcome)

    def end(self) -> None:
        """Fail the messages that will never have an outcome."""
        assert self.error is not None
        futures: list[asyncio.Future[Outcome] | asyncio.Future[None]] = [*self._outcomes.values()]
        futures += [posted.taken for posted in self._waiting]
        self._outcomes.clear()
        self._waiting.clear()
        for future in futures:
            if not future.done():
                future.set_exception(self.error)
                # an outcome that no task awaits is not an error of the program
                future.exception()


class ClientDelivery:
    """A `Delivery` of a `ClientReceiver`."""

    def __init__(self, receiver: "ClientReceiver", number: int, settled: bool, data: bytes) -> None:
        self._receiver = receiver
        self._number = number
        self._settled = settled
        self.data = data

    @cached_property
    def message(self) -> Message:
        """The message, decoded at the first access."""
        return decode_message(self.data)

    @property
    def settled(self) -> bool:
        """Whether the sender does not wait for an outcome."""
        return self._settled

    def settle(self, outcome: Outcome | None = None) -> None:
        """Give it its outcome, Accepted by default."""
        if not self._settled:
            self._settled = True
            self._receiver.on_settle(self._number, outcome or Accepted())


AHEAD_SIZE = 16 * 1024 * 1024
"""Bytes of messages that may wait for the iterator, estimated by the size of earlier ones."""

AHEAD_FIRST = 16
"""Credit before the size of messages is known."""

RECENT = 1 / 16
"""The weight of the last message in the mean size of messages."""


@dataclass(slots=True)
class Window:
    """Credit: `size` messages under way or not done with, in halves as they are done with, and
    `left` in all.

    Of large messages fewer are asked for at a time: those under way and those that wait to be taken
    are `AHEAD_SIZE` together by the mean of the sizes so far, one message at least. What was
    granted is not taken back where sizes jump: `size` of the largest messages is the worst.
    """

    size: int
    left: int | None = None
    grant: Callable[[int], None] = field(kw_only=True)
    done: int = 0
    open: bool = True
    _free: int = field(init=False, default=0)
    """Messages that credit may still be granted for."""

    _ahead: int = field(init=False, default=0)
    """Messages granted and not received."""

    _waiting_size: int = field(init=False, default=0)
    """Bytes of messages received and not taken."""

    _mean_size: float | None = field(init=False, default=None)

    def start(self) -> None:
        """Grant the first of the window."""
        self._release(self.size)

    def arrive(self, size: int) -> None:
        """One message of so many bytes was received."""
        self._ahead = max(self._ahead - 1, 0)
        self._waiting_size += size
        known = self._mean_size
        self._mean_size = size if known is None else known + (size - known) * RECENT
        if known is None:
            self._grant()

    def take(self, size: int) -> None:
        """One received message of so many bytes is taken."""
        self._waiting_size -= size
        self._grant()

    def finish_one(self) -> None:
        """One message is done with."""
        self.done += 1
        if self.done * 2 >= self.size:
            self._release(self.done)
            self.done = 0

    def _release(self, count: int) -> None:
        if self.left is not None:
            count = min(count, self.left)
            self.left -= count
        self._free += count
        self._grant()

    def _grant(self) -> None:
        if not self.open or not self._free:
            return
        window, waiting = AHEAD_FIRST, 0
        if self._mean_size is not None:
            mean = max(self._mean_size, 1.0)
            window, waiting = max(int(AHEAD_SIZE / mean), 1), int(self._waiting_size / mean)
        more = min(self._free, window - self._ahead - waiting)
        if more > 0 and (more == self._free or more * 2 >= window):
            self._free -= more
            self._ahead += more
            self.grant(more)


class ClientReceiver(Link):
    """A `Receiver` of a `Connection`."""

    def __init__(
        self,
        wire: Wire,
        number: int,
        address: str | None,
        credit: int,
        on_delivery: Callable[[ClientDelivery], None] | None = None,
        count: int | None = None,
    ) -> None:
        super().__init__(wire, number, address)
        self._arrived: deque[ClientDelivery] = deque()
        self._changed = asyncio.Event()
        self._drained: asyncio.Future[None] | None = None
        self._closing = False
        self._on_delivery = on_delivery
        self._window = Window(credit, count, grant=lambda count: wire.credit(number, count))
        self._window.start()

    @property
    def address(self) -> str:
        """Where messages come from."""
        return self._address or ""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ClientDelivery:
        while True:
            if self._arrived:
                delivery = self._arrived.popleft()
                self._take(delivery)
                return delivery
            if self.error is not None and not self._closing:
                raise self.error
            if self.error is not None:
                raise StopAsyncIteration
            if self._drained is not None and self._drained.done():
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()

    async def drain(self) -> None:
        """Take back the credit."""
        if self._drained is None:
            self._drained = asyncio.get_running_loop().create_future()
            self._window.open = False
            self._wire.drain(self.number)
        await asyncio.shield(self._drained)

    async def close(self) -> None:
        """Detach the link; iteration ends with what has arrived."""
        self._closing = True
        await super().close()

    def _take(self, delivery: ClientDelivery) -> None:
        self._window.take(len(delivery.data))
        if delivery.settled:
            self._window.finish_one()

    def on_message(self, number: int, settled: bool, data: bytes) -> None:
        """A message arrived."""
        delivery = ClientDelivery(self, number, settled, data)
        self._window.arrive(len(data))
        if self._on_delivery is None:
            self._arrived.append(delivery)
            self._changed.set()
        else:
            self._take(delivery)
            self._on_delivery(delivery)

    def on_settle(self, number: int, outcome: Outcome) -> None:
        """A delivery has its outcome."""
        if self.error is None:
            self._wire.settle(self.number, number, outcome)
            self._window.finish_one()

    def on_drained(self) -> None:
        """All credit is used up or taken back."""
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        self._changed.set()

    def end(self) -> None:
        """Wake tasks that wait for more."""
        self.on_drained()
