"""The work queue of the control plane: what the next pass reconciles.

As in a Kubernetes work queue a key is in it at most once, so a burst of changes is one piece of
work, and a failed batch is put back. Unlike there a pass takes everything at once:
a Plan is a whole, and one Plan for a thousand changes costs as much as one for a single change.
The queue is bounded by the number of resources.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

from enmasse.resources import Key

_Item = TypeVar("_Item")

PORTION = 256
"""Resources processed before the loop yields to other tasks."""


@dataclass(slots=True)
class Batch:
    """What one pass reconciles. Reconcilers add the keys that their work affects."""

    keys: set[Key] = field(default_factory=set)
    """Declared resources whose statuses are decided again."""

    attached: set[Key] = field(default_factory=set)
    """Changed Secrets, ConfigMaps and Services, which certificates, passwords and exports use."""

    ended_spaces: set[str] = field(default_factory=set)
    """uids of deleted or replaced address spaces."""

    is_full: bool = False
    """Whether everything is confirmed again, to repair missed changes."""

    def add(self, other: "Batch") -> None:
        """Add the work of another batch."""
        self.keys |= other.keys
        self.attached |= other.attached
        self.ended_spaces |= other.ended_spaces


class WorkQueue:
    """Collects work until the next pass."""

    def __init__(self) -> None:
        self._next = Batch()
        self._due = asyncio.Event()

    def wake(self) -> None:
        """Request a pass, which finds its work itself."""
        self._due.set()

    def add(self, keys: Iterable[Key]) -> None:
        """Add resources, and request a pass if there are any."""
        new = set(keys)
        if new:
            self._next.keys |= new
            self._due.set()

    def put_back(self, batch: Batch) -> None:
        """Add the work of a failed pass. It requests no pass: the retry waits for its delay."""
        self._next.add(batch)

    def take(self) -> Batch:
        """Return the collected work, and start with an empty batch."""
        taken, self._next = self._next, Batch()
        return taken

    async def wait(self, timeout_s: float) -> None:
        """Return once a pass is requested, after `timeout_s` at the latest."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._due.wait()
        self._due.clear()

    def combine(self) -> None:
        """Count requests until now as one: the pass that follows has all of them."""
        self._due.clear()


def portions(items: Iterable[_Item]) -> Iterator[list[_Item]]:
    """Yield items in lists of at most PORTION."""
    rest = iter(items)
    while some := list(islice(rest, PORTION)):
        yield some
