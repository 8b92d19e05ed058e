"""Work in threads."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

_Result = TypeVar("_Result")


async def completed(function: Callable[[], _Result]) -> _Result:
    """Return the result of a function that runs in a thread, and that nothing interrupts.

    If the caller is cancelled, this still waits for the end of the function and returns its result;
    the cancellation takes effect at the next wait of the caller.

    Raises: what the function does.
    """
    task = asyncio.current_task()
    assert task is not None
    running = asyncio.get_running_loop().run_in_executor(None, function)
    cancels = 0
    while not running.done():
        try:
            await asyncio.wait([running])
        except asyncio.CancelledError:
            cancels += 1
    # Their number stays the same, because groups and time-outs count their own.
    for _ in range(cancels):
        task.uncancel()
        task.cancel()
    return running.result()
