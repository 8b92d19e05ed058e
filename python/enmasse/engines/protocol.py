"""What every engine does, and what it tells."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from enmasse.plan import Plan


@dataclass(frozen=True, slots=True)
class Proof:
    """What an engine serves now: the Plan's version, and the uids of its addresses."""

    version: int
    active: frozenset[str]


class AddressFigures(NamedTuple):
    """The figures of one address. All but senders, receivers and waiting count since its start.

    `accepted` to `modified` are outcomes told to senders; `presettled` had none to tell: these
    count messages. `dropped` counts copies of presettled messages that reached nobody, one a
    receiver that missed it, or one where there was none; the message itself is in `presettled`.
    `credit_stalls` counts the times senders had to wait
    because receivers did not take.
    """

    uid: str
    space: str
    name: str
    senders: int = 0
    receivers: int = 0
    delivered: int = 0
    bytes: int = 0
    accepted: int = 0
    rejected: int = 0
    released: int = 0
    modified: int = 0
    presettled: int = 0
    dropped: int = 0
    waiting: int = 0
    credit_stalls: int = 0


class Connection(NamedTuple):
    """One open connection of a client."""

    id: int
    space: str | None
    user: str | None
    container: str | None
    peer: str | None
    transport: str
    links: int


class WorkerFigures(NamedTuple):
    """The figures of one thread that carries messages. All but the first two count since start."""

    connections: int = 0
    busy_permille: int = 0
    accepted: int = 0
    closed: int = 0
    handshakes_failed: int = 0
    handshakes_timed_out: int = 0
    cut_off: int = 0
    bytes_in: int = 0
    bytes_out: int = 0


class Observed(NamedTuple):
    """An engine's figures at one moment."""

    connections: int
    addresses: Sequence[AddressFigures]
    workers: Sequence[WorkerFigures] = ()
    accept_pauses: int = 0
    """Times that newcomers had to wait because a bound of connections was reached."""


class Engine(Protocol):
    """Something that can run a Plan. Management never waits for messages."""

    async def apply(self, plan: Plan) -> Proof:
        """Serve this Plan from now on, changing only what differs, and say what is served.

        Raises: Invalid if the Plan cannot be served; what was served before goes on.
        """

    async def observe(self) -> Observed:
        """Return the figures of this moment."""

    async def connections(self) -> Sequence[Connection]:
        """Return the open connections."""

    async def trace(self, connection: int, *, on: bool) -> None:
        """Write the frames of one connection to the log, or stop that. Payloads are left out.

        Raises: Missing if there is no such connection.
        """
