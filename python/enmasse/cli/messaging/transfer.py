"""Sending and receiving for the commands: loops over a Session that count outcomes.

The command decides the form and output of messages.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from enmasse.base.clock import Clock
from enmasse.base.errors import Code, Unavailable
from enmasse.messaging import Accepted, Delivery, Message, Outcome, Receiver, Session, Start

T = TypeVar("T")

IN_FLIGHT_MAX = 1000
"""Maximum unsettled messages of a sender: the default window of a node."""

CREDIT = 100
"""Credit of a receiver."""

SETTLED = "settled"
"""Outcome of a pre-settled message."""

Step = Callable[[], None]
"""Called per completed message, for a progress bar."""


def _nothing() -> None:
    """No progress bar."""


@dataclass
class Tally:
    """Counts of outcomes."""

    outcomes: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    """Error of the first message that was not accepted."""

    @property
    def total(self) -> int:
        """All completed messages."""
        return self.outcomes.total()

    @property
    def all_accepted(self) -> bool:
        """Whether every message was accepted or pre-settled."""
        return not self.refusals

    @property
    def summary(self) -> str:
        """The outcomes as text, with each reason of a refusal."""
        outcomes = ", ".join(
            f"{count:,} {'sent ' * (name == SETTLED)}{name}"
            for name, count in self.outcomes.items()
        )
        refusals = "".join(f"\n  {count:,}: {reason}" for reason, count in self.refusals.items())
        return (outcomes or "nothing sent") + refusals

    def count(self, outcome: str, refusal: str | None = None) -> None:
        """Count one message by the name of its outcome, and by the reason if it was refused."""
        self.outcomes[outcome] += 1
        if refusal is not None:
            self.refusals[refusal] += 1

    def add(self, outcome: Outcome) -> None:
        """Count one outcome of AMQP."""
        refusal = None if isinstance(outcome, Accepted) else str(outcome)
        self.count(type(outcome).__name__.lower(), refusal)


@dataclass(frozen=True, slots=True)
class Pace:
    """Rate and time-out of sending."""

    clock: Clock
    rate: float | None = None
    """Maximum messages per second."""

    timeout_s: float | None = None
    """Maximum wait for credit or an outcome."""

    async def wait_turn(self, number: int, started_s: float) -> None:
        """Wait until message `number` is due."""
        if self.rate:
            due_s = started_s + number / self.rate
            await self.clock.sleep(max(0.0, due_s - self.clock.monotonic()))

    async def within(self, step: Awaitable[T]) -> T:
        """Return the awaited result.

        Raises: Unavailable after the time-out.
        """
        try:
            async with asyncio.timeout(self.timeout_s):
                return await step
        except TimeoutError:
            raise Unavailable(
                Code.NOT_AVAILABLE,
                f"no message was accepted for {self.timeout_s:g} s; check that"
                " the address has a receiver",
            ) from None


async def send(
    session: Session,
    address: str,
    messages: Iterable[Message],
    pace: Pace,
    *,
    settled: bool = False,
    step: Step = _nothing,
) -> Tally:
    """Send messages and count their outcomes.

    Waits for credit. At most 1,000 messages are unsettled.

    Raises: the error of the link; Unavailable after the time-out of the pace.
    """
    tally = Tally()
    waiting: deque[Awaitable[Outcome]] = deque()

    async def settle_oldest() -> None:
        outcome = await pace.within(waiting.popleft())
        if settled:
            tally.count(SETTLED)
        else:
            tally.add(outcome)
        step()

    async with session.sender(address, settled=settled) as sender:
        started_s = pace.clock.monotonic()
        for number, message in enumerate(messages):
            await pace.wait_turn(number, started_s)
            waiting.append(await pace.within(sender.post(message, settled=settled)))
            if len(waiting) >= IN_FLIGHT_MAX:
                await settle_oldest()
        while waiting:
            await settle_oldest()
    return tally


async def receive(
    session: Session,
    address: str,
    take: Callable[[Message], None],
    *,
    count: int | None = None,
    outcome: Outcome | None = None,
    timeout_s: float | None = None,
    start: Start | None = None,
) -> int:
    """Pass messages to `take` and settle each with `outcome` (accepted); return their number.

    Ends after `count` messages, or after `timeout_s` without one. Grants no more credit than
    needed, so no message is taken from other receivers and returned.
    """
    taken = 0
    async with session.receiver(address, credit=CREDIT, count=count, start=start) as receiver:
        async for delivery in _until_quiet(receiver, timeout_s):
            take(delivery.message)
            delivery.settle(outcome or Accepted())
            taken += 1
            if taken == count:
                break
    return taken


async def request(
    session: Session,
    address: str,
    messages: Iterable[Message],
    take: Callable[[Message], None],
    *,
    timeout_s: float,
) -> None:
    """Send requests one at a time and pass each reply to `take`.

    Raises: Unavailable without a reply within `timeout_s`.
    """
    for message in messages:
        try:
            async with asyncio.timeout(timeout_s):
                reply = await session.request(address, message)
        except TimeoutError:
            raise Unavailable(
                Code.NOT_AVAILABLE, f"no reply from {address!r} within {timeout_s:g} s"
            ) from None
        take(reply)


async def respond(
    session: Session,
    address: str,
    answer: Callable[[Message], Message],
    *,
    count: int | None = None,
    step: Step = _nothing,
) -> Tally:
    """Reply to requests: `answer` creates the reply, which is sent to the request's reply-to.

    A request without reply-to is accepted without a reply. Returns the outcomes of the replies.
    """
    tally = Tally()
    done = 0
    async with (
        session.sender(None) as sender,
        session.receiver(address, credit=CREDIT, count=count) as receiver,
    ):
        async for delivery in receiver:
            # The reply first: if this process ends in between, the request is repeated, not lost.
            reply = reply_to(delivery.message, answer)
            if reply is not None:
                tally.add(await sender.send(reply))
            delivery.settle(Accepted())
            step()
            done += 1
            if done == count:
                break
    return tally


def reply_to(request: Message, answer: Callable[[Message], Message]) -> Message | None:
    """Return the reply to a request, addressed and correlated; None without a reply-to."""
    asked = request.properties
    if asked.reply_to is None:
        return None
    correlation = asked.message_id if asked.correlation_id is None else asked.correlation_id
    reply = answer(request)
    properties = replace(reply.properties, to=asked.reply_to, correlation_id=correlation)
    return replace(reply, properties=properties)


async def _until_quiet(receiver: Receiver, timeout_s: float | None) -> AsyncIterator[Delivery]:
    """Yield deliveries until `timeout_s` passes without one."""
    deliveries = aiter(receiver)
    while True:
        try:
            async with asyncio.timeout(timeout_s):
                delivery = await anext(deliveries)
        except (StopAsyncIteration, TimeoutError):
            return
        yield delivery
