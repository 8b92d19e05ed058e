"""Reading the commits of a Delta table from its log."""

from pathlib import Path

import pyarrow
import pytest
from deltalake import DeltaTable, write_deltalake

from enmasse.pipeline.tables import log
from enmasse.pipeline.tables.log import LogGoneError
from silver_readings import at, us


def rows(*seconds: float) -> pyarrow.Table:
    times = pyarrow.array([at(one) for one in seconds], pyarrow.timestamp("us", "UTC"))
    days = times.cast(pyarrow.date32())
    return pyarrow.table({"date": days, "event_time": times})


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = str(tmp_path / "t")
    write_deltalake(path, rows(0, 1.5, 86_400), partition_by=["date"])
    write_deltalake(path, rows(60), mode="append")
    DeltaTable(path).optimize.compact()
    write_deltalake(path, rows(61), mode="overwrite", predicate="date = '2026-01-31'")
    return path


def test_added_files_have_row_counts_and_bounds(table: str) -> None:
    (commit,) = log.commits(table, -1, 0, "event_time")
    found = {one.values["date"]: (one.rows, one.bounds) for one in commit.added}
    assert found == {
        "2026-01-31": (2, (us(0), us(1.5))),
        "2026-02-01": (1, (us(86_400), us(86_400))),
    }
    assert (commit.version, commit.removed) == (0, ())
    assert all((Path(table) / one.path).exists() for one in commit.added)
    assert log.time_ms(table, 0) == commit.time_ms > 0


def test_compaction_has_no_changes_and_overwrite_has_removals(table: str) -> None:
    appended, joined, replaced = log.commits(table, 0, 3, "event_time")
    assert [one.rows for one in appended.added] == [1]
    assert (joined.added, joined.removed) == ((), ())
    assert {one["date"] for one in replaced.removed} == {"2026-01-31"}
    assert [one.rows for one in replaced.added] == [1]


def test_files_have_no_bounds_for_a_column_without_statistics(table: str) -> None:
    (commit,) = log.commits(table, 0, 1, "device")
    assert [one.bounds for one in commit.added] == [None]


def test_an_expired_version_raises(table: str) -> None:
    (Path(table) / "_delta_log" / f"{1:020}.json").unlink()
    with pytest.raises(LogGoneError, match="no log entry of version 1"):
        list(log.commits(table, 0, 3, "event_time"))
