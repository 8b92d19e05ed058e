"""Sessions with a real node: links, outcomes, credit, replies, and how they end."""

import asyncio
import socket
from collections.abc import Callable
from itertools import count

import pytest

from enmasse.base.errors import Invalid, Missing, PeerError, Unavailable
from enmasse.client import Connection, connect, connect_within, links
from enmasse.client.connection import REPLY_CREDIT
from enmasse.messaging import (
    Accepted,
    Data,
    Message,
    Modified,
    Outcome,
    Receiver,
    Rejected,
    Released,
)
from enmasse.native import Node

Sessions = Callable[[], Connection]


async def next_message(receiver: Receiver) -> Message:
    """The next message, accepted."""
    delivery = await anext(aiter(receiver))
    delivery.settle()
    return delivery.message


async def test_message_arrives_and_its_outcome_returns_to_the_sender(session: Sessions) -> None:
    outcomes: list[Outcome] = [
        Accepted(),
        Released(),
        Rejected("my:condition", "it is so"),
        Rejected(),
        Modified(delivery_failed=True),
        Modified(undeliverable_here=True),
    ]
    async with (
        session() as here,
        session() as there,
        there.receiver("orders") as receiver,
        here.sender("orders") as sender,
    ):
        for number, outcome in enumerate(outcomes):
            sent = await sender.post(Message.of(f"order {number}", subject="order"))
            delivery = await anext(aiter(receiver))
            assert delivery.message.text == f"order {number}"
            assert delivery.message.properties.subject == "order"
            assert not delivery.settled
            delivery.settle(outcome)
            delivery.settle(Rejected("too", "late"))
            assert delivery.settled
            assert await sent == outcome


async def test_presettled_messages_need_no_disposition(session: Sessions) -> None:
    async with session() as here, here.receiver("orders", credit=2) as receiver:
        async with here.sender("orders", settled=True) as sender:
            for number in range(5):
                assert await sender.send(Message.of(number), settled=number > 0) == Accepted()
            numbers = count()
            async for delivery in receiver:
                assert delivery.settled
                assert delivery.message.content == next(numbers)
                if delivery.message.content == 4:
                    break


async def test_many_messages_arrive_in_order(session: Sessions) -> None:
    total = 3000
    async with session() as here, session() as there:
        async with there.receiver("orders", credit=50) as receiver, here.sender("orders") as sender:

            async def send() -> list[Outcome]:
                posted = [await sender.post(Message.of(number)) for number in range(total)]
                return [await outcome for outcome in posted]

            async with asyncio.TaskGroup() as tasks:
                sending = tasks.create_task(send())
                for number in range(total):
                    assert (await next_message(receiver)).content == number
            assert sending.result() == [Accepted()] * total


async def test_unsettled_deliveries_are_bounded_by_the_credit_window(session: Sessions) -> None:
    async with session() as here, here.receiver("news", credit=3) as receiver:
        async with session() as there, there.sender("news") as sender:
            posted = [await sender.post(Message.of(number)) for number in range(5)]
            deliveries = [await anext(aiter(receiver)) for _ in range(3)]
            more = asyncio.ensure_future(anext(aiter(receiver)))
            # The attach response follows any transfer that the node would have sent before it.
            async with here.sender("orders"):
                assert not more.done()
            for delivery in deliveries:
                delivery.settle()
            (await more).settle()
            await next_message(receiver)
            assert [await outcome for outcome in posted] == [Accepted()] * 5


async def test_drain_ends_the_iteration_of_a_receiver(session: Sessions) -> None:
    async with session() as here, here.receiver("orders", credit=10) as receiver:
        async with here.sender("orders") as sender:
            posted = [await sender.post(Message.of(number)) for number in range(3)]
            await receiver.drain()
            seen = []
            async for delivery in receiver:
                seen.append(delivery.message.content)
                delivery.settle()
            assert seen == [0, 1, 2]
            assert [await outcome for outcome in posted] == [Accepted()] * 3


async def test_request_returns_its_correlated_reply(session: Sessions) -> None:
    async def respond(service: Connection) -> None:
        async with service.receiver("orders") as requests, service.sender(None) as replies:
            async for delivery in requests:
                delivery.settle()
                asked = delivery.message
                await replies.send(
                    Message.of(
                        asked.text.upper(),
                        to=asked.properties.reply_to,
                        correlation_id=asked.properties.correlation_id,
                    )
                )

    async with session() as service, session() as caller:
        responding = asyncio.ensure_future(respond(service))
        questions = [Message.of("a"), Message.of("b", message_id=7), Message.of("c")]
        replies = await asyncio.gather(*(caller.request("orders", one) for one in questions))
        assert [reply.text for reply in replies] == ["A", "B", "C"]
        assert [reply.properties.correlation_id for reply in replies][1] == 7
        assert (await caller.request("orders", Message.of("again"))).text == "AGAIN"
        responding.cancel()
        await asyncio.gather(responding, return_exceptions=True)


