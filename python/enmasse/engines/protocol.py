"""What every engine does, and what it tells."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, NamedTuple, Protocol

from enmasse.messaging import Message
from enmasse.plan import Plan

SLICE_MESSAGES_MAX = 1000
"""Most messages that one slice of an operation is about."""

PEEK_BYTES_MAX = 65_536
"""Largest message that is shown; of a larger one only what is known without its body."""


JOURNAL_STOPPED = "JournalStopped"
"""Reason of a failure that only another start of the engine mends."""


class Failure(NamedTuple):
    """Why an address is not served: a reason for programs, a message for people."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Proof:
    """What an engine serves now: the Plan's version, the uids of the addresses that it serves as
    the Plan says, and why it does not so serve others.
    """

    version: int
    active: frozenset[str]
    failed: Mapping[str, Failure] = field(default_factory=dict)
    damaged: Mapping[str, int] = field(default_factory=dict)
    """How many messages of which addresses, by uid, the disk has lost since the start."""

    @property
    def is_final(self) -> bool:
        """Whether the same Plan, applied again, would come to the same."""
        return all(one.reason == JOURNAL_STOPPED for one in self.failed.values())

    def differing(self, before: "Proof | None") -> set[str]:
        """Return the uids with another result in the proof `before`."""
        active, failed = (before.active, before.failed) if before else (frozenset(), {})
        uids = self.failed.keys() | failed.keys()
        lost = before.damaged if before else {}
        damaged = self.damaged.keys() | lost.keys()
        return (
            set(self.active ^ active)
            | {uid for uid in uids if self.failed.get(uid) != failed.get(uid)}
            | {uid for uid in damaged if self.damaged.get(uid) != lost.get(uid)}
        )


class AddressFigures(NamedTuple):
    """Statistics of one address. Senders, receivers, waiting and stored messages are gauges; all
    others count since its start.

    `accepted` to `modified` are outcomes sent to producers; `presettled` messages have none:
    these count messages. `dropped` counts undelivered copies of presettled messages, one for each
    receiver that missed it, or one if there was none; the message itself is in `presettled`.
    `credit_stalls` counts the times senders had to wait because receivers did not take.

    `stored` to `scheduled` are the messages at rest: all of them, those that receivers hold, and
    those that wait for a time. `oldest_age_s` is how long the oldest that can be had is here; 0
    where there is none. `enqueued` to `damaged` count messages stored, failed deliveries, messages
    accepted and not stored because they were here before, and messages gone: their time to live
    ended; a newer one of their key came; they made room for newer ones; they failed for good
    because a receiver rejected them, or because their attempts were used up; they went to a dead
    letter because their time to live ended; the disk lost them.
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
    stored: int = 0
    stored_bytes: int = 0
    in_flight: int = 0
    scheduled: int = 0
    enqueued: int = 0
    redelivered: int = 0
    duplicates: int = 0
    expired: int = 0
    replaced: int = 0
    overrun: int = 0
    dead_rejected: int = 0
    dead_attempts: int = 0
    dead_expired: int = 0
    damaged: int = 0
    oldest_age_s: float = 0.0


class JournalFigures(NamedTuple):
    """What an engine's messages on disk come to. The last two numbers count since start."""

    used_bytes: int = 0
    alive_bytes: int = 0
    appended_bytes: int = 0
    syncs: int = 0
    stopped: str | None = None
    """Why it takes nothing any more."""

    read_errors: int = 0
    """Reads that failed since the start; each is tried again."""

    unreadable: str | None = None
    """A file of it that cannot be read now, and why."""


class Connection(NamedTuple):
    """One open connection of a client."""

    id: int
    space: str | None
    user: str | None
    container: str | None
    peer: str | None
    transport: str
    links: int
    messages_in: int = 0
    """Deliveries it began to send since it came, and below what it was sent, and bytes of both."""

    bytes_in: int = 0
    messages_out: int = 0
    bytes_out: int = 0


class WorkerFigures(NamedTuple):
    """The figures of one thread that carries messages. All but the first two and the last count
    since start.
    """

    connections: int = 0
    busy_permille: int = 0
    accepted: int = 0
    closed: int = 0
    handshakes_failed: int = 0
    handshakes_timed_out: int = 0
    cut_off: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    passwords_checked: int = 0
    checks_refused: int = 0
    stopped: int = 0


class SpaceFigures(NamedTuple):
    """What one address space carries. `name` is `NAME.NAMESPACE`. The first two numbers are of this
    moment, the others count messages that clients sent, deliveries to clients, and bytes of both,
    since the engine's start or the space's.
    """

    uid: str
    name: str
    connections: int = 0
    links: int = 0
    messages_in: int = 0
    bytes_in: int = 0
    messages_out: int = 0
    bytes_out: int = 0


