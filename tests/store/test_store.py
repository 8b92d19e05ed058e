"""The contract of every store."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest

import doubles
from doubles import TestClock
from enmasse.base.errors import Code, Conflict, Invalid, Missing, Misuse
from enmasse.resources import Address, Key, Resource
from enmasse.resources.conditions import ready_status
from enmasse.store import Event, EventType, MemoryStore, Store
from enmasse.store.kubernetes import KubernetesStore
from enmasse.store.protocol import MUST_NOT_EXIST
from enmasse.store.sqlite import SqliteStore
from kube.go_programs import BUILD_TIMEOUT_S
from kube.server import KubeServer
from postgres_server import PostgresServer
from replicas import opened

NOW = datetime(2026, 1, 1, tzinfo=UTC)


Open = Callable[[], Awaitable[Store]]


IN_CLUSTER = [pytest.mark.slow, pytest.mark.timeout(BUILD_TIMEOUT_S + 120)]
KUBERNETES = pytest.param("kubernetes", marks=IN_CLUSTER)


@pytest.fixture(params=["memory", "sqlite", "postgres", KUBERNETES])
async def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Open]:
    async with AsyncExitStack() as stack:

        async def open_() -> Store:
            store: Store
            if request.param == "memory":
                store = MemoryStore(TestClock())
                stack.push_async_callback(store.close)
            elif request.param == "sqlite":
                store = await SqliteStore.open(tmp_path / "resources.db", TestClock())
                stack.push_async_callback(store.close)
            else:
                shared = await stack.enter_async_context(opened(new_place(request), TestClock()))
                assert await shared.leadership.take()
                store = shared
            return store

        yield open_


def new_place(request: pytest.FixtureRequest) -> str:
    """URL of an empty store that several processes can use."""
    if request.param == "kubernetes":
        cluster: KubeServer = request.getfixturevalue("cluster")
        return cluster.url
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.new_database()


@pytest.fixture
async def store(open_store: Open) -> Store:
    return await open_store()


def address(name: str = "orders", type_: str = "anycast", **metadata: str) -> Address:
    return doubles.address(f"default.{name}", type_, **metadata)


def active(resource: Resource) -> Resource:
    status = ready_status(resource.status, phase="Active", reason="Served", generation=1, now=NOW)
    return resource.with_status(status)


def planned(plan: str, name: str = "orders") -> Address:
    made = address(name)
    return made.model_copy(update={"spec": made.spec.model_copy(update={"plan": plan})})


def version(resource: Resource) -> int:
    return int(resource.metadata.resource_version or 0)


def names(store: Store) -> list[str]:
    """The names of all addresses; a store may have namespaces from the start."""
    return [one.metadata.name for one in store.list("Address")]


async def take(events: AsyncIterator[Event], count: int) -> list[Event]:
    return [await anext(events) for _ in range(count)]


async def test_new_resource_gets_uid_generation_version_and_creation_time(store: Store) -> None:
    (made,) = await store.put([address(uid="mine", creation_timestamp="1999-01-01T00:00:00Z")])
    assert made.metadata.uid not in (None, "mine")
    assert made.metadata.generation == 1
    assert version(made) == store.version
    assert made.metadata.creation_timestamp not in (None, "1999-01-01T00:00:00Z")
    assert store.get(made.key) == made


async def test_status_of_a_new_resource_is_ignored(store: Store) -> None:
    (made,) = await store.put([active(address())])
    assert made.status == address().status


async def test_changed_spec_increments_the_generation(store: Store) -> None:
    (made,) = await store.put([address()])
    (changed,) = await store.put([planned("other")])
    assert changed.metadata.uid == made.metadata.uid
    assert changed.metadata.generation == 2
    assert version(changed) > version(made)


async def test_changed_label_increments_the_version_only(store: Store) -> None:
    (made,) = await store.put([address()])
    (changed,) = await store.put([address().with_metadata(labels={"team": "north"})])
    assert changed.metadata.generation == 1
    assert version(changed) > version(made)
    assert changed.metadata.labels == {"team": "north"}


async def test_unchanged_resource_is_not_written(store: Store) -> None:
    (made,) = await store.put([address()])
    assert list(await store.put([address()])) == [made]
    assert store.version == version(made)


async def test_change_of_an_outdated_version_conflicts(store: Store) -> None:
    (first,) = await store.put([address()])
    (second,) = await store.put([first.with_metadata(labels={"a": "b"})])
    told = f"is at version {version(second)}, not {version(first)}"
    with pytest.raises(Conflict, match=told) as refusal:
        await store.put([first.with_metadata(labels={"c": "d"})])
    assert refusal.value.code == Code.VERSION_CONFLICT
    assert store.get(first.key) == second


async def test_must_not_exist_conflicts_with_an_existing_resource(store: Store) -> None:
    demand = address(resource_version=MUST_NOT_EXIST)
    await store.put([demand])
    with pytest.raises(Conflict, match="Address default.orders exists already") as refusal:
        await store.put([demand])
    assert refusal.value.code == Code.ALREADY_EXISTS


async def test_version_of_a_missing_resource_conflicts(store: Store) -> None:
    with pytest.raises(Conflict):
        await store.put([address(resource_version="7")])


async def test_uid_of_a_former_resource_conflicts(store: Store) -> None:
    (first,) = await store.put([address()])
    await store.delete([first.key])
    await store.put([address()])
    with pytest.raises(Conflict, match="is not the object of the request"):
        await store.put([address(uid=first.metadata.uid or "")])


async def test_a_write_is_all_or_nothing(store: Store) -> None:
    (made,) = await store.put([address("b")])
    with pytest.raises(Conflict):
        await store.put([address("a"), address("b", resource_version=MUST_NOT_EXIST)])
    with pytest.raises(Missing):
        await store.delete([address("b").key, address("a").key])
    assert names(store) == ["default.b"]
    assert store.version == version(made)


async def test_put_status_changes_only_the_status(store: Store) -> None:
    (made,) = await store.put([address()])
    await store.put_status([active(made.with_metadata(labels={"sneaked": "in"}))])
    now = store.get(made.key)
    assert now is not None
    assert now.status.is_ready
    assert now.metadata.labels == {}
    assert now.metadata.generation == 1
    assert version(now) > version(made)
    await store.put_status([active(made)])
    assert store.version == version(now)


async def test_a_status_survives_a_change_of_spec(store: Store) -> None:
    (made,) = await store.put([address()])
    await store.put_status([active(made)])
    (changed,) = await store.put([planned("other")])
    assert changed.status.is_ready


async def test_status_of_a_deleted_resource_is_ignored(store: Store) -> None:
    (first,) = await store.put([address()])
    await store.delete([first.key])
    await store.put_status([active(first)])
    assert names(store) == []
    (second,) = await store.put([address()])
    await store.put_status([active(first)])
    assert store.get(second.key) == second


async def test_recreated_resource_has_a_new_uid_and_generation(store: Store) -> None:
    (first,) = await store.put([address()])
    (gone,) = await store.delete([first.key])
    assert gone.metadata.uid == first.metadata.uid
    assert store.get(first.key) is None
    (second,) = await store.put([address()])
    assert second.metadata.uid != first.metadata.uid
    assert second.metadata.generation == 1


async def test_list_is_ordered_and_filtered_by_kind_and_namespace(store: Store) -> None:
    await store.put([address("b"), address("a"), address("c", namespace="north")])
    found = [resource.metadata.name for resource in store.list("Address", "default")]
    assert found == ["default.a", "default.b"]
    assert len(store.list("Address")) == 3
    assert store.list("AddressSpace") == []
    found = [resource.metadata.name for resource in store.list(namespace="north")]
    assert found == ["default.c"]


async def test_a_watch_yields_every_change_in_order(store: Store) -> None:
    (made,) = await store.put([address("old")])
    events = store.watch(store.version)
    waiting = asyncio.ensure_future(take(events, 4))
    await store.put([address("a"), address("b")])
    await store.put_status([active(made)])
    await store.delete([address("a").key])
    seen = await waiting
    assert [(event.type, event.resource.metadata.name) for event in seen] == [
        (EventType.ADDED, "default.a"),
        (EventType.ADDED, "default.b"),
        (EventType.MODIFIED, "default.old"),
        (EventType.DELETED, "default.a"),
    ]
    versions = [event.version for event in seen]
    assert versions == sorted(set(versions)) and versions[0] > version(made)
    assert [version(event.resource) for event in seen] == versions


async def test_two_watchers_do_not_disturb_each_other(store: Store) -> None:
    since = store.version
    made = await store.put([address("a"), address("b")])
    slow, quick = store.watch(since), store.watch(since)
    await take(quick, 2)
    assert [event.resource for event in await take(slow, 2)] == list(made)


async def test_concurrent_writes_get_distinct_versions(store: Store) -> None:
    await asyncio.gather(*(store.put([address(f"a{number}")]) for number in range(20)))
    assert len({version(resource) for resource in store.list("Address")}) == 20
    assert store.version == max(version(resource) for resource in store.list("Address"))


async def test_text_of_a_key_is_kind_and_name() -> None:
    assert str(Key("Address", "default", "default.orders")) == "Address default.orders"


async def test_dry_run_writes_nothing(store: Store) -> None:
    (tried,) = await store.put([address()], dry_run=True)
    assert tried.metadata.uid
    assert names(store) == []
    (made,) = await store.put([address()])
    (gone,) = await store.delete([made.key], dry_run=True)
    assert gone.metadata.uid == made.metadata.uid
    assert store.get(made.key) == made
    assert store.version == version(made)


async def test_deleted_resource_is_terminating_until_its_finalizers_are_removed(
    store: Store,
) -> None:
    (made,) = await store.put([address(finalizers=("example.com/a", "example.com/b"))])
    (marked,) = await store.delete([made.key])
    assert marked.is_terminating
    assert store.get(made.key) == marked
    (again,) = await store.delete([made.key])
    assert again == marked
    assert store.version == version(marked)
    (one_left,) = await store.put([address(finalizers=("example.com/b",))])
    assert one_left.is_terminating
    events = store.watch(store.version)
    await store.put([address()])
    event = await anext(events)
    assert (event.type, event.before) == (EventType.DELETED, one_left)
    assert store.get(made.key) is None


async def test_event_contains_the_resource_before_the_change(store: Store) -> None:
    events = store.watch(store.version)
    (made,) = await store.put([address()])
    (changed,) = await store.put([address(labels={"a": "b"})])
    await store.delete([made.key])
    seen = await take(events, 3)
    assert [event.before for event in seen] == [None, made, changed]


async def test_turn_blocks_other_writers(store: Store) -> None:
    async with store.turn() as turn:
        waiting = asyncio.ensure_future(store.put([address("late")]))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not waiting.done()
        await turn.put([address("early")])
    await waiting
    versions = {one.metadata.name: version(one) for one in store.list("Address")}
    assert versions["default.early"] < versions["default.late"]


async def test_a_turn_ends_with_its_write(store: Store) -> None:
    async with store.turn() as turn:
        await turn.put([address("a")], dry_run=True)
        await turn.put([address("a")])
        with pytest.raises(Misuse):
            await turn.put([address("b")])
        with pytest.raises(Misuse):
            await turn.delete([address("a").key])
    assert names(store) == ["default.a"]


async def test_failed_turn_releases_the_store(store: Store) -> None:
    with pytest.raises(ZeroDivisionError):
        async with store.turn():
            raise ZeroDivisionError
    with pytest.raises(Missing):
        await store.delete([address().key])
    (made,) = await store.put([address()])
    assert store.version == version(made)


async def test_cancelled_writer_does_not_block_the_store(store: Store) -> None:
    async with store.turn():
        waiting = asyncio.ensure_future(store.put([address("a")]))
        await asyncio.sleep(0)
        waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await store.put([address("b")])
    await store.refresh()
    assert names(store) == ["default.b"]


async def test_annotation_with_any_text_is_stored_unchanged(store: Store) -> None:
    odd = {"example.com/odd": 'ä ☃ 😀 \x00 " \\ \n'}
    (made,) = await store.put([address().with_metadata(annotations=odd)])
    await store.refresh()
    found = store.get(made.key)
    assert found is not None and found.metadata.annotations == odd


async def test_replace_all_restores_resources_with_uid_and_generation(store: Store) -> None:
    await store.put([address("a"), address("b")])
    (before,) = await store.put([planned("other", "b")])
    kept = active(before.with_metadata(uid="its own", creation_timestamp="2020-01-01T00:00:00Z"))
    new = address("c", uid="new", generation=7)
    since = store.version
    async with store.turn() as turn:
        if isinstance(store, KubernetesStore):
            with pytest.raises(Invalid, match="assigns its own uids"):
                await turn.replace_all([kept, new])
            return
        await turn.replace_all([kept, new])
    await store.refresh()
    found = {one.metadata.name: one for one in store.list()}
    assert list(found) == ["default.b", "default.c"]
    for one in (kept, new):
        now = found[one.metadata.name]
        assert now == one.with_metadata(resource_version=now.metadata.resource_version)
    events = store.changes(since)
    assert [event.type for event in events] == [EventType.DELETED] * 2 + [EventType.ADDED] * 2
    assert store.version == since + 4
    await store.put([address("d")])
    assert store.version == since + 5
