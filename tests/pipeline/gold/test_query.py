"""The gold query in a real Spark, over versions of silver that are written here."""

import json
import random
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from deltalake import DeltaTable
from deltalake.transaction import AddAction, RemoveAction
from pyspark.sql import SparkSession

from enmasse.base.errors import Conflict
from enmasse.pipeline.gold import layout, query
from enmasse.pipeline.gold.progress import gold_app_id
from enmasse.pipeline.gold.query import GoldQuery
from enmasse.pipeline.gold.table import GoldTable
from enmasse.pipeline.gold.windows import PARTITION_BY, ROW
from enmasse.pipeline.tables import delta
from gold_lake import DAY_S, Lake, dated, some
from silver_readings import at, measured

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    return Lake(spark, tmp_path)


def test_batches_of_several_sources_are_aggregated_into_windows(lake: Lake) -> None:
    for number in range(4):
        lake.append(*some(number, 60), source="st"[number % 2])
        assert lake.query.step()
        assert not lake.query.step()
    lake.query.merge_long()
    assert lake.differences() == []


def test_advancing_ends_at_the_readings_that_silver_had_at_its_start(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query, "STEP_ROWS", 10)
    lake.append(*some(0, 8))
    lake.query.catch_up()
    for number in range(3):
        lake.append(*some(number, 8))
    steps = 0
    for _ in lake.query.advance():
        steps += 1
        # as a source does, so that each step finds new readings
        lake.append(*some(10 + steps, 8))
        assert steps <= 3
    assert steps == 3 and lake.query.step()
    lake.query.catch_up()
    assert lake.differences() == []


def test_first_step_recomputes_by_day_only_above_the_row_limit(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    recomputed: list[str] = []
    recompute = GoldQuery._recompute_day

    def counted(self: GoldQuery, paths: Any, day: str, rows: int) -> list[Any]:
        recomputed.append(day)
        return recompute(self, paths, day, rows)

    monkeypatch.setattr(GoldQuery, "_recompute_day", counted)
    lake.append(*some(3, 20))
    lake.query.catch_up()
    assert lake.differences() == [] and recomputed == []
    shutil.rmtree(lake.gold)
    monkeypatch.setattr(query, "STEP_ROWS", 10)
    lake.query.catch_up()
    assert lake.differences() == [] and len(set(recomputed)) > 2


def test_a_step_has_a_bound_of_readings_and_whole_commits(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query, "STEP_ROWS", 25)
    lake.append({"seconds": 0.0})
    lake.query.step()
    for second in range(4):
        lake.append(*({"seconds": second + n / 10} for n in range(10)))
    versions = []
    while lake.query.step():
        app_id = gold_app_id("p", DeltaTable(lake.silver.path))
        versions.append(DeltaTable(lake.gold).transaction_version(app_id))
    # two batches are 20 readings, three are 30
    assert versions == [3, 5]
    lake.query.merge_long()
    assert lake.differences() == []


def test_compaction_of_silver_does_not_change_gold(lake: Lake) -> None:
    lake.append(*some(1, 30))
    lake.query.catch_up()
    lake.append({"seconds": 1.0, "value": 7.0})
    DeltaTable(lake.silver.path).optimize.compact()
    lake.query.catch_up()
    assert lake.differences() == []
    before = lake.rows()
    lake.append({"seconds": DAY_S, "text": "no number", "value": None})
    DeltaTable(lake.silver.path).optimize.compact()
    lake.query.catch_up()
    assert lake.rows() == before


def test_a_backfill_of_silver_recomputes_its_days(lake: Lake) -> None:
    lake.append(*({"seconds": n * 7200.0, "device": "a"} for n in range(24)))
    lake.append(*({"seconds": n * 7200.0, "device": "b"} for n in range(24)), source="t")
    lake.query.catch_up()
    corrected = dated(measured({"seconds": 100.0, "value": 9.0}, first=500))
    where = "source = 's' AND event_time < '2026-02-01T12:00:00Z'"
    delta.replace_arrow(corrected.to_reader(), lake.silver, where, {})
    # an append that follows before gold has read the backfill
    lake.append({"seconds": 130.0, "value": 3.0}, {"seconds": 3 * DAY_S, "value": 4.0})
    untouched = {path for path in lake.files() if "date=2026-02-02" in path}
    assert untouched
    lake.query.catch_up()
    assert lake.differences() == []
    assert untouched <= lake.files()


def vacuum_silver(lake: Lake) -> None:
    """Compact silver and delete every file that its latest version does not need."""
    opened = DeltaTable(lake.silver.path)
    opened.optimize.compact()
    opened = DeltaTable(lake.silver.path)
    opened.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)


