"""The one door to the Rust extension: its JSON becomes plain values, its errors become ours.

Nothing else imports `enmasse._native`. Every call that may wait lets other threads run; call those
from a thread (`asyncio.to_thread`), never from the event loop.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

from enmasse import _native
from enmasse.base.errors import KINDS
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


class Node:
    """A running data plane. See `_native.pyi` for bounds and the members of what it returns."""

    def __init__(self, *, workers: int = 0, insecure: bool = False) -> None:
        """Start the worker threads (0: one a core), without listeners and with an empty Plan."""
        config = {"workers": workers, "insecure": insecure, "containerId": "enmasse"}
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

    def apply(self, plan: Plan) -> dict[str, Any]:
        """Put a Plan in force and return the proof: version, added, removed, changed, active."""
        with translated():
            return _object(self._node.apply(plan.json_text()))

    def stats(self) -> dict[str, Any]:
        """Return what was counted since the start."""
        with translated():
            return _object(self._node.stats())

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


def _object(text: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(text)
    return value
