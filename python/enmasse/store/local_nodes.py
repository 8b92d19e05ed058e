"""The nodes of a store that one process uses: the node itself, and former ones."""

import math
from collections.abc import Sequence
from dataclasses import replace

from enmasse.store.nodes import (
    Heartbeat,
    Identity,
    Registered,
    check_forgettable,
    replaced,
)

BEAT_S = 5.0
"""Interval of heartbeats. Only this process reads them."""


class LocalNodes:
    """A `NodeRegistry` of a single process, which knows itself: only identities are kept."""

    def __init__(self, stored: Sequence[tuple[Identity, str]] = ()) -> None:
        """`stored`: the identities and places of former starts."""
        self._nodes = {
            one.name: Registered(one, place, one.mark, math.inf) for one, place in stored
        }
        self._beats = 0

    @property
    def beat_interval_s(self) -> float:
        """Interval of heartbeats."""
        return BEAT_S

    async def list(self) -> Sequence[Registered]:
        """Return all nodes, by name."""
        return [self._nodes[name] for name in sorted(self._nodes)]

    async def claim(self, former: Registered | None, identity: Identity, place: str) -> bool:
        """Make `identity` the node of its name, if that still is `former`."""
        known = self._nodes.get(identity.name)
        if (known and known.identity) != (former and former.identity):
            return False
        await self._keep(identity, place)
        self._nodes[identity.name] = Registered(identity, place, self._next_beat(), 0.0)
        return True

    async def beat(self, identity: Identity, heartbeat: Heartbeat) -> None:
        """Record a heartbeat."""
        known = self._nodes.get(identity.name)
        if known is None or known.identity != identity:
            raise replaced(identity)
        self._nodes[identity.name] = replace(
            known, beat=self._next_beat(), silent_s=0.0, heartbeat=heartbeat
        )

    async def stop(self, identity: Identity) -> None:
        """Record that a node has stopped in order."""
        known = self._nodes.get(identity.name)
        if known is not None and known.identity == identity:
            self._nodes[identity.name] = replace(known, silent_s=math.inf)

    async def forget(self, name: str, *, dry_run: bool = False) -> None:
        """Delete a node that has stopped."""
        check_forgettable(name, await self.list())
        if not dry_run:
            await self._drop(name)
            self._nodes.pop(name, None)

    async def _keep(self, identity: Identity, place: str) -> None:
        """Make an identity durable."""

    async def _drop(self, name: str) -> None:
        """Delete a durable identity."""

    def _next_beat(self) -> str:
        self._beats += 1
        return str(self._beats)
