"""A session: an authenticated connection to a messaging server.

These are the interfaces; `enmasse.client` implements them with AMQP 1.0 over the native core.
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
    """The part of a stream to read."""

    offset: Literal["first", "last", "next"] | int | datetime
    """The first retained message, the last, the next, an offset, or the first at or after a time.
    """

    partition: int | None = None
    """One partition only; required with an offset if there are several."""


class Delivery(Protocol):
    """A received message, to be settled."""

    @property
    def message(self) -> Message:
        """The message, decoded on first access.

        Raises: PeerError if its bytes are malformed; the delivery can still be settled.
        """

    @property
    def settled(self) -> bool:
        """Whether it is settled."""

    def settle(self, outcome: Outcome = ...) -> None:
        """Settle it with an outcome, Accepted by default. The first outcome counts."""


class Sender(Protocol):
    """A sender link."""

    @property
    def address(self) -> str | None:
        """Its target; None: the `to` of each message."""

    async def send(self, message: Message, *, settled: bool = False) -> Outcome:
        """Send a message and wait for its outcome; a pre-settled one is accepted at once.

        Waits for credit first, without a limit.

        Raises: Unavailable if the link ends before.
        """

    async def post(self, message: Message, *, settled: bool = False) -> Awaitable[Outcome]:
        """Send a message and return an awaitable for its outcome.

        Waits for credit only.

        Raises: as `send`.
        """

    async def close(self) -> None:
        """Detach the link."""


class Receiver(Protocol):
    """A receiver link; iterate over it."""

    @property
    def address(self) -> str:
        """Its source; for a dynamic node the address that the server created."""

    def __aiter__(self) -> AsyncIterator[Delivery]:
        """All deliveries until the link is closed or drained.

        Raises: Unavailable and others if the server ends the link.
        """

    async def drain(self) -> None:
        """Revoke the credit; iteration ends after the deliveries in transit."""

    async def close(self) -> None:
        """Detach the link. The server redelivers unsettled deliveries."""


class Session(Protocol):
    """An open connection with an identity."""

    async def __aenter__(self) -> Self:
        """Wait until it is open."""

    async def __aexit__(self, *exception: object) -> None:
        """Close it."""

    def sender(
        self, address: str | None, *, settled: bool = False
    ) -> AbstractAsyncContextManager[Sender]:
        """Attach a sender; None is the anonymous terminus.

        Raises: Missing, Denied and others if the server refuses the link.
        """

    def receiver(
        self,
        address: str | None,
        *,
        credit: int = 100,
        count: int | None = None,
        start: Start | None = None,
    ) -> AbstractAsyncContextManager[Receiver]:
        """Attach a receiver; None requests a dynamic node.

        At most `credit` deliveries are in transit or unsettled at a time, and `count` in total; no
        more credit is granted, so no delivery is taken from other receivers and returned. After the
        first 16 deliveries, credit is also limited so that about 16 MiB, estimated from earlier
        messages, wait for iteration. `start` applies to streams.

        Raises: as `sender`, and Invalid for a `start` on an address that is not a stream.
        """

    async def request(self, address: str, message: Message) -> Message:
        """Send a request and wait for the reply with its correlation-id.

        Raises: Unavailable if the request is not accepted. Use `asyncio.timeout` to bound the wait.
        """
