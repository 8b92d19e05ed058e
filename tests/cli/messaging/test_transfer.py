"""Sending and receiving with a fake session."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from doubles import TestClock
from enmasse.base.errors import Unavailable
from enmasse.cli.messaging import transfer
from enmasse.cli.messaging.transfer import Pace
from enmasse.messaging import (
    Accepted,
    Message,
    Outcome,
    Properties,
    Rejected,
    Released,
    Start,
    Value,
)


class Delivery:
    """A message that arrived."""

    def __init__(self, message: Message) -> None:
        self.message = message
        self.settled = False
        self.outcome: Outcome | None = None

    def settle(self, outcome: Outcome = Accepted()) -> None:  # noqa: B008
        self.outcome = outcome
        self.settled = True


class Session:
    """A fake session: arriving messages, sent messages and their outcomes."""

    def __init__(self, *arriving: Message, outcomes: list[Outcome] | None = None) -> None:
        self.deliveries = [Delivery(message) for message in arriving]
        self.outcomes = outcomes or []
        self.sent: list[tuple[str | None, Message, bool]] = []
        self.in_flight = self.in_flight_max = 0
        self.count: int | None = None
        self.left_open = 0

    @asynccontextmanager
    async def sender(self, address: str | None, *, settled: bool = False) -> AsyncIterator[Any]:
        self.address = address
        self.left_open += 1
        yield self
        self.left_open -= 1

    @asynccontextmanager
    async def receiver(
        self,
        address: str | None,
        *,
        credit: int = 100,
        count: int | None = None,
        start: Start | None = None,
    ) -> AsyncIterator[Any]:
        self.count = count
        self.left_open += 1
        yield self._arriving()
        self.left_open -= 1

    async def post(self, message: Message, *, settled: bool = False) -> Awaitable[Outcome]:
        number = len(self.sent)
        self.sent.append((self.address, message, settled))
        self.in_flight += 1
        self.in_flight_max = max(self.in_flight, self.in_flight_max)

        async def outcome() -> Outcome:
            self.in_flight -= 1
            return self.outcomes[number] if number < len(self.outcomes) else Accepted()

        return outcome()

    async def send(self, message: Message, *, settled: bool = False) -> Outcome:
        return await (await self.post(message, settled=settled))

    async def request(self, address: str, message: Message) -> Message:
        if address == "silent":
            await asyncio.Event().wait()
        return Message.of(f"re: {message.text}")

    async def _arriving(self) -> AsyncIterator[Delivery]:
        for delivery in self.deliveries:
            yield delivery
        await asyncio.Event().wait()


def texts(count: int) -> list[Message]:
    return [Message.of(str(number)) for number in range(count)]


async def test_send_counts_the_outcome_of_every_message() -> None:
    session: Any = Session(outcomes=[Accepted(), Released(), Rejected("amqp:not-found", "gone")])
    done: list[None] = []
    tally = await transfer.send(
        session, "orders", texts(4), Pace(TestClock()), step=lambda: done.append(None)
    )
    assert [message.text for _, message, _ in session.sent] == ["0", "1", "2", "3"]
    assert tally.total == len(done) == 4
    assert tally.outcomes == {"accepted": 2, "released": 1, "rejected": 1}
    assert "rejected (amqp:not-found: gone)" in tally.refusals
    assert not tally.all_accepted
    assert session.left_open == 0


async def test_send_bounds_unsettled_messages() -> None:
    session: Any = Session()
    tally = await transfer.send(session, "orders", texts(2500), Pace(TestClock()))
    assert tally.outcomes == {"accepted": 2500}
    assert tally.all_accepted
    assert session.in_flight_max == transfer.IN_FLIGHT_MAX


async def test_send_honours_the_rate_from_the_first_message() -> None:
    clock = TestClock()
    await transfer.send(Session(), "orders", texts(21), Pace(clock, rate=10))  # type: ignore[arg-type]
    assert clock.elapsed_s == pytest.approx(2.0)


async def test_send_transfers_messages_settled_on_request() -> None:
    session: Any = Session()
    tally = await transfer.send(session, "orders", texts(2), Pace(TestClock()), settled=True)
    assert [settled for _, _, settled in session.sent] == [True, True]
    assert tally.outcomes == {"settled": 2}
    assert tally.all_accepted
    assert tally.summary == "2 sent settled"


async def test_send_times_out_without_an_outcome() -> None:
    class SessionWithoutOutcomes(Session):
        async def post(self, message: Message, *, settled: bool = False) -> Awaitable[Outcome]:
            return asyncio.get_running_loop().create_future()

    with pytest.raises(Unavailable, match="no message was accepted for 0.01 s; check that"):
        pace = Pace(TestClock(), timeout_s=0.01)
        await transfer.send(SessionWithoutOutcomes(), "orders", texts(1), pace)  # type: ignore[arg-type]


async def test_receive_settles_the_requested_number_of_messages() -> None:
    session: Any = Session(*texts(3))
    taken: list[str] = []
    count = await transfer.receive(
        session, "orders", lambda message: taken.append(message.text), count=2, outcome=Released()
    )
    assert count == 2
    assert taken == ["0", "1"]
    assert [delivery.outcome for delivery in session.deliveries] == [Released(), Released(), None]
    assert session.count == 2, "the receiver requests only the wanted messages"
    assert session.left_open == 0


async def test_receive_ends_after_its_idle_timeout() -> None:
    session: Any = Session(*texts(2))
    assert await transfer.receive(session, "orders", print, timeout_s=0.01) == 2
    assert [delivery.outcome for delivery in session.deliveries] == [Accepted()] * 2


async def test_request_returns_replies_in_order() -> None:
    replies: list[str] = []
    await transfer.request(
        Session(),  # type: ignore[arg-type]
        "orders",
        texts(2),
        lambda reply: replies.append(reply.text),
        timeout_s=5,
    )
    assert replies == ["re: 0", "re: 1"]


async def test_request_without_a_reply_raises_unavailable() -> None:
    with pytest.raises(Unavailable, match="no reply from 'silent' within 0.01 s"):
        await transfer.request(
            Session(),  # type: ignore[arg-type]
            "silent",
            texts(1),
            print,
            timeout_s=0.01,
        )


async def test_respond_sends_each_reply_to_its_reply_address() -> None:
    session: Any = Session(
        Message(Value("a"), Properties(message_id="m1", reply_to="here")),
        Message(Value("b"), Properties(message_id="m2", correlation_id=7, reply_to="there")),
        Message(Value("c"), Properties(message_id="m3")),
    )
    tally = await transfer.respond(session, "orders", lambda _: Message.of("yes"), count=3)
    replies = [
        (address, message.properties.to, message.properties.correlation_id, message.text)
        for address, message, _ in session.sent
    ]
    assert replies == [(None, "here", "m1", "yes"), (None, "there", 7, "yes")]
    assert tally.outcomes == {"accepted": 2}
    assert all(delivery.outcome == Accepted() for delivery in session.deliveries)
    assert session.left_open == 0
