"""Bounds of what peers may take by being slow, whatever version of HTTP they speak."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a peer may take. Past a number the connection that has waited longest is closed."""

    request_s: float = 10.0
    """Time for a whole request, head and body, from the first byte or the connection's begin."""

    waiting_max: int = 512
    """Connections without a whole request at one time, of all peers."""

    waiting_of_peer_max: int = 256
    """Those of one address."""

    half_open_max: int = 1024
    """Connections whose TLS handshake is not done; each has `request_s` for it."""

    handshakes_max: int = 256
    """Of these, those whose handshake has begun."""

    silent_s: float = 30.0
    """Time that a connection of HTTP/2 is kept without a request."""

    stalled_s: float = 30.0
    """Time for the peer of HTTP/2 to take more of an answer."""


class Connection(Protocol):
    """One connection of a peer."""

    transport: asyncio.Transport

    @property
    def host(self) -> str:
        """The peer's address."""

    @property
    def waiting_since(self) -> float | None:
        """When it began to wait for a whole request; None while one is answered."""

    def close(self) -> None:
        """Close the connection, whatever is under way."""


def make_room(connections: Iterable[Connection], newcomer: Connection, bounds: Bounds) -> None:
    """Close the connection that waits longest, if one more is too many."""
    waiting = [
        one
        for one in connections
        if one.waiting_since is not None and not one.transport.is_closing()
    ]
    waiting.sort(key=lambda one: one.waiting_since or 0.0)
    of_peer = [one for one in waiting if one.host == newcomer.host]
    if len(of_peer) > bounds.waiting_of_peer_max:
        of_peer[0].close()
    elif len(waiting) > bounds.waiting_max:
        waiting[0].close()
