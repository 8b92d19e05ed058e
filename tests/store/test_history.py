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


async def test_history_can_be_followed_from_any_retained_version() -> None:
    history = History(version=10, capacity=3)
    history.append(events(11, 12))
    assert await versions(history, 10, 2) == [11, 12]
    assert await versions(history, 11, 1) == [12]


async def test_follow_from_an_expired_version_conflicts() -> None:
    history = History(version=10, capacity=3)
    history.append(events(11, 12, 13, 14))
    assert await versions(history, 11, 3) == [12, 13, 14]
    with pytest.raises(Conflict, match="after version 10 are no longer kept") as refusal:
        await versions(history, 10, 1)
    assert refusal.value.code == Code.VERSION_EXPIRED
    with pytest.raises(Conflict):
        await versions(History(version=10), 9, 1)


async def test_follower_that_falls_behind_gets_a_conflict() -> None:
    history = History(version=0, capacity=2)
    history.append(events(1))
    following = history.follow(0)
    assert (await anext(following)).version == 1
    history.append(events(2, 3, 4))
    with pytest.raises(Conflict):
        await anext(following)


async def test_write_larger_than_the_history_keeps_the_newest_events() -> None:
    history = History(version=0, capacity=2)
    history.append(events(1, 2, 3, 4, 5))
    assert await versions(history, 3, 2) == [4, 5]


async def test_waiting_follower_receives_all_new_events() -> None:
    history = History(version=0)
    waiting = asyncio.ensure_future(versions(history, 0, 3))
    await asyncio.sleep(0)
    history.append(events(1, 2))
    history.append([])
    history.append(events(3))
    assert await waiting == [1, 2, 3]


async def test_version_newer_than_the_history_conflicts() -> None:
    history = History(version=0)
    history.append(events(1, 2))
    assert history.after(2) == []
    with pytest.raises(Conflict):
        history.after(3)


async def test_reset_of_the_history_conflicts_for_every_watcher() -> None:
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


async def test_versions_with_gaps_are_followed() -> None:
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


async def test_late_event_reaches_followers_that_could_have_missed_it() -> None:
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


async def test_late_event_at_the_initial_version_is_returned() -> None:
    history = History(version=10)
    history.append(events(10))
    assert await versions(history, 10, 1) == [10]
    with pytest.raises(Conflict):
        history.after(9)


def test_reset_conflicts_for_lost_versions() -> None:
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
