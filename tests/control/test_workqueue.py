"""The set of keys that need work."""

import asyncio

from enmasse.base.tasks import Backoff
from enmasse.control.workqueue import WorkQueue
from enmasse.resources import Key

A, B = Key("Address", "default", "default.a"), Key("Address", "default", "default.b")


async def test_a_key_put_in_twice_is_taken_once() -> None:
    queue = WorkQueue(Backoff())
    queue.add([A, B])
    queue.add([A])
    assert await queue.take() == {A, B}


async def test_a_taker_waits_for_the_first_key() -> None:
    queue = WorkQueue(Backoff())
    waiting = asyncio.ensure_future(queue.take())
    queue.add([])
    await asyncio.sleep(0)
    assert not waiting.done()
    queue.add([A])
    assert await waiting == {A}


async def test_failed_keys_come_back_by_themselves() -> None:
    queue = WorkQueue(Backoff(first_s=0.001, limit_s=0.001))
    queue.add([A])
    queue.failed(await queue.take())
    assert await queue.take() == {A}


async def test_something_new_brings_the_failed_ones_at_once() -> None:
    queue = WorkQueue(Backoff(first_s=3600, limit_s=3600))
    queue.add([A])
    queue.failed(await queue.take())
    queue.add([B])
    assert await queue.take() == {A, B}
    queue.succeeded()
