"""The native core: the data plane and the client machine.

Only `enmasse.native` imports this. Data crosses the boundary as JSON text or in batches. The core
calls no Python except `progress` of `bench`, and every blocking call releases the GIL.
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
    """A failed call.

    `args` is `(kind, code, message)`: the name of a class of `enmasse.base.errors`, a code of
    `enmasse.base.errors.Code`, and one line with the error and its remedy.
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
        "decoySecret": null, "limits": {}}`, every member optional. `workers` 0 means one per core;
        `insecure` allows passwords on connections without TLS from other machines; `decoySecret`
        (null: random) determines the salts of unknown users. `limits`: `connections` (null: the
        limit of open files less 64), `handshakeTimeoutMs` (10000), `idleTimeoutMs` (60000,
        null: never), `maxFrameSizeBytes` (131072), `outputHardBytes` (8388608), `lingerMs` (1000),
        `multicastSettleTimeoutMs` (1000).
        `journal` (null: none) is the folder of stored messages, in files of `journalSegmentBytes`
        (67108864), of which at least three exist; `discardUnnamed` (false) deletes its messages
        without a declared address. `proxies` ([]) are networks, such as `10.0.0.0/8`, whose TCP
        connections begin with a header of the PROXY protocol, version 2.

        Raises NativeError: Invalid for an unknown member or a value out of bounds; Unavailable if
        the system provides no threads or descriptors.
        """

    def listen(self, kind: str, host: str, port: int, tls_json: str | None = None) -> int:
        """Listen on an additional address and return the bound port.

        `kind`: `amqp`, `amqps`, `ws`, `wss`, `mqtt` or `mqtts`. `port` 0 is a free one. `tls_json`,
        for the secure kinds only: `{"certificate": path, "key": path, "clientCa": path or null}`,
        PEM files that are read again for each new connection.

        Raises NativeError: Invalid for a wrong kind or unusable files; Unavailable if the port is
        taken.
        """

    def listen_unix(self, path: str) -> None:
        """Listen for MQTT on a Unix socket with mode 0660.

        A socket without a listener at `path` is replaced; `stop` removes the file.

        Raises NativeError: Unavailable if another process listens there, another file is there, or
        the system refuses it.
        """

    def allow_web(self, rules_json: str) -> None:
        """Set the rules for WebSockets of web pages, from the next handshake on.

        `rules_json`: `{"origins": [], "hosts": []}`. `origins` are those of pages, as browsers
        write them, `*` is any; pages of a route host of the Plan, and of the requested host and
        port, are always allowed. `hosts` are accepted host names of clear-text requests, besides
        IP addresses, `localhost`, route hosts and the hosts of `origins`.

        Raises NativeError: Invalid for an unknown member; Unavailable after `stop`.
        """

    def cordon(self, cordoned: bool) -> None:
        """Refuse clients that log in, and keep the connected ones; False lifts it.

        AMQP clients get `amqp:connection:forced`, MQTT 5.0 clients 0x9C. Connections within this
        process are not affected.

        Raises NativeError: Unavailable after `stop`.
        """

    def apply(self, plan_json: str) -> str:
        """Apply a Plan on every worker before returning.

        Unchanged parts are unaffected, and everything that can be served is. Returns the proof as
        JSON, with `"added": 1, "removed": 0, "changed": 0`.

        Raises NativeError: Invalid naming the invalid member, or for a version older than the one
        in force; nothing has changed then. Unavailable: apply it again.
        """

    def proof(self) -> str:
        """Return what is served now, as JSON.

        `{"version": 7, "active": ["uid", ..], "failed": [{"uid", "reason", "message"}]}`; `reason`
        is `NotOpened` (applying the Plan again may help) or `JournalStopped`.

        Raises NativeError: Unavailable once the node is stopped.
        """

    def show_certificates(self, spaces_json: str) -> str:
        """Use certificates of spaces from the next TLS handshake on; return the unusable ones.

        `spaces_json`: `[{"uid", "certificates": [{"names": ["x.default"], "chain", "key"}]}]`, PEM
        texts of at most 64 KiB and 64 certificates a space. They replace all certificates of a
        space; without any, its names use that of the node. Other spaces are unaffected.
        The result: `[{"uid", "names", "reason"}]`. Does not block.

        Raises NativeError: Invalid for malformed JSON; Misuse once stopped.
        """

    def usage(self) -> str:
        """Return the traffic of every space that has or had clients, as JSON.

        `[{"uid", "name", "connections", "links", "messagesIn", "bytesIn", "messagesOut",
        "bytesOut"}]`. Does not block.
        """

    def stats(self) -> str:
        """Return the statistics since the start, as JSON.

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
        """Return the state and statistics of the journal, as JSON; `null` without one.

        `{"usedBytes", "aliveBytes", "appendedBytes", "syncs", "stopped", "readErrors",
        "unreadable", "damaged": {uid: messages}, "unnamedMessages", "unnamedSegments"}`; `stopped`
        is the reason why it stores nothing, or null.
        """

    def manage(self, request_json: str) -> tuple[str, list[bytes | None]]:
        """Run one slice of an operation on the messages of an address that no consumer holds.

        `request_json`: `{"address": uid, "operation": "purge" | "peek" | "move" | "copy" |
        "redrive", "limit": 1000, "selector": null, "filter": null,
        "topicFilter": null, "dryRun": false, "to": uid or
        null, "after": null or "rest" of the previous result, "message": null or the id of the only
        message, "edited": null or, for "redrive" of one message, the bytes of the encoded message
        that takes its place}`; `selector` is of JMS, `filter` of `amqp:sql-filter`,
        `topicFilter` a filter of MQTT for the names that messages are sent to. The queue of the
        retained messages of a space has the uid `SPACE_UID/retained`. Returns
        `{"messages", "bytes", "rest", "found": [{"id", "state", "bytes", "enqueuedMs",
        "expiresMs", "dueMs", "attempts"}]}` and, of `peek`, the encoded messages that were found,
        None for larger ones than 65,536 bytes.

        Raises NativeError: Missing if no such address stores messages; Invalid naming the invalid
        member; Exhausted if the destination is full; Unavailable if the disk fails or the request
        times out.
        """

    def sessions(self, space: str, after_json: str | None, max_count: int) -> str:
        """Return MQTT sessions of the space with a uid, by user and client id, as JSON.

        Those after the one named `after`, if given. `{"sessions": [{"user", "kind": "client",
        "subscription" or "will", "clientId", "link", "connection": null or its number, "expiryS":
        null (no end) or seconds, "subscriptionCount", "subscriptions": [{"filter", "qos",
        "noLocal"}] (at most 1,000), "will": null or {"topic", "qos", "retain", "delayS",
        "bytes"}}], "more": 0}`; `more` is the number of sessions beyond `max_count`. The first four
        fields name a session.

        Raises NativeError: Missing without such a space; Unavailable if a worker does not answer.
        """

    def end_session(self, space: str, name_json: str) -> bool:
        """End an MQTT session with its subscriptions; return whether it exists.

        A connected client gets DISCONNECT 0x98, the receiver of a subscription
        `amqp:resource-deleted`; its will is published.

        Raises NativeError: Missing without such a space; Unavailable if it does not end in time.
        """

    def connections(self) -> str:
        """Return the open connections, oldest first, as a JSON list.

        Each: `{"id", "space", "user", "container", "product", "address", "transport", "links",
        "worker"}`; unknown or absent values are null, `transport` is `amqp`, `amqps`, `ws`, `wss`
        or `local`.
        """

    def links(self, connection: int | None, address: str | None, max_count: int) -> str:
        """Return links, by connection and name, as JSON.

        Those of one connection, or of all if that is None; only those at the address with the uid
        `address`, if given. `{"links": [{"connection", "name", "role": "sender" | "receiver" (the
        client's), "addresses": [uid], "credit", "deliveries", "unsettled", "outcomes": {"accepted",
        "rejected", "released", "modified"} or null (MQTT)}], "more": 0}`; `more` is the number of
        links beyond `max_count`.

        Raises NativeError: Unavailable if a worker does not answer.
        """

    def close_connection(self, connection_id: int) -> bool:
        """Close a connection with `amqp:connection:forced`; return whether it exists.

        Raises NativeError: Unavailable if a worker does not answer.
        """

    def events(self, max_count: int) -> list[str]:
        """Take up to `max_count` events, oldest first, each a JSON object.

        `{"atMs", "connection"?, "peer"?, "event": .., ..}` with `event` one of `opened` (container,
        space, user, mechanism, transport), `login-refused` (reason, user, space, mechanism: for
        operators only, the peer learns less), `attach-refused` (address, condition, reason, space,
        user), `closed` (condition, description), `handshake-failed` (reason), `cut-off`
        (waitingBytes), `accept-paused` (reason), `certificate-unusable` (reason), `message-damaged`
        (address, space, message, partition?, count), `journal-damaged` (segment, offset, bytes),
        `journal-unnamed` (queue, messages, discarded), `journal-mended` (records), `trace`
        (direction, frames), `lost` (count). At most 10,000 are queued; `lost` reports the number of
        dropped ones.
        """

    def event_fd(self) -> int:
        """Return a descriptor that is readable while there are events. It belongs to the node."""

    def logins(self, max_count: int) -> list[str]:
        """Take up to `max_count` logins for external decision, each a JSON object.

        `{"id", "space": NAME.NAMESPACE, "service", "mechanism": "PLAIN" | "OAUTHBEARER" |
        "XOAUTH2", "user": name or null, "secret": the password or the token}`. At most 1,024 are
        pending at a time; each waits until the handshake time-out.
        """

    def login_fd(self) -> int:
        """Return a descriptor that is readable while there are pending logins."""

    def answer_login(self, answer_json: str) -> None:
        """Decide a login; ignored if the peer has disconnected.

        `{"id", "user", "rights": [{"pattern", "operations"}], "expiresMs": milliseconds since 1970
        or null, "renewable"}`, or `{"id", "refused": reason}`, or `{"id", "unavailable": reason}`.
        A `renewable` login is asked again 30 s before the answer expires (halfway for a shorter
        validity), and every 10 s without an answer: a refusal ends the connection, changed rights
        end links.

        Raises NativeError: Invalid naming the invalid member.
        """

    def creations(self, max_count: int) -> list[str]:
        """Take up to `max_count` creation requests of links, each a JSON object.

        `{"id", "space": NAME.NAMESPACE, "address": name, "type": "anycast" | "multicast" |
        "queue" | "topic" or null, "patterns": those of `autoCreate` that match the name,
        "user": name or null}`. At most 256 are pending at a time; links wait for 2 s.
        """

    def creation_fd(self) -> int:
        """Return a descriptor that is readable while there are creation requests."""

    def answer_creation(self, answer_json: str) -> None:
        """Answer a creation request: `{"id", "refused": reason or null}`.

        Waiting links are refused with the reason; without one they continue with the Plan that has
        the address. Ignored if no link waits.

        Raises NativeError: Invalid for a malformed object.
        """

    def seal_unused(self, uid: str, seal: bool) -> bool:
        """Seal an address that has no messages, links or subscriptions, or lift the seal.

        Returns whether it is sealed. No link attaches to a sealed address.

        Raises NativeError: Unavailable if a worker does not answer.
        """

    def trace(self, connection_id: int, on: bool) -> None:
        """Start or stop the protocol trace of one connection: its frames become events."""

    def connect(self, space: str, user: str | None = None) -> int:
        """Return the descriptor of a socket connected to `space` as `user` within this process.

        The user `$administrator` has every right.

        The caller owns it and speaks AMQP over it without a SASL layer; pass it to `Client`.

        Raises NativeError: Missing for an unknown space; Exhausted at the connection limit.
        """

    def stop(self, timeout_s: float) -> None:
        """Stop: close listeners, close every connection with `amqp:connection:forced`, write queued
        output, end the threads. Returns when done, at the latest after `timeout_s`, when remaining
        connections are aborted. A second call does nothing.
        """

@final
class Client:
    """One connection to an AMQP 1.0 server; all connections of a process share one I/O thread.

    No call blocks. Back-pressure is credit, in both directions. Dropping the object closes it.
    """

    def __new__(cls, options_json: str) -> Client:
        """Start connecting; the event `opened` or `closed` reports the result.

        `options_json`: `{"url": "amqp[s]|ws[s]://[user[:password]@]host[:port][/path]"}`, or
        `{"fd": n}` with a connected socket, whose ownership passes (`Node.connect`). Optional:
        `ca`, `certificate`, `key` (PEM files), `insecure` (accept any certificate),
        `saslMechanisms` (the only mechanisms to use; empty: no SASL), `hostname` (of sasl-init and
        open), `serverName` (TLS server name, which the certificate must contain; else the URL's
        host), `token` (replaces the password), `desiredCapabilities` (of open),
        `containerId`, `idleTimeoutMs` (60000; null: never), `connectTimeoutMs` (15000).

        Raises NativeError: Invalid for unusable options or files; Denied if only PLAIN is available
        and the connection is unprotected.
        """

    def event_fd(self) -> int:
        """Return a descriptor that is readable while `poll` has events. The client owns it."""

    def poll(self, max_count: int) -> list[tuple[Any, ...]]:
        """Take up to `max_count` events, oldest first.

        `("opened", properties)`, `("attached", link, address, filters)`,
        `("refused", link, condition, description)`,
        `("detached", link, condition, description)`, `("credit", link, count)`,
        `("message", link, delivery, settled, bytes)`, `("settled", link, first, last, outcome)`,
        `("drained", link)`, `("closed", condition, description)`. Conditions are None if the end
        was requested. `count` is what `send` accepts now; `delivery`, `first` and `last` count
        from 0 for each link. An outcome is `("accepted",)`, `("released",)`,
        `("rejected", condition, description)` or
        `("modified", delivery_failed, undeliverable_here)`.
        """

    def attach_sender(self, address: str | None, options_json: str = "{}") -> int:
        """Attach a sender and return its number; None is the anonymous terminus.

        `options_json`: `name`, `settled`, `capabilities`. `attached` or `refused` follows.

        Raises NativeError: Unavailable if the connection is closed.
        """

    def attach_receiver(self, address: str | None, options_json: str = "{}") -> int:
        """Attach a receiver and return its number; None requests a dynamic node.

        `options_json`: `name`, `settled`, `browse`, `capabilities`, `selector`, `maxMessageSize`
        (bytes, 64 MiB), `stream` (`{"from": "first" | "last" | "next" | {"offset": N} |
        {"timeMs": N}, "partition": N}`). Raises as `attach_sender`.
        """

    def send(self, link: int, messages: list[bytes], settled: bool = False) -> int:
        """Queue encoded messages from the front and return the number accepted.

        Limited by the credit and 4 MiB at a time: the event `credit` reports new room. Raises
        NativeError: Unavailable if the link is gone.
        """

    def credit(self, link: int, count: int) -> None:
        """Grant credit for `count` more messages."""

    def drain(self, link: int) -> None:
        """Drain the credit; the event `drained` follows."""

    def settle(self, link: int, first: int, last: int, outcome: tuple[Any, ...]) -> None:
        """Settle deliveries `first` to `last` with an outcome; settled ones are skipped."""

    def detach(self, link: int) -> None:
        """Detach a link; the event `detached` follows."""

    def close(self) -> None:
        """Close the connection; the event `closed` follows."""

@final
class Stream:
    """One connection that reads a stream into record batches, without an object per message.

    Calls block and release the GIL; only one may run at a time.
    """

    def __new__(cls, options_json: str) -> Stream:
        """Connect to the first server that responds.

        `options_json`: `urls` (servers in the order of attempts), `client` (as of `Client`, without
        `url`), `address`, `space` (null, or the value of the column `space`), `selector` (null),
        `silenceMs` (maximum time without a response of the server).

        Raises NativeError: Invalid for unusable options or files; otherwise the error of the last
        server.
        """

    def state(self) -> str:
        """Return `{"uid": "..", "partitions": [{"partition": 0, "first": 0, "next": 7}]}`.

        Messages `first` to `next` (exclusive) are retained. `uid` is null if the server does not
        report it; the partition is then probed. Ends a running read. Raises NativeError: Invalid
        if the address is not a stream; otherwise the error of the server.
        """

    def space(self) -> str | None:
        """Return the address space: that of the options, else the one that the server announced."""

    def offset_at(self, partition: int, time_ms: int) -> int | None:
        """Return the first offset at or after a time (milliseconds since 1970), or None.

        Servers that store messages in blocks may return a slightly smaller one. Raises as
        `state`.
        """

    def begin(self, range_json: str, columns_json: str) -> None:
        """Start reading `{"partition": 0, "from": 0, "to": 7, "uid": null, "tolerant": false}`.

        `uid`, if given, is the required uid of the stream; `tolerant`: messages removed by
        retention are counted instead of being an error. `columns_json` is as of `declare_columns`.
        Raises as `state`, and Conflict if the stream is another one or messages are missing.
        """

    def next_batch(self) -> Rows | None:
        """Return the next rows of the range, None after the last.

        About 32,768 rows or 16 MiB of messages; the rows of one message stay together. Raises as
        `begin`.
        """

    def missing(self) -> int:
        """Return the messages of the current range that retention had removed, so far."""

    def marked(self) -> int:
        """Return the messages of the current range that could not be decoded, so far."""

@final
class Rows:
    """A record batch, for `pyarrow.record_batch` and other users of the Arrow C interface."""

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
    """Rows to send to addresses, without an object per row.

    Calls block and release the GIL; only one may run at a time.
    """

    def __new__(cls, options_json: str) -> Outbox:
        """Validate the options, without connecting.

        `options_json`: `urls`, `client`, `silenceMs` as of `Stream`, `address` (null: each row has
        its own), `space` (null, or the value of that column in `Rows` of rejected messages),
        `producer` (null, or the producer name for numbering, `docs/contracts.md` 8).

        Raises NativeError: Invalid for unusable options or files.
        """

    def __len__(self) -> int:
        """Return the number of pending rows."""

    @property
    def size(self) -> int:
        """Bytes of the pending messages."""

    def add(self, batch: object) -> None:
        """Add the rows of a record batch (any object with `__arrow_c_array__`).

        Columns are those of the envelope (`docs/guide/spark.md`). A row that forms no message
        counts as rejected. Raises NativeError: Invalid for an unknown column or one of another
        type; then no row of the batch is added.
        """

    def sort(self) -> None:
        """Sort the rows into an order determined by their addresses and bytes."""

    def send(self, first: int) -> tuple[bool, list[tuple[int, str, str]], Rows]:
        """Send pending rows, numbered `first`, `first` + 1, .. in their order.

        Returns whether all is done; of each rejected row its number, condition and description; and
        the rejected messages with the columns of the envelope. Numbered rows are not done as soon
        as some are rejected: store those, then call again with the same number. No later row is
        stored before that, and a rejected one then counts as stored. Once done, no row is pending.
        Raises NativeError: Unavailable if the server is unreachable or cannot store: call again
        with the same number; otherwise the error of the server.
        """

@final
class Intake:
    """Consumes messages from a queue, excluding those that it has consumed before.

    Calls block and release the GIL; only one may run at a time. It connects on demand, and again
    after an error. Between calls of `pull` the server sends nothing.
    """

    def __new__(cls, options_json: str, key: str) -> Intake:
        """Validate the options, without connecting.

        `options_json` is as of `Stream`, for a queue, a subscription or another address that
        delivers each message to one receiver. `key`, 32 hexadecimal digits, is part of identities.

        Raises NativeError: Invalid for unusable options or files.
        """

    def pull(self, first: int, rows: int, size: int) -> Segment:
        """Pull about that many messages and bytes, as a spool file that begins at `first`.

        Known messages are excluded. Call `settle` before the next pull: until then the server keeps
        them. Raises NativeError: Unavailable if the server is unreachable, Invalid if the address
        is a stream or a topic, otherwise the error of the server; the messages are then released.
        """

    def settle(self, accepted: bool) -> None:
        """Accept the pulled messages and remember their identities, or release them."""

    def know(self, file: bytes) -> bytes:
        """Remember the messages of a spool file; return their identities, 16 bytes each.

        An identity is a digest of the bare message, which has a message-id. Raises NativeError:
        Conflict if the file is incomplete.
        """

    def keep(self, count: int) -> None:
        """Forget the oldest identities beyond `count`."""

    def known(self) -> int:
        """Return the number of known identities."""

    def space(self) -> str | None:
        """Return the address space: that of the options, else the one that the server announced.

        None while there is no connection.
        """

    def depth(self) -> int | None:
        """Return the number of available messages, None if unknown. Raises as `pull`."""

    def close(self) -> None:
        """Close the connection; unsettled messages return to the queue."""

@final
class Segment:
    """Pulled messages, as a spool file."""

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
        """Received messages."""

    @property
    def repeated(self) -> int:
        """Excluded messages: duplicates of known ones."""

    @property
    def anonymous(self) -> int:
        """Messages without a message-id, whose duplicates cannot be detected."""

    @property
    def doubtful(self) -> int:
        """Messages without a message-id that the server has delivered before."""

    @property
    def more(self) -> bool:
        """Whether more messages may be available."""

@final
class Spooled:
    """Messages of a spool file as rows."""

    def __new__(cls, file: bytes, wanted_json: str) -> Spooled:
        """Verify a file.

        `wanted_json`: `{"address": "..", "space": null, "from": 0, "to": 7, "takenMs": 0,
        "columns": {}}`, the last as of `declare_columns`; offsets `from` to `to` (exclusive), if
        they are in the file. `takenMs`, since 1970, is the time of messages without an enqueued
        time of the server.
        Raises NativeError: Conflict if the file is incomplete; Invalid for columns.
        """

    def next_batch(self) -> Rows | None:
        """Return the next rows, as of `Stream`, None after the last."""

@final
class Replay:
    """Messages of a table as rows, decoded as `Stream` decodes those of a stream."""

    def __new__(cls, batch: object, columns_json: str) -> Replay:
        """Read a record batch (any object with `__arrow_c_array__`) of whole messages.

        Its columns are all of the envelope (`docs/guide/spark.md`), others are ignored;
        `columns_json` is as of `declare_columns`. Raises NativeError: Invalid for a column that is
        missing or of another type, or an invalid declaration.
        """

    def next_batch(self) -> Rows | None:
        """Return the next rows, as of `Stream`, None after the last."""

def pack_ids(ids: bytes, first: int, next: int) -> bytes:
    """Return the spool file that stores messages `first` to `next` by some of their identities."""

def declare_columns(columns_json: str) -> str:
    """Validate a declaration of columns and return it in SQL, with every name and type.

    `columns_json`, every member optional: `columns` (names with types as in SQL, null: the whole
    envelope), `decode` (`json`, `senml-json`, `cbor`, `senml-cbor`, `csv` or `auto`), `timeUnit`
    (`s`, `ms`, `us` or `ns`), `csvHeader` (false), `csvDelimiter`.

    Raises NativeError: Invalid with the error and its remedy.
    """

def follow_batch(
    rules_json: str, readings: object, devices: object, latest: object, states: object
) -> tuple[Rows, Rows, Rows, Rows, Rows, int]:
    """Process the readings of a batch by device, in any order.

    `rules_json`: `{"offlineAfterUs": 300000000, "detectors": [{"name": "hot", "cooldownUs": 0,
    "rule": {"above": {"metric": "m", "limit": 30.0, "clear": 28.0}}}]}`; the other rules are
    `below`, `rate` (`metric`, `above`, `perUs`), `ewma` (`metric`, `deviations`, `alpha`,
    `warmup`) and `heartbeat` (`timeoutUs`). The rest are record batches: readings with columns of
    silver, and the state of their devices, with columns of the live tables `devices`,
    `device_latest` and `detector_states`.

    Returns the numbers of the rows that are the newest of their device and metric (`row`), rows of
    `devices`, `sessions` and `detector_states`, incidents that began or ended (`detector`,
    `device`, `is_open`, `time_us`, `value`, `began_us`, `reason`), and the number of readings older
    than the newest of an earlier batch, which detectors skip.

    Raises NativeError: Invalid naming the invalid member or column.
    """

def follow_silences(rules_json: str, states: object, now_us: int) -> tuple[Rows, Rows]:
    """Detect silent devices at a time, from rows of `detector_states` of heartbeats.

    Returns the rows of `detector_states` that change, and the incidents that began.

    Raises NativeError: Invalid naming the invalid member or column.
    """

def encode_message(sections: tuple[Any, ...]) -> bytes:
    """Encode a message from its sections.

    `(header, delivery_annotations, annotations, properties, application_properties, body, footer)`:
    header `(durable, priority, ttl_ms, first_acquirer, delivery_count)` or None, properties a tuple
    of the thirteen fields in the order of the wire or None, body `("data", parts)`,
    `("sequence", parts)`, `("value", value)` or None; the others are mappings. Values are plain or
    of `enmasse.messaging.types`.

    Raises NativeError: Invalid naming the member that cannot be encoded.
    """

def decode_message(data: bytes) -> tuple[Any, ...]:
    """Decode a message into its sections, as `encode_message` takes them.

    Raises NativeError: PeerError if the bytes are malformed.
    """

def bench(options_json: str, progress: Callable[[str, float, int], object] | None = None) -> str:
    """Run a load to its end and return the report as JSON.

    `options_json`: an object of options by the names in `enmasse bench --help`.
    `progress(phase, fraction, count)` is called a few times a second; an exception in it ends the
    load and is raised.

    Raises NativeError: Invalid for invalid options; Unavailable, Denied and others as reported by
    the server.
    """
