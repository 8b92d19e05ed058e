"""A session: an identity's open door to a server of messages.

These are the shapes that everything above relies on; `enmasse.client` has the one that speaks
AMQP 1.0 over the native core.
"""

from collections.abc import AsyncIterator, Awaitable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol, Self

from enmasse.messaging.message import Message
from enmasse.messaging.outcome import Outcome


@dataclass(frozen=True, slots=True)
class Start:
    """What of a stream is read, and from where on."""

    offset: Literal["first", "last", "next"] | int | datetime
    """The first kept, the last, the next to come, an offset, or the first from a time on."""

    partition: int | None = None
    """One partition only; an offset needs it where there are several."""


class Delivery(Protocol):
    """A message that arrived, and the receiver's word about it."""

    @property
    def message(self) -> Message:
        """The message, decoded when it is first looked at.

        Raises PeerError if its bytes are no message; the delivery can still be settled.
        """

    @property
    def settled(self) -> bool:
        """Whether nobody waits for an outcome (any more)."""

    def settle(self, outcome: Outcome = ...) -> None:
        """Give it its outcome, Accepted by default. The first one counts."""


class Sender(Protocol):
    """A link that messages leave by."""

    @property
    def address(self) -> str | None:
        """Where they go; None: where the `to` of each says."""

    async def send(self, message: Message, *, settled: bool = False) -> Outcome:
        """Send a message and wait for its outcome; settled ones are accepted at once.

        Waits for credit first, as long as the server wants no more.
        Raises Unavailable if the link ends before.
        """

    async def post(self, message: Message, *, settled: bool = False) -> Awaitable[Outcome]:
        """Send a message and return its outcome as something to wait for.

        Waits for credit only. Raises as `send`.
        """

    async def close(self) -> None:
        """Detach the link."""


class Receiver(Protocol):
    """A link that messages arrive by; iterate over it."""

    @property
    def address(self) -> str:
        """Where they come from; of a dynamic node the address that was made."""

    def __aiter__(self) -> AsyncIterator[Delivery]:
        """All deliveries, until the link is closed or drained.

        Raises Unavailable and others if the server ends the link.
        """

    async def drain(self) -> None:
        """Take back the credit: once what is under way was iterated over, iteration ends."""

    async def close(self) -> None:
        """Detach the link. Deliveries not settled yet go to others."""


class Session(Protocol):
    """An open connection, as somebody."""

    async def __aenter__(self) -> Self:
        """Wait until it is open."""

    async def __aexit__(self, *exception: object) -> None:
        """Close it."""

    def sender(
        self, address: str | None, *, settled: bool = False
    ) -> AbstractAsyncContextManager[Sender]:
        """Open a link to send by; None is the anonymous terminus.

        Raises Missing, Denied and others if the server refuses the link.
        """

    def receiver(
        self,
        address: str | None,
        *,
        credit: int = 100,
        count: int | None = None,
        start: Start | None = None,
    ) -> AbstractAsyncContextManager[Receiver]:
        """Open a link to receive by; None asks for a dynamic node.

        At most `credit` messages are under way or not settled at a time, and `count` in all: no
        more are asked for, so none is taken from others and given back. Of large messages fewer
        are under way at a time: those not yet iterated over come to about 16 MiB, by the size of
        those before them, after a first 16. `start` is for streams.
        Raises as `sender`, and Invalid for a `start` in what is no stream.
        """

    async def request(self, address: str, message: Message) -> Message:
        """Send a message and wait for the reply to it, told by its correlation-id.

        Raises Unavailable if the request is not accepted. Wrap it in `asyncio.timeout`.
        """