def test_gold_is_complete_after_unread_silver_files_are_deleted(lake: Lake) -> None:
    lake.append(*some(1, 30))
    lake.query.catch_up()
    for number in range(3):
        lake.append(*some(number, 10))
    vacuum_silver(lake)
    lake.query.catch_up()
    assert lake.differences() == []


def test_gold_is_complete_after_unread_log_entries_are_deleted(lake: Lake) -> None:
    lake.append(*some(1, 30))
    lake.query.catch_up()
    lake.append(*some(2, 30))
    lake.append(*some(3, 30))
    DeltaTable(lake.silver.path).create_checkpoint()
    for entry in (Path(lake.silver.path) / "_delta_log").glob("*.json"):
        entry.unlink()
    lake.query.catch_up()
    assert lake.differences() == []


def test_expired_silver_counts_as_read_only_once_gold_has_read_it(lake: Lake) -> None:
    lake.append(*some(1, 20))
    assert not lake.has_read(0), "gold has nothing yet"
    lake.query.catch_up()
    assert lake.has_read(0)
    lake.append(*some(2, 20))
    lake.append(*some(3, 20))
    # gold lags by more than the retention of files
    assert not lake.has_read(0)
    assert lake.has_read(3_600_000), "the retention covers the unread commits"
    lake.query.catch_up()
    assert lake.has_read(0)


def test_silver_that_was_created_again_is_another_table(lake: Lake) -> None:
    lake.append(*some(1, 20))
    lake.append(*some(2, 20))
    lake.query.catch_up()
    shutil.rmtree(lake.silver.path)
    lake.append(*some(3, 20))
    lake.query.catch_up()
    assert lake.differences() == []


class Killed(BaseException):
    """Stands for a kill of the process."""


POINTS: list[tuple[type, str, int]] = [
    (GoldTable, "files", 1),
    (GoldTable, "write", 1),
    (GoldTable, "commit", 1),
    (GoldTable, "write", 2),
    (GoldTable, "commit", 2),
    (GoldTable, "write", 3),
    (GoldTable, "commit", 3),
]


@pytest.mark.parametrize("after", [False, True])
def test_a_kill_between_two_steps_is_repeated(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    lake = Lake(spark, tmp_path)
    for number, (owner, name, count) in enumerate(POINTS):
        lake.append(*some(number, 10, span=7200.0))
        if number % 3 == 2:
            where = "device = 'a'"
            corrected = dated(measured({"device": "a", "seconds": 5.0}, first=10_000 + number))
            delta.replace_arrow(corrected.to_reader(), lake.silver, where, {})
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, killed_at_call(getattr(owner, name), count, after=after))
            with pytest.raises(Killed):
                lake.query.catch_up()
        lake.query = GoldQuery(spark, "p", lake.silver.path, lake.gold, lake.windows)
        lake.query.catch_up()
        assert lake.differences() == [], (name, count)


