"""Windows in a table: each batch is merged once, in Delta and in Parquet."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pyarrow
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from enmasse.base.errors import Conflict
from enmasse.pipeline.gold import gold_table, merging
from enmasse.pipeline.gold.gold_table import GoldTable
from measured import measured

WINDOWS = [60_000, 3_600_000]
APP = "p/s/query"


@pytest.fixture(params=["delta", "parquet"])
def format(request: Any) -> Literal["delta", "parquet"]:
    chosen: Literal["delta", "parquet"] = request.param
    return chosen


@pytest.fixture
def table(tmp_path: Path, format: Literal["delta", "parquet"]) -> GoldTable:
    return gold_table.table(str(tmp_path / "gold"), format)


def some(seed: int, count: int = 40) -> list[dict[str, Any]]:
    dice = random.Random(seed)
    return [
        {
            "device": dice.choice("abc"),
            "source": dice.choice("st"),
            "value": dice.uniform(-5, 5),
            "seconds": dice.uniform(-7200, 50_000),
        }
        for _ in range(count)
    ]


def alike(table: GoldTable, readings: pyarrow.Table) -> bool:
    return merging.differences(table.read(), merging.partials(readings, WINDOWS)) == []


def by_day(windows: pyarrow.Table) -> Iterator[pyarrow.Table]:
    for day in pc.unique(windows["date"]).to_pylist():
        yield windows.filter(pc.equal(windows["date"], pyarrow.scalar(day)))


def test_batches_become_the_windows_of_all_readings(table: GoldTable) -> None:
    rows = some(1, 90)
    assert len(table.read()) == 0
    for number in range(3):
        part = measured(*rows[number * 30 : number * 30 + 30], first=number * 30)
        assert table.merge(merging.partials(part, WINDOWS), APP, number)
    assert alike(table, measured(*rows))


def test_a_repeated_batch_changes_nothing(table: GoldTable) -> None:
    parts = merging.partials(measured(*some(2)), WINDOWS)
    assert table.merge(parts, APP, 7)
    before = table.read()
    assert not table.merge(parts, APP, 7)
    assert not table.merge(parts, APP, 6)
    assert merging.differences(table.read(), before) == []
    assert table.merge(parts, "p/t/query", 0)
    assert sum(table.read()["count"].to_pylist()) == 2 * sum(before["count"].to_pylist())


def test_a_batch_without_numbers_leaves_no_trace(table: GoldTable) -> None:
    assert not table.merge(merging.partials(measured(), WINDOWS), APP, 0)
    assert len(table.read()) == 0


def test_all_windows_can_be_replaced_with_the_batches_in_them(table: GoldTable) -> None:
    old, new = measured(*some(3)), measured(*some(4, 10))
    table.merge(merging.partials(old, WINDOWS), APP, 0)
    table.replace(by_day(merging.partials(new, WINDOWS)), {APP: 5})
    assert alike(table, new)
    parts = merging.partials(old, WINDOWS)
    assert not table.merge(parts, APP, 5)
    assert alike(table, new)
    assert table.merge(parts, APP, 6)


def test_tidying_keeps_the_windows_and_the_batches(table: GoldTable) -> None:
    rows = some(5, 60)
    for number in range(6):
        part = measured(*rows[number * 10 : number * 10 + 10], first=number * 10)
        table.merge(merging.partials(part, WINDOWS), APP, number)
    table.tidy(0)
    assert alike(table, measured(*rows))
    assert not table.merge(merging.partials(measured(*rows[50:], first=50), WINDOWS), APP, 5)


def test_a_day_can_be_read_alone(table: GoldTable) -> None:
    assert table.days() == []
    table.merge(merging.partials(measured(*some(9)), WINDOWS), APP, 0)
    whole = table.read()
    assert len(table.days()) == 2 and table.days() == sorted(table.days())
    for day in table.days():
        found = table.read(day)
        assert set(found["date"].to_pylist()) == {day}
        wanted = whole.filter(pc.equal(whole["date"], pyarrow.scalar(day)))
        assert merging.differences(found, wanted) == []
    assert sum(len(table.read(day)) for day in table.days()) == len(whole)


DAY_S = 86_400


def test_a_late_reading_reads_and_writes_little_of_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gold_table, "FILE_SIZE", 20_000)
    table = gold_table.table(str(tmp_path), "delta")
    minutes = [{"device": f"d{m % 7}", "seconds": m * 60.0 - DAY_S / 2} for m in range(1400)]
    table.replace(by_day(merging.partials(measured(*minutes), WINDOWS)), {})
    before = set(DeltaTable(str(tmp_path)).file_uris())
    assert len(before) > 10
    seen: list[int] = []
    renewed = merging.renewed

    def noted(held: pyarrow.Table, parts: pyarrow.Table) -> Any:
        seen.append(len(held))
        return renewed(held, parts)

    monkeypatch.setattr(merging, "renewed", noted)
    # one from the first day among a hundred of the third
    now = [{"seconds": 2 * DAY_S + m * 60.0} for m in range(100)]
    rows = measured({"device": "d3", "seconds": 3 * 60 - DAY_S / 2}, *now, first=5000)
    assert table.merge(merging.partials(rows, WINDOWS), APP, 0)
    gone = before - set(DeltaTable(str(tmp_path)).file_uris())
    # a file for each length of windows; and of the old ones those of its minute and hour
    assert len(gone) == len(WINDOWS) and sum(seen) < len(minutes) / 5
    assert alike(table, pyarrow.concat_tables([measured(*minutes), rows]))
    size = max(path.stat().st_size for path in tmp_path.rglob("*.parquet"))
    assert size < 2 * gold_table.FILE_SIZE


def test_a_batch_writes_the_files_of_its_times_and_no_others(tmp_path: Path) -> None:
    table = gold_table.table(str(tmp_path / "gold"), "delta")

    def files() -> set[str]:
        return set(DeltaTable(str(tmp_path / "gold")).file_uris())

    def put(number: int, *seconds: float) -> tuple[int, int]:
        """Files that are gone and files that came."""
        before = files()
        rows = measured(*({"seconds": second} for second in seconds), first=number * 10)
        table.merge(merging.partials(rows, [60_000]), APP, number)
        return len(before - files()), len(files() - before)

    assert table.days() == []
    assert put(0, 1, 61) == (0, 1)
    # a minute that is new gets a file of its own, and what is there is left alone
    assert put(1, 121) == (0, 1)
    assert put(2, 122) == (1, 1)
    assert put(3, 2, 181) == (1, 2)
    # another day
    assert put(4, 90_000) == (0, 1)


def test_readers_may_ask_for_the_values_of_any_column(tmp_path: Path) -> None:
    table = gold_table.table(str(tmp_path / "gold"), "delta")
    rows = [{"device": name, "value": value} for name, value in (("a", -1.5), ("b\u00e9", 2.5))]
    parts = merging.partials(measured(*rows), WINDOWS)
    table.merge(parts, APP, 0)
    for replaced in (False, True):
        if replaced:
            table.replace([parts], {})
        opened = DeltaTable(str(tmp_path / "gold"))
        for name, value in (("device", "b\u00e9"), ("last", 2.5), ("p50", 2.5), ("source", "s")):
            wanted = parts.filter(pc.equal(parts[name], value))
            found = opened.to_pyarrow_table(filters=[(name, "=", value)])
            assert len(found) == len(wanted) > 0, name


def test_a_table_of_another_layout_is_refused_by_name(tmp_path: Path) -> None:
    DeltaTable.create(str(tmp_path), merging.SCHEMA, partition_by=["window_ms", "date"])
    table = gold_table.table(str(tmp_path), "delta")
    words = "sample, sample_keys: move the folder away and run"
    with pytest.raises(Conflict, match=words):
        table.check()
    with pytest.raises(Conflict, match=words):
        table.merge(merging.partials(measured(*some(1)), WINDOWS), APP, 0)


def test_a_check_makes_no_table(tmp_path: Path, format: Literal["delta", "parquet"]) -> None:
    table = gold_table.table(str(tmp_path / "gold"), format)
    table.check()
    assert not (tmp_path / "gold").exists()
    table.merge(merging.partials(measured(*some(1)), WINDOWS), APP, 0)
    table.check()


def test_a_parquet_batch_that_was_cut_off_is_finished(tmp_path: Path, monkeypatch: Any) -> None:
    table = gold_table.table(str(tmp_path), "parquet")
    parts = merging.partials(measured(*some(6)), WINDOWS)
    written, whole = [], gold_table.pyarrow.parquet.write_table

    def cut_off(*arguments: Any, **options: Any) -> None:
        if len(written) == 3:
            raise OSError("the disk is gone")
        written.append(arguments)
        whole(*arguments, **options)

    monkeypatch.setattr(gold_table.pyarrow.parquet, "write_table", cut_off)
    with pytest.raises(OSError, match="the disk is gone"):
        table.merge(parts, APP, 0)
    monkeypatch.undo()
    assert 0 < len(table.read()) < len(parts)
    assert table.merge(parts, APP, 0)
    assert alike(table, measured(*some(6)))


def test_earlier_versions_of_a_delta_table_can_be_read(tmp_path: Path) -> None:
    table = gold_table.table(str(tmp_path), "delta")
    first, both = some(7, 10), some(7, 10) + some(8, 10)
    table.merge(merging.partials(measured(*first), WINDOWS), APP, 0)
    version = DeltaTable(str(tmp_path)).version()
    table.merge(merging.partials(measured(*both[10:], first=10), WINDOWS), APP, 1)
    assert alike(table, measured(*both))
    then = DeltaTable(str(tmp_path), version=version).to_pyarrow_table()
    then = then.select(merging.ROW.names).cast(merging.ROW)
    assert merging.differences(then, merging.partials(measured(*first), WINDOWS)) == []
