"""Work in threads whose caller is cancelled."""

import asyncio
import threading

import pytest

from enmasse.base.threads import completed


async def test_result_and_error_are_those_of_the_function() -> None:
    assert await completed(lambda: divmod(7, 2)) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await completed(lambda: divmod(7, 0))


async def test_cancelled_caller_waits_for_the_function_and_is_cancelled_then() -> None:
    began, may_end, ended = threading.Event(), threading.Event(), []

    def work() -> int:
        began.set()
        may_end.wait()
        ended.append(True)
        return 1

    results: list[int] = []

    async def caller() -> None:
        results.append(await completed(work))
        await asyncio.sleep(0)
        results.append(2)

    calling = asyncio.ensure_future(caller())
    await asyncio.to_thread(began.wait)
    for _ in range(2):
        calling.cancel()
        await asyncio.sleep(0)
        assert not calling.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert ended and results == [1]


async def test_time_out_during_the_function_is_a_time_out() -> None:
    may_end = threading.Event()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(None) as timed:
            timed.reschedule(0)
            asyncio.get_running_loop().call_soon(may_end.set)
            await completed(may_end.wait)
            await asyncio.sleep(0)
