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
    """The operations of a connection that a link uses: a part of `enmasse.native.Client`."""

    def send(self, link: int, messages: list[bytes], *, settled: bool) -> int:
        """Send encoded messages, from the front, and return the number accepted."""

    def credit(self, link: int, count: int) -> None:
        """Grant credit for `count` more messages."""

    def drain(self, link: int) -> None:
        """Drain the credit of a receiver."""

    def settle(self, link: int, delivery: int, outcome: Outcome) -> None:
        """Settle a delivery with an outcome."""

    def detach(self, link: int) -> None:
        """Detach a link."""


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
        """Wait for the attach of the server; raise its error if it refuses the link."""
        await asyncio.shield(self._up)

    async def close(self) -> None:
        """Detach, and wait for the detach of the server."""
        if not self._down.done():
            self._wire.detach(self.number)
            await asyncio.shield(self._down)

    def on_attached(self, address: str | None, filters: list[str]) -> None:
        """Handle the attach of the server, with the terminus."""
        self._address = address if address is not None else self._address
        self.filters = filters
        if not self._up.done():
            self._up.set_result(None)

    def on_detached(self, condition: str | None, description: str | None) -> None:
        """Handle the end of the link: refused or detached."""
        self.on_lost(error_of(str(self), condition, description))

    def on_lost(self, error: EnMasseError) -> None:
        """Handle the end of the link, alone or with its connection."""
        self.error = error
        if not self._up.done():
            self._up.set_exception(self.error)
            # Retrieved at once, because asyncio logs an exception that no task retrieves.
            self._up.exception()
        if not self._down.done():
            self._down.set_result(None)
        self.end()

    def end(self) -> None:
        """Notify waiting tasks that nothing more arrives."""
        raise AssertionError("a link sends or receives")


@dataclass(slots=True, eq=False)
class PendingMessage:
    """A message in flight: it is accepted by the link first, then gets an outcome."""

    data: bytes
    settled: bool
    accepted: asyncio.Future[None]
    outcome: asyncio.Future[Outcome]


