"""The work queue: each key once, nothing lost by a failed pass."""

import asyncio

from enmasse.control.work_queue import PORTION, Batch, WorkQueue, portions
from enmasse.resources import Key

A, B = Key("Address", "default", "s.a"), Key("Address", "default", "s.b")


def test_a_key_is_in_the_queue_once() -> None:
    queue = WorkQueue()
    queue.add([A])
    queue.add([A, B])
    assert queue.take().keys == {A, B}
    assert queue.take().keys == set()


def test_work_of_a_failed_pass_is_merged_with_new_work() -> None:
    queue = WorkQueue()
    queue.add([A])
    failed = queue.take()
    failed.attached.add(B)
    failed.ended_spaces.add("uid")
    queue.add([B])
    queue.put_back(failed)
    again = queue.take()
    assert (again.keys, again.attached, again.ended_spaces) == ({A, B}, {B}, {"uid"})


async def test_added_work_wakes_the_loop_and_returned_work_does_not() -> None:
    queue = WorkQueue()
    for wake in (queue.wake, lambda: queue.add([A])):
        wake()
        await queue.wait(3600)
    queue.add([])
    queue.put_back(Batch(keys={A}))
    waiting = asyncio.ensure_future(queue.wait(3600))
    await asyncio.sleep(0)
    assert not waiting.done()
    queue.wake()
    await waiting


async def test_wait_ends_at_its_timeout_without_work() -> None:
    await WorkQueue().wait(0)


async def test_combined_requests_do_not_wake_the_loop() -> None:
    queue = WorkQueue()
    queue.add([A])
    queue.combine()
    waiting = asyncio.ensure_future(queue.wait(3600))
    await asyncio.sleep(0)
    assert not waiting.done()
    waiting.cancel()
    assert queue.take().keys == {A}


def test_portions_contain_all_items_in_order() -> None:
    items = list(range(2 * PORTION + 1))
    parts = list(portions(items))
    assert [len(part) for part in parts] == [PORTION, PORTION, 1]
    assert [one for part in parts for one in part] == items
