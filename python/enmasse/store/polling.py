"""Polling of other processes' writes, shared by concurrent callers."""

import asyncio
from collections.abc import Awaitable, Callable


class SharedPoll:
    """Polls on demand; callers that wait for the same poll share it."""

    def __init__(self, poll: Callable[[], Awaitable[None]]) -> None:
        self._poll = poll
        self._lock = asyncio.Lock()
        self._requested, self._completed = 0, 0

    async def done(self) -> None:
        """Return after a poll that began after the call. Raises: the error of the poll."""
        self._requested += 1
        requested = self._requested
        async with self._lock:
            if requested > self._completed:
                # All callers until now called before this poll.
                covered = self._requested
                await self._poll()
                self._completed = covered
