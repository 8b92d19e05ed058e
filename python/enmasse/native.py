"""The only module that imports the Rust extension: converts its JSON and its errors.

Blocking calls release the interpreter lock; call them from a thread (`asyncio.to_thread`), never
from the event loop.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from enmasse import _native
from enmasse.base.errors import KINDS
from enmasse.messaging import (
    Body,
    Data,
    Header,
    Message,
    Outcome,
    Properties,
    Sequence,
    Value,
)
from enmasse.messaging import outcome as outcomes

if TYPE_CHECKING:
    from enmasse.plan import Plan

ListenerKind = Literal["amqp", "amqps", "ws", "wss", "mqtt", "mqtts"]


@contextmanager
def translated() -> Iterator[None]:
    """Translate an error of the extension into the class of its kind."""
    try:
        yield
    except _native.NativeError as error:
        kind, code, message = error.args
        raise KINDS[kind](code, message) from None


class NodeLimits(NamedTuple):
    """Settings that apply to every connection of a node."""

    max_frame_size: int = 131_072
    """Largest frame accepted, sent in open."""

    link_credit: int = 1000
    """Default credit of a sender."""

    idle_timeout_s: float | None = 60.0
    """Idle time-out, sent in open; None: none."""

    receive_budget: int = 1 << 30
    """Bytes of messages that may be received and not stored yet, 64 MiB at least."""


class Node:
    """A running data plane. See `_native.pyi` for bounds and result members."""

    def __init__(
        self,
        *,
        workers: int = 0,
        insecure: bool = False,
        decoy_secret: str | None = None,
        journal: Path | None = None,
        discard_unnamed: bool = False,
        limits: NodeLimits | None = None,
        multicast_settle_timeout_ms: int = 1_000,
        mqtt_hold_ms: int = 10_000,
        proxies: Collection[str] = (),
    ) -> None:
        """Start the worker threads (0: one per core), without listeners and with an empty Plan.

        `decoy_secret`, random and equal at every start, determines the SCRAM parameters of unknown
        users; without it they change with each start, unlike those of real users. `journal` is the
        folder of stored messages; without it no address can store on disk. `discard_unnamed`
        deletes those whose address is unknown because its declaration is damaged.
        `multicast_settle_timeout_ms` bounds the wait for a consumer that settles nothing,
        `mqtt_hold_ms` the time that a full address holds a client of MQTT back.
        `proxies` are networks whose connections begin with a header of the PROXY protocol.
        """
        bounds = limits or NodeLimits()
        idle_s = bounds.idle_timeout_s
        config = {
            "workers": workers,
            "insecure": insecure,
            "containerId": "enmasse",
            "decoySecret": decoy_secret,
            "journal": str(journal) if journal else None,
            "discardUnnamed": discard_unnamed,
            "proxies": list(proxies),
            "limits": {
                "maxFrameSizeBytes": bounds.max_frame_size,
                "linkCapacity": bounds.link_credit,
                "receiveBudgetBytes": bounds.receive_budget,
                "multicastSettleTimeoutMs": multicast_settle_timeout_ms,
                "mqttHoldMs": mqtt_hold_ms,
                "idleTimeoutMs": None if idle_s is None else round(idle_s * 1000),
            },
        }
        with translated():
            self._node = _native.Node(json.dumps(config))

    def listen(
        self, kind: ListenerKind, host: str, port: int, tls: Mapping[str, str] | None = None
    ) -> int:
        """Listen and return the bound port.

        `tls` has the PEM files `certificate`, `key` and, for client certificates, `clientCa`.
        """
        with translated():
            return self._node.listen(kind, host, port, json.dumps(dict(tls)) if tls else None)

    def listen_unix(self, path: Path) -> None:
        """Listen for MQTT on a Unix socket, for the user and the group of the process.

        The file of a process that no longer listens is replaced; `stop` removes it.
        """
        with translated():
            self._node.listen_unix(str(path))

    def allow_web(self, *, origins: Collection[str], hosts: Collection[str]) -> None:
        """Set the WebSocket origins and the host names that the node accepts."""
        rules = {"origins": list(origins), "hosts": list(hosts)}
        with translated():
            self._node.allow_web(json.dumps(rules))

    def cordon(self, *, cordoned: bool) -> None:
        """Refuse clients that log in and keep the connected ones, or lift that."""
        with translated():
            self._node.cordon(cordoned)

    def apply(self, plan: "Plan") -> dict[str, Any]:
        """Apply a Plan; return the confirmation, and the numbers of added, removed and changed
        addresses.
        """
        with translated():
            return _object(self._node.apply(plan.json_text()))

    def proof(self) -> dict[str, Any]:
        """Return the present confirmation: version, active, failed."""
        with translated():
            return _object(self._node.proof())

    def show_certificates(self, spaces: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Use certificates of spaces from the next handshake on; return those that are unusable."""
        with translated():
            unusable: list[dict[str, Any]] = json.loads(
                self._node.show_certificates(json.dumps(spaces))
            )
        return unusable

    def stats(self) -> dict[str, Any]:
        """Return the statistics since the start. Lines of addresses lack what is 0."""
        with translated():
            return _object(self._node.stats())

    def usage(self) -> str:
        """Return the traffic of each space with traffic, as a JSON array. Does not block."""
        with translated():
            return self._node.usage()

    def journal(self) -> dict[str, Any] | None:
        """Return the state and statistics of the journal; None without one. Does not block."""
        with translated():
            journal: dict[str, Any] | None = json.loads(self._node.journal())
        return journal

    def manage(self, request: Mapping[str, Any]) -> tuple[dict[str, Any], list[bytes | None]]:
        """Run one slice of an operation on stored messages; return its result and messages."""
        with translated():
            done, messages = self._node.manage(json.dumps(dict(request)))
        return _object(done), messages

    def sessions(
        self, space_uid: str, after: Mapping[str, Any] | None, count_max: int
    ) -> tuple[list[dict[str, Any]], int]:
        """Return MQTT sessions of a space and the number of those beyond `count_max`."""
        with translated():
            start = None if after is None else json.dumps(dict(after))
            found = _object(self._node.sessions(space_uid, start, count_max))
        return found["sessions"], found["more"]

    def end_session(self, space_uid: str, name: Mapping[str, Any]) -> bool:
        """End an MQTT session; return whether it exists."""
        with translated():
            return self._node.end_session(space_uid, json.dumps(dict(name)))

    def connections(self) -> list[dict[str, Any]]:
        """Return the open connections, oldest first."""
        with translated():
            listed: list[dict[str, Any]] = json.loads(self._node.connections())
        return listed

    def links(
        self, connection: int | None, address_uid: str | None, count_max: int
    ) -> tuple[list[dict[str, Any]], int]:
        """Return links and the number of those beyond `count_max`."""
        with translated():
            found = _object(self._node.links(connection, address_uid, count_max))
        return found["links"], found["more"]

    def close_connection(self, connection: int) -> bool:
        """Close a connection; return whether it exists."""
        with translated():
            return self._node.close_connection(connection)

    def events(self, count_max: int) -> list[dict[str, Any]]:
        """Take the oldest events, without blocking."""
        with translated():
            return [_object(event) for event in self._node.events(count_max)]

    def event_fd(self) -> int:
        """Return a descriptor that is readable while there are events."""
        return self._node.event_fd()

    def logins(self, count_max: int) -> list[dict[str, Any]]:
        """Take the oldest pending logins for external decision, without blocking.

        They contain passwords and tokens: never log them.
        """
        with translated():
            return [_object(login) for login in self._node.logins(count_max)]

    def login_fd(self) -> int:
        """Return a descriptor that is readable while there are pending logins."""
        return self._node.login_fd()

    def answer_login(self, answer: Mapping[str, Any]) -> None:
        """Decide a login; ignored if the peer has gone."""
        with translated():
            self._node.answer_login(json.dumps(dict(answer)))

    def creations(self, count_max: int) -> list[dict[str, Any]]:
        """Take the oldest creation requests of links, without blocking."""
        with translated():
            return [_object(one) for one in self._node.creations(count_max)]

    def creation_fd(self) -> int:
        """Return a descriptor that is readable while there are creation requests."""
        return self._node.creation_fd()

    def answer_creation(self, number: int, refused: str | None) -> None:
        """Answer a creation request with the reason of a refusal; None: the address exists."""
        with translated():
            self._node.answer_creation(json.dumps({"id": number, "refused": refused}))

    def seal_unused(self, uid: str, *, seal: bool) -> bool:
        """Seal an address that is not in use, or lift the seal; return whether it is sealed."""
        with translated():
            return self._node.seal_unused(uid, seal)

    def trace(self, connection: int, *, on: bool) -> None:
        """Start or stop tracing the frames of a connection as events."""
        with translated():
            self._node.trace(connection, on)

    def connect(self, space: str, user: str | None = None) -> int:
        """Return the descriptor of a socket connected to a space within this process."""
        with translated():
            return self._node.connect(space, user)

    def stop(self, timeout_s: float) -> None:
        """Close listeners and connections and stop the threads, at most after `timeout_s`."""
        with translated():
            self._node.stop(timeout_s)


