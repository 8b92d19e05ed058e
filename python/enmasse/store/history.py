"""The last changes, for watchers. A watcher is a position, so a slow one costs nothing."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from itertools import islice

from enmasse.base.errors import Code, Conflict
from enmasse.store.protocol import Event

CAPACITY = 4096
"""Changes that are kept. A watcher further behind lists again, which costs less than replaying."""


class History:
    """A bounded log of changes, in the order in which they became known.

    Versions grow, and may leave numbers out. A change may be late, where several sources of changes
    have one order of versions: it has the version of the one before it then, and whoever asks for
    what is after that version gets it, once more if they had it.
    """

    def __init__(self, version: int, capacity: int = CAPACITY) -> None:
        self._events: deque[Event] = deque(maxlen=capacity)
        self._dropped = 0
        """Changes that were here and are not any more."""

        self._before_first = version
        self._lost = -1
        """Up to here a version may mean a change that was lost."""

        self._changed = asyncio.Event()

    def append(self, events: Sequence[Event]) -> None:
        """Add changes and wake every watcher."""
        if not events:
            return
        gone = len(self._events) + len(events) - (self._events.maxlen or 0)
        if gone > 0:
            self._before_first = [*islice(self._events, gone), *events][gone - 1].version
            self._dropped += gone
        self._events.extend(events)
        self._wake()

    def reset(self, version: int, lost: int = -1) -> None:
        """Forget all changes: those between here and `version` are not known. Wakes every watcher,
        who must list again.

        `lost`: up to this version changes were told that are none any more, and others have their
        numbers, or will.
        """
        self._lost = max(lost, self._lost)
        self._dropped += len(self._events) + 1
        self._events.clear()
        self._before_first = version
        self._wake()

    async def follow(self, since: int) -> AsyncIterator[Event]:
        """Yield every change after `since`, for ever.

        Raises: Conflict once the next one is no longer kept.
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
        """Return the changes after a version, those that there are now.

        Raises: Conflict if the next one is no longer kept, or `version` is of another history, or
            may be.
        """
        if version <= self._lost:
            raise self._expired(version)
        return self._from(self._position(version))

    def _position(self, version: int) -> int:
        """Return how many changes, since ever, are those up to a version."""
        newest = self._events[-1].version if self._events else self._before_first
        if not self._before_first <= version <= newest:
            raise self._expired(version)
        end = self._dropped + len(self._events)
        # From the newest on: who asks is seldom far behind.
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
