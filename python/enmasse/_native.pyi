"""The native core: the data plane and the client machine.

Only `enmasse.native` imports this. Data crosses as JSON text or in batches; nothing here calls back
into Python, and every call that may wait releases the GIL.
"""

class NativeError(Exception):
    """An answer other than the one asked for.

    `args` is `(kind, code, message)`: the name of a class of `enmasse.base.errors`, a code of
    `enmasse.base.errors.Code`, and one line that names what and the mend.
    """

    args: tuple[str, str, str]

class Node:
    """A running data plane: worker threads with sockets, TLS, WebSocket and routing.

    Starts with no listener and an empty Plan. A panic in one of its threads ends the process with
    one line on stderr.
    """

    def __new__(cls, config_json: str) -> Node:
        """Start the threads.

        `config_json`: `{"workers": 0, "containerId": "enmasse", "insecure": false, "limits": {}}`,
        every member optional. `workers` 0 is one a core; `insecure` lets passwords cross
        connections without TLS from other machines. `limits`: `connections` (null: the limit of
        open files less 64), `handshakeTimeoutMs` (10000), `idleTimeoutMs` (60000, null: never),
        `maxFrameSizeBytes` (131072), `outputHardBytes` (8388608), `lingerMs` (1000).

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

    def apply(self, plan_json: str) -> str:
        """Put a Plan in force on every worker before returning.

        What did not change notices nothing. Returns the proof as JSON:
        `{"version": 7, "added": 1, "removed": 0, "changed": 0, "active": ["uid", ..]}`.

        Raises NativeError: Invalid names the member that makes no sense, or a version older than
        the one in force; then nothing has changed. Unavailable: apply it again.
        """

    def stats(self) -> str:
        """Return what was counted since the start, as JSON.

        `{"planVersion", "connections", "connectionsMax", "acceptPauses",
        "workers": [{"connections", "busyPermille", "accepted", "closed", "moved",
        "handshakesFailed", "handshakesTimedOut", "cutOff", "turns", "sleeps", "reads", "writes",
        "bytesIn", "bytesOut", "batches", "checksRefused"}],
        "addresses": [{"uid", "space", "name", "senders", "receivers", "delivered", "bytes",
        "accepted", "rejected", "released", "modified", "presettled", "dropped", "waiting",
        "creditStalls"}]}`. Every declared address is listed.
        """

    def connections(self) -> str:
        """Return the open connections, oldest first, as a JSON list.

        Each: `{"id", "space", "user", "container", "address", "transport", "links", "worker"}`;
        unknown or absent values are null, `transport` is `amqp`, `amqps`, `ws`, `wss` or `local`.
        """

    def events(self, max_count: int) -> list[str]:
        """Take up to `max_count` events, oldest first, each a JSON object.

        `{"atMs", "connection"?, "peer"?, "event": .., ..}` with `event` one of `opened` (container,
        space, user, transport), `login-refused` (reason), `attach-refused` (address,
        condition), `closed` (condition, description), `handshake-failed` (reason), `cut-off`
        (waitingBytes), `accept-paused` (reason), `certificate-unusable` (reason), `trace`
        (direction, frames), `lost` (count). At most 10,000 wait; a loss is told by `lost`.
        """

    def event_fd(self) -> int:
        """Return a descriptor that is readable while there are events. It belongs to the node."""

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
