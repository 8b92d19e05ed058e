"""Behaviour and failures specific to the PostgreSQL store."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import psycopg
import pytest

from cuttable_proxy import way_to
from doubles import TestClock
from enmasse.base.clock import SystemClock
from enmasse.base.errors import Code, Conflict, Invalid, Unavailable
from enmasse.control.address_space_schema import schemas
from enmasse.plan import Catalogue
from enmasse.resources import Event
from enmasse.resources.core import NamedMetadata, ObjectReference
from enmasse.store import database, leading, postgres
from enmasse.store.database import Place
from enmasse.store.postgres import COMPUTED_TABLES, PostgresStore
from postgres_server import PASSWORD, PostgresServer, schema_of
from replicas import PATIENCE_S, address, opened, taken, until, until_done, write, writer

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    """An empty database."""
    return postgres.new_database()


@pytest.fixture
async def pair(url: str) -> AsyncIterator[tuple[PostgresStore, PostgresStore]]:
    """Two stores of one database, each with its own connections."""
    async with opened(url) as one, opened(url) as other:
        yield one, other


async def test_a_watcher_sees_every_version_once_in_order(url: str) -> None:
    count, names = 20, ["a", "b"]
    async with opened(url) as watcher:
        events = watcher.watch(0)
        writers = [writer(url, name, count) for name in names]
        changes = await write(watcher, "own", count)
        told = await asyncio.gather(
            *(asyncio.to_thread(one.communicate, None, PATIENCE_S) for one in writers)
        )
        changes += sum(int(out) for out, _ in told)
        seen = await taken(events, changes)
        assert [event.version for event in seen] == list(range(1, changes + 1))
        again = await PostgresStore.open(url, SystemClock())
        assert again.version == changes
        assert again.list() == watcher.list()
        left = [f"default.{name}-{n}" for name in ["own", *names] for n in range(0, count, 2)]
        assert {one.metadata.name for one in again.list()} == set(left)
        await again.close()


async def test_nothing_is_lost_when_the_server_kills_connections(
    postgres: PostgresServer, pair: tuple[PostgresStore, PostgresStore], url: str
) -> None:
    one, other = pair
    events = other.watch(0)

    async def kill() -> None:
        for after in (10, 30):
            await until(lambda after=after: other.version >= after, other)  # type: ignore[misc]
            await asyncio.to_thread(postgres.kill_connection, url)

    killing = asyncio.ensure_future(kill())
    await write(one, "a", 30)
    await killing
    # After the second kill the server recovers, and refuses connections meanwhile.
    await until_done(one.refresh)
    seen = await taken(events, one.version)
    assert [event.version for event in seen] == list(range(1, one.version + 1))
    assert len(one.list()) == 15
    await until(lambda: other.list() == one.list(), other)


async def test_changes_during_a_lost_listen_connection_are_received_later(
    postgres: PostgresServer, pair: tuple[PostgresStore, PostgresStore], url: str
) -> None:
    one, other = pair
    events = other.watch(0)
    for number in range(5):
        assert await asyncio.to_thread(postgres.end_connections, url) >= 1
        await write(one, f"a{number}", 2)
    seen = await taken(events, one.version)
    assert [event.version for event in seen] == list(range(1, one.version + 1))


async def test_store_recovers_after_a_stop_of_the_database_server(
    postgres: PostgresServer, pair: tuple[PostgresStore, PostgresStore]
) -> None:
    one, other = pair
    await one.put([address("a")])
    await other.refresh()
    events = other.watch(1)
    await asyncio.to_thread(postgres.stop)
    try:
        with pytest.raises(Unavailable) as refusal:
            await one.put([address("b")])
        assert refusal.value.code == Code.STORE_UNUSABLE
        with pytest.raises(Unavailable):
            await other.refresh()
        assert [resource.metadata.name for resource in one.list()] == ["default.a"]
    finally:
        await asyncio.to_thread(postgres.start)
    await one.put([address("b")])
    assert (await taken(events, 1))[0].resource.metadata.name == "default.b"


async def test_new_process_serves_changes_from_before_its_start(
    pair: tuple[PostgresStore, PostgresStore], url: str
) -> None:
    one, _ = pair
    await write(one, "a", 2)
    async with opened(url) as late:
        assert late.changes(0) == one.changes(0)
        assert late.list() == one.list()


async def test_watcher_behind_the_retained_changes_gets_version_expired(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "CAPACITY", 3)
    async with opened(url) as one:
        other = await PostgresStore.open(url, SystemClock())
        waiting = asyncio.ensure_future(anext(other.watch(0)))
        await asyncio.sleep(0)
        await write(one, "a", 2)
        assert one.version == 5
        await other.refresh()
        assert (other.version, other.list()) == (5, one.list())
        with pytest.raises(Conflict) as refusal:
            await waiting
        assert refusal.value.code == Code.VERSION_EXPIRED
        late = await PostgresStore.open(url, SystemClock())
        assert [event.version for event in late.changes(2)] == [3, 4, 5]
        with pytest.raises(Conflict):
            late.changes(1)
        await other.close()
        await late.close()


async def test_writes_continue_after_a_database_is_set_back(
    postgres: PostgresServer, url: str
) -> None:
    async with opened(url) as store:
        await store.put([address("a")])
        await store.put([address("b")])
        set_back_to(postgres, url, 1)
        events = store.watch(2)
        (made,) = await store.put([address("c")])
        assert made.metadata.resource_version == "2"
        assert {one.metadata.name for one in store.list()} == {"default.a", "default.c"}
        with pytest.raises(Conflict):
            store.changes(0)
        await events.aclose()  # type: ignore[attr-defined]


def set_back_to(postgres: PostgresServer, url: str, version: int) -> None:
    """Set a database back to an earlier version, as after the loss of its last commits."""
    postgres.execute(
        f"delete from enmasse_resources where version > {version};"
        f" delete from enmasse_changes where version > {version};"
        f" update enmasse_store set version = {version}",
        url,
    )


@pytest.mark.parametrize("news", [1, 2, 3], ids=["fewer", "as many", "more"])
async def test_versions_reused_after_a_failover_are_distinguished(
    postgres: PostgresServer, pair: tuple[PostgresStore, PostgresStore], url: str, news: int
) -> None:
    one, other = pair
    await one.put([address("kept")])
    await one.put([address("lost-0"), address("lost-1")])
    await other.refresh()
    watches = [asyncio.ensure_future(anext(store.watch(3))) for store in pair]
    await asyncio.sleep(0)
    set_back_to(postgres, url, 1)
    # The new process never saw the lost changes, and reuses their version numbers.
    async with opened(url) as fresh:
        for number in range(news):
            await fresh.put([address(f"new-{number}")])
        await asyncio.to_thread(postgres.end_connections, url)
        for watch in watches:
            with pytest.raises(Conflict) as refusal:
                async with asyncio.timeout(PATIENCE_S):
                    await watch
            assert refusal.value.code == Code.VERSION_EXPIRED
        names = {"default.kept", *(f"default.new-{number}" for number in range(news))}
        for store in (fresh, one, other):
            await store.refresh()
            assert {made.metadata.name for made in store.list()} == names
            assert store.version == 1 + news
        for store in (one, other):
            # A client that asks for changes since then must list everything.
            with pytest.raises(Conflict):
                store.changes(3)
        events = one.watch(one.version)
        await other.put([address("later")])
        assert (await taken(events, 1))[0].resource.metadata.name == "default.later"
        await fresh.refresh()
        assert fresh.list() == other.list() == one.list()


async def test_older_database_without_marks_is_migrated(postgres: PostgresServer, url: str) -> None:
    async with opened(url) as store:
        await store.put([address("a")])
    postgres.execute("alter table enmasse_changes drop column mark", url)
    async with opened(url) as store:
        (made,) = await store.put([address("b")])
        assert made.metadata.resource_version == "2"
        assert [event.version for event in store.changes(0)] == [1, 2]


async def test_a_process_that_hangs_in_its_turn_loses_it(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = f"{database._SESSION}; set idle_in_transaction_session_timeout = '300ms'"
    monkeypatch.setattr(database, "_SESSION", quick)
    async with opened(url) as one, opened(url) as other:
        async with one.turn() as turn:
            await other.put([address("b")])
            with pytest.raises(Unavailable):
                await turn.put([address("a")])
        await one.refresh()
        assert [resource.metadata.name for resource in one.list()] == ["default.b"]
        await one.put([address("a")])


async def test_writer_to_a_database_gives_up_waiting_for_a_turn(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = f"{database._SESSION}; set lock_timeout = '100ms'"
    monkeypatch.setattr(database, "_SESSION", quick)
    async with opened(url) as one, opened(url) as other:
        async with one.turn() as turn:
            with pytest.raises(Unavailable, match="another writer has held") as refusal:
                await other.put([address("b")])
            assert refusal.value.retry_after_s == 1.0
            await turn.put([address("a")])
        await other.put([address("b")])


async def test_a_database_of_a_newer_version_is_refused(postgres: PostgresServer, url: str) -> None:
    async with opened(url):
        postgres.execute("update enmasse_store set format = 2", url)
    with pytest.raises(Invalid, match="format 2, this version reads up to 1"):
        await PostgresStore.open(url, SystemClock())


async def test_unreadable_row_of_a_database_is_reported(postgres: PostgresServer, url: str) -> None:
    async with opened(url) as store:
        await store.put([address("a")])
        statement = """update enmasse_resources set document = '{"kind": "Later"}'"""
        postgres.execute(statement, url)
    with pytest.raises(Unavailable, match="holds what this version cannot read: kind: 'Later'"):
        await PostgresStore.open(url, SystemClock())


async def test_database_user_with_table_privileges_only_is_sufficient(
    postgres: PostgresServer, url: str
) -> None:
    async with opened(url):
        pass
    name = schema_of(url)
    postgres.execute(f"create user user_{name} password 'x'")
    postgres.execute(f"grant usage on schema {name} to user_{name}")
    rights = f"select, insert, update, delete on all tables in schema {name}"
    postgres.execute(f"grant {rights} to user_{name}")
    place = url.replace(f"postgres:{PASSWORD}", f"user_{name}:x")
    async with opened(place) as store:
        await store.put([address("a")])


async def test_database_errors_contain_no_password(postgres: PostgresServer) -> None:
    wrong = postgres.url(password="wr%C3%B6ng-secret")
    for bad in (wrong, postgres.url("nowhere"), "postgresql://a:b@ d/secret@127.0.0.1:1x/c"):
        with pytest.raises((Unavailable, Invalid)) as refusal:
            await PostgresStore.open(bad, SystemClock())
        for secret in ("secret", "pä", "p%C3", "b@ d"):
            assert secret not in str(refusal.value)
    with pytest.raises(Unavailable, match="password authentication failed"):
        await PostgresStore.open(wrong, SystemClock())


def test_database_name_is_shown_without_the_password() -> None:
    place = Place("postgresql://enmasse:secret@db.example.com:6432/shop?sslmode=require")
    assert place.name == "database shop at db.example.com"
    assert Place("postgresql:///shop").name == "database shop at localhost"


async def test_replaced_leader_of_a_database_writes_no_status(
    postgres: PostgresServer, pair: tuple[PostgresStore, PostgresStore], url: str
) -> None:
    one, other = pair
    (made,) = await one.put([address("a")])
    assert await one.leadership.take()
    # The lease expires while the leader hangs.
    postgres.execute("update enmasse_leader set expires = now() - interval '1 s'", url)
    await one.put_status([made])  # No other process has taken the lease yet.
    assert await other.leadership.take()
    with pytest.raises(Unavailable) as refusal:
        await one.put_status([made])
    assert refusal.value.code == Code.STANDING_BY
    with pytest.raises(Unavailable) as lost:
        async with asyncio.timeout(PATIENCE_S):
            await one.leadership.keep(None)
    assert lost.value.code == Code.STANDING_BY
    # The former leader stays out when the lease is free again: another leader may have acted.
    await other.leadership.close()
    assert not await one.leadership.take()


async def test_leader_stays_leader_after_a_database_restart(
    postgres: PostgresServer, url: str
) -> None:
    async with AsyncExitStack() as stack:
        one = await stack.enter_async_context(opened(url))
        other = await stack.enter_async_context(opened(url, TestClock()))
        assert await one.leadership.take()
        keeping = asyncio.ensure_future(one.leadership.keep(None))
        waiting = asyncio.ensure_future(other.leadership.gain(allowed))
        await asyncio.to_thread(postgres.stop)
        await asyncio.to_thread(postgres.start)
        assert await one.leadership.take()
        assert not keeping.done() and not waiting.done()
        keeping.cancel()
        await one.leadership.close()
        async with asyncio.timeout(PATIENCE_S):
            await waiting


async def allowed() -> bool:
    return True


async def test_locked_table_of_nodes_does_not_cost_the_lease(url: str) -> None:
    async with opened(url) as one:
        assert await one.leadership.take()
        async with await psycopg.AsyncConnection.connect(url) as connection:
            await connection.execute("lock table enmasse_nodes")
            listing = asyncio.ensure_future(one.nodes.list())
            await asyncio.sleep(0)
            assert await one.leadership.take()
        with pytest.raises(Unavailable, match="has held a lock"):
            await listing


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Timeouts of a leader and of requests are fractions of a second."""
    for name, seconds in (
        ("LEASE_S", 1),
        ("MARGIN_S", 0.5),
        ("RENEW_S", 0.1),
        ("RETRY_S", 0.1),
        ("GIVE_BACK_S", 0.1),
    ):
        monkeypatch.setattr(leading, name, seconds)
    monkeypatch.setattr(database, "ANSWER_S", 0.5)