async def test_presettled_replies_continue_beyond_the_reply_credit(session: Sessions) -> None:
    async def respond(service: Connection) -> None:
        async with (
            service.receiver("orders") as requests,
            service.sender(None, settled=True) as replies,
        ):
            async for delivery in requests:
                delivery.settle()
                asked = delivery.message.properties
                await replies.send(
                    Message.of("", to=asked.reply_to, correlation_id=asked.correlation_id)
                )

    async with session() as service, session() as caller:
        responding = asyncio.ensure_future(respond(service))
        async with asyncio.timeout(30):
            for _ in range(2 * REPLY_CREDIT):
                await caller.request("orders", Message.of("again"))
        responding.cancel()
        await asyncio.gather(responding, return_exceptions=True)


async def test_client_request_that_is_rejected_fails_at_once(session: Sessions) -> None:
    async with session() as here, here.receiver("orders") as receiver:

        async def refuse() -> None:
            (await anext(aiter(receiver))).settle(Rejected("my:own", "not today"))

        refusing = asyncio.ensure_future(refuse())
        with pytest.raises(Unavailable, match="not today"):
            await here.request("orders", Message.of("please"))
        await refusing


async def test_anonymous_terminus_settles_each_message_by_its_own_address(
    session: Sessions,
) -> None:
    async with session() as here, here.receiver("orders") as receiver, here.sender(None) as sender:
        assert sender.address is None
        sent = await sender.post(Message.of("x", to="orders"))
        assert (await next_message(receiver)).text == "x"
        assert await sent == Accepted()
        refused = await sender.send(Message.of("x", to="nowhere"))
        assert isinstance(refused, Rejected)
        assert refused.condition == "amqp:not-found"


async def test_refused_attach_raises_its_reason(session: Sessions) -> None:
    async with session() as here:
        with pytest.raises(Missing, match="nowhere"):
            async with here.sender("nowhere"):
                pass
        with pytest.raises(Missing, match="nowhere"):
            async with here.receiver("nowhere"):
                pass
        async with here.receiver("orders"), here.sender("orders") as sender:
            assert await sender.send(Message.of("x"), settled=True) == Accepted()


async def test_send_without_credit_blocks_and_can_be_cancelled(session: Sessions) -> None:
    async with session() as here, here.sender("orders") as sender:
        waiting = asyncio.ensure_future(sender.send(Message.of("never")))
        async with here.sender("news"):
            assert not waiting.done()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        async with here.receiver("orders") as receiver:
            sent = await sender.post(Message.of("now"))
            assert (await next_message(receiver)).text == "now"
            assert await sent == Accepted()


async def test_unsettled_messages_of_a_closed_link_fail(session: Sessions) -> None:
    async with session() as here, here.receiver("orders", credit=1) as receiver:
        async with here.sender("orders") as sender:
            sent = await sender.post(Message.of("x"))
            delivery = await anext(aiter(receiver))
        with pytest.raises(Unavailable, match="closed"):
            await sent
        with pytest.raises(Unavailable, match="closed"):
            await sender.send(Message.of("y"))
        delivery.settle()


async def test_a_closed_receiver_ends_its_iteration(session: Sessions) -> None:
    async with session() as here, here.receiver("orders") as receiver:

        async def iterate() -> list[Message]:
            return [delivery.message async for delivery in receiver]

        iterating = asyncio.ensure_future(iterate())
        await receiver.close()
        assert await iterating == []


async def test_node_stop_fails_every_pending_operation(node: Node) -> None:
    here = await connect_within(node, "default").__aenter__()
    receiver = await here.open_receiver("orders", 5)
    sender = await here.open_sender("news")
    iterating = asyncio.ensure_future(anext(receiver))
    sending = asyncio.ensure_future(sender.send(Message.of("x")))
    requesting = asyncio.ensure_future(here.request("orders", Message.of("x")))
    await asyncio.to_thread(node.stop, 5.0)
    for waiting in (iterating, sending, requesting):
        with pytest.raises(Unavailable, match="^the connection: "):
            await waiting
    await here.__aexit__()
    with pytest.raises(Unavailable):
        await here.open_sender("orders")


async def test_failed_connect_raises_its_reason() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(Unavailable, match=str(port)):
        async with connect(f"amqp://127.0.0.1:{port}"):
            pass
    with pytest.raises(Invalid, match="scheme"):
        connect("http://127.0.0.1")
    with pytest.raises(Invalid, match=r"no-such\.pem"):
        connect("amqps://127.0.0.1", ca="no-such.pem")


async def test_connect_to_a_server_of_another_protocol_fails() -> None:
    def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        with pytest.raises((PeerError, Invalid, Unavailable)):
            async with connect(f"amqp://127.0.0.1:{port}"):
                pass


async def test_undecodable_message_can_still_be_rejected(
    session: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with session() as here, here.receiver("orders") as receiver:
        async with here.sender("orders") as sender:
            monkeypatch.setattr(links, "encode_message", lambda _: b"\x00\x53\x75\xa0\xff")
            sent = await sender.post(Message.of("x"))
            delivery = await anext(aiter(receiver))
            with pytest.raises(PeerError):
                _ = delivery.message
            delivery.settle(Rejected("amqp:decode-error"))
            assert await sent == Rejected("amqp:decode-error")


async def test_large_client_message_arrives_intact(session: Sessions) -> None:
    body = bytes(range(256)) * 8000
    async with session() as here, here.receiver("orders") as receiver:
        async with here.sender("orders") as sender:
            sent = await sender.post(Message(Data((body,))))
            assert (await next_message(receiver)).content == body
            assert await sent == Accepted()
