"""Restoring a backup, without a platform."""

import asyncio
from pathlib import Path

import pytest

import doubles
from enmasse.base.clock import SystemClock, rfc3339
from enmasse.base.data_dir import DataDir
from enmasse.base.errors import Code, Conflict, Invalid, Unavailable
from enmasse.base.settings import Settings
from enmasse.cli.serve.restore import lines, restored
from enmasse.resources import Resource, parse
from enmasse.resources.model import INFRA_NAMESPACE
from enmasse.store.archive import Contents, write
from enmasse.store.memory import MemoryTurn
from enmasse.store.postgres import PostgresStore
from enmasse.store.restored import RESTORED, UnknownPeriod, lost, noted
from enmasse.store.sqlite import SqliteStore
from postgres_server import PostgresServer

pytestmark = pytest.mark.timeout(120)
MADE = "2026-01-01T00:00:00Z"


@pytest.fixture
def resources() -> list[Resource]:
    return [
        doubles.space(uid="space-1", generation=3, creation_timestamp=MADE),
        doubles.queue().with_metadata(uid="queue-1"),
    ]


@pytest.fixture
def file(tmp_path: Path, resources: list[Resource]) -> Path:
    """A backup of a platform that has no messages."""
    journal = tmp_path / "journal"
    journal.mkdir()
    path = tmp_path / "backup"
    contents = Contents(resources, journal, [], {"made": MADE, "leftOut": ["default/own"]})
    path.write_bytes(b"".join(write(contents, SystemClock())))
    return path


async def test_restore_recreates_resources_unchanged(
    tmp_path: Path, file: Path, resources: list[Resource]
) -> None:
    about = await restored(file, Settings(data=tmp_path / "new"), overwrite=False)
    assert about["resources"] == {"Address": 1, "AddressSpace": 1}
    assert about["messages"] == {}
    store = await SqliteStore.open(tmp_path / "new" / "resources.db", SystemClock())
    (space,) = store.list("AddressSpace")
    assert space == resources[0].with_metadata(resource_version="1")
    await store.close()
    text = lines("it has", about)
    assert "2 resources (1 Address, 1 AddressSpace)" in text
    assert "0 messages of 0 addresses" in text and "default/own" in text


async def test_restore_over_existing_resources_requires_overwrite(
    tmp_path: Path, file: Path
) -> None:
    settings = Settings(data=tmp_path / "new")
    await restored(file, settings, overwrite=False)
    with pytest.raises(Conflict, match="already holds 2 resources.*--overwrite") as refusal:
        await restored(file, settings, overwrite=False)
    assert refusal.value.code == Code.ALREADY_EXISTS
    await restored(file, settings, overwrite=True)


async def test_interrupted_restore_blocks_the_start_until_it_is_repeated(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        """The end of the process between journal and resources."""

    def killed(*_: object) -> None:
        raise Killed

    settings = Settings(data=tmp_path / "new")
    monkeypatch.setattr(MemoryTurn, "replace_all", killed)
    with pytest.raises(Killed):
        await restored(file, settings, overwrite=False)
    monkeypatch.undo()
    with pytest.raises(Unavailable, match="is incomplete.*run enmasse restore again"):
        DataDir(settings.data).__enter__()
    about = await restored(file, settings, overwrite=False)
    assert about["resources"] == {"Address": 1, "AddressSpace": 1}
    with DataDir(settings.data) as data:
        assert not data.restoring.exists()


async def test_restore_into_a_data_folder_in_use_is_refused(tmp_path: Path, file: Path) -> None:
    settings = Settings(data=tmp_path / "new")
    with DataDir(settings.data), pytest.raises(Conflict, match="in use by process"):
        await restored(file, settings, overwrite=True)


def test_restore_of_a_damaged_backup_changes_nothing(tmp_path: Path, file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(Invalid):
        asyncio.run(restored(file, Settings(data=tmp_path / "new"), overwrite=True))
    assert not (tmp_path / "new").exists()


async def test_restore_writes_resources_to_a_database(
    tmp_path: Path, file: Path, postgres: PostgresServer
) -> None:
    url = postgres.new_database()
    settings = Settings(data=tmp_path / "new", store=url)
    await restored(file, settings, overwrite=False)
    store = await PostgresStore.open(url, SystemClock())
    assert [one.metadata.uid for one in store.list("AddressSpace")] == ["space-1"]
    assert await store.leadership.take()
    with pytest.raises(Conflict, match="a platform runs on the database"):
        await restored(file, settings, overwrite=True)
    await store.close()


@pytest.mark.parametrize("prune", [False, True])
async def test_restore_records_the_period_since_the_backup_for_realms(
    tmp_path: Path, resources: list[Resource], prune: bool
) -> None:
    service = {
        "apiVersion": "admin.enmasse.io/v1beta1",
        "kind": "AuthenticationService",
        "metadata": {"name": "kc", "namespace": INFRA_NAMESPACE, "uid": "kc"},
        "spec": {
            "type": "keycloak",
            "keycloak": {"url": "https://sso.example.com", "credentialsSecret": {"name": "admin"}},
        },
    }
    earlier = UnknownPeriod("2025-01-01T00:00:00Z", "2025-01-02T00:00:00Z")
    (tmp_path / "journal").mkdir()
    what = [*resources, parse(service, stored=True), noted((), earlier)]
    contents = Contents(what, tmp_path / "journal", [], {"made": MADE})
    file = tmp_path / "backup"
    file.write_bytes(b"".join(write(contents, SystemClock())))
    settings = Settings(data=tmp_path / "new")
    begun = rfc3339(SystemClock().now())
    about = await restored(file, settings, overwrite=False, prune=prune)
    assert about["resources"].get("ConfigMap", 0) == (not prune)
    store = await SqliteStore.open(tmp_path / "new" / "resources.db", SystemClock())
    times = lost(store.get(RESTORED))
    await store.close()
    if prune:
        assert times == ()
        return
    assert times[0] == earlier and times[1].since == MADE
    assert begun <= times[1].until <= rfc3339(SystemClock().now())


async def test_restore_into_a_kubernetes_store_is_refused_with_a_remedy(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path / "new", store="kubernetes://home")
    with pytest.raises(
        Invalid, match="assigns its own uids; restore with --store sqlite"
    ) as refusal:
        await restored(tmp_path / "none.tar.gz", settings, overwrite=True)
    assert refusal.value.code == Code.OPERATION_UNFIT
    assert not settings.data.exists()
