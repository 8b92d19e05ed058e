"""The native core: the data plane and the client machine.

Only `enmasse.native` imports this. Data crosses as JSON text or in batches; nothing here calls back
into Python, and every call that may wait releases the GIL.
"""

from collections.abc import Callable
from typing import Any, final

__all__ = [
    "Client",
    "Intake",
    "NativeError",
    "Node",
    "Outbox",
    "Replay",
    "Rows",
    "Segment",
    "Spooled",
    "Stream",
    "bench",
    "declare_columns",
    "decode_message",
    "encode_message",
    "follow_batch",
    "follow_silences",
    "pack_ids",
]

class NativeError(Exception):
    """An answer other than the one asked for.

    `args` is `(kind, code, message)`: the name of a class of `enmasse.base.errors`, a code of
    `enmasse.base.errors.Code`, and one line that names what and the mend.
    """

    args: tuple[str, str, str]

@final
class Node:
    """A running data plane: worker threads with sockets, TLS, WebSocket and routing.

    Starts with no listener and an empty Plan. A panic in one of its threads ends the process with
    one line on stderr.
    """

    def __new__(cls, config_json: str) -> Node:
        """Start the threads.

        `config_json`: `{"workers": 0, "containerId": "enmasse", "insecure": false,
        "decoySecret": null, "limits": {}}`, every member optional. `workers` 0 is one a core;
        `insecure` lets passwords cross connections without TLS from other machines; `decoySecret`
        (null: random) makes up the salts of users that do not exist. `limits`: `connections` (null:
        the limit of open files less 64), `handshakeTimeoutMs` (10000), `idleTimeoutMs` (60000,
        null: never), `maxFrameSizeBytes` (131072), `outputHardBytes` (8388608), `lingerMs` (1000),
        `multicastSettleTimeoutMs` (1000).
        `journal` (null: none) is the folder of messages on disk, in files of `journalSegmentBytes`
        (67108864), of which it has three at once.

        Raises NativeError: Invalid for an unknown member or a value out of bounds; Unavailable if
        the system gives no threads or descriptors.
        """

    def listen(self, kind: str, host: str, port: int, tls_json: str | None = None) -> int:
        """Listen on one more address and return the bound port.

        `kind`: `amqp`, `amqps`, `ws` or `wss`. `port` 0 is a free one. `tls_json`, for the secure
        kinds only: `{"certificate": path, "key": path, "clientCa": path or null}`, PEM files that
        are looked at again at each new connection.

        Raises NativeError: Invalid for a wrong kind or unusable files; Unavailable if the port is
        taken.
        """

    def allow_web(self, rules_json: str) -> None:
        """Let web pages open WebSockets by these rules from the next handshake on.

        `rules_json`: `{"origins": [], "hosts": []}`. `origins` are those of pages, as browsers
        write them, `*` is any; pages of a route host of the Plan and of the host and port that
        they ask are let in besides. `hosts` are names by which the node may be asked in clear
        text, besides IP addresses, `localhost`, route hosts and the hosts of `origins`.

        Raises NativeError: Invalid for an unknown member; Unavailable after `stop`.
        """

    def apply(self, plan_json: str) -> str:
        """Put a Plan in force on every worker before returning.

        What did not change notices nothing, and what can be served is. Returns the proof as JSON,
        with `"added": 1, "removed": 0, "changed": 0`.

        Raises NativeError: Invalid names the member that makes no sense, or a version older than
        the one in force; then nothing has changed. Unavailable: apply it again.
        """

    def proof(self) -> str:
        """Return what is served at this moment, as JSON.

        `{"version": 7, "active": ["uid", ..], "failed": [{"uid", "reason", "message"}]}`; `reason`
        is `NotOpened` (applied again, the Plan may do) or `JournalStopped`.

        Raises NativeError: Unavailable once the node is stopped.
        """

    def show_certificates(self, spaces_json: str) -> str:
        """Show certificates of spaces from the next TLS handshake on; return what cannot be shown.

        `spaces_json`: `[{"uid", "certificates": [{"names": ["x.default"], "chain", "key"}]}]`, PEM
        texts of at most 64 KiB and 64 certificates a space. They take the place of all that the
        space showed; none gives its names the node's. Spaces that are not named go on as before.
        The answer: `[{"uid", "names", "reason"}]`. It waits for nobody.

        Raises NativeError: Invalid for JSON that is no such list; Misuse once stopped.
        """

    def usage(self) -> str:
        """Return what has passed through every space that has or had clients, as JSON.

        `[{"uid", "name", "connections", "links", "messagesIn", "bytesIn", "messagesOut",
        "bytesOut"}]`. It waits for nobody.
        """

    def stats(self) -> str:
        """Return what was counted since the start, as JSON.

        `{"planVersion", "connections", "connectionsMax", "acceptPauses", "receivedBytes",
        "receiveBudgetBytes",
        "workers": [{"connections", "busyPermille", "accepted", "closed", "moved",
        "handshakesFailed", "handshakesTimedOut", "cutOff", "turns", "sleeps", "reads", "writes",
        "bytesIn", "bytesOut", "batches", "checksRefused", "stopped"}],
        "addresses": [{"uid", "space", "name", "senders", "receivers", "delivered", "bytes",
        "accepted", "rejected", "released", "modified", "presettled", "dropped", "waiting",
        "creditStalls", "stored", "storedBytes", "inFlight", "scheduled", "oldestMs", "enqueued",
        "redelivered", "duplicates", "expired", "replaced", "overrun", "deadRejected",
        "deadAttempts", "deadExpired", "damaged"}],
        "journal": null or as `journal` returns it}`. Every declared address is listed.
        """

    def journal(self) -> str:
        """Return what the journal is and has done, as JSON; `null` if there is none.

        `{"usedBytes", "aliveBytes", "appendedBytes", "syncs", "stopped"}`; `stopped` is why it
        takes nothing any more, or null.
        """

    def manage(self, request_json: str) -> tuple[str, list[bytes | None]]:
        """Do one slice of an operation on the messages of an address that nobody holds.

        `request_json`: `{"address": uid, "operation": "purge" | "peek" | "move" | "copy" |
        "redrive", "limit": 1000, "selector": null, "dryRun": false, "to": uid or null, "after":
        null or "rest" of the answer before}`. Returns `{"messages", "bytes", "rest", "found":
        [{"id", "state", "bytes", "enqueuedMs", "expiresMs", "dueMs", "attempts"}]}` and, of `peek`,
        the encoded messages that were found, None for those of more than 65,536 bytes.

        Raises NativeError: Missing if no such address stores messages; Invalid names the member
        that makes no sense; Exhausted if messages find no room where they are to go; Unavailable
        if the disk takes no more, or no answer comes in time.
        """

    def connections(self) -> str:
        """Return the open connections, oldest first, as a JSON list.

        Each: `{"id", "space", "user", "container", "address", "transport", "links", "worker"}`;
        unknown or absent values are null, `transport` is `amqp`, `amqps`, `ws`, `wss` or `local`.
        """

    def events(self, max_count: int) -> list[str]:
        """Take up to `max_count` events, oldest first, each a JSON object.

        `{"atMs", "connection"?, "peer"?, "event": .., ..}` with `event` one of `opened` (container,
        space, user, mechanism, transport), `login-refused` (reason, user, space, mechanism: for
        operators only, the peer learns less), `attach-refused` (address, condition, reason, space,
        user), `closed` (condition, description), `handshake-failed` (reason), `cut-off`
        (waitingBytes), `accept-paused` (reason), `certificate-unusable` (reason), `message-damaged`
        (address, space, message, partition?, count), `journal-damaged` (segment, offset, bytes),
        `journal-unnamed` (queue, messages), `journal-mended` (records), `trace` (direction,
        frames), `lost` (count). At most 10,000 wait; a loss is told by `lost`.
        """

    def event_fd(self) -> int:
        """Return a descriptor that is readable while there are events. It belongs to the node."""

    def logins(self, max_count: int) -> list[str]:
        """Take up to `max_count` logins that somebody else has to decide, each a JSON object.

        `{"id", "space": NAME.NAMESPACE, "service", "mechanism": "PLAIN" | "OAUTHBEARER" |
        "XOAUTH2", "user": name or null, "secret": the password or the token}`. At most 1,024 have
        no answer at one time; each waits as long as a handshake may take.
        """

    def login_fd(self) -> int:
        """Return a descriptor that is readable while there are logins to decide."""

    def answer_login(self, answer_json: str) -> None:
        """Decide a login; one that nobody waits for any more is passed over.

        `{"id", "user", "rights": [{"pattern", "operations"}], "expiresMs": milliseconds since 1970
        or null, "renewable"}`, or `{"id", "refused": reason}`, or `{"id", "unavailable": reason}`.
        The same login comes again 30 s before the end of an answer that is `renewable` (at half of
        a shorter time), and every 10 s while there is no answer: a refusal ends the connection,
        other rights end links.

        Raises NativeError: Invalid names the member that makes no sense.
        """

    def creations(self, max_count: int) -> list[str]:
        """Take up to `max_count` addresses that links want created, each a JSON object.

        `{"id", "space": NAME.NAMESPACE, "address": name, "type": "anycast" | "multicast" |
        "queue" | "topic" or null, "patterns": those of `autoCreate` that stand for the name,
        "user": name or null}`. At most 256 have no answer at one time; links wait for 2 s.
        """

    def creation_fd(self) -> int:
        """Return a descriptor that is readable while there are addresses to create."""

    def answer_creation(self, answer_json: str) -> None:
        """End the question about an address: `{"id", "refused": reason or null}`.

        Links that wait are refused with the reason; without one they go on with the Plan that has
        the address. One that nobody waits for any more is passed over.

        Raises NativeError: Invalid if it is no such object.
        """

    def seal_unused(self, uid: str, seal: bool) -> bool:
        """Seal an address that has no messages, links or subscriptions, or lift the seal.

        Returns whether it is sealed now. No link attaches to a sealed address.

        Raises NativeError: Unavailable if a worker does not answer.
        """

    def trace(self, connection_id: int, on: bool) -> None:
        """Switch the protocol trace of one connection on or off: its frames become events."""

    def connect(self, space: str, user: str | None = None) -> int:
        """Return the descriptor of a socket connected to `space` as `user` within this process.

        The caller owns it and speaks AMQP over it without a SASL layer; hand it to `Client`.

        Raises NativeError: Missing for an unknown space; Exhausted at the bound of connections.
        """

    def stop(self, timeout_s: float) -> None:
        """Stop: close listeners, close every connection with `amqp:connection:forced`, write what
        waits, end the threads. Returns when done, at most after `timeout_s`, when the rest is cut
        off. A second call does nothing.
        """

