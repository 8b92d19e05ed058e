"""The bounded log that watchers follow."""

import asyncio

import pytest

import doubles
from enmasse.base.errors import Code, Conflict
from enmasse.store.history import History
from enmasse.store.protocol import Event, EventType

ADDRESS = doubles.address()


def events(*versions: int) -> list[Event]:
    return [Event(EventType.MODIFIED, ADDRESS, version) for version in versions]


async def versions(history: History, since: int, count: int) -> list[int]:
    following = history.follow(since)
    return [(await anext(following)).version for _ in range(count)]


async def test_what_is_kept_can_be_followed_from_anywhere() -> None:
    history = History(version=10, capacity=3)
    history.append(events(11, 12))
    assert await versions(history, 10, 2) == [11, 12]
    assert await versions(history, 11, 1) == [12]


async def test_who_begins_too_early_must_list_again() -> None:
    history = History(version=10, capacity=3)
    history.append(events(11, 12, 13, 14))
    assert await versions(history, 11, 3) == [12, 13, 14]
    with pytest.raises(Conflict, match="after version 10 are no longer kept") as refusal:
        await versions(history, 10, 1)
    assert refusal.value.code == Code.VERSION_EXPIRED
    with pytest.raises(Conflict):
        await versions(History(version=10), 9, 1)


async def test_who_falls_behind_while_following_must_list_again() -> None:
    history = History(version=0, capacity=2)
    history.append(events(1))
    following = history.follow(0)
    assert (await anext(following)).version == 1
    history.append(events(2, 3, 4))
    with pytest.raises(Conflict):
        await anext(following)


async def test_a_write_larger_than_the_log_leaves_the_newest() -> None:
    history = History(version=0, capacity=2)
    history.append(events(1, 2, 3, 4, 5))
    assert await versions(history, 3, 2) == [4, 5]


async def test_who_waits_is_woken_once_for_all_that_came() -> None:
    history = History(version=0)
    waiting = asyncio.ensure_future(versions(history, 0, 3))
    await asyncio.sleep(0)
    history.append(events(1, 2))
    history.append([])
    history.append(events(3))
    assert await waiting == [1, 2, 3]


async def test_a_version_of_another_history_is_none_of_ours() -> None:
    history = History(version=0)
    history.append(events(1, 2))
    assert history.after(2) == []
    with pytest.raises(Conflict):
        history.after(3)


async def test_after_a_reset_every_watcher_lists_again() -> None:
    history = History(version=0)
    history.append(events(1))
    waiting = asyncio.ensure_future(versions(history, 1, 1))
    await asyncio.sleep(0)
    history.reset(5)
    with pytest.raises(Conflict) as refusal:
        await waiting
    assert refusal.value.code == Code.VERSION_EXPIRED
    history.append(events(6))
    assert await versions(history, 5, 1) == [6]


async def test_versions_may_leave_numbers_out() -> None:
    history = History(version=10, capacity=3)
    history.append(events(20, 25))
    assert await versions(history, 10, 2) == [20, 25]
    assert await versions(history, 15, 2) == [20, 25]
    assert await versions(history, 22, 1) == [25]
    history.append(events(30, 35))
    with pytest.raises(Conflict):
        history.after(19)
    assert [event.version for event in history.after(20)] == [25, 30, 35]
    with pytest.raises(Conflict):
        history.after(36)


async def test_a_late_change_is_told_to_who_could_have_missed_it() -> None:
    history = History(version=10)
    first, late = events(12), [Event(EventType.DELETED, ADDRESS, 12)]
    history.append(first)
    following = history.follow(12)
    waiting = asyncio.ensure_future(anext(following))
    await asyncio.sleep(0)
    history.append(late)
    assert await waiting == late[0]
    history.append(events(13))
    assert (await anext(following)).version == 13
    assert history.after(12) == [*late, *events(13)]
    assert history.after(11) == [*first, *late, *events(13)]


async def test_a_change_that_is_late_at_the_beginning_is_told() -> None:
    history = History(version=10)
    history.append(events(10))
    assert await versions(history, 10, 1) == [10]
    with pytest.raises(Conflict):
        history.after(9)


def test_a_version_that_was_lost_says_nothing_of_what_came_after() -> None:
    history = History(version=0)
    history.append(events(1, 2, 3))
    history.reset(2, lost=3)
    history.append(events(3, 4))
    for version in (2, 3):
        with pytest.raises(Conflict) as refusal:
            history.after(version)
        assert refusal.value.code == Code.VERSION_EXPIRED
    assert history.after(4) == []
    history.append(events(5))
    assert [event.version for event in history.after(4)] == [5]
