"""The interface of engines, and their reports."""

import socket
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, NamedTuple, Protocol

from enmasse.messaging import Message, Session
from enmasse.plan import Plan

SLICE_MESSAGES_MAX = 1000
"""Maximum messages of one slice of an operation."""

PEEK_BYTES_MAX = 65_536
"""Maximum size of a message that is shown; a larger one is shown without its body."""


FRAMES_WAITING_MAX = 1000
"""Maximum traced frames that wait for their reader."""

LINKS_MAX = 1000
"""Maximum links of one answer."""


JOURNAL_STOPPED = "JournalStopped"
"""Reason of a failure that only a restart of the engine remedies."""


class Failure(NamedTuple):
    """Why an address is not served: a reason for programs, a message for people."""

    reason: str
    message: str


class Unnamed(NamedTuple):
    """Stored messages whose address is unknown because every copy of its declaration is damaged,
    and the journal files that have some of them.
    """

    messages: int = 0
    files: int = 0


@dataclass(frozen=True, slots=True)
class Proof:
    """The confirmation of an engine: the version of the Plan, the uids of the addresses that it
    serves as planned, and the reasons why it does not serve others.
    """

    version: int
    active: frozenset[str]
    failed: Mapping[str, Failure] = field(default_factory=dict)
    damaged: Mapping[str, int] = field(default_factory=dict)
    """Lost messages since the start because of damage on disk, by uid of the address."""

    unnamed: Unnamed = field(default_factory=Unnamed)
    """Messages without a declared address, found at the start."""

    @property
    def is_final(self) -> bool:
        """Whether applying the same Plan again would have the same result."""
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


class AddressStatistics(NamedTuple):
    """Statistics of one address. Senders, receivers, waiting and stored messages are gauges; all
    others are counters since its start.

    `accepted` to `modified` count messages by the outcome sent to the producer; `presettled`
    messages have no outcome. `dropped` counts undelivered copies of presettled messages: one for
    each receiver that missed it, or one if there was none; the message itself is in `presettled`.
    `credit_stalls` counts how often senders waited for credit because receivers were slow.

    `stored` to `scheduled` are gauges of stored messages: all, those that receivers hold, and those
    with a later delivery time. `oldest_age_s` is the age of the oldest available message; 0 without
    one. `enqueued` to `damaged` are counters: messages stored, failed deliveries, duplicates that
    were accepted and not stored, and removed messages by cause: the time to live ended; a newer one
    had the same key; they made room for newer ones; they became dead letters because a receiver
    rejected them, because the attempts were used up, or because the time to live ended; the disk
    lost them.
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


class JournalStatistics(NamedTuple):
    """The state of an engine's journal. `appended_bytes` and `syncs` count since the start."""

    used_bytes: int = 0
    alive_bytes: int = 0
    appended_bytes: int = 0
    syncs: int = 0
    stopped: str | None = None
    """Why it stores nothing; None: it works."""

    read_errors: int = 0
    """Failed reads since the start; each is retried."""

    unreadable: str | None = None
    """A file that cannot be read at present, and the reason."""

    unnamed_messages: int = 0
    """Messages without a declared address, found at the start, and the files that have them."""

    unnamed_segments: int = 0


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
    """Deliveries from the client since it connected; then bytes, and both to the client."""

    bytes_in: int = 0
    messages_out: int = 0
    bytes_out: int = 0
    product: str | None = None
    """Name and version of the client's software, as the client states them."""


class LinkOutcomes(NamedTuple):
    """Outcomes of the deliveries of a link: the client's own if it receives, else those that it was
    sent. Deliveries that were settled when they were sent have none.
    """

    accepted: int = 0
    rejected: int = 0
    released: int = 0
    modified: int = 0


class LinkStatistics(NamedTuple):
    """One link of a client, with values since its attach. `credit` is what its sender may send now,
    `unsettled` the deliveries without an outcome.
    """

    connection: int
    name: str
    role: Literal["sender", "receiver"]
    """The role of the client."""

    addresses: tuple[str, ...]
    """Uids of its addresses: several of a receiver with wildcards or a sender without a target."""

    credit: int = 0
    deliveries: int = 0
    unsettled: int = 0
    outcomes: LinkOutcomes | None = None
    """None for MQTT, which has no outcomes."""


class MqttSubscription(NamedTuple):
    """A subscription of an MQTT session. `qos` is the highest of its messages."""

    filter: str
    qos: int
    no_local: bool = False