@final
class Client:
    """One connection to an AMQP 1.0 server; all of a process share one I/O thread.

    No call waits for the network. Back-pressure is credit, both ways. Dropping it closes it.
    """

    def __new__(cls, options_json: str) -> Client:
        """Begin to connect; `opened` or `closed` tells how that went.

        `options_json`: `{"url": "amqp[s]|ws[s]://[user[:password]@]host[:port][/path]"}`, or
        `{"fd": n}` with a connected socket that is given away (`Node.connect`), and, all optional:
        `ca`, `certificate`, `key` (PEM files), `insecure` (take any certificate), `saslMechanisms`
        (the only ones to be used; empty: no SASL), `hostname` (of sasl-init and open),
        `serverName` (asked for by TLS, which the certificate has to be for; else the URL's host),
        `token` (to log in with in place of a password), `desiredCapabilities` (of open),
        `containerId`, `idleTimeoutMs` (60000; null: never), `connectTimeoutMs` (15000).

        Raises NativeError: Invalid for options or files that cannot be used; Denied if only PLAIN
        is left and others could listen.
        """

    def event_fd(self) -> int:
        """Return a descriptor that is readable while `poll` has something. It is the client's."""

    def poll(self, max_count: int) -> list[tuple[Any, ...]]:
        """Take up to `max_count` events, oldest first.

        `("opened", properties)`, `("attached", link, address, filters)`,
        `("refused", link, condition, description)`,
        `("detached", link, condition, description)`, `("credit", link, count)`,
        `("message", link, delivery, settled, bytes)`, `("settled", link, first, last, outcome)`,
        `("drained", link)`, `("closed", condition, description)`. Conditions are None where the
        end was asked for. `count` is what `send` takes now; `delivery`, `first` and `last` count
        from 0 for each link. An outcome is `("accepted",)`, `("released",)`,
        `("rejected", condition, description)` or
        `("modified", delivery_failed, undeliverable_here)`.
        """

    def attach_sender(self, address: str | None, options_json: str = "{}") -> int:
        """Ask for a link to send by and return its number; None is the anonymous terminus.

        `options_json`: `name`, `settled`, `capabilities`. `attached` or `refused` follows.

        Raises NativeError: Unavailable if the connection is closed.
        """

    def attach_receiver(self, address: str | None, options_json: str = "{}") -> int:
        """Ask for a link to receive by and return its number; None asks for a dynamic node.

        `options_json`: `name`, `settled`, `browse`, `capabilities`, `selector`, `maxMessageSize`
        (bytes, 64 MiB), `stream` (`{"from": "first" | "last" | "next" | {"offset": N} |
        {"timeMs": N}, "partition": N}`). Raises as `attach_sender`.
        """

    def send(self, link: int, messages: list[bytes], settled: bool = False) -> int:
        """Take encoded messages from the front and return how many.

        As many as there is credit for, and 4 MiB of them at a time: `credit` tells when more would
        be taken. Raises NativeError: Unavailable if the link is gone.
        """

    def credit(self, link: int, count: int) -> None:
        """Let so many more messages come in."""

    def drain(self, link: int) -> None:
        """Ask for what there is now, and take back the rest of the credit: `drained`."""

    def settle(self, link: int, first: int, last: int, outcome: tuple[Any, ...]) -> None:
        """Give messages `first` to `last` their outcome; those that have one are passed over."""

    def detach(self, link: int) -> None:
        """End a link: `detached`."""

    def close(self) -> None:
        """End the connection: `closed`."""