class Client:
    """One connection to an AMQP 1.0 server. See `_native.pyi` for bounds and events."""

    def __init__(self, **options: Any) -> None:
        """Start connecting; options as in `_native.pyi`, without those that are None.

        Either `url`, or `fd`: a socket within this process, whose ownership passes to the
        connection.
        """
        given = {name: value for name, value in options.items() if value is not None}
        with translated():
            self._client = _native.Client(json.dumps(given))

    def event_fd(self) -> int:
        """Return a descriptor that is readable while `poll` has events."""
        return self._client.event_fd()

    def poll(self, count_max: int) -> list[tuple[Any, ...]]:
        """Take the oldest events, without blocking."""
        return self._client.poll(count_max)

    def attach_sender(self, address: str | None, **options: Any) -> int:
        """Attach a sender and return its number."""
        with translated():
            return self._client.attach_sender(address, json.dumps(options))

    def attach_receiver(self, address: str | None, **options: Any) -> int:
        """Attach a receiver and return its number."""
        with translated():
            return self._client.attach_receiver(address, json.dumps(options))

    def send(self, link: int, messages: list[bytes], *, settled: bool) -> int:
        """Queue encoded messages, from the front, and return how many were accepted."""
        with translated():
            return self._client.send(link, messages, settled)

    def credit(self, link: int, count: int) -> None:
        """Grant credit."""
        self._client.credit(link, count)

    def drain(self, link: int) -> None:
        """Drain a receiver."""
        self._client.drain(link)

    def settle(self, link: int, delivery: int, outcome: Outcome) -> None:
        """Settle a delivery with an outcome."""
        with translated():
            self._client.settle(link, delivery, delivery, outcomes.to_tuple(outcome))

    def detach(self, link: int) -> None:
        """Detach a link."""
        self._client.detach(link)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


