"""Processes large bodies in threads, so that the event loop stays responsive."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar
from weakref import WeakValueDictionary

THREADS = 2
"""Maximum bodies in progress. Others wait; the request limit bounds their number."""

_Result = TypeVar("_Result")


class BodyTurns:
    """Runs work in threads: one item per caller at a time, in order of arrival."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="large-body")
        self._of: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def run(self, caller: str, work: Callable[[], _Result]) -> _Result:
        """Return the result of `work` when it is the caller's turn.

        The turn lasts until the work ends, even if the caller has disconnected.
        """
        turn = self._of.setdefault(caller, asyncio.Lock())
        await turn.acquire()
        running: asyncio.Future[Any]
        running = asyncio.get_running_loop().run_in_executor(self._threads, work)
        running.add_done_callback(lambda _: turn.release())
        result: _Result = await asyncio.shield(running)
        return result
