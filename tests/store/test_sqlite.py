"""Behaviour and failures specific to the SQLite store."""

import asyncio
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

import doubles
import resource_writer
from enmasse.base.clock import SystemClock
from enmasse.base.errors import Code, Conflict, Unavailable
from enmasse.resources import Address, Resource
from enmasse.store import sqlite
from enmasse.store.nodes import Identity
from enmasse.store.protocol import Event
from enmasse.store.sqlite import SqliteStore
from resource_writer import TOGETHER, batch


def address(name: str) -> Address:
    return doubles.address(f"default.{name}")


async def test_resources_and_version_survive_a_restart(tmp_path: Path) -> None:
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


async def test_completed_write_is_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "resources.db"
    store = await SqliteStore.open(path, SystemClock())
    await store.put([address("a")])
    other = sqlite3.connect(path)
    assert other.execute("select name, version from resources").fetchall() == [("default.a", 1)]
    assert other.execute("select version from store").fetchall() == [(1,)]
    other.close()
    await store.close()


async def test_database_uses_wal_and_full_synchronous_mode(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "resources.db", SystemClock())
    (journal,) = store._connection.execute("pragma journal_mode").fetchone()
    (synchronous,) = store._connection.execute("pragma synchronous").fetchone()
    await store.close()
    assert (journal, synchronous) == ("wal", 2)


def modes(folder: Path) -> dict[str, int]:
    return {file.name: file.stat().st_mode & 0o777 for file in folder.iterdir()}


@pytest.mark.parametrize("readable", [False, True], ids=["new", "readable before"])
async def test_database_files_have_mode_0600(tmp_path: Path, readable: bool) -> None:
    path = tmp_path / "resources.db"
    if readable:
        path.touch(0o644)
        path.with_name("resources.db-wal").touch(0o644)
    store = await SqliteStore.open(path, SystemClock())
    await store.put([address("a")])
    names = [f"resources.db{suffix}" for suffix in ("", "-wal", "-shm")]
    assert modes(tmp_path) == dict.fromkeys(names, 0o600)
    await store.close()


async def test_failed_write_is_not_visible(tmp_path: Path) -> None:
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


async def test_write_to_a_full_disk_is_all_or_nothing(tmp_path: Path) -> None:
    path = tmp_path / "resources.db"
    store = await SqliteStore.open(path, SystemClock())
    (pages,) = store._connection.execute("pragma page_count").fetchone()
    # A page limit of SQLite acts like a full disk.
    store._connection.execute(f"pragma max_page_count = {pages + 10}")
    taken = 0
    with pytest.raises(Unavailable, match="full; check the disk") as refusal:
        while True:
            await store.put(batch("a", taken))
            taken += 1
    assert refusal.value.code == Code.DATA_UNUSABLE
    assert taken > 0
    before, version = store.list(), store.version
    assert version == len(before) == taken * TOGETHER
    with pytest.raises(Unavailable):
        await store.put(batch("a", taken))
    await store.delete([before[0].key])
    store._connection.execute(f"pragma max_page_count = {pages + 1000}")
    await store.put(batch("a", taken))
    held, now = store.list(), store.version
    assert now == version + 1 + TOGETHER
    await store.close()
    again = await SqliteStore.open(path, SystemClock())
    assert (again.list(), again.version) == (held, now)
    await again.close()


@pytest.mark.parametrize("writes", [1, 7, 40])
async def test_a_writer_that_is_killed_leaves_whole_writes(tmp_path: Path, writes: int) -> None:
    path = tmp_path / "resources.db"
    known: dict[str, Resource] = {}
    for life in ("a", "b"):
        told = await asyncio.to_thread(writes_before_kill, writes, path, life)
        store = await SqliteStore.open(path, SystemClock())
        held = {one.metadata.name: one for one in store.list()}
        assert known.items() <= held.items()
        # One unreported write may be in the file, as a whole or not at all.
        for count in (told, told + 1):
            made = {one.metadata.name for n in range(count) for one in batch(life, n)}
            if len(made) == len(held) - len(known):
                break
        assert held.keys() - known.keys() == made
        assert store.version == len(held)
        known = held
        await store.close()


def writes_before_kill(writes: int, path: Path, name: str) -> int:
    """Kill a process that writes continuously; return the number of writes that it reported."""
    command = [sys.executable, str(Path(resource_writer.__file__)), str(path), name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(writes):
            assert process.stdout.readline()
        process.kill()
        return writes + len(process.stdout.readlines())


async def test_locked_database_raises_unavailable_with_a_retry_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "LOCK_WAIT_S", 0.1)
    path = tmp_path / "resources.db"
    store = await SqliteStore.open(path, SystemClock())
    await store.put([address("a")])
    with locked(path):
        for write in (store.put([address("b")]), store.delete([address("a").key])):
            with pytest.raises(Unavailable, match="another program has held a lock") as refusal:
                await write
            assert refusal.value.retry_after_s == 1.0
        assert [one.key for one in store.list()] == [address("a").key]
        with pytest.raises(Unavailable, match="another program has held a lock"):
            await SqliteStore.open(path, SystemClock())
    (made,) = await store.put([address("b")])
    assert made.metadata.resource_version == "2"
    await store.close()


LOCK = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("begin immediate")
print("locked", flush=True)
sys.stdin.read()
"""


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock a file for writing by another process."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", LOCK, str(path)], **pipes) as process:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline()
        yield
        process.stdin.close()


async def test_cancelled_statement_ends_before_its_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "resources.db"
    store = await SqliteStore.open(path, SystemClock())
    began, may_end, transaction = threading.Event(), threading.Event(), sqlite._transaction

    @contextmanager
    def slow(connection: sqlite3.Connection) -> Iterator[None]:
        with transaction(connection):
            began.set()
            may_end.wait()
            yield

    monkeypatch.setattr(sqlite, "_transaction", slow)
    identity = Identity("a", "uid", 1, "mark")
    claiming = asyncio.ensure_future(store.nodes.claim(None, identity, "here"))
    await asyncio.to_thread(began.wait)
    claiming.cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not claiming.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await claiming
    await store.close()


async def test_cancelled_write_leaves_memory_and_disk_consistent(
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
        # The write of `put` has ended by now.
        await asyncio.sleep(0)
    assert store.get(address("a").key) is not None
    version = store.version
    await store.close()
    again = await SqliteStore.open(path, SystemClock())
    assert (again.version, len(again.list())) == (version, 1)
    await again.close()


async def test_malformed_database_file_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "resources.db"
    path.write_bytes(b"this is not a database at all" * 100)
    with pytest.raises(Unavailable, match=r"resources\.db: file is not a database"):
        await SqliteStore.open(path, SystemClock())


async def test_unreadable_row_of_a_sqlite_file_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "resources.db"
    store = await SqliteStore.open(path, SystemClock())
    await store.put([address("a")])
    store._connection.execute('update resources set document = \'{"kind": "Later"}\'')
    await store.close()
    with pytest.raises(Unavailable, match="holds what this version cannot read: kind: 'Later'"):
        await SqliteStore.open(path, SystemClock())