class Stream:
    """One connection that reads a stream. See `_native.pyi`; calls block."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        """Connect; the options are those of `_native.pyi`."""
        with translated():
            self._stream = _native.Stream(json.dumps(dict(options)))

    def state(self) -> dict[str, Any]:
        """Return uid and partitions of the stream."""
        with translated():
            return _object(self._stream.state())

    def space(self) -> str | None:
        """Return the address space: that of the options, else the one that the server announced."""
        return self._stream.space()

    def offset_at(self, partition: int, time_ms: int) -> int | None:
        """Return the first offset at or after a time, or None."""
        with translated():
            return self._stream.offset_at(partition, time_ms)

    def begin(self, wanted: Mapping[str, Any], columns: Mapping[str, Any]) -> None:
        """Start reading a range of one partition into columns."""
        with translated():
            self._stream.begin(json.dumps(dict(wanted)), json.dumps(dict(columns)))

    def next_batch(self) -> "_native.Rows | None":
        """Return the next rows, None after the last."""
        with translated():
            return self._stream.next_batch()

    def missing(self) -> int:
        """Return how many messages of the range had been removed by retention."""
        return self._stream.missing()

    def marked(self) -> int:
        """Return how many messages of the range could not be decoded."""
        return self._stream.marked()


class Outbox:
    """Rows to send to addresses. See `_native.pyi`; `send` blocks."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        """Validate the options, those of `_native.pyi`, without connecting."""
        with translated():
            self._outbox = _native.Outbox(json.dumps(dict(options)))

    def __len__(self) -> int:
        """Return the number of pending rows."""
        return len(self._outbox)

    @property
    def size(self) -> int:
        """Bytes of the pending messages."""
        return self._outbox.size

    def add(self, batch: object) -> None:
        """Add the rows of a record batch.

        Raises: Invalid for columns that do not form messages.
        """
        with translated():
            self._outbox.add(batch)

    def sort(self) -> None:
        """Sort the rows into an order determined by their addresses and bytes."""
        self._outbox.sort()

    def send(self, first: int) -> "tuple[bool, list[tuple[int, str, str]], _native.Rows]":
        """Send pending rows, numbered from `first`; return rejected rows and their causes.

        The first of the three results is False if the rejected rows must be stored before
        continuing.
        """
        with translated():
            return self._outbox.send(first)


class Segment(Protocol):
    """Pulled messages. See `_native.pyi`."""

    @property
    def data(self) -> bytes:
        """A spool file."""

    @property
    def ids(self) -> bytes:
        """Identities of its messages."""

    @property
    def rows(self) -> int:
        """Messages in it."""

    @property
    def repeated(self) -> int:
        """Excluded messages: duplicates of known ones."""

    @property
    def anonymous(self) -> int:
        """Messages without a message-id."""

    @property
    def doubtful(self) -> int:
        """Messages without a message-id that were delivered before."""

    @property
    def more(self) -> bool:
        """Whether more messages may be available."""


class Intake:
    """Consumes from a queue. See `_native.pyi`; calls block."""

    def __init__(self, options: Mapping[str, Any], key: str) -> None:
        """Validate the options, without connecting."""
        with translated():
            self._intake = _native.Intake(json.dumps(dict(options)), key)

    def pull(self, first: int, rows: int, size: int) -> Segment:
        """Pull about that many messages and bytes, to be stored from offset `first` on."""
        with translated():
            return self._intake.pull(first, rows, size)

    def settle(self, *, accepted: bool) -> None:
        """Accept pulled messages once they are stored, or release them."""
        self._intake.settle(accepted)

    def know(self, file: bytes) -> bytes:
        """Load and return the identities of a spool file.

        Raises: Conflict.
        """
        with translated():
            return self._intake.know(file)

    def keep(self, count: int) -> None:
        """Forget the oldest identities beyond a number."""
        self._intake.keep(count)

    def known(self) -> int:
        """Return the number of known identities."""
        return self._intake.known()

    def space(self) -> str | None:
        """Return the address space as `Stream.space`; None while there is no connection."""
        return self._intake.space()

    def depth(self) -> int | None:
        """Return the number of waiting messages; None if the server does not report it."""
        with translated():
            return self._intake.depth()

    def close(self) -> None:
        """Close the connection; unsettled messages return to the queue."""
        self._intake.close()


class Spooled:
    """Messages of a spool file as rows. See `_native.pyi`."""

    def __init__(self, file: bytes, wanted: Mapping[str, Any]) -> None:
        """Verify the file.

        Raises: Conflict if it is incomplete.
        """
        with translated():
            self._spooled = _native.Spooled(file, json.dumps(dict(wanted)))

    def next_batch(self) -> "_native.Rows | None":
        """Return the next rows, None after the last."""
        return self._spooled.next_batch()


class Replay:
    """Messages of a table as decoded rows. See `_native.pyi`."""

    def __init__(self, messages: object, columns: Mapping[str, Any]) -> None:
        """Validate them.

        Raises: Invalid for missing or unsupported columns.
        """
        with translated():
            self._replay = _native.Replay(messages, json.dumps(dict(columns)))

    def next_batch(self) -> "_native.Rows | None":
        """Return the next rows, None after the last."""
        return self._replay.next_batch()


def pack_ids(ids: bytes, first: int, after: int) -> bytes:
    """Return the spool file that contains messages `first` to `after` (exclusive)."""
    return _native.pack_ids(ids, first, after)


def declare_columns(columns: Mapping[str, Any]) -> str:
    """Validate a column declaration and return it in SQL.

    Raises: Invalid.
    """
    with translated():
        return _native.declare_columns(json.dumps(dict(columns)))


class Followed(NamedTuple):
    """The changes of live state by a batch of readings, as record batches. See `_native.pyi`."""

    latest: "_native.Rows"
    """Numbers of rows."""

    devices: "_native.Rows"
    sessions: "_native.Rows"
    states: "_native.Rows"
    changes: "_native.Rows"
    skipped: int
    """Readings that detectors skip."""


def follow_batch(
    rules: str, readings: object, devices: object, latest: object, states: object
) -> Followed:
    """Follow the readings of a batch by rules in JSON; raises Invalid."""
    with translated():
        return Followed(*_native.follow_batch(rules, readings, devices, latest, states))


def follow_silences(rules: str, states: object, now_us: int) -> "tuple[_native.Rows, _native.Rows]":
    """Return the states that silence changes, and the incidents that begin; raises Invalid."""
    with translated():
        return _native.follow_silences(rules, states, now_us)


def encode_message(message: Message) -> bytes:
    """Encode a message.

    Raises: Invalid for a value without an AMQP type.
    """
    body: tuple[str, Any] | None
    match message.body:
        case Data(parts):
            body = ("data", parts)
        case Sequence(parts):
            body = ("sequence", parts)
        case Value(value):
            body = ("value", value)
        case None:
            body = None
    with translated():
        return _native.encode_message(
            (
                HEADER_FIELDS(message.header) if message.header is not None else None,
                message.delivery_annotations,
                message.annotations,
                PROPERTY_FIELDS(message.properties)
                if message.properties != NO_PROPERTIES
                else None,
                message.application_properties,
                body,
                message.footer,
            )
        )


def decode_message(data: bytes) -> Message:
    """Decode a message.

    Raises: PeerError if the bytes are malformed.
    """
    with translated():
        header, delivery_annotations, annotations, properties, application, body, footer = (
            _native.decode_message(data)
        )
    return Message(
        body=BODIES[body[0]](body[1]) if body is not None else None,
        properties=Properties(*properties) if properties is not None else NO_PROPERTIES,
        application_properties=application,
        header=Header(*header) if header is not None else None,
        annotations=annotations,
        delivery_annotations=delivery_annotations,
        footer=footer,
    )


NO_PROPERTIES = Properties()
HEADER_FIELDS = attrgetter(*Header.__dataclass_fields__)
PROPERTY_FIELDS = attrgetter(*Properties.__dataclass_fields__)
BODIES: dict[str, Callable[[Any], Body]] = {"data": Data, "sequence": Sequence, "value": Value}


def run_load(
    options: Mapping[str, Any], progress: Callable[[str, float, int], object] | None = None
) -> dict[str, Any]:
    """Run the load generator and return its report.

    Blocks for the duration of the load: call it from a separate thread. `progress(phase, fraction,
    count)` is called on that thread; an exception in it ends the load.
    """
    with translated():
        return _object(_native.bench(json.dumps(dict(options)), progress))


def _object(text: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(text)
    return value