class MqttWill(NamedTuple):
    """The will of an MQTT session, without its payload of `bytes` bytes."""

    topic: str
    qos: int
    retain: bool = False
    delay_s: int = 0
    bytes: int = 0


class SessionKind(StrEnum):
    """What has an MQTT session."""

    CLIENT = "client"
    """A client of MQTT."""

    SUBSCRIPTION = "subscription"
    """A subscription of an AMQP client (`$subctrl`)."""

    WILL = "will"
    """A will of an AMQP client (`$lwt`)."""


class SessionName(NamedTuple):
    """What names an MQTT session within its space."""

    user: str | None
    """None: the client is anonymous."""

    client_id: str
    """Of the client; of a subscription its name; of a will the container of the client."""

    kind: SessionKind = SessionKind.CLIENT
    link: str | None = None
    """The link with the will."""


class MqttSession(NamedTuple):
    """An MQTT session."""

    name: SessionName
    connection: int | None = None
    """None: the client is not connected."""

    expiry_s: int | None = 0
    """How long it outlives a connection; None: for ever."""

    subscription_count: int = 0
    subscriptions: tuple[MqttSubscription, ...] = ()
    """At most 1,000, in the order of their filters."""

    will: MqttWill | None = None


class WorkerStatistics(NamedTuple):
    """Statistics of one worker thread. `connections`, `busy_permille` and `stopped` are gauges, the
    others count since the start.
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


class SpaceStatistics(NamedTuple):
    """Traffic of one address space. `name` is `NAME.NAMESPACE`. `connections` and `links` are
    gauges; the others count messages from clients, deliveries to clients, and bytes of both, since
    the start of the engine or the space.
    """

    uid: str
    name: str
    connections: int = 0
    links: int = 0
    messages_in: int = 0
    bytes_in: int = 0
    messages_out: int = 0
    bytes_out: int = 0


class CanaryStatistics(NamedTuple):
    """Results of the engine's own messages to itself since its start."""

    sent: int = 0
    failed: int = 0
    problem: str | None = None
    """Why the last one did not return; None: it did."""


class Observed(NamedTuple):
    """Statistics of an engine at one moment."""

    connections: int
    addresses: Sequence[AddressStatistics]
    workers: Sequence[WorkerStatistics] = ()
    accept_pauses: int = 0
    """Number of times that a connection limit paused accepting."""

    received_bytes: int = 0
    """Bytes of received messages that are neither stored nor delivered yet."""

    receive_budget_bytes: int = 0
    """The limit of `received_bytes`."""

    journal: JournalStatistics | None = None
    """None: no address stores messages on disk."""

    canary: CanaryStatistics | None = None
    """None: the engine has no canary."""

    cost_s: float = 0.0
    """Processor time that the observation took in Python."""


@dataclass(frozen=True, slots=True)
class ServerCertificate:
    """A certificate for some names of a space."""

    names: tuple[str, ...]
    chain: str
    """PEM, server certificate first, at most 64 KiB."""

    key: str = field(repr=False)
    """PEM, at most 64 KiB."""


class UnusableCertificate(NamedTuple):
    """A certificate that the engine cannot use, with the reason; the node's replaces it."""

    uid: str
    names: tuple[str, ...]
    reason: str


class Operation(StrEnum):
    """Operations on stored messages that no consumer holds."""

    PURGE = "purge"
    """Delete them."""

    PEEK = "peek"
    """Show them."""

    MOVE = "move"
    """Move them to another address."""

    COPY = "copy"
    """Copy them to another address."""

    REDRIVE = "redrive"
    """Move dead letters back to their original addresses."""


@dataclass(frozen=True, slots=True)
class Slice:
    """The part of an operation for one call, with a bounded amount of work."""

    limit: int = SLICE_MESSAGES_MAX
    """Maximum messages, 1 to SLICE_MESSAGES_MAX."""

    selector: str | None = None
    """Process only messages that match this JMS selector."""

    filter: str | None = None
    """Process only messages that match this SQL filter expression (`amqp:sql-filter`)."""

    topic_filter: str | None = None
    """Process only messages that were sent to a name that this MQTT filter matches."""

    message: int | None = None
    """Process only the message with this id."""

    edited: Message | None = None
    """Of REDRIVE of one message: the message that takes its place."""

    dry_run: bool = False
    """Only count the messages that would be processed."""

    to: str | None = None
    """Uid of the destination address of move or copy."""

    after: str | None = None
    """`rest` of the previous slice; None starts the operation."""