@pytest.mark.usefixtures("quick")
async def test_disconnected_leader_stops_leading_and_closes(
    postgres: PostgresServer, url: str
) -> None:
    with way_to(postgres, url) as (way, by_way):
        async with opened(by_way) as one:
            assert await one.leadership.take()
            keeping = asyncio.ensure_future(one.leadership.keep(0))
            await one.put([address("a")])
            assert not keeping.done()
            way.cut()
            async with asyncio.timeout(PATIENCE_S):
                with pytest.raises(Unavailable, match="leader-grace-s") as lost:
                    await keeping
            assert lost.value.code == Code.STANDING_BY
            for call in (one.refresh(), one.put([address("b")])):
                with pytest.raises(Unavailable):
                    await call
    assert not one.leadership.leads


@pytest.mark.usefixtures("quick")
async def test_close_succeeds_when_the_lease_cannot_be_released(
    postgres: PostgresServer, url: str
) -> None:
    with way_to(postgres, url) as (way, by_way):
        async with opened(by_way) as one:
            assert await one.leadership.take()
            way.cut()
        # The store is closed anyway, and the lease expires by itself.
        given_back = postgres.execute("select expires = '-infinity' from enmasse_leader", url)
    assert given_back == [(False,)]


async def test_computed_resources_are_shared_and_separate_from_declared_ones(url: str) -> None:
    clock = SystemClock()
    event = Event(
        metadata=NamedMetadata(name="orders.1"), involved_object=ObjectReference(name="orders")
    )
    made = [event, *schemas(Catalogue())]
    async with opened(url) as declared:
        one = await PostgresStore.open(url, clock, COMPUTED_TABLES)
        other = await PostgresStore.open(url, clock, COMPUTED_TABLES)
        await one.put(made)
        await other.refresh()
        assert other.list() == one.list()
        assert {resource.kind for resource in other.list()} == {"Event", "AddressSpaceSchema"}
        await one.put(made)
        assert one.version == len(made)
        await declared.refresh()
        assert (declared.version, declared.list()) == (0, [])
        again = await PostgresStore.open(url, clock, COMPUTED_TABLES)
        assert again.list() == one.list()
        for store in (one, other, again):
            await store.close()
