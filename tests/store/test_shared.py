"""Contract of every store that several processes share: a database or a cluster."""

import asyncio
from collections.abc import AsyncIterator

import pytest

import doubles
from enmasse.base.clock import SystemClock
from enmasse.base.errors import Code, Conflict, Unavailable
from enmasse.control import Admission
from enmasse.resources import Address
from enmasse.store.protocol import MUST_NOT_EXIST
from replicas import (
    PATIENCE_S,
    Shared,
    active,
    address,
    open_shared,
    opened,
    taken,
    until,
    write,
    writer,
)

pytestmark = pytest.mark.timeout(120)
Pair = tuple[Shared, Shared]


@pytest.fixture
async def pair(shared_url: str) -> AsyncIterator[Pair]:
    """Two stores with one URL, each with its own connections."""
    async with opened(shared_url) as one, opened(shared_url) as other:
        yield one, other


async def test_watcher_of_another_process_receives_writes(pair: Pair) -> None:
    one, other = pair
    events = other.watch(other.version)
    (made,) = await one.put([address("a")])
    (changed,) = await one.put([address("a", "south")])
    await one.delete([made.key])
    seen = await taken(events, 3)
    assert [event.resource for event in seen[:2]] == [made, changed]
    assert [event.before for event in seen] == [None, made, changed]


async def test_refresh_shows_earlier_writes_of_other_processes(shared_url: str) -> None:
    async with opened(shared_url) as one:
        other = await open_shared(shared_url, SystemClock())  # This store does not follow.
        (made,) = await one.put([address("a")])
        assert other.get(made.key) is None
        await asyncio.gather(*(other.refresh() for _ in range(5)))
        assert other.get(made.key) == made
        await one.delete([made.key])
        await other.refresh()
        assert other.get(made.key) is None
        await other.close()


async def test_write_is_checked_against_writes_of_other_processes(shared_url: str) -> None:
    async with opened(shared_url) as one:
        other = await open_shared(shared_url, SystemClock())
        (made,) = await one.put([address("a")])
        with pytest.raises(Conflict, match="exists already"):
            await other.put([address("a").with_metadata(resource_version=MUST_NOT_EXIST)])
        (changed,) = await other.put([address("a", "south")])
        assert changed.metadata.uid == made.metadata.uid
        version, before = changed.metadata.resource_version, made.metadata.resource_version
        assert int(version or 0) > int(before or 0)
        await other.close()


async def test_one_of_two_processes_that_claim_an_address_name_succeeds(pair: Pair) -> None:
    admissions = [Admission(store, exposed=False) for store in pair]
    await admissions[0].create(doubles.space(authentication="none"))
    # Two resources declare one address, so their keys differ.
    wanted = [doubles.address(f"default.{name}", address="orders") for name in ("a", "b")]
    for _ in range(5):
        answers = await asyncio.gather(
            *(one.create(new) for one, new in zip(admissions, wanted, strict=True)),
            return_exceptions=True,
        )
        made = [one for one in answers if isinstance(one, Address)]
        refused = [one for one in answers if isinstance(one, Conflict)]
        assert (len(made), len(refused)) == (1, 1)
        assert refused[0].code == Code.ADDRESS_TAKEN
        await admissions[0].delete(made[0].key)


async def test_a_watcher_sees_every_change_once_in_order(shared_url: str) -> None:
    count, names = 6, ["a", "b"]
    async with opened(shared_url) as watcher:
        events = watcher.watch(watcher.version)
        writers = [writer(shared_url, name, count) for name in names]
        changes = await write(watcher, "own", count)
        told = await asyncio.gather(
            *(asyncio.to_thread(one.communicate, None, PATIENCE_S) for one in writers)
        )
        seen = await taken(events, changes + sum(int(out) for out, _ in told))
        versions = [event.version for event in seen]
        assert versions == sorted(set(versions))
        again = await open_shared(shared_url, SystemClock())
        assert again.list() == watcher.list()
        left = [f"default.{name}-{n}" for name in ["own", *names] for n in range(0, count, 2)]
        assert {one.metadata.name for one in again.list("Address")} == set(left)
        await again.close()


async def test_only_the_leader_writes_statuses(pair: Pair) -> None:
    one, other = pair
    (made,) = await one.put([address("a")])
    assert one.leadership and other.leadership
    assert await one.leadership.take()
    assert not await other.leadership.take()
    assert await one.leadership.take()
    await other.refresh()
    with pytest.raises(Unavailable, match="another process") as refusal:
        await other.put_status([active(made)])
    assert refusal.value.code == Code.STANDING_BY
    await one.put_status([active(made)])
    await until(lambda: getattr(other.get(made.key), "status", 0) == active(made).status, other)
    await one.leadership.close()
    assert await other.leadership.take()
