"""A look at what others have written, shared by all who wait for one."""

import asyncio
from collections.abc import Awaitable, Callable


class SharedPoll:
    """Looks when asked to, once for all who have asked before it begins."""

    def __init__(self, look: Callable[[], Awaitable[None]]) -> None:
        self._look = look
        self._looking = asyncio.Lock()
        self._asked, self._answered = 0, 0

    async def done(self) -> None:
        """Return after a look that began after the call. Raises: what the look raises."""
        self._asked += 1
        asked = self._asked
        async with self._looking:
            if asked > self._answered:
                # Whoever has asked until now has asked before this look.
                covered = self._asked
                await self._look()
                self._answered = covered
