"""Contract of the nodes of every store: identities by compare-and-set, heartbeats, forgetting."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from doubles import TestClock
from enmasse.base.clock import SystemClock
from enmasse.base.errors import Code, Conflict
from enmasse.store import Store
from enmasse.store.nodes import SILENT_S, Heartbeat, Identity, Registered
from enmasse.store.sqlite import SqliteStore
from postgres_server import PostgresServer
from replicas import open_shared

pytestmark = pytest.mark.timeout(120)

A = Identity("a", "uid-a", 1, "first")


async def only(store: Store) -> Registered:
    (found,) = await store.nodes.list()
    return found


@pytest.fixture
async def pair(shared_url: str) -> AsyncIterator[tuple[Store, Store]]:
    """Two processes with one store."""
    async with AsyncExitStack() as stack:
        stores = []
        for _ in range(2):
            store = await open_shared(shared_url, SystemClock())
            stack.push_async_callback(store.close)
            stores.append(store)
        yield stores[0], stores[1]


async def test_of_two_starts_exactly_one_gets_the_identity(pair: tuple[Store, Store]) -> None:
    one, other = pair
    first = await asyncio.gather(
        one.nodes.claim(None, A, "here"),
        other.nodes.claim(None, A._replace(uid="uid-b", mark="other"), "there"),
    )
    assert sorted(first) == [False, True]
    known = await only(one)
    starts = [known.identity._replace(start=2, mark=mark) for mark in ("x", "y")]
    second = await asyncio.gather(
        one.nodes.claim(known, starts[0], "here"), other.nodes.claim(known, starts[1], "there")
    )
    assert sorted(second) == [False, True]
    now = await only(other)
    assert now.identity == starts[second.index(True)]
    assert now.place == ("here", "there")[second.index(True)]


async def test_heartbeat_is_seen_by_others_and_changes_no_version(
    pair: tuple[Store, Store],
) -> None:
    one, other = pair
    assert await one.nodes.claim(None, A, "here")
    before = await only(other)
    said = Heartbeat(role="leader", zone="east", connections=3, messages_per_second=2.5)
    await one.nodes.beat(A, said)
    after = await only(other)
    assert after.heartbeat == said and after.beat != before.beat
    assert not after.is_silent and not after.is_stopped
    await other.refresh()
    assert (one.version, other.version, other.list("MessagingNode")) == (*[one.version] * 2, [])


async def test_former_start_and_forgotten_node_cannot_send_heartbeats(
    pair: tuple[Store, Store],
) -> None:
    one, other = pair
    assert await one.nodes.claim(None, A, "here")
    assert await other.nodes.claim(await only(other), A._replace(start=2, mark="new"), "there")
    for store in (one, other):
        with pytest.raises(Conflict) as refused:
            await store.nodes.beat(A, Heartbeat())
        assert refused.value.code == Code.NODE_REPLACED
    # Its stop changes nothing either.
    await one.nodes.stop(A)
    assert not (await only(other)).is_stopped


async def test_only_a_node_that_stopped_is_forgotten(pair: tuple[Store, Store]) -> None:
    one, other = pair
    assert await one.nodes.claim(None, A, "here")
    await one.nodes.beat(A, Heartbeat())
    with pytest.raises(Conflict, match="stop its process first"):
        await other.nodes.forget("a")
    await one.nodes.stop(A)
    assert (await only(other)).is_stopped
    await other.nodes.forget("a", dry_run=True)
    assert (await only(other)).identity == A
    await other.nodes.forget("a")
    await other.nodes.forget("a")
    assert await one.nodes.list() == []
    with pytest.raises(Conflict):
        await one.nodes.beat(A, Heartbeat())
    assert await other.nodes.claim(None, A._replace(uid="uid-new"), "there")


async def test_database_clock_decides_who_is_silent(postgres: PostgresServer) -> None:
    url = postgres.new_database()
    store = await open_shared(url, TestClock())
    assert await store.nodes.claim(None, A, "here")
    ago = "update enmasse_nodes set seen = clock_timestamp() - interval '{} s'"
    postgres.execute(ago.format(SILENT_S - 5), url)
    assert not (await only(store)).is_silent
    postgres.execute(ago.format(SILENT_S + 1), url)
    assert (await only(store)).is_silent
    await store.nodes.forget("a")
    assert await store.nodes.list() == []
    await store.close()


async def test_nodes_of_a_file_are_there_after_a_restart(tmp_path: Path) -> None:
    file, clock = tmp_path / "resources.db", TestClock()
    store = await SqliteStore.open(file, clock)
    assert await store.nodes.claim(None, A, "here")
    assert not await store.nodes.claim(None, A, "here")
    await store.nodes.beat(A, Heartbeat(role="leader"))
    assert not (await only(store)).is_stopped
    await store.close()
    store = await SqliteStore.open(file, clock)
    known = await only(store)
    assert (known.identity, known.place, known.is_stopped) == (A, "here", True)
    await store.nodes.forget("a")
    await store.close()
    store = await SqliteStore.open(file, clock)
    assert await store.nodes.list() == [] and store.version == 0
    await store.close()
