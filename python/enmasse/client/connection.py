"""A session over one AMQP connection, in asyncio.

The native client runs the protocol on a thread of its own. The event loop watches its descriptor,
reads the events in batches, and passes them to their links.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any, Self, TypeVar

from enmasse.base.errors import Code, EnMasseError, Invalid, Unavailable
from enmasse.client.errors import error_of
from enmasse.client.links import ClientDelivery, ClientReceiver, ClientSender, Link
from enmasse.messaging import Accepted, Message, MessageId, Receiver, Sender, Start
from enmasse.messaging import outcome as outcomes
from enmasse.native import Client

L = TypeVar("L", bound=Link)

EVENTS_MAX = 1024
"""Maximum events per turn of the loop, so that other tasks run."""

OFFSET_FILTER = "rabbitmq:stream-offset-spec"
"""The filter that marks a receiver of a stream: only streams apply it."""

REPLY_CREDIT = 100
"""Maximum replies in flight."""


def _from(start: Start) -> object:
    match start.offset:
        case int(offset):
            return {"offset": offset}
        case datetime() as moment:
            return {"timeMs": round(moment.timestamp() * 1000)}
        case word:
            return word


class Connection:
    """A `Session`, to be used as an asynchronous context manager."""

    def __init__(self, client: Client) -> None:
        self.properties: Mapping[str, Any] = {}
        """The properties of the server's open."""

        self._client = client
        self._links: dict[int, Link] = {}
        self._opened: asyncio.Future[None] | None = None
        self._closed: asyncio.Future[None] | None = None
        self._error: EnMasseError | None = None
        self._replies: Replies | None = None
        self._handlers: dict[str, Callable[..., None]] = {
            "opened": self._on_opened,
            "attached": self._on_attached,
            "refused": self._on_down,
            "detached": self._on_down,
            "credit": self._on_credit,
            "message": self._on_message,
            "settled": self._on_settled,
            "drained": self._on_drained,
            "closed": self._on_closed,
        }

    async def __aenter__(self) -> Self:
        """Wait until the connection is open.

        Raises the error of the server otherwise: Unavailable, Denied and others.
        """
        loop = asyncio.get_running_loop()
        self._opened, self._closed = loop.create_future(), loop.create_future()
        loop.add_reader(self._client.event_fd(), self._read)
        try:
            await self._opened
        except BaseException:
            self._unwatch()
            raise
        return self

    async def __aexit__(self, *exception: object) -> None:
        """Close the connection, and wait for the server's close."""
        assert self._closed is not None, "entered"
        self._client.close()
        try:
            await self._closed
        finally:
            self._unwatch()

    def _unwatch(self) -> None:
        asyncio.get_running_loop().remove_reader(self._client.event_fd())
        self._client.close()

    @asynccontextmanager
    async def sender(self, address: str | None, *, settled: bool = False) -> AsyncIterator[Sender]:
        """Open a sending link for the duration of the block."""
        link = await self.open_sender(address, settled=settled)
        try:
            yield link
        finally:
            await link.close()

    @asynccontextmanager
    async def receiver(
        self,
        address: str | None,
        *,
        credit: int = 100,
        count: int | None = None,
        browse: bool = False,
        selector: str | None = None,
        start: Start | None = None,
    ) -> AsyncIterator[Receiver]:
        """Open a receiving link for the duration of the block.

        Raises Invalid for a start if the address is not a stream.
        """
        options: dict[str, Any] = {"browse": browse}
        if selector is not None:
            options["selector"] = selector
        if start is not None:
            options["stream"] = {"from": _from(start), "partition": start.partition}
        link = await self.open_receiver(address, credit, count=count, **options)
        try:
            yield link
        finally:
            await link.close()

    async def request(self, address: str, message: Message) -> Message:
        """Send a message and wait for its reply."""
        if self._replies is None:
            self._replies = Replies(self)
        return await self._replies.request(address, message)

    async def open_sender(self, address: str | None, *, settled: bool = False) -> ClientSender:
        """Open a sending link without a block; the caller closes it."""
        number = self._client.attach_sender(address, settled=settled)
        return await self._add(ClientSender(self._client, number, address, settled=settled))

    async def open_receiver(
        self,
        address: str | None,
        credit: int,
        on_delivery: Callable[[ClientDelivery], None] | None = None,
        *,
        count: int | None = None,
        **options: Any,
    ) -> ClientReceiver:
        """Open a receiving link without a block; the caller closes it.

        `on_delivery` receives every delivery, and iteration then yields none.
        """
        number = self._client.attach_receiver(address, **options)
        link = ClientReceiver(self._client, number, address, credit, on_delivery, count)
        await self._add(link)
        if "stream" in options and OFFSET_FILTER not in link.filters:
            await link.close()
            raise Invalid(
                Code.OPERATION_UNFIT,
                f"{address} is not a stream; offset, time and partition apply to streams only",
            )
        return link

    async def _add(self, link: L) -> L:
        self._links[link.number] = link
        try:
            await link.attached()
        except asyncio.CancelledError:
            self._client.detach(link.number)
            raise
        return link

    def _read(self) -> None:
        for name, *values in self._client.poll(EVENTS_MAX):
            self._handlers[name](*values)

    def _on_opened(self, properties: Mapping[str, Any]) -> None:
        self.properties = properties
        if self._opened is not None and not self._opened.done():
            self._opened.set_result(None)

    def _on_attached(self, number: int, address: str | None, filters: list[str]) -> None:
        self._links[number].on_attached(address, filters)

    def _on_down(self, number: int, condition: str | None, description: str | None) -> None:
        link = self._links.pop(number, None)
        if link is not None:
            link.on_detached(condition, description)

    def _on_credit(self, number: int, _count: int) -> None:
        link = self._links.get(number)
        if isinstance(link, ClientSender):
            link.on_credit()

    def _on_message(self, number: int, delivery: int, settled: bool, data: bytes) -> None:
        link = self._links.get(number)
        if isinstance(link, ClientReceiver):
            link.on_message(delivery, settled, data)

    def _on_settled(
        self, number: int, first: int, last: int, outcome: outcomes.OutcomeTuple
    ) -> None:
        link = self._links.get(number)
        if isinstance(link, ClientSender):
            link.on_settled(first, last, outcomes.from_tuple(outcome))

    def _on_drained(self, number: int) -> None:
        link = self._links.get(number)
        if isinstance(link, ClientReceiver):
            link.on_drained()

    def _on_closed(self, condition: str | None, description: str | None) -> None:
        self._error = error_of("the connection", condition, description)
        links, self._links = self._links, {}
        for link in links.values():
            link.on_lost(self._error)
        if self._opened is not None and not self._opened.done():
            self._opened.set_exception(self._error)
        if self._closed is not None and not self._closed.done():
            self._closed.set_result(None)
        if self._replies is not None:
            self._replies.fail(self._error)


