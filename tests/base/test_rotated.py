"""A rotated file of lines."""

import stat
from pathlib import Path

import pytest

from enmasse.base.rotated import RotatedFile


def test_rotated_file_keeps_the_newest_lines_within_its_bound(tmp_path: Path) -> None:
    file = RotatedFile(tmp_path / "log", file_bytes_max=30, files=3)
    for number in range(40):
        file.append(f"line {number:02}")
    file.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log", "log.1", "log.2"]
    assert all(path.stat().st_size <= 30 for path in tmp_path.iterdir())
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in tmp_path.iterdir())
    assert file.last(5) == [f"line {number:02}" for number in range(35, 40)]
    assert file.last(0) == []
    kept = file.last(1000)
    assert kept == [f"line {number:02}" for number in range(40 - len(kept), 40)]
    assert len(kept) > 3


def test_reopened_rotated_file_appends_to_existing_lines(tmp_path: Path) -> None:
    for number in range(3):
        file = RotatedFile(tmp_path / "log", file_bytes_max=1000, files=2)
        file.append(f"{number}")
        file.close()
    assert file.last(9) == ["0", "1", "2"]


def test_a_line_longer_than_a_file_is_kept_whole(tmp_path: Path) -> None:
    file = RotatedFile(tmp_path / "log", file_bytes_max=10, files=2)
    file.append("short")
    file.append("x" * 50)
    assert file.last(1) == ["x" * 50]
    assert file.last(2) == ["short", "x" * 50]


def test_rotation_with_one_file_truncates_it(tmp_path: Path) -> None:
    file = RotatedFile(tmp_path / "log", file_bytes_max=10, files=1)
    for number in range(5):
        file.append(f"line {number}")
    assert file.last(9) == ["line 4"]


def test_failed_write_raises_os_error(tmp_path: Path) -> None:
    file = RotatedFile(tmp_path / "none" / "log", file_bytes_max=10, files=2)
    with pytest.raises(OSError):
        file.append("line")
    assert file.last(3) == []
