"""A message through the node now and then, by the way that clients' messages take.

It goes to addresses of a space of its own, which no client can come into, no resource declares and
no figures tell of: a worker takes the connection in, routes, and on disk the journal stores. A
tenant's address is never used.
"""

import asyncio
from functools import cached_property
from uuid import uuid4

import structlog

from enmasse.base.clock import Clock
from enmasse.base.errors import EnMasseError, Exhausted
from enmasse.client import Connection, connect_within
from enmasse.engines.protocol import CanaryFigures
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
"""From one message to the next."""

TIMEOUT_S = 10.0
"""For so long a message may be under way."""

SPACE_NAME = "$health"
"""No space that is declared can have such a name."""

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
"""Of the addresses of that space."""


def health_space(*, has_journal: bool) -> PlannedSpace:
    """Return the space, with an address on disk where there is a disk."""
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
    """Sends the messages through one node."""

    def __init__(self, node: Node, clock: Clock) -> None:
        """Nothing is asked of the node yet."""
        self._node = node
        self._clock = clock
        self._figures = CanaryFigures()
        self._left_at: float | None = None

    @cached_property
    def space(self) -> PlannedSpace:
        """The space that has to be in the Plan of the node."""
        return health_space(has_journal=self._node.journal() is not None)

    @property
    def figures(self) -> CanaryFigures:
        """What became of them up to now."""
        left_at = self._left_at
        if left_at is None or self._clock.monotonic() - left_at <= 2 * TIMEOUT_S:
            return self._figures
        # Not even the end of the time it had was noticed, because the connection does not close.
        return self._figures._replace(problem=_LATE)

    async def run(self) -> None:
        """Send until cancelled."""
        while True:
            await self.fly()
            await self._clock.sleep(INTERVAL_S)

    async def fly(self) -> None:
        """Send one to each address, and note what became of it."""
        self._left_at = self._clock.monotonic()
        problem = await self._problem()
        self._left_at = None
        if problem is not None and self._figures.problem is None:
            log.warning("canary-failed", reason=problem)
        sent, failed, _ = self._figures
        self._figures = CanaryFigures(sent + 1, failed + (problem is not None), problem)

    async def _problem(self) -> str | None:
        try:
            async with (
                asyncio.timeout(TIMEOUT_S),
                connect_within(self._node, SPACE_NAME, _USER) as session,
            ):
                for address in self.space.addresses:
                    await _carry(session, address.name)
        except TimeoutError:
            return _LATE
        except Exhausted:
            # clients have all connections: nothing is wrong with the node, and nothing was learnt
            return self._figures.problem
        except EnMasseError as error:
            return f"the canary message was not delivered: {error.message}"
        return None


async def _carry(session: Connection, name: str) -> None:
    """Send a message and take it again; others are from flights that failed, and go."""
    message = Message(body=Value("PING"), properties=Properties(message_id=uuid4()))
    async with session.receiver(name) as receiver, session.sender(name) as sender:
        outcome = await sender.post(message)
        async for delivery in receiver:
            delivery.settle()
            if delivery.message.properties.message_id == message.properties.message_id:
                break
        await outcome
