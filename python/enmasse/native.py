"""The one door to the Rust extension: its JSON becomes plain values, its errors become ours.

Nothing else imports `enmasse._native`. Every call that may wait lets other threads run; call those
from a thread (`asyncio.to_thread`), never from the event loop.
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

ListenerKind = Literal["amqp", "amqps", "ws", "wss"]


@contextmanager
def translated() -> Iterator[None]:
    """Turn an error of the extension into the class of its kind."""
    try:
        yield
    except _native.NativeError as error:
        kind, code, message = error.args
        raise KINDS[kind](code, message) from None


class NodeLimits(NamedTuple):
    """What holds for every connection of a node."""

    max_frame_size: int = 131_072
    """Largest frame that is taken, told to peers at open."""

    link_credit: int = 1000
    """Credit of a sender on addresses that no infra config speaks of."""

    idle_timeout_s: float | None = 60.0
    """Silence after which a peer counts as gone, told to it at open; None: never."""


class Node:
    """A running data plane. See `_native.pyi` for bounds and the members of what it returns."""

    def __init__(
        self,
        *,
        workers: int = 0,
        insecure: bool = False,
        decoy_secret: str | None = None,
        journal: Path | None = None,
        limits: NodeLimits | None = None,
        multicast_settle_timeout_ms: int = 1_000,
    ) -> None:
        """Start the worker threads (0: one a core), without listeners and with an empty Plan.

        `decoy_secret`, random and the same at every start, is what users that do not exist are made
        up from; by default they look another way after each start, unlike those that do. `journal`
        is the folder of messages on disk; without one no address can keep its messages there.
        `multicast_settle_timeout_ms` bounds the wait for a consumer that settles nothing.
        """
        bounds = limits or NodeLimits()
        idle_s = bounds.idle_timeout_s
        config = {
            "workers": workers,
            "insecure": insecure,
            "containerId": "enmasse",
            "decoySecret": decoy_secret,
            "journal": str(journal) if journal else None,
            "limits": {
                "maxFrameSizeBytes": bounds.max_frame_size,
                "linkCapacity": bounds.link_credit,
                "multicastSettleTimeoutMs": multicast_settle_timeout_ms,
                "idleTimeoutMs": None if idle_s is None else round(idle_s * 1000),
            },
        }
        with translated():
            self._node = _native.Node(json.dumps(config))

    def listen(
        self, kind: ListenerKind, host: str, port: int, tls: Mapping[str, str] | None = None
    ) -> int:
        """Listen and return the bound port.

        `tls` names the PEM files `certificate`, `key` and, where client certificates are welcome,
        `clientCa`.
        """
        with translated():
            return self._node.listen(kind, host, port, json.dumps(dict(tls)) if tls else None)

    def allow_web(self, *, origins: Collection[str], hosts: Collection[str]) -> None:
        """Let pages of these origins open WebSockets, and the node be asked by these names."""
        rules = {"origins": list(origins), "hosts": list(hosts)}
        with translated():
            self._node.allow_web(json.dumps(rules))

    def apply(self, plan: "Plan") -> dict[str, Any]:
        """Put a Plan in force; return the proof, and the numbers added, removed and changed."""
        with translated():
            return _object(self._node.apply(plan.json_text()))

    def proof(self) -> dict[str, Any]:
        """Return what is served at this moment: version, active, failed."""
        with translated():
            return _object(self._node.proof())

    def show_certificates(self, spaces: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Show certificates of spaces from the next handshake on; return what cannot be shown."""
        with translated():
            unshown: list[dict[str, Any]] = json.loads(
                self._node.show_certificates(json.dumps(spaces))
            )
        return unshown

    def stats(self) -> dict[str, Any]:
        """Return what was counted since the start."""
        with translated():
            return _object(self._node.stats())

    def usage(self) -> str:
        """Return what has passed through each space that somebody has used, as a JSON array.
        Waits for nobody."""
        with translated():
            return self._node.usage()

    def journal(self) -> dict[str, Any] | None:
        """Return what the journal is and has done; None if there is none. Waits for nobody."""
        with translated():
            journal: dict[str, Any] | None = json.loads(self._node.journal())
        return journal

    def manage(self, request: Mapping[str, Any]) -> tuple[dict[str, Any], list[bytes | None]]:
        """Do one slice of an operation on messages at rest; return the answer and messages."""
        with translated():
            done, messages = self._node.manage(json.dumps(dict(request)))
        return _object(done), messages

    def connections(self) -> list[dict[str, Any]]:
        """Return the open connections, oldest first."""
        with translated():
            listed: list[dict[str, Any]] = json.loads(self._node.connections())
        return listed

    def events(self, count_max: int) -> list[dict[str, Any]]:
        """Take the oldest events, without waiting."""
        with translated():
            return [_object(event) for event in self._node.events(count_max)]

    def event_fd(self) -> int:
        """Return a descriptor that is readable while there are events."""
        return self._node.event_fd()

    def logins(self, count_max: int) -> list[dict[str, Any]]:
        """Take the oldest logins that somebody else has to decide, without waiting.

        They hold passwords and tokens: log none of it.
        """
        with translated():
            return [_object(login) for login in self._node.logins(count_max)]

    def login_fd(self) -> int:
        """Return a descriptor that is readable while there are logins to decide."""
        return self._node.login_fd()

    def answer_login(self, answer: Mapping[str, Any]) -> None:
        """Decide a login; one that nobody waits for any more is passed over."""
        with translated():
            self._node.answer_login(json.dumps(dict(answer)))

    def creations(self, count_max: int) -> list[dict[str, Any]]:
        """Take the oldest addresses that links want created, without waiting."""
        with translated():
            return [_object(one) for one in self._node.creations(count_max)]

    def creation_fd(self) -> int:
        """Return a descriptor that is readable while there are addresses to create."""
        return self._node.creation_fd()

    def answer_creation(self, number: int, refused: str | None) -> None:
        """Say why there will be no address, or that a Plan has it or will have it."""
        with translated():
            self._node.answer_creation(json.dumps({"id": number, "refused": refused}))

    def seal_unused(self, uid: str, *, seal: bool) -> bool:
        """Seal an address that is not in use, or lift the seal; return whether it is sealed."""
        with translated():
            return self._node.seal_unused(uid, seal)

    def trace(self, connection: int, *, on: bool) -> None:
        """Make the frames of one connection events, or stop that."""
        with translated():
            self._node.trace(connection, on)

    def connect(self, space: str, user: str | None = None) -> int:
        """Return the descriptor of a socket connected to a space within this process."""
        with translated():
            return self._node.connect(space, user)

    def stop(self, timeout_s: float) -> None:
        """Close listeners and connections and end the threads, at most after `timeout_s`."""
        with translated():
            self._node.stop(timeout_s)