class Replies:
    """Pending requests of one connection, with their replies at one dynamic address."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._waiting: dict[MessageId, asyncio.Future[Message]] = {}
        self._senders: dict[str, ClientSender] = {}
        self._receiver: ClientReceiver | None = None
        self._setup = asyncio.Lock()
        self._count = 0

    async def request(self, address: str, message: Message) -> Message:
        """Send a request and wait for its reply."""
        async with self._setup:
            receiver, sender = await self._links(address)
        self._count += 1
        given = message.properties
        identity = given.correlation_id or given.message_id or f"request-{self._count}"
        properties = replace(
            given,
            reply_to=receiver.address,
            message_id=given.message_id or identity,
            correlation_id=identity,
        )
        reply: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[identity] = reply
        try:
            outcome = await sender.send(replace(message, properties=properties))
            if outcome != Accepted():
                message_text = f"request to {address} not accepted: {outcome}"
                raise Unavailable(Code.NOT_AVAILABLE, message_text)
            return await reply
        finally:
            self._waiting.pop(identity, None)

    async def _links(self, address: str) -> tuple[ClientReceiver, ClientSender]:
        if self._receiver is None or self._receiver.error is not None:
            self._receiver = await self._connection.open_receiver(
                None, REPLY_CREDIT, self._on_reply
            )
        sender = self._senders.get(address)
        if sender is None or sender.error is not None:
            sender = await self._connection.open_sender(address)
            self._senders[address] = sender
        return self._receiver, sender

    def _on_reply(self, delivery: ClientDelivery) -> None:
        try:
            message = delivery.message
        except EnMasseError as error:
            delivery.settle(outcomes.Rejected("amqp:decode-error", str(error)))
            return
        delivery.settle()
        identity = message.properties.correlation_id
        waiting = self._waiting.get(identity) if identity is not None else None
        if waiting is not None and not waiting.done():
            waiting.set_result(message)

    def fail(self, error: EnMasseError) -> None:
        """Fail all pending requests: no more replies will arrive."""
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(error)
