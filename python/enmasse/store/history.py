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
    """A bounded log of changes. Versions in it grow by one from each to the next."""

    def __init__(self, version: int, capacity: int = CAPACITY) -> None:
        self._events: deque[Event] = deque(maxlen=capacity)
        self._before_first = version
        self._changed = asyncio.Event()

    def append(self, events: Sequence[Event]) -> None:
        """Add changes and wake every watcher."""
        if not events:
            return
        self._events.extend(events)
        self._before_first = self._events[0].version - 1
        self._changed.set()
        self._changed = asyncio.Event()

    def reset(self, version: int) -> None:
        """Forget all changes: those between here and `version` are not known. Wakes every watcher,
        who must list again."""
        self._events.clear()
        self._before_first = version
        self._changed.set()
        self._changed = asyncio.Event()

    async def follow(self, since: int) -> AsyncIterator[Event]:
        """Yield every change after `since`, for ever.

        Raises: Conflict once the next one is no longer kept.
        """
        position = since
        while True:
            changed = self._changed
            for event in self.after(position):
                yield event
                position = event.version
            if changed is self._changed:
                await changed.wait()

    def after(self, version: int) -> list[Event]:
        """Return the changes after a version, those that there are now.

        Raises: Conflict if the next one is no longer kept, or `version` is of another history.
        """
        if not self._before_first <= version <= self._before_first + len(self._events):
            raise Conflict(
                Code.VERSION_EXPIRED,
                f"changes after version {version} are no longer kept (the oldest is"
                f" {self._before_first + 1}); list again and watch from the list's version",
            )
        # From the newest on: who asks is seldom far behind.
        count = max(self._before_first + len(self._events) - version, 0)
        return list(islice(reversed(self._events), count))[::-1]