class ClientSender(Link):
    """A `Sender` of a `Connection`; with `settled` it sends every message pre-settled."""

    def __init__(
        self, wire: Wire, number: int, address: str | None, *, settled: bool = False
    ) -> None:
        super().__init__(wire, number, address)
        self._settled = settled
        self._waiting: deque[PendingMessage] = deque()
        self._outcomes: dict[int, asyncio.Future[Outcome]] = {}
        self._next = 0
        self._flush_due = False

    @property
    def address(self) -> str | None:
        """The target of messages."""
        return self._address

    async def send(self, message: Message, *, settled: bool = False) -> Outcome:
        """Send a message and wait for its outcome."""
        return await (await self.post(message, settled=settled))

    async def post(self, message: Message, *, settled: bool = False) -> asyncio.Future[Outcome]:
        """Send a message and return a future for its outcome."""
        if self.error is not None:
            raise self.error
        loop = asyncio.get_running_loop()
        settled = settled or self._settled
        posted = PendingMessage(
            encode_message(message), settled, loop.create_future(), loop.create_future()
        )
        self._waiting.append(posted)
        if not self._flush_due:
            # Messages posted in one turn of the loop are sent in one call.
            self._flush_due = True
            loop.call_soon(self._flush)
        try:
            await posted.accepted
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
                accepted = self._wire.send(self.number, batch, settled=settled)
            except EnMasseError:
                # The link has ended; an event with the reason follows.
                return
            for _ in range(accepted):
                self._on_accepted(self._waiting.popleft())
            if accepted < len(batch):
                return

    def _on_accepted(self, posted: PendingMessage) -> None:
        if posted.settled:
            posted.outcome.set_result(Accepted())
        else:
            self._outcomes[self._next] = posted.outcome
        self._next += 1
        if not posted.accepted.done():
            posted.accepted.set_result(None)

    def on_credit(self) -> None:
        """Handle new credit: send waiting messages."""
        self._flush()

    def on_settled(self, first: int, last: int, outcome: Outcome) -> None:
        """Resolve the outcomes of messages."""
        for number in range(first, last + 1):
            waiting = self._outcomes.pop(number, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(outcome)

    def end(self) -> None:
        """Fail the messages that will never have an outcome."""
        assert self.error is not None
        futures: list[asyncio.Future[Outcome] | asyncio.Future[None]] = [*self._outcomes.values()]
        futures += [posted.accepted for posted in self._waiting]
        self._outcomes.clear()
        self._waiting.clear()
        for future in futures:
            if not future.done():
                future.set_exception(self.error)
                # Retrieved, because asyncio would log an exception that no task awaits.
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
        """Settle it with an outcome, Accepted by default."""
        if not self._settled:
            self._settled = True
            self._receiver.on_settle(self._number, outcome or Accepted())


PREFETCH_BYTES_MAX = 16 * 1024 * 1024
"""Maximum bytes of messages that wait for the iterator, estimated by the size of earlier ones."""

INITIAL_CREDIT = 16
"""Credit before the size of messages is known."""

MEAN_SIZE_WEIGHT = 1 / 16
"""Weight of the latest message in the mean message size."""


@dataclass(slots=True)
class Window:
    """Credit of a receiver: at most `size` messages are in flight or unsettled, `left` in total. It
    is renewed when half of `size` is settled.

    Large messages reduce the credit: messages in flight and waiting have, by their mean size so
    far, at most `PREFETCH_BYTES_MAX` bytes together, or are a single message. Granted credit is not
    revoked when sizes grow: the worst case is `size` messages of the maximum size.
    """

    size: int
    left: int | None = None
    grant: Callable[[int], None] = field(kw_only=True)
    done: int = 0
    open: bool = True
    _free: int = field(init=False, default=0)
    """Messages for which credit may still be granted."""

    _in_flight: int = field(init=False, default=0)
    """Messages with credit that have not arrived."""

    _waiting_size: int = field(init=False, default=0)
    """Bytes of messages that wait for the iterator."""

    _mean_size: float | None = field(init=False, default=None)

    def start(self) -> None:
        """Grant the initial credit."""
        self._release(self.size)

    def arrive(self, size: int) -> None:
        """Count a received message of `size` bytes."""
        self._in_flight = max(self._in_flight - 1, 0)
        self._waiting_size += size
        known = self._mean_size
        self._mean_size = size if known is None else known + (size - known) * MEAN_SIZE_WEIGHT
        if known is None:
            self._grant()

    def take(self, size: int) -> None:
        """Count a message of `size` bytes that the iterator has consumed."""
        self._waiting_size -= size
        self._grant()

    def finish_one(self) -> None:
        """Count a settled message, and renew the credit after half a window."""
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
        window, waiting = INITIAL_CREDIT, 0
        if self._mean_size is not None:
            mean = max(self._mean_size, 1.0)
            window, waiting = max(int(PREFETCH_BYTES_MAX / mean), 1), int(self._waiting_size / mean)
        more = min(self._free, window - self._in_flight - waiting)
        if more > 0 and (more == self._free or more * 2 >= window):
            self._free -= more
            self._in_flight += more
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
        """The source of messages."""
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
        """Drain the credit."""
        if self._drained is None:
            self._drained = asyncio.get_running_loop().create_future()
            self._window.open = False
            self._wire.drain(self.number)
        await asyncio.shield(self._drained)

    async def close(self) -> None:
        """Detach the link; iteration ends with the messages that have arrived."""
        self._closing = True
        await super().close()

    def _take(self, delivery: ClientDelivery) -> None:
        self._window.take(len(delivery.data))
        if delivery.settled:
            self._window.finish_one()

    def on_message(self, number: int, settled: bool, data: bytes) -> None:
        """Handle a received message."""
        delivery = ClientDelivery(self, number, settled, data)
        self._window.arrive(len(data))
        if self._on_delivery is None:
            self._arrived.append(delivery)
            self._changed.set()
        else:
            self._take(delivery)
            self._on_delivery(delivery)

    def on_settle(self, number: int, outcome: Outcome) -> None:
        """Settle a delivery."""
        if self.error is None:
            self._wire.settle(self.number, number, outcome)
            self._window.finish_one()

    def on_drained(self) -> None:
        """Handle the end of a drain: no credit is left."""
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        self._changed.set()

    def end(self) -> None:
        """Wake tasks that wait for messages."""
        self.on_drained()
