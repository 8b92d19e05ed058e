"""A data folder and the store that its messages belong to."""

import asyncio
from pathlib import Path

import pytest

import doubles
from enmasse.base.data_dir import DataDir
from enmasse.base.errors import Code, Conflict, Unavailable
from enmasse.cli.serve.store_binding import RECORD_INTERVAL_S, Belonging
from enmasse.store import MemoryStore
from enmasse.store.sqlite import SqliteStore


@pytest.fixture
def data(tmp_path: Path) -> DataDir:
    return DataDir(tmp_path)


async def test_store_of_the_previous_start_is_accepted(data: DataDir) -> None:
    clock = doubles.TestClock()
    for _ in range(2):
        store = await SqliteStore.open(data.resources_db, clock)
        Belonging(data, store, clock).check()
        await store.put([doubles.space()])
        await store.close()


async def test_different_store_is_refused_until_served_json_is_deleted(data: DataDir) -> None:
    clock = doubles.TestClock()
    first, second = MemoryStore(clock), MemoryStore(clock, version=7)
    Belonging(data, first, clock).check()
    for _ in range(2):
        with pytest.raises(Conflict, match=f"{first.identity}.*delete .*served.json") as refusal:
            Belonging(data, second, clock).check()
        assert refusal.value.code == Code.STORE_STRANGE
    data.served.unlink()
    Belonging(data, second, clock).check()
    with pytest.raises(Conflict):
        Belonging(data, first, clock).check()


async def test_older_copy_of_the_database_is_refused_by_its_version(data: DataDir) -> None:
    clock = doubles.TestClock()
    store = await SqliteStore.open(data.resources_db, clock)
    await store.close()
    copy = data.resources_db.read_bytes()
    store = await SqliteStore.open(data.resources_db, clock)
    await store.put([doubles.space()])
    Belonging(data, store, clock).check()
    await store.close()
    data.resources_db.write_bytes(copy)
    store = await SqliteStore.open(data.resources_db, clock)
    with pytest.raises(Conflict, match="was at version 1 .* and is now at 0"):
        Belonging(data, store, clock).check()
    await store.close()


async def test_store_version_is_recorded_while_the_platform_runs(data: DataDir) -> None:
    clock = doubles.TestClock()
    store = MemoryStore(clock)
    belonging = Belonging(data, store, clock)
    belonging.check()
    task = asyncio.ensure_future(belonging.keep_recording())
    await store.put([doubles.space()])
    for _ in range(10):
        await asyncio.sleep(0)
    task.cancel()
    assert '"version": 1' in data.served.read_text()
    assert clock.elapsed_s >= RECORD_INTERVAL_S


async def test_unreadable_served_json_refuses_the_start(data: DataDir) -> None:
    data.served.write_text("{")
    clock = doubles.TestClock()
    with pytest.raises(Unavailable, match=r"served.json: .*delete it if"):
        Belonging(data, MemoryStore(clock), clock).check()