def killed_at_call(real: Callable[..., Any], count: int, *, after: bool) -> Callable[..., Any]:
    """`real`, which raises `Killed` before or after its call number `count`."""
    calls = 0

    def called(*values: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == count and not after:
            raise Killed
        found = real(*values, **named)
        if calls == count:
            raise Killed
        return found

    return called


def test_files_of_an_interrupted_job_are_not_in_the_table(lake: Lake) -> None:
    lake.append(*some(1, 20))
    lake.query.catch_up()
    (one,) = [path for path in lake.files() if "window_ms=86400000" in path][:1]
    left = Path(lake.gold) / "_temporary" / "0" / "task_1_m_0" / one[len(lake.gold) + 1 :]
    left.parent.mkdir(parents=True)
    shutil.copy(one, left.with_name("part-left.parquet"))
    lake.append(*some(2, 20))
    lake.query.catch_up()
    assert lake.differences() == []


def test_step_opens_only_the_files_of_its_windows(lake: Lake) -> None:
    lake.append({"seconds": 0.0})
    lake.query.step()
    opened = DeltaTable(lake.gold)
    (real,) = layout_of(lake, 60_000, "2026-01-31")
    # a year of files that do not exist: opening one fails
    added: list[AddAction | RemoveAction] = []
    for day in range(1, 366):
        date = datetime(2024, 6, 1, tzinfo=UTC) + timedelta(days=day)
        for part in range(28):
            first, last = (
                date + timedelta(minutes=part * 50),
                date + timedelta(minutes=part * 50 + 49),
            )
            if first <= at(-DAY_S * 300) <= last:
                continue
            stats = {"numRecords": 1000, "minValues": {"start": iso(first)}}
            stats["maxValues"] = {"start": iso(last)}
            values: dict[str, str | None] = {"window_ms": "60000", "date": f"{date:%Y-%m-%d}"}
            place = f"window_ms=60000/date={date:%Y-%m-%d}/none-{part}.parquet"
            added.append(AddAction(place, 1000, values, 0, True, json.dumps(stats)))
    opened.create_write_transaction(added, "append", opened.schema(), list(PARTITION_BY))
    assert len(lake.files()) > 10_000
    lake.append({"seconds": 5.0}, {"seconds": -DAY_S * 300})
    assert lake.query.step()
    assert real.path not in {file.path for file in layout_of(lake, 60_000, "2026-01-31")}
    assert len(layout_of(lake, 60_000, "2025-04-06")) == 28


def layout_of(lake: Lake, length: int, day: str) -> list[layout.File]:
    return lake.query.table.files().get((length, day), [])


def iso(time: datetime) -> str:
    return time.isoformat(timespec="microseconds").replace("+00:00", "Z")


def test_maintenance_joins_small_files_of_earlier_days(lake: Lake) -> None:
    for number in range(3):
        lake.append({"seconds": number * 60.0}, {"seconds": DAY_S + number * 60.0})
        lake.query.step()
    lake.query.merge_long()
    assert len(layout_of(lake, 60_000, "2026-01-31")) == 3
    version = DeltaTable(lake.gold).version()
    lake.query.maintain(0)
    assert len(layout_of(lake, 60_000, "2026-01-31")) == 1
    assert len(layout_of(lake, 60_000, "2026-02-01")) == 3
    assert lake.differences() == []
    (one,) = layout_of(lake, 60_000, "2026-01-31")
    assert one.rows == 3 and DeltaTable(lake.gold).version() > version
    lake.append({"seconds": 61.0})
    lake.query.catch_up()
    assert lake.differences() == []


def test_quantiles_of_many_readings_are_within_their_rank_error(lake: Lake) -> None:
    dice = random.Random(3)
    for minute in range(5):
        times = (minute * 60 + n / 100 for n in range(6000))
        lake.append(*({"value": dice.gauss(0, 1), "seconds": second} for second in times))
        lake.query.step()
    lake.query.merge_long()
    assert lake.differences() == []


def test_extreme_values_do_not_overflow(lake: Lake) -> None:
    values = [1e300, -1e300, 1e-300, 0.0, 5.0, 1e155, -1e155]
    for value in values:
        lake.append({"value": value}, {"value": value / 3})
    lake.query.step()
    lake.append(*({"value": value / 2} for value in values))
    lake.query.catch_up()
    (row,) = [one for one in lake.rows() if one["window_ms"] == 60_000]
    assert row["count"] == 21 and (row["min"], row["max"]) == (-1e300, 1e300)
    assert 1e299 < row["stddev"] < 1e300


def test_gold_of_an_earlier_version_is_refused_until_rebuilt(lake: Lake) -> None:
    lake.append(*some(1, 20))
    old = pyarrow.schema([field for field in ROW if field.name != "sketch"])
    DeltaTable.create(lake.gold, old, partition_by=list(PARTITION_BY))
    with pytest.raises(Conflict, match="lacks sketch; rebuild it .* backfill --gold-only"):
        lake.query.step()
    lake.query.rebuild()
    assert lake.differences() == []
    assert not lake.query.step()
