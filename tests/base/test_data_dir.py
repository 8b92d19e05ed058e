"""The data folder and its lock."""

import json
import os
from pathlib import Path

import pytest

from enmasse.base import data_format
from enmasse.base.data_dir import DataDir, write_private
from enmasse.base.errors import Code, Conflict, Invalid, Unavailable


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_new_data_folder_is_created_with_mode_0700(tmp_path: Path) -> None:
    with DataDir(tmp_path / "deep" / "data") as data:
        assert data.tls.is_dir()
        assert data.journal.is_dir()
        assert mode(data.path) == 0o700
        assert (data.path / "format").read_text() == "1\n"
        assert mode(data.path / "format") == 0o600


@pytest.mark.parametrize("ours", [(), ("format", "resources.db")])
def test_readable_data_folder_is_restricted_to_mode_0700(
    tmp_path: Path, ours: tuple[str, ...]
) -> None:
    for name in ours:
        (tmp_path / name).write_text("1\n")
    for folder in (tmp_path, tmp_path / "journal") if ours else (tmp_path,):
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)
    with DataDir(tmp_path) as data:
        assert [mode(folder) for folder in (data.path, data.journal, data.tls)] == [0o700] * 3


def test_folder_with_foreign_files_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "letter").write_text("")
    tmp_path.chmod(0o755)
    with DataDir(tmp_path) as data:
        assert [mode(folder) for folder in (data.path, data.journal, data.tls)] == [
            0o755,
            0o700,
            0o700,
        ]


def test_second_process_gets_a_conflict_naming_the_owner_pid(tmp_path: Path) -> None:
    with DataDir(tmp_path), pytest.raises(Conflict, match=f"process {os.getpid()}") as refusal:
        DataDir(tmp_path).__enter__()
    assert refusal.value.code == Code.DATA_LOCKED
    with DataDir(tmp_path):
        pass  # the lock is free again


def tree(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Mode, modification time and content of a folder and everything below it."""
    return {
        str(path.relative_to(folder)): (
            path.stat().st_mode,
            path.stat().st_mtime_ns,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in (folder, *folder.rglob("*"))
    }


@pytest.mark.parametrize("text", ["2", "1000", "old"])
@pytest.mark.parametrize("upgrade", [False, True])
def test_newer_data_format_is_rejected_without_a_change_to_the_folder(
    tmp_path: Path, text: str, upgrade: bool
) -> None:
    (tmp_path / "format").write_text(text)
    tmp_path.chmod(0o755)
    before = tree(tmp_path)
    for _ in range(2):
        with pytest.raises(Invalid, match=f"has format {text}, this version reads up to 1") as no:
            DataDir(tmp_path, upgrade=upgrade).__enter__()
        assert no.value.code == Code.DATA_TOO_NEW
    assert tree(tmp_path) == before


def mark(folder: Path) -> None:
    (folder / "marks").write_text((folder / "format").read_text())


def test_an_older_format_is_converted_only_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with DataDir(tmp_path):
        pass
    before = tree(tmp_path)
    monkeypatch.setattr(data_format, "FORMAT", 3)
    monkeypatch.setattr(data_format, "UPGRADES", {1: mark, 2: mark})
    with pytest.raises(Invalid, match="start once with --upgrade-data") as refusal:
        DataDir(tmp_path).__enter__()
    assert refusal.value.code == Code.DATA_TOO_OLD
    assert tree(tmp_path) == before
    with DataDir(tmp_path, upgrade=True):
        assert (tmp_path / "marks").read_text() == "2\n", "each step once, in order"
        assert (tmp_path / "format").read_text() == "3\n"
    with DataDir(tmp_path):
        pass  # The converted folder opens without the option.


def test_interrupted_conversion_resumes_at_the_failed_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_folder: Path) -> None:
        raise OSError(28, "No space left on device")

    with DataDir(tmp_path):
        pass
    monkeypatch.setattr(data_format, "FORMAT", 3)
    monkeypatch.setattr(data_format, "UPGRADES", {1: mark, 2: fail})
    with pytest.raises(Unavailable, match="No space left"):
        DataDir(tmp_path, upgrade=True).__enter__()
    assert (tmp_path / "format").read_text() == "2\n"
    monkeypatch.setattr(data_format, "UPGRADES", {2: mark})
    with DataDir(tmp_path, upgrade=True):
        assert (tmp_path / "format").read_text() == "3\n"


def test_data_folder_that_cannot_be_created_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Unavailable, match="choose another with --data"):
        DataDir(tmp_path / "file" / "data").__enter__()


def test_endpoint_file_exists_while_the_process_runs(tmp_path: Path) -> None:
    with DataDir(tmp_path) as data:
        data.write_endpoint({"http": {"host": "127.0.0.1", "port": 8080}})
        assert json.loads(data.endpoint.read_text())["http"]["port"] == 8080
        assert mode(data.endpoint) == 0o600
    assert not data.endpoint.exists()


def test_write_private_replaces_a_file_atomically(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old")
    file.chmod(0o644)
    write_private(file, "new")
    assert file.read_text() == "new"
    assert mode(file) == 0o600
    assert list(tmp_path.iterdir()) == [file]
