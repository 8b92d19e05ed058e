"""The room that is kept back for a start on a full disk."""

from pathlib import Path

import pytest

from enmasse.base import disk_reserve
from enmasse.base.data_dir import DataDir
from enmasse.base.disk_reserve import RESERVE_BYTES


def test_a_folder_has_its_reserve_on_disk(tmp_path: Path) -> None:
    with DataDir(tmp_path) as data:
        found = data.reserve.stat()
    assert found.st_size == RESERVE_BYTES
    assert found.st_blocks * 512 >= RESERVE_BYTES, "not a file of holes"
    assert found.st_mode & 0o777 == 0o600


def test_the_reserve_is_given_up_when_the_disk_is_full_and_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserve = tmp_path / "reserve"
    disk_reserve.balance(reserve)
    free = disk_reserve.free_bytes(tmp_path)
    monkeypatch.setattr(disk_reserve, "RESERVE_BYTES", free * 2)
    disk_reserve.balance(reserve)
    assert not reserve.exists()
    disk_reserve.balance(reserve)
    assert not reserve.exists(), "there is no room for it"
    monkeypatch.setattr(disk_reserve, "RESERVE_BYTES", RESERVE_BYTES)
    disk_reserve.balance(reserve)
    assert reserve.stat().st_size == RESERVE_BYTES
