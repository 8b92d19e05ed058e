"""The latest changes for watchers. A watcher is a position, so a slow one costs nothing."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from itertools import islice

from enmasse.base.errors import Code, Conflict
from enmasse.store.protocol import Event

CAPACITY = 4096
"""Retained changes. A watcher further behind lists again, which is cheaper than replaying."""


class History:
    """A bounded log of changes in the order in which they became known.

    Versions increase and may have gaps. With several sources of changes a change may arrive late;
    it then gets the version of its predecessor, and a watcher that starts at that version receives
    it, possibly twice.
    """

    def __init__(self, version: int, capacity: int = CAPACITY) -> None:
        self._events: deque[Event] = deque(maxlen=capacity)
        self._dropped = 0
        """Changes that have been compacted."""

        self._before_first = version
        self._lost = -1
        """Up to this version a number may refer to a change that was lost."""

        self._changed = asyncio.Event()

    def append(self, events: Sequence[Event]) -> None:
        """Append changes and wake every watcher."""
        if not events:
            return
        gone = len(self._events) + len(events) - (self._events.maxlen or 0)
        if gone > 0:
            self._before_first = [*islice(self._events, gone), *events][gone - 1].version
            self._dropped += gone
        self._events.extend(events)
        self._wake()

    def reset(self, version: int, lost: int = -1) -> None:
        """Discard all changes: those up to `version` are unknown. Wakes every watcher, which must
        list again.

        `lost`: up to this version, announced changes were lost and their numbers are or will be
        reused.
        """
        self._lost = max(lost, self._lost)
        self._dropped += len(self._events) + 1
        self._events.clear()
        self._before_first = version
        self._wake()

    async def follow(self, since: int) -> AsyncIterator[Event]:
        """Yield every change after `since`, without end.

        Raises: Conflict once the next one has been compacted.
        """
        position, version = self._position(since), since
        while True:
            changed = self._changed
            if position < self._dropped:
                raise self._expired(version)
            for event in self._from(position):
                yield event
                position, version = position + 1, event.version
            if changed is self._changed:
                await changed.wait()

    def after(self, version: int) -> list[Event]:
        """Return the present changes after a version.

        Raises: Conflict if the next one has been compacted, or if `version` belongs, or may belong,
            to another history.
        """
        if version <= self._lost:
            raise self._expired(version)
        return self._from(self._position(version))

    def _position(self, version: int) -> int:
        """Return the number of changes up to a version, since the start of the log."""
        newest = self._events[-1].version if self._events else self._before_first
        if not self._before_first <= version <= newest:
            raise self._expired(version)
        end = self._dropped + len(self._events)
        # Newest first: watchers are rarely far behind.
        later = 0
        of_version = 0
        for event in reversed(self._events):
            if event.version < version:
                break
            later += event.version > version
            of_version += event.version == version
        return end - later - max(of_version - (version > self._before_first), 0)

    def _from(self, position: int) -> list[Event]:
        count = self._dropped + len(self._events) - position
        return list(islice(reversed(self._events), count))[::-1]

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _expired(self, version: int) -> Conflict:
        oldest = f"version {self._events[0].version}" if self._events else "to come"
        return Conflict(
            Code.VERSION_EXPIRED,
            f"changes after version {version} are no longer kept (the oldest is {oldest});"
            " list again and watch from the list's version",
        )