class CanaryFigures(NamedTuple):
    """What became of the engine's own messages to itself since its start."""

    sent: int = 0
    failed: int = 0
    problem: str | None = None
    """Why the last one did not come back; None: it did."""


class Observed(NamedTuple):
    """An engine's figures at one moment."""

    connections: int
    addresses: Sequence[AddressFigures]
    workers: Sequence[WorkerFigures] = ()
    accept_pauses: int = 0
    """Times that newcomers had to wait because a bound of connections was reached."""

    received_bytes: int = 0
    """Bytes of messages that were received and are neither stored nor handed on."""

    receive_budget_bytes: int = 0
    """The bound of those."""

    journal: JournalFigures | None = None
    """None: no address keeps its messages on disk."""

    canary: CanaryFigures | None = None
    """None: it sends itself none."""


@dataclass(frozen=True, slots=True)
class ServerCertificate:
    """A certificate that is shown for some names of a space."""

    names: tuple[str, ...]
    chain: str
    """PEM, the server's own first, at most 64 KiB."""

    key: str = field(repr=False)
    """PEM, at most 64 KiB."""


class Unshown(NamedTuple):
    """A certificate that the engine cannot show, and why; its names have that of the node."""

    uid: str
    names: tuple[str, ...]
    reason: str


class Operation(StrEnum):
    """What can be done with stored messages that no consumer holds."""

    PURGE = "purge"
    """Take them away for good."""

    PEEK = "peek"
    """Show them."""

    MOVE = "move"
    """Put them into another address and take them from this one."""

    COPY = "copy"
    """Put them into another address too."""

    REDRIVE = "redrive"
    """Put dead letters back where they came from."""


@dataclass(frozen=True, slots=True)
class Slice:
    """The part of an operation that one call does. A slice does a bounded share of work."""

    limit: int = SLICE_MESSAGES_MAX
    """Messages at most, 1 to SLICE_MESSAGES_MAX."""

    selector: str | None = None
    """Only messages that this JMS selector is true for."""

    dry_run: bool = False
    """Count what would be done, and do nothing."""

    to: str | None = None
    """Uid of the address that messages are moved or copied to."""

    after: str | None = None
    """`rest` of the slice before; None begins."""


class StoredMessage(NamedTuple):
    """One message at rest. `id` is its place in the address; times are milliseconds since 1970."""

    id: int
    state: Literal["waiting", "scheduled", "delayed"]
    bytes: int
    enqueued_ms: int
    expires_ms: int | None = None
    due_ms: int | None = None
    attempts: int = 0
    message: Message | None = None
    """None where it is larger than PEEK_BYTES_MAX."""


@dataclass(frozen=True, slots=True)
class SliceDone:
    """What one slice of an operation has done, or would have."""

    messages: int
    bytes: int
    rest: str | None = None
    """Where the next slice begins; None: there is no more. Only the engine reads it."""

    found: Sequence[StoredMessage] = ()
    """The messages themselves; of PEEK only."""


class Engine(Protocol):
    """Something that can run a Plan. Management never waits for messages."""

    async def apply(self, plan: Plan) -> Proof:
        """Serve this Plan from now on, changing only what differs, and say what is served.

        An address that cannot be served does not keep the rest from it.

        Raises: Invalid if it is no Plan; what was served before goes on.
        """

    async def prove(self) -> Proof:
        """Say what is served at this moment."""

    async def show_certificates(
        self, spaces: Mapping[str, Sequence[ServerCertificate]]
    ) -> Sequence[Unshown]:
        """Show these certificates of spaces, by uid, in the place of those they had, from the next
        TLS handshake on; without any, the node's. What is open is left alone, so are other spaces.

        At most 64 for a space. Returns what cannot be shown.
        """

    async def observe(self) -> Observed:
        """Return the figures of this moment."""

    async def usage(self) -> Sequence[SpaceFigures]:
        """Return the usage of spaces that were used. Costs little."""

    def trouble(self) -> str | None:
        """Return what the engine can no longer do and the remedy, if so. Never waits."""

    async def connections(self) -> Sequence[Connection]:
        """Return the open connections."""

    async def trace(self, connection: int, *, on: bool) -> None:
        """Write the frames of one connection to the log, or stop that. Payloads are left out.

        Raises: Missing if there is no such connection.
        """

    async def manage(self, address_uid: str, operation: Operation, part: Slice) -> SliceDone:
        """Do one slice of an operation on the messages of an address.

        An operation is about the messages that are there when its first slice is done; those that
        come meanwhile are not looked at, so that it ends.

        Raises: Missing if no such address is served; Invalid if the selector cannot be read or
            `after` is none of ours; Exhausted if `to` is full: what found room has gone there;
            Unavailable with code OPERATION_UNSUPPORTED if this engine cannot do that.
        """