@final
class Stream:
    """One connection that reads a stream into record batches; no object for a message is made.

    Calls wait for the server and let other threads run; no two may run at a time.
    """

    def __new__(cls, options_json: str) -> Stream:
        """Connect to the first of the servers that answers.

        `options_json`: `urls` (servers in the order in which to try them), `client` (as of
        `Client`, without `url`), `address`, `space` (null, or what the column `space` is to hold),
        `selector` (null), `silenceMs` (how long the server may say nothing).

        Raises NativeError: Invalid for options or files that cannot be used; what the last server
        said otherwise.
        """

    def state(self) -> str:
        """Return `{"uid": "..", "partitions": [{"partition": 0, "first": 0, "next": 7}]}`.

        Messages `first` to `next` (exclusive) are kept. `uid` is null where the server does not
        say; the partition is then looked at. Ends what is being read. Raises NativeError: Invalid
        if the address is no stream, or what the server says.
        """

    def offset_at(self, partition: int, time_ms: int) -> int | None:
        """Return the first offset from a time on (milliseconds since 1970), if there is one.

        Servers that keep messages in blocks may answer with one somewhat before it. Raises as
        `state`.
        """

    def begin(self, range_json: str, columns_json: str) -> None:
        """Begin to read `{"partition": 0, "from": 0, "to": 7, "uid": null, "tolerant": false}`.

        `uid`, if given, is what the stream has to have; `tolerant`: messages that are no longer
        kept are counted instead of being an error. `columns_json` is as of `declare_columns`.
        Raises as `state`, and Conflict if the stream is another one or messages are missing.
        """

    def next_batch(self) -> Rows | None:
        """Return the next rows of the range, None after the last.

        About 32,768 rows or 16 MiB of messages; those of one message are never parted. Raises as
        `begin`.
        """

    def missing(self) -> int:
        """Return how many messages of the range at hand were no longer kept so far."""

    def marked(self) -> int:
        """Return how many messages of the range at hand could not be decoded so far."""

