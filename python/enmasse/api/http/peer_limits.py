"""Limits for slow peers, for every HTTP version."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits for peers. Beyond a number the connection that has waited longest is closed."""

    request_s: float = 10.0
    """Time-out of a complete request, from its first byte or the start of the connection."""

    waiting_max: int = 512
    """Maximum connections without a complete request."""

    waiting_of_peer_max: int = 256
    """Maximum per IP address."""

    half_open_max: int = 1024
    """Maximum connections in a TLS handshake; each has `request_s`."""

    handshakes_max: int = 256
    """Maximum of those whose handshake has begun."""

    silent_s: float = 30.0
    """Idle time-out of a connection."""

    stalled_s: float = 30.0
    """Time-out for an HTTP/2 peer that does not read."""


class Connection(Protocol):
    """One connection of a peer."""

    transport: asyncio.Transport

    @property
    def host(self) -> str:
        """The peer's IP address."""

    @property
    def waiting_since(self) -> float | None:
        """Start of the wait for a complete request; None while one is handled."""

    def close(self) -> None:
        """Close the connection immediately."""


def make_room(connections: Iterable[Connection], added: Connection, bounds: Bounds) -> None:
    """Close the connection that has waited longest, if the limit is exceeded."""
    waiting = [
        one
        for one in connections
        if one.waiting_since is not None and not one.transport.is_closing()
    ]
    waiting.sort(key=lambda one: one.waiting_since or 0.0)
    of_peer = [one for one in waiting if one.host == added.host]
    if len(of_peer) > bounds.waiting_of_peer_max:
        of_peer[0].close()
    elif len(waiting) > bounds.waiting_max:
        waiting[0].close()
