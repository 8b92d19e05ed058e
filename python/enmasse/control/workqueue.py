"""Keys that need work. A key put in twice is worked on once; what fails comes back later."""

import asyncio
from collections.abc import Iterable

from enmasse.base.tasks import Backoff
from enmasse.resources import Key


class WorkQueue:
    """A set of keys with one taker, who always gets all that is there.

    What waits is bounded by the number of resources, since a key is in it once. After a failure the
    taker waits, unless something new comes: that may be what mends it.
    """

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self._keys: set[Key] = set()
        self._filled = asyncio.Event()
        self._failures = 0

    def add(self, keys: Iterable[Key]) -> None:
        """Put keys in."""
        self._keys.update(keys)
        if self._keys:
            self._filled.set()

    async def take(self) -> set[Key]:
        """Wait for keys, or for the time to try the failed ones again, and return all of them."""
        delay_s = self._backoff.delay_s(self._failures) if self._failures else None
        try:
            async with asyncio.timeout(delay_s):
                await self._filled.wait()
        except TimeoutError:
            pass
        self._filled.clear()
        taken, self._keys = self._keys, set()
        return taken

    def succeeded(self) -> None:
        """The keys taken last are done."""
        self._failures = 0

    def failed(self, keys: Iterable[Key]) -> None:
        """The keys taken last are not done: they come back after a while."""
        self._failures += 1
        self._keys.update(keys)