class Client:
    """One connection to an AMQP 1.0 server. See `_native.pyi` for bounds and events."""

    def __init__(self, **options: Any) -> None:
        """Begin to connect; the options are those of `_native.pyi`, those that are None left out.

        The `url` is where to, or `fd` a socket within this process, which is given away.
        """
        given = {name: value for name, value in options.items() if value is not None}
        with translated():
            self._client = _native.Client(json.dumps(given))

    def event_fd(self) -> int:
        """Return a descriptor that is readable while `poll` has something."""
        return self._client.event_fd()

    def poll(self, count_max: int) -> list[tuple[Any, ...]]:
        """Take the oldest events, without waiting."""
        return self._client.poll(count_max)

    def attach_sender(self, address: str | None, **options: Any) -> int:
        """Ask for a link to send by and return its number."""
        with translated():
            return self._client.attach_sender(address, json.dumps(options))

    def attach_receiver(self, address: str | None, **options: Any) -> int:
        """Ask for a link to receive by and return its number."""
        with translated():
            return self._client.attach_receiver(address, json.dumps(options))

    def send(self, link: int, messages: list[bytes], *, settled: bool) -> int:
        """Hand over encoded messages, from the front, and return how many were taken."""
        with translated():
            return self._client.send(link, messages, settled)

    def credit(self, link: int, count: int) -> None:
        """Let so many more messages come in."""
        self._client.credit(link, count)

    def drain(self, link: int) -> None:
        """Take back the credit of a receiver."""
        self._client.drain(link)

    def settle(self, link: int, delivery: int, outcome: Outcome) -> None:
        """Give a message its outcome."""
        with translated():
            self._client.settle(link, delivery, delivery, outcomes.to_tuple(outcome))

    def detach(self, link: int) -> None:
        """End a link."""
        self._client.detach(link)

    def close(self) -> None:
        """End the connection."""
        self._client.close()


