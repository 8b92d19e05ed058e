"""Work on large bodies, beside the event loop: everybody else is answered meanwhile."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar
from weakref import WeakValueDictionary

THREADS = 2
"""Large bodies that are worked on at one time. The others wait, as many as requests are let in."""

_Result = TypeVar("_Result")


class Turns:
    """Runs work in threads: of each caller one piece at a time, in the order in which it came."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="large-body")
        self._of: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def run(self, caller: str, work: Callable[[], _Result]) -> _Result:
        """Return what `work` returns, when it is the caller's turn.

        A turn lasts until the work ends, even if nobody waits for it any more.
        """
        turn = self._of.setdefault(caller, asyncio.Lock())
        await turn.acquire()
        running: asyncio.Future[Any]
        running = asyncio.get_running_loop().run_in_executor(self._threads, work)
        running.add_done_callback(lambda _: turn.release())
        result: _Result = await asyncio.shield(running)
        return result