@final
class Rows:
    """A record batch, for `pyarrow.record_batch` and whoever else knows the Arrow C interface."""

    def __len__(self) -> int:
        """Return the number of rows."""

    @property
    def next_offset(self) -> int:
        """The offset after the last message in it."""

    @property
    def size(self) -> int:
        """Bytes of its messages, as they were received."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        """Return the capsules of schema and array."""

@final
class Outbox:
    """Rows on their way to addresses; no object for a row is made.

    Calls wait for the server and let other threads run; no two may run at a time.
    """

    def __new__(cls, options_json: str) -> Outbox:
        """Check the options; connect to nothing yet.

        `options_json`: `urls`, `client`, `silenceMs` as of `Stream`, `address` (null: each row
        names its own), `space` (null, or what `Rows` of rejected messages are to hold), `producer`
        (null, or the name under which messages are numbered, `docs/contracts.md` 8).

        Raises NativeError: Invalid for options or files that cannot be used.
        """

    def __len__(self) -> int:
        """Return the number of rows that wait."""

    @property
    def size(self) -> int:
        """Bytes of the messages that wait."""

    def add(self, batch: object) -> None:
        """Put in the rows of a record batch (whatever has `__arrow_c_array__`).

        Columns are those of the envelope (`docs/guide/spark.md`). A row that no message can be made
        of counts as rejected. Raises NativeError: Invalid for a column that is no part of a message
        or of another type; then no row of the batch is in.
        """

    def sort(self) -> None:
        """Put the rows into an order that nothing but their addresses and bytes decides."""

    def send(self, first: int) -> tuple[bool, list[tuple[int, str, str]], Rows]:
        """Send what waits, numbered `first`, `first` + 1, .. in the order of the rows.

        Returns whether it is done, of rejected rows the row (as it was put in), condition and
        description, and the same messages with the columns of the envelope. Numbered rows are not
        done as soon as some are rejected: keep those, then call it again with the same number. None
        later is stored before, and a rejected one counts as stored after that. Once it is done
        nothing waits. Raises NativeError: Unavailable if the server is away or stores nothing: call
        it again with the same number; else what the server says.
        """

@final
class Intake:
    """Takes messages from a queue, those that it has not taken before.

    Calls wait for the server and let other threads run; no two may run at a time. It connects when
    asked, and anew after an error. Between calls of `pull` the server sends nothing.
    """

    def __new__(cls, options_json: str, key: str) -> Intake:
        """Check the options; connect to nothing yet.

        `options_json` is as of `Stream`, of a queue, a subscription or whatever else gives each
        message to one receiver. `key`, 32 hexadecimal digits, goes into identities.

        Raises NativeError: Invalid for options or files that cannot be used.
        """

    def pull(self, first: int, rows: int, size: int) -> Segment:
        """Take about so many messages and bytes of what waits, as a file that begins at `first`.

        What is known is left out. `settle` before the next one: until then the server has them.
        Raises NativeError: Unavailable if the server is away, Invalid if the address is a stream or
        a topic, else what the server says; what was pulled goes back.
        """

    def settle(self, accepted: bool) -> None:
        """Accept what was pulled, and know it from now on, or release it."""

    def know(self, file: bytes) -> bytes:
        """Know the messages of a file of the spool; return their identities, 16 bytes each.

        An identity is a digest of the bare message, which has a message-id. Raises NativeError:
        Conflict if the file is torn.
        """

    def keep(self, count: int) -> None:
        """Forget the oldest identities beyond so many."""

    def known(self) -> int:
        """Return how many identities are known."""

    def depth(self) -> int | None:
        """Return how many messages wait, None where the server does not say. Raises as `pull`."""

    def close(self) -> None:
        """End the connection; what was not settled goes back."""

@final
class Segment:
    """Messages that were pulled, as a file of the spool."""

    @property
    def data(self) -> bytes:
        """The file."""

    @property
    def ids(self) -> bytes:
        """Identities of its messages, 16 bytes each."""

    @property
    def rows(self) -> int:
        """Messages in it."""

    @property
    def pulled(self) -> int:
        """Messages that came."""

    @property
    def repeated(self) -> int:
        """Those of them that are known, and left out."""

    @property
    def anonymous(self) -> int:
        """Those without a message-id, of which nobody knows."""

    @property
    def doubtful(self) -> int:
        """Those without a message-id that the server has handed out before."""

    @property
    def more(self) -> bool:
        """Whether more may wait."""

@final
class Spooled:
    """Messages of a file of a spool as rows."""

    def __new__(cls, file: bytes, wanted_json: str) -> Spooled:
        """Check a file.

        `wanted_json`: `{"address": "..", "space": null, "from": 0, "to": 7, "takenMs": 0,
        "columns": {}}`, the last as of `declare_columns`; offsets `from` to `to` (exclusive), as
        far as they are in it. `takenMs`, since 1970, is the time of messages that do not say when
        their server took them.
        Raises NativeError: Conflict if it is torn; Invalid for columns.
        """

    def next_batch(self) -> Rows | None:
        """Return the next rows, as of `Stream`, None after the last."""

@final
class Replay:
    """Messages of a table as rows, decoded as `Stream` decodes those of a stream."""

    def __new__(cls, batch: object, columns_json: str) -> Replay:
        """Take a record batch (whatever has `__arrow_c_array__`) of whole messages.

        Its columns are all of the envelope (`docs/guide/spark.md`), others are passed over;
        `columns_json` is as of `declare_columns`. Raises NativeError: Invalid for a column that is
        missing or of another type, or a declaration that cannot be used.
        """

    def next_batch(self) -> Rows | None:
        """Return the next rows, as of `Stream`, None after the last."""

def pack_ids(ids: bytes, first: int, next: int) -> bytes:
    """Return the file that remembers messages `first` to `next` by the identities of some."""

def declare_columns(columns_json: str) -> str:
    """Check a declaration of columns and return it in SQL, with every name and type.

    `columns_json`, every member optional: `columns` (names with types as in SQL, null: the whole
    envelope), `decode` (`json`, `senml-json`, `cbor`, `senml-cbor`, `csv` or `auto`), `timeUnit`
    (`s`, `ms`, `us` or `ns`), `csvHeader` (false), `csvDelimiter`.

    Raises NativeError: Invalid names what is wrong and the mend.
    """

def follow_batch(
    rules_json: str, readings: object, devices: object, latest: object, states: object
) -> tuple[Rows, Rows, Rows, Rows, Rows, int]:
    """Follow the readings of a batch by device, whatever their order is.

    `rules_json`: `{"offlineAfterUs": 300000000, "detectors": [{"name": "hot", "cooldownUs": 0,
    "rule": {"above": {"metric": "m", "limit": 30.0, "clear": 28.0}}}]}`; the other rules are
    `below` alike, `rate` (`metric`, `above`, `perUs`), `ewma` (`metric`, `deviations`, `alpha`,
    `warmup`) and `heartbeat` (`timeoutUs`). The rest are record batches: readings with columns of
    silver, and what is known of their devices, with columns of the live tables `devices`,
    `device_latest` and `detector_states`.

    Returns the numbers of the rows that are the newest of their device and metric (`row`), rows of
    `devices`, `sessions` and `detector_states`, incidents that began or ended (`detector`,
    `device`, `is_open`, `time_us`, `value`, `began_us`, `reason`), and how many readings are older
    than the newest of an earlier batch, so that detectors skip them.

    Raises NativeError: Invalid names the member or the column that is wrong.
    """

def follow_silences(rules_json: str, states: object, now_us: int) -> tuple[Rows, Rows]:
    """Follow the silence of devices up to a time, by rows of `detector_states` of heartbeats.

    Returns the rows of `detector_states` that change, and the incidents that began.

    Raises NativeError: Invalid names the member or the column that is wrong.
    """

def encode_message(sections: tuple[Any, ...]) -> bytes:
    """Encode a message from its sections.

    `(header, delivery_annotations, annotations, properties, application_properties, body, footer)`:
    header `(durable, priority, ttl_ms, first_acquirer, delivery_count)` or None, properties a tuple
    of the thirteen in the order of the wire or None, body `("data", parts)`, `("sequence", parts)`,
    `("value", value)` or None; the rest are mappings. Values are plain or of
    `enmasse.messaging.types`.

    Raises NativeError: Invalid names the member that cannot be sent.
    """

def decode_message(data: bytes) -> tuple[Any, ...]:
    """Decode a message into its sections, as `encode_message` takes them.

    Raises NativeError: PeerError if the bytes are no message.
    """

def bench(options_json: str, progress: Callable[[str, float, int], object] | None = None) -> str:
    """Run a load to its end and return the result as JSON.

    `options_json`: an object of options by the names that `enmasse bench --help` lists.
    `progress(phase, fraction, count)` is called a few times a second; an exception of it ends the
    load and is raised.

    Raises NativeError: Invalid for options that make no sense; Unavailable, Denied and others as
    the server gives reason.
    """
