"""The backup file: written while the journal is in use, and read only if it is complete."""

import itertools
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

import doubles
from enmasse.base import data_format
from enmasse.base.clock import SystemClock
from enmasse.base.errors import Code, Invalid, Missing, Unavailable
from enmasse.resources import Resource
from enmasse.store import archive
from enmasse.store.archive import JOURNAL, PRIVATE, Archive, Contents

CLOCK = SystemClock()


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """A journal of two sealed segments and an active one."""
    folder = tmp_path / "journal"
    folder.mkdir()
    for name in ("1.log", "2.log", "3.log"):
        (folder / name).write_bytes(name.encode() * 50_000)
    for name in ("1.log", "2.log"):
        age(folder / name)
    return folder


def age(path: Path) -> None:
    """Set the modification time of a file far back."""
    os.utime(path, (1_700_000_000, 1_700_000_000))


def contents(journal: Path, resources: list[Resource] | None = None) -> Contents:
    return Contents(resources or [doubles.address()], journal, [], {"made": "now"})


def written(
    to: Path, what: Contents, meanwhile: Iterator[Callable[[], object]] | None = None
) -> Archive:
    """Write a backup, and call one of `meanwhile` after each piece."""
    with open(to, "wb") as file:
        for piece in archive.write(what, CLOCK):
            file.write(piece)
            if meanwhile is not None:
                next(meanwhile, lambda: None)()
    return Archive(to)


def unpacked(backup: Archive, to: Path, folder: str = JOURNAL) -> dict[str, bytes]:
    to.mkdir()
    backup.unpack(backup.check(), folder, to)
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in to.iterdir())
    return {path.name: path.read_bytes() for path in to.iterdir()}


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_backup_round_trips_resources_journal_and_private_files(
    tmp_path: Path, journal: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("secret")
    resources: list[Resource] = [
        doubles.space(uid="1"),
        doubles.address(uid="2"),
        doubles.user(uid="3"),
    ]
    what = Contents(resources, journal, [token], {"made": "now", "messages": {}})
    backup = written(tmp_path / "b", what)
    manifest = backup.check()
    assert manifest.about == {"made": "now", "messages": {}}
    assert backup.resources(manifest) == resources
    assert unpacked(backup, tmp_path / "out") == files(journal)
    assert unpacked(backup, tmp_path / "private", PRIVATE) == {"token": b"secret"}


def test_backup_of_an_empty_journal_is_valid(tmp_path: Path) -> None:
    (tmp_path / "journal").mkdir()
    backup = written(tmp_path / "b", contents(tmp_path / "journal"))
    assert unpacked(backup, tmp_path / "out") == {}


def test_active_segment_is_copied_at_least_to_its_length_at_the_start(
    tmp_path: Path, journal: Path
) -> None:
    before = (journal / "3.log").read_bytes()

    def append() -> None:
        with open(journal / "3.log", "ab") as file:
            file.write(b"more")

    backup = written(tmp_path / "b", contents(journal), iter([append] * 1000))
    copied = unpacked(backup, tmp_path / "out")["3.log"]
    assert copied.startswith(before) and (journal / "3.log").read_bytes().startswith(copied)


def test_segment_sealed_during_a_backup_is_copied_with_the_next_one(
    tmp_path: Path, journal: Path
) -> None:
    def roll() -> None:
        with open(journal / "3.log", "ab") as file:
            file.write(b"the end of 3")
        age(journal / "3.log")
        (journal / "4.log").write_bytes(b"the beginning of 4")
        age(journal / "4.log")

    steps = iter([lambda: None] * 9 + [roll])
    backup = written(tmp_path / "b", contents(journal), steps)
    assert unpacked(backup, tmp_path / "out") == files(journal)


def test_segment_recycled_during_a_backup_is_not_in_it(tmp_path: Path, journal: Path) -> None:
    def reuse() -> None:
        with open(journal / "3.log", "ab") as file:
            file.write(b"what 1 still had")
        (journal / "1.log").rename(journal / "4.log")
        (journal / "4.log").write_bytes(b"new")
        for name in ("3.log", "4.log"):
            age(journal / name)

    steps = iter([lambda: None] * 9 + [reuse])
    backup = written(tmp_path / "b", contents(journal), steps)
    found = unpacked(backup, tmp_path / "out")
    assert found == files(journal)
    assert sorted(found) == ["2.log", "3.log", "4.log"]


def test_backup_of_a_journal_that_grows_too_fast_fails(tmp_path: Path, journal: Path) -> None:
    def roll() -> Iterator[Callable[[], object]]:
        for number in itertools.count(4):
            yield partial((journal / f"{number - 1}.log").rename, journal / f"{number}.log")

    with pytest.raises(Unavailable, match="grows faster than it can be copied"):
        written(tmp_path / "b", contents(journal), roll())


@pytest.mark.parametrize("end", [0, 1, 100, -1, -9, -600])
def test_truncated_backup_is_rejected(tmp_path: Path, journal: Path, end: int) -> None:
    path = tmp_path / "b"
    written(path, contents(journal))
    path.write_bytes(path.read_bytes()[:end])
    with pytest.raises(Invalid) as refusal:
        Archive(path).check()
    assert refusal.value.code == Code.BACKUP_UNREADABLE


def test_backup_with_a_flipped_bit_is_rejected(tmp_path: Path, journal: Path) -> None:
    path = tmp_path / "b"
    written(path, contents(journal))
    whole = path.read_bytes()
    for at in range(10, len(whole) - 8, max(len(whole) // 40, 1)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        with pytest.raises(Invalid):
            Archive(path).check()


def test_missing_or_foreign_backup_file_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "b"
    with pytest.raises(Missing, match="file .* not found"):
        Archive(path).check()
    path.write_text("kind: Address")
    with pytest.raises(Invalid, match="is not a complete backup"):
        Archive(path).check()


def test_backup_of_a_newer_format_is_rejected(
    tmp_path: Path, journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as newer:
        newer.setattr(archive, "FORMAT", 2)
        backup = written(tmp_path / "b", contents(journal))
    with pytest.raises(Invalid, match="format 2; this version reads 1"):
        backup.check()


@pytest.mark.parametrize("found", [1, 3])
def test_a_backup_of_another_data_format_is_refused(
    tmp_path: Path, journal: Path, monkeypatch: pytest.MonkeyPatch, found: int
) -> None:
    with monkeypatch.context() as other:
        other.setattr(data_format, "FORMAT", found)
        backup = written(tmp_path / "b", contents(journal))
        assert backup.check().about == {"made": "now"}
    monkeypatch.setattr(data_format, "FORMAT", 2)
    with pytest.raises(Invalid, match=f"data format {found}, this version uses 2"):
        backup.check()


def test_backup_with_a_hidden_file_name_is_rejected(tmp_path: Path, journal: Path) -> None:
    (journal / "1.log").rename(journal / ".hidden")
    backup = written(tmp_path / "b", contents(journal))
    with pytest.raises(Invalid):
        backup.check()