class StoredMessage(NamedTuple):
    """One stored message. `id` is its position in the address; times are Unix milliseconds."""

    id: int
    state: Literal["waiting", "scheduled", "delayed"]
    bytes: int
    enqueued_ms: int
    expires_ms: int | None = None
    due_ms: int | None = None
    attempts: int = 0
    message: Message | None = None
    """None if it is larger than PEEK_BYTES_MAX, or cannot be decoded."""

    problem: str | None = None
    """Why it cannot be decoded: a node stores what it does not have to read."""


@dataclass(frozen=True, slots=True)
class SliceDone:
    """The result of one slice, or of its dry run."""

    messages: int
    bytes: int
    rest: str | None = None
    """Start of the next slice; None: the operation is complete. Only the engine interprets it."""

    found: Sequence[StoredMessage] = ()
    """The messages themselves, for PEEK only."""


class Engine(Protocol):
    """Runs a Plan. Management never waits for messages."""

    async def apply(self, plan: Plan) -> Proof:
        """Serve this Plan, changing only what differs, and return the confirmation.

        An address that cannot be served does not prevent serving the others.

        Raises: Invalid if the Plan is malformed; the previous Plan then stays in force.
        """

    async def prove(self) -> Proof:
        """Return the present confirmation."""

    async def show_certificates(
        self, spaces: Mapping[str, Sequence[ServerCertificate]]
    ) -> Sequence[UnusableCertificate]:
        """Replace the certificates of spaces, by uid, from the next TLS handshake on; an empty list
        selects the node's. Open connections and other spaces are unaffected.

        At most 64 for a space. Returns the unusable ones.
        """

    async def observe(self) -> Observed:
        """Return the present statistics."""

    async def usage(self) -> Sequence[SpaceStatistics]:
        """Return the traffic of spaces with traffic. Cheap."""

    def problem(self) -> str | None:
        """Return the defect of the engine and the remedy, if there is one. Never waits."""

    async def connections(self) -> Sequence[Connection]:
        """Return the open connections."""

    async def links(
        self, *, connection: int | None = None, address_uid: str | None = None
    ) -> tuple[Sequence[LinkStatistics], int]:
        """Return links, at most LINKS_MAX, by connection and name, and the number of the others.

        Those of one connection, and those at one address, if given.
        """

    async def close_connection(self, connection: int) -> None:
        """Close a connection; its client gets `amqp:connection:forced`.

        Raises: Missing if the connection does not exist.
        """

    async def mqtt_sessions(
        self, space_uid: str, *, after: SessionName | None, limit: int
    ) -> tuple[Sequence[MqttSession], int]:
        """Return MQTT sessions of a space, by user and client id, at most `limit` after `after`,
        and the number of the others.

        Raises: Missing if the space is not served.
        """

    async def end_mqtt_session(self, space_uid: str, name: SessionName) -> bool:
        """End an MQTT session with its subscriptions; return whether it exists. A client of MQTT
        gets DISCONNECT 0x98, the receiver of a subscription `amqp:resource-deleted`. Its will is
        published.

        Raises: Missing if the space is not served; Unavailable if it does not end in time.
        """

    def session(self, space: str) -> Session:
        """Return a session with a space, `NAME.NAMESPACE`, that has every right in it.

        Raises: Missing if the space is not served; Unavailable while standing by.
        """

    def connect(self, space: str, user: str | None) -> socket.socket:
        """Return a socket that speaks AMQP with a space as a user of it, without SASL; None:
        anonymous.

        Raises: Missing if the space is not served; Unavailable while standing by.
        """

    async def trace(self, connection: int, *, on: bool) -> None:
        """Start or stop logging the frames of one connection. Payloads are excluded.

        Raises: Missing if the connection does not exist.
        """

    def frames(self, connection: int) -> AsyncGenerator[Mapping[str, Any], None]:
        """Trace a connection while the result is iterated, without the log.

        Yields events `trace` of `_native.pyi`, without end, and without payloads. A slow reader
        misses frames beyond FRAMES_WAITING_MAX.
        """

    async def manage(self, address_uid: str, operation: Operation, part: Slice) -> SliceDone:
        """Run one slice of an operation on the messages of an address.

        An operation processes the messages that exist at its first slice; later ones are skipped,
        so that it ends.

        Raises: Missing if no such address is served; Invalid if the selector is malformed or
            `after` is not from this engine; Exhausted if `to` is full, after moving the messages
            that fit; Unavailable with code OPERATION_UNSUPPORTED if this engine cannot do that.
        """
