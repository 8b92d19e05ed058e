"""The disk space that is reserved for a start on a full disk."""

from pathlib import Path

import pytest

from enmasse.base import disk_reserve
from enmasse.base.data_dir import DataDir
from enmasse.base.disk_reserve import RESERVE_BYTES


def test_data_folder_allocates_its_disk_reserve(tmp_path: Path) -> None:
    with DataDir(tmp_path) as data:
        found = data.reserve.stat()
    assert found.st_size == RESERVE_BYTES
    assert found.st_blocks * 512 >= RESERVE_BYTES, "the file is not sparse"
    assert found.st_mode & 0o777 == 0o600


def test_reserve_is_released_on_a_full_disk_and_restored_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserve = tmp_path / "reserve"
    disk_reserve.adjust(reserve)
    free = disk_reserve.free_bytes(tmp_path)
    monkeypatch.setattr(disk_reserve, "RESERVE_BYTES", free * 2)
    disk_reserve.adjust(reserve)
    assert not reserve.exists()
    disk_reserve.adjust(reserve)
    assert not reserve.exists(), "the disk is still full"
    monkeypatch.setattr(disk_reserve, "RESERVE_BYTES", RESERVE_BYTES)
    disk_reserve.adjust(reserve)
    assert reserve.stat().st_size == RESERVE_BYTES
