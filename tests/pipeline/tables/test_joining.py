"""Small files of a plain Parquet table become one, cut off anywhere."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.fs
import pyarrow.parquet
import pytest

from enmasse.base.errors import Missing
from enmasse.pipeline.tables import delta, joining
from enmasse.pipeline.tables.delta import Table
from enmasse.pipeline.tables.joining import Joiner, groups

DAYS = ("date=2026-01-30", "date=2026-01-31")


def filled(folder: Path, files: int = 5) -> Table:
    """A table of two days, each of so many files, that says what it is as `tables` does."""
    (folder / "_batches").mkdir()
    (folder / "_batches" / "schema.json").write_text("{}")
    for number in range(files):
        for day in DAYS:
            (folder / day).mkdir(exist_ok=True)
            write(folder, f"{day}/q-{number:03}.parquet", number)
    return Table(str(folder), "parquet", ("date",))


def write(folder: Path, place: str, number: int, **more: Any) -> None:
    row = {"number": number, "properties": [("k", f"v{number}")]} | more
    schema = {"number": pyarrow.int64(), "properties": pyarrow.map_(*[pyarrow.string()] * 2)}
    types = schema | dict.fromkeys(more, pyarrow.string())
    pyarrow.parquet.write_table(
        pyarrow.Table.from_pylist([row], pyarrow.schema(types)), folder / place
    )


def files(folder: Path) -> list[str]:
    found = [str(path.relative_to(folder)) for path in folder.rglob("*.parquet")]
    return sorted(one for one in found if not one.startswith("_"))


def numbers(folder: Path) -> list[int]:
    """What a reader finds that knows nothing of the table."""
    found = pyarrow.parquet.read_table(folder, partitioning="hive")
    return sorted(found["number"].to_pylist())


def test_files_of_a_day_become_one(tmp_path: Path) -> None:
    table = filled(tmp_path)
    before = numbers(tmp_path)
    assert delta.compact(table) == 10
    assert [name.partition("/")[0] for name in files(tmp_path)] == list(DAYS)
    assert numbers(tmp_path) == before
    # there is nothing left to do
    assert delta.compact(table) == 0
    with pytest.raises(Missing, match="is no table"):
        delta.compact(Table(str(tmp_path / "nowhere"), "parquet"))


def test_columns_that_only_some_have_are_null_in_the_others(tmp_path: Path) -> None:
    table = filled(tmp_path, 2)
    write(tmp_path, f"{DAYS[0]}/z.parquet", 9, unit="Cel")
    delta.compact(table)
    rows = pyarrow.parquet.read_table(tmp_path / DAYS[0]).to_pylist()
    assert {row["number"]: row["unit"] for row in rows} == {0: None, 1: None, 9: "Cel"}
    assert rows[0]["properties"] == [("k", "v0")]


def test_files_of_a_batch_that_is_not_whole_stay(tmp_path: Path) -> None:
    table = filled(tmp_path)
    kept = [f"{day}/q-00{number}.parquet" for day in DAYS for number in (1, 4)]
    (tmp_path / "_batches" / "q-1.moving").write_text(json.dumps(kept))
    assert delta.compact(table) == 6
    assert set(kept) < set(files(tmp_path))


def test_large_files_stay_and_small_ones_join_up_to_a_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = filled(tmp_path)
    size = (tmp_path / files(tmp_path)[0]).stat().st_size
    monkeypatch.setattr(joining, "SMALL_SIZE", size)
    assert delta.compact(table) == 0
    monkeypatch.setattr(joining, "SMALL_SIZE", size * 2)
    monkeypatch.setattr(joining, "JOINED_SIZE", size * 5 // 2)
    # two and two of each day; the fifth is alone
    assert delta.compact(table) == 8
    assert len(files(tmp_path)) == 6
    assert list(groups([("a", size * 9)])) == []


STEPS = ["_write", "_delete"]


class Cut(Exception):
    """The process is gone."""


def cutting(monkeypatch: pytest.MonkeyPatch, name: str, after: bool) -> None:
    real: Callable[..., Any] = getattr(Joiner, name)

    def called(*values: Any) -> Any:
        if after:
            real(*values)
        raise Cut

    monkeypatch.setattr(Joiner, name, called)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("step", STEPS)
def test_a_joining_that_was_cut_off_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, after: bool
) -> None:
    table = filled(tmp_path)
    before = numbers(tmp_path)
    with monkeypatch.context() as cut, pytest.raises(Cut):
        cutting(cut, step, after)
        delta.compact(table)
    # whoever goes by the note has each row once, now as well
    keeper = delta._Parquet(table)
    gone = keeper._joiner().replaced()
    whole = [tmp_path / name for name in files(tmp_path) if name not in gone]
    assert sum(pyarrow.parquet.read_metadata(path).num_rows for path in whole) == len(before)
    delta.compact(table)
    assert numbers(tmp_path) == before and len(files(tmp_path)) == 2


def test_a_joining_cut_off_before_the_move_is_begun_anew(tmp_path: Path) -> None:
    table = filled(tmp_path)
    before = numbers(tmp_path)
    note = {"new": f"{DAYS[0]}/joined-x.parquet", "old": files(tmp_path)[:5]}
    (tmp_path / "_batches" / joining.NOTE).write_text(json.dumps(note))
    assert delta._Parquet(table)._joiner().replaced() == set()
    assert delta.compact(table) == 10
    assert numbers(tmp_path) == before
    assert not (tmp_path / "_batches" / joining.NOTE).exists()