class Stream:
    """One connection that reads a stream. See `_native.pyi`; calls wait for the server."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        """Connect; the options are those of `_native.pyi`."""
        with translated():
            self._stream = _native.Stream(json.dumps(dict(options)))

    def state(self) -> dict[str, Any]:
        """Return uid and partitions: what the stream has now."""
        with translated():
            return _object(self._stream.state())

    def offset_at(self, partition: int, time_ms: int) -> int | None:
        """Return the first offset from a time on, if there is one."""
        with translated():
            return self._stream.offset_at(partition, time_ms)

    def begin(self, wanted: Mapping[str, Any], columns: Mapping[str, Any]) -> None:
        """Begin to read a range of one partition into columns."""
        with translated():
            self._stream.begin(json.dumps(dict(wanted)), json.dumps(dict(columns)))

    def next_batch(self) -> "_native.Rows | None":
        """Return the next rows, None after the last."""
        with translated():
            return self._stream.next_batch()

    def missing(self) -> int:
        """Return how many messages of the range were no longer kept so far."""
        return self._stream.missing()

    def marked(self) -> int:
        """Return how many messages of the range could not be decoded so far."""
        return self._stream.marked()


class Outbox:
    """Rows on their way to addresses. See `_native.pyi`; `send` waits for the server."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        """Check the options, those of `_native.pyi`; connect to nothing yet."""
        with translated():
            self._outbox = _native.Outbox(json.dumps(dict(options)))

    def __len__(self) -> int:
        """Return how many rows wait."""
        return len(self._outbox)

    @property
    def size(self) -> int:
        """Bytes of the messages that wait."""
        return self._outbox.size

    def add(self, batch: object) -> None:
        """Put in the rows of a record batch; raises Invalid for columns that fit no message."""
        with translated():
            self._outbox.add(batch)

    def sort(self) -> None:
        """Put the rows into an order that only their addresses and bytes decide."""
        self._outbox.sort()

    def send(self, first: int) -> "tuple[bool, list[tuple[int, str, str]], _native.Rows]":
        """Send what waits, numbered from `first` on; return rejected rows and their causes.

        The first of the three is False where rejected rows are to be kept before it goes on.
        """
        with translated():
            return self._outbox.send(first)


class Segment(Protocol):
    """Messages that were pulled. See `_native.pyi`."""

    @property
    def data(self) -> bytes:
        """A file of the spool."""

    @property
    def ids(self) -> bytes:
        """Identities of its messages."""

    @property
    def rows(self) -> int:
        """Messages in it."""

    @property
    def repeated(self) -> int:
        """Messages left out, since they are known."""

    @property
    def anonymous(self) -> int:
        """Messages without a message-id."""

    @property
    def doubtful(self) -> int:
        """Messages without a message-id that were handed out before."""

    @property
    def more(self) -> bool:
        """Whether more may wait."""


class Intake:
    """Takes messages from a queue. See `_native.pyi`; calls wait for the server."""

    def __init__(self, options: Mapping[str, Any], key: str) -> None:
        """Check the options; connect to nothing yet."""
        with translated():
            self._intake = _native.Intake(json.dumps(dict(options)), key)

    def pull(self, first: int, rows: int, size: int) -> Segment:
        """Take what waits, about so many messages and bytes, to be kept from offset `first` on."""
        with translated():
            return self._intake.pull(first, rows, size)

    def settle(self, *, accepted: bool) -> None:
        """Say that what was pulled is kept, or give it back."""
        self._intake.settle(accepted)

    def know(self, file: bytes) -> bytes:
        """Take in the identities of a file of the spool, and return them; raises Conflict."""
        with translated():
            return self._intake.know(file)

    def keep(self, count: int) -> None:
        """Forget the oldest identities beyond so many."""
        self._intake.keep(count)

    def known(self) -> int:
        """Return how many identities are known."""
        return self._intake.known()

    def depth(self) -> int | None:
        """Return how many messages wait, None where the server does not say."""
        with translated():
            return self._intake.depth()

    def close(self) -> None:
        """End the connection; what was not settled goes back."""
        self._intake.close()


class Spooled:
    """Messages of a file of a spool as rows. See `_native.pyi`."""

    def __init__(self, file: bytes, wanted: Mapping[str, Any]) -> None:
        """Check the file; raises Conflict if it is torn."""
        with translated():
            self._spooled = _native.Spooled(file, json.dumps(dict(wanted)))

    def next_batch(self) -> "_native.Rows | None":
        """Return the next rows, None after the last."""
        return self._spooled.next_batch()


class Replay:
    """Messages of a table as decoded rows. See `_native.pyi`."""

    def __init__(self, messages: object, columns: Mapping[str, Any]) -> None:
        """Check them; raises Invalid for columns that are missing or cannot be declared."""
        with translated():
            self._replay = _native.Replay(messages, json.dumps(dict(columns)))

    def next_batch(self) -> "_native.Rows | None":
        """Return the next rows, None after the last."""
        return self._replay.next_batch()


def pack_ids(ids: bytes, first: int, after: int) -> bytes:
    """Return the file of a spool that remembers messages `first` to `after` (exclusive)."""
    return _native.pack_ids(ids, first, after)


def declare_columns(columns: Mapping[str, Any]) -> str:
    """Check a declaration of columns and return it in SQL; raises Invalid."""
    with translated():
        return _native.declare_columns(json.dumps(dict(columns)))


class Followed(NamedTuple):
    """What the readings of a batch change, as record batches. See `_native.pyi`."""

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
    """Encode a message; raises Invalid for a value that no type of AMQP fits."""
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
    """Decode a message; raises PeerError if the bytes are none."""
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
    """Run the load tool to its end and return its report.

    Takes as long as the load: call it from a thread of its own. `progress(phase, fraction, count)`
    is called on that thread; an exception of it ends the load.
    """
    with translated():
        return _object(_native.bench(json.dumps(dict(options)), progress))


def _object(text: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(text)
    return value
