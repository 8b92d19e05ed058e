"""Periodic messages through the node, by the path of clients' messages.

They use addresses of a space of their own, which clients cannot use, resources do not declare and
statistics exclude. A worker accepts the connection and routes the message, and with a disk the
journal stores it. A tenant's address is never used.
"""

import asyncio
from functools import cached_property
from uuid import uuid4

import structlog

from enmasse.base.clock import Clock
from enmasse.base.errors import EnMasseError, Exhausted
from enmasse.client import Connection, connect_within
from enmasse.engines.protocol import CanaryStatistics
from enmasse.messaging import Message, Properties, Value
from enmasse.native import Node
from enmasse.plan.model import (
    EVERY_NAME,
    AddressLimits,
    Authentication,
    PlannedAddress,
    PlannedSpace,
    PlannedTtl,
    PlannedUser,
    Right,
)

log = structlog.get_logger(__name__)

INTERVAL_S = 30.0
"""Interval of messages."""

TIMEOUT_S = 10.0
"""Maximum time of a message in flight."""

SPACE_NAME = "$health"
"""The name of the space. Declared spaces cannot have such a name."""

_LATE = f"the canary message did not return within {TIMEOUT_S:g} s"
_USER = "canary"
_DIRECT = PlannedAddress(uid="enmasse-health-direct", name="direct", type="anycast")
_STORED = PlannedAddress(
    uid="enmasse-health-stored",
    name="stored",
    type="queue",
    durability="disk",
    ttl=PlannedTtl(maximum_ms=60_000),
    limits=AddressLimits(messages=100, on_full="dropOldest"),
)
UIDS = frozenset({_DIRECT.uid, _STORED.uid})
"""Uids of the addresses of that space."""


def health_space(*, has_journal: bool) -> PlannedSpace:
    """Return the space; with a journal it has an address on disk."""
    return PlannedSpace(
        uid="enmasse-health",
        names=(SPACE_NAME,),
        authentication=Authentication(type="standard", anonymous=False, mechanisms=()),
        users=(
            PlannedUser(
                name=_USER, rights=(Right(pattern=EVERY_NAME, operations=("send", "recv")),)
            ),
        ),
        addresses=(_DIRECT, _STORED) if has_journal else (_DIRECT,),
        internal=True,
    )


class Canary:
    """Sends the messages through one node, and counts failures."""

    def __init__(self, node: Node, clock: Clock) -> None:
        """Send nothing before `run`."""
        self._node = node
        self._clock = clock
        self._statistics = CanaryStatistics()
        self._sent_at: float | None = None

    @cached_property
    def space(self) -> PlannedSpace:
        """The space to add to the Plan of the node."""
        return health_space(has_journal=self._node.journal() is not None)

    @property
    def statistics(self) -> CanaryStatistics:
        """The results so far."""
        sent_at = self._sent_at
        if sent_at is None or self._clock.monotonic() - sent_at <= 2 * TIMEOUT_S:
            return self._statistics
        # Even the time-out has not ended it, because the connection does not close.
        return self._statistics._replace(problem=_LATE)

    async def run(self) -> None:
        """Send until cancelled."""
        while True:
            await self.send_once()
            await self._clock.sleep(INTERVAL_S)

    async def send_once(self) -> None:
        """Send one to each address, and record the result."""
        self._sent_at = self._clock.monotonic()
        problem = await self._problem()
        self._sent_at = None
        if problem is not None and self._statistics.problem is None:
            log.warning("canary-failed", reason=problem)
        sent, failed, _ = self._statistics
        self._statistics = CanaryStatistics(sent + 1, failed + (problem is not None), problem)

    async def _problem(self) -> str | None:
        try:
            async with (
                asyncio.timeout(TIMEOUT_S),
                connect_within(self._node, SPACE_NAME, _USER) as session,
            ):
                for address in self.space.addresses:
                    await _send_and_receive(session, address.name)
        except TimeoutError:
            return _LATE
        except Exhausted:
            # Clients use all connections: the node works, and the result is unknown.
            return self._statistics.problem
        except EnMasseError as error:
            return f"the canary message was not delivered: {error.message}"
        return None


async def _send_and_receive(session: Connection, name: str) -> None:
    """Send a message and receive it; discard messages of failed attempts."""
    message = Message(body=Value("PING"), properties=Properties(message_id=uuid4()))
    async with session.receiver(name) as receiver, session.sender(name) as sender:
        outcome = await sender.post(message)
        async for delivery in receiver:
            delivery.settle()
            if delivery.message.properties.message_id == message.properties.message_id:
                break
        await outcome
