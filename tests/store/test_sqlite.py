"""What only a store on disk can do, and do wrong."""

import asyncio
import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

import doubles
from enmasse.base.clock import SystemClock
from enmasse.base.errors import Conflict, Unavailable
from enmasse.resources import Address
from enmasse.store.protocol import Event
from enmasse.store.sqlite import SqliteStore


def address(name: str) -> Address:
    return doubles.address(f"default.{name}")


async def test_everything_is_there_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "resources.db"
    store = await SqliteStore.open(path, SystemClock())
    await store.put([address("a"), address("b"), address("c")])
    await store.delete([address("b").key])
    before, version = store.list(), store.version
    await store.close()

    again = await SqliteStore.open(path, SystemClock())
    assert again.list() == before
    assert again.version == version == 4
    (made,) = await again.put([address("d")])
    assert made.metadata.resource_version == "5"
    with pytest.raises(Conflict):
        await anext(again.watch(3))
    await again.close()


async def test_a_finished_write_is_in_the_file_before_it_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "resources.db"
    store = await SqliteStore.open(path, SystemClock())
    await store.put([address("a")])
    other = sqlite3.connect(path)
    assert other.execute("select name, version from resources").fetchall() == [("default.a", 1)]
    assert other.execute("select version from store").fetchall() == [(1,)]
    other.close()
    await store.close()


async def test_the_file_is_written_with_full_syncs(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "resources.db", SystemClock())
    (journal,) = store._connection.execute("pragma journal_mode").fetchone()
    (synchronous,) = store._connection.execute("pragma synchronous").fetchone()
    await store.close()
    assert (journal, synchronous) == ("wal", 2)


def modes(folder: Path) -> dict[str, int]:
    return {file.name: file.stat().st_mode & 0o777 for file in folder.iterdir()}


@pytest.mark.parametrize("readable", [False, True], ids=["new", "readable before"])
async def test_only_the_owner_may_read_the_files(tmp_path: Path, readable: bool) -> None:
    path = tmp_path / "resources.db"
    if readable:
        path.touch(0o644)
        path.with_name("resources.db-wal").touch(0o644)
    store = await SqliteStore.open(path, SystemClock())
    await store.put([address("a")])
    names = [f"resources.db{suffix}" for suffix in ("", "-wal", "-shm")]
    assert modes(tmp_path) == dict.fromkeys(names, 0o600)
    await store.close()


async def test_a_write_the_disk_refuses_is_not_seen(tmp_path: Path) -> None:
    path = tmp_path / "resources.db"
    store = await SqliteStore.open(path, SystemClock())
    await store.put([address("a")])
    store._connection.execute(
        "create trigger refuse before insert on resources"
        " begin select raise(abort, 'disk full'); end"
    )
    with pytest.raises(Unavailable, match=r"resources\.db: disk full"):
        await store.put([address("b")])
    assert [resource.metadata.name for resource in store.list()] == ["default.a"]
    assert store.version == 1
    await store.close()


async def test_who_gives_up_waiting_leaves_memory_and_disk_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "resources.db"
    store = await SqliteStore.open(path, SystemClock())
    began, may_end, write = threading.Event(), threading.Event(), store._write

    def slow(events: Sequence[Event]) -> None:
        began.set()
        assert may_end.wait(10)
        write(events)

    monkeypatch.setattr(store, "_write", slow)
    writing = asyncio.create_task(store.put([address("a")]))
    await asyncio.to_thread(began.wait, 10)
    writing.cancel()
    await asyncio.sleep(0)
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await writing
        # `put` itself has nothing to wait for any more
        await asyncio.sleep(0)
    assert store.get(address("a").key) is not None
    version = store.version
    await store.close()
    again = await SqliteStore.open(path, SystemClock())
    assert (again.version, len(again.list())) == (version, 1)
    await again.close()


async def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    path = tmp_path / "resources.db"
    path.write_bytes(b"this is not a database at all" * 100)
    with pytest.raises(Unavailable, match=r"resources\.db: file is not a database"):
        await SqliteStore.open(path, SystemClock())


async def test_a_row_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "resources.db"
    store = await SqliteStore.open(path, SystemClock())
    await store.put([address("a")])
    store._connection.execute('update resources set document = \'{"kind": "Later"}\'')
    await store.close()
    with pytest.raises(Unavailable, match="holds what this version cannot read: kind: 'Later'"):
        await SqliteStore.open(path, SystemClock())
