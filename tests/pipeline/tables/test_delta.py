"""Tables append each batch once, also after interruptions, new columns and compaction."""

import json
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.fs
import pyarrow.parquet
import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from enmasse.base.errors import Conflict, Invalid, Missing
from enmasse.pipeline.ingest import bronze
from enmasse.pipeline.tables import delta
from enmasse.pipeline.tables.delta import Appended
from enmasse.pipeline.tables.files import Table

pytestmark = pytest.mark.timeout(400)
AT = datetime(2026, 1, 31, 23, 30, tzinfo=UTC)


def messages(spark: SparkSession, first: int, count: int, address: str = "a/b c") -> DataFrame:
    """Messages as the source gives them, in two tasks."""
    return spark.range(first, first + count, 1, 2).select(
        F.lit(None).cast("string").alias("space"),
        F.lit(address).alias("address"),
        F.lit(0).alias("partition"),
        F.col("id").alias("offset"),
        F.lit(AT).alias("enqueued_time"),
        F.create_map(F.lit("k"), F.lit("v")).alias("application_properties"),
        F.col("id").cast("string").cast("binary").alias("body"),
    )


def offsets(frame: DataFrame) -> list[int]:
    return sorted(row.offset for row in frame.select("offset").collect())


def test_repeated_batch_is_appended_once(spark: SparkSession, tmp_path: Path) -> None:
    table = bronze.table(str(tmp_path / "bronze"))
    assert bronze.append(messages(spark, 0, 10), table, "q/1", 0) == Appended(10, 2)
    assert bronze.append(messages(spark, 0, 10), table, "q/1", 0) == Appended(0, 0, again=True)
    assert bronze.append(messages(spark, 10, 5, "other"), table, "q/1", 1).rows == 5
    # the same batch number of another query is another batch
    assert bronze.append(messages(spark, 15, 5), table, "q2", 0).rows == 5
    rows = delta.read(spark, table)
    assert offsets(rows) == list(range(20))
    assert offsets(rows.where("address = 'other'")) == list(range(10, 15))
    assert rows.select("space", "address", "date").distinct().collect() == [
        *rows.where("space is null").select("space", "address", "date").distinct().collect()
    ]
    row = rows.where("offset = 3").collect()[0]
    assert (row.address, row.date, row.enqueued_time.replace(tzinfo=UTC)) == (
        "a/b c",
        date(2026, 1, 31),
        AT,
    )
    assert (bytes(row.body), row.application_properties) == (b"3", {"k": "v"})


def test_an_interrupted_batch_is_written_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = bronze.table(str(tmp_path / "bronze"))
    bronze.append(messages(spark, 0, 3), table, "q", 0)
    commit = delta._commit

    def cut(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(delta, "_commit", cut)
    with pytest.raises(KeyboardInterrupt):
        bronze.append(messages(spark, 3, 9), table, "q", 1)
    monkeypatch.setattr(delta, "_commit", commit)
    # the second attempt has other tasks: no file of the first may remain
    assert bronze.append(messages(spark, 3, 9).coalesce(1), table, "q", 1) == Appended(9, 1)
    assert offsets(delta.read(spark, table)) == list(range(12))
    assert not list((tmp_path / "bronze" / "_staging").iterdir())


def test_paths_in_the_log_are_those_of_the_files(spark: SparkSession, tmp_path: Path) -> None:
    table = Table(str(tmp_path / "t"))
    names = ["p/s/q", "p_2Fs_q", "p__s", "p_s", "p~s", "p_7Es", "a b%"]
    for number, name in enumerate(names):
        assert delta.append(spark.range(number, number + 1), table, name, 0) == Appended(1, 1)
    found = pyarrow.table(DeltaTable(table.path).get_add_actions())["path"].to_pylist()
    assert sorted(found) == sorted(file.name for file in (tmp_path / "t").glob("*.parquet"))
    assert sorted(row.id for row in delta.read(spark, table).collect()) == [*range(len(names))]


def readings(*numbers: int) -> pyarrow.Table:
    return pyarrow.table(
        {"id": pyarrow.array(numbers, pyarrow.int64()), "day": ["a"] * len(numbers)}
    )


def test_concurrent_first_batches_create_one_table(tmp_path: Path) -> None:
    for number in range(8):
        table = Table(str(tmp_path / f"t{number}"), ("day",))
        begin = threading.Barrier(4)

        def append(source: int, table: Table = table, begin: Any = begin) -> Appended:
            begin.wait()
            return delta.append_arrow(readings(source), table, f"q{source}", 0)

        with ThreadPoolExecutor(4) as pool:
            assert [*pool.map(append, range(4))] == [Appended(1, 1)] * 4
        assert sorted(DeltaTable(table.path).to_pyarrow_table()["id"].to_pylist()) == [0, 1, 2, 3]


def overtake(monkeypatch: pytest.MonkeyPatch, others: Callable[[], Any]) -> None:
    """Call `others`, which change the table, just before its next write."""
    write = delta.write_deltalake

    def overtaken(*given: Any, **named: Any) -> None:
        monkeypatch.setattr(delta, "write_deltalake", write)
        others()
        write(*given, **named)

    monkeypatch.setattr(delta, "write_deltalake", overtaken)


def test_a_batch_appended_by_two_runs_is_stored_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table(str(tmp_path / "t"))
    delta.append_arrow(readings(0), table, "q", 0)
    by_both: list[Appended] = []

    def append() -> None:
        by_both.append(delta.append_arrow(readings(1), table, "q", 1))

    overtake(monkeypatch, append)
    append()
    assert by_both == [Appended(1, 1), Appended(0, 0, again=True)]
    assert sorted(DeltaTable(table.path).to_pyarrow_table()["id"].to_pylist()) == [0, 1]


LOG_COMMITS, LOG_OLD, CHECKPOINT_COMMITS = 5000, 4000, 100
DAY_S, DAY_MS = 86_400, 86_400_000


def log_file_of(table: Table) -> list[Path]:
    return sorted((Path(table.path) / "_delta_log").iterdir())


def test_vacuum_shortens_the_log_and_keeps_batch_ids(tmp_path: Path) -> None:
    table = Table(str(tmp_path / "t"))
    delta.append_arrow(readings(0), table, "ended", 7)
    log = Path(table.path) / "_delta_log"
    for batch in range(LOG_COMMITS):
        # the commit of a batch without rows
        commit = {"txn": {"appId": "q", "version": batch}}
        (log / f"{batch + 2:020}.json").write_text(json.dumps(commit))
        if batch % CHECKPOINT_COMMITS == 0:
            DeltaTable(table.path).create_checkpoint()
    old = time.time() - 8 * DAY_S
    for file in log_file_of(table):
        if file.name[:20].isdigit() and int(file.name[:20]) < LOG_OLD:
            os.utime(file, (old, old))
    assert len(log_file_of(table)) > LOG_COMMITS
    for _ in range(2):
        delta.vacuum(table, 7 * DAY_MS)
        # retained commits, the commits back to the checkpoint before them, and checkpoints
        assert len(log_file_of(table)) < LOG_COMMITS - LOG_OLD + 2 * CHECKPOINT_COMMITS
    for version in (LOG_OLD, LOG_OLD + 1, LOG_COMMITS):
        assert DeltaTable(table.path, version=version).transaction_version("q") == version - 2
    again = [delta.append_arrow(readings(1), table, "q", LOG_COMMITS - 1)]
    again.append(delta.append_arrow(readings(1), table, "ended", 7))
    assert again == [Appended(0, 0, again=True)] * 2
    assert delta.append_arrow(readings(1), table, "q", LOG_COMMITS) == Appended(1, 1)
    assert sorted(DeltaTable(table.path).to_pyarrow_table()["id"].to_pylist()) == [0, 1]


def test_an_append_reads_the_log_from_the_last_checkpoint(tmp_path: Path) -> None:
    table = Table(str(tmp_path / "t"))
    for batch in range(70):
        delta.append_arrow(readings(batch), table, "q", batch)
    delta.vacuum(table, 7 * DAY_MS)
    (last,) = [json.loads(file.read_text()) for file in log_file_of(table) if file.name[0] == "_"]
    assert last["version"] == DeltaTable(table.path).version()
    kept = DeltaTable(table.path).metadata().configuration
    assert kept["delta.logRetentionDuration"] == f"interval {7 * DAY_S} seconds"
    # only maintenance deletes expired log entries
    assert kept["delta.enableExpiredLogCleanup"] == "false"


def test_a_batch_is_appended_during_maintenance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table(str(tmp_path / "t"))
    delta.append_arrow(readings(0), table, "q", 0)
    overtake(monkeypatch, lambda: delta.vacuum(table, 7 * DAY_MS))
    assert delta.append_arrow(readings(1), table, "q", 1) == Appended(1, 1)
    assert sorted(DeltaTable(table.path).to_pyarrow_table()["id"].to_pylist()) == [0, 1]


def test_spark_reads_escaped_partition_values(spark: SparkSession, tmp_path: Path) -> None:
    table = Table(str(tmp_path / "a b"), ("address",))
    names = ["far/a=5%+é", "x y", "日本", "%41", None]
    rows = [(name, number) for number, name in enumerate(names)]
    delta.append(spark.createDataFrame(rows, "address string, offset long"), table, "q", 0)
    columns = {"address": names, "offset": range(len(names))}
    delta.append_arrow(pyarrow.table(columns), table, "q", 1)
    rows += rows
    found = delta.read(spark, table).select("address", "offset").collect()
    assert sorted(map(tuple, found), key=str) == sorted(rows, key=str)


def test_empty_batch_adds_no_rows_and_no_later_version(spark: SparkSession, tmp_path: Path) -> None:
    table = Table(str(tmp_path / "t"))
    with pytest.raises(Missing, match="no Delta table"):
        delta.read(spark, table)
    assert delta.append(spark.range(0), table, "q", 0) == Appended(0, 0)
    assert delta.read(spark, table).count() == 0
    assert delta.append(spark.range(4), table, "q", 1).rows == 4
    assert DeltaTable(table.path).version() == 1


def test_batch_may_add_columns_but_not_change_a_column_type(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = Table(str(tmp_path / "t"))
    delta.append(spark.range(2), table, "q", 0)
    delta.append(spark.range(2, 4).withColumn("more", F.lit("x")), table, "q", 1)
    rows = {row.id: row.more for row in delta.read(spark, table).collect()}
    assert rows == {0: None, 1: None, 2: "x", 3: "x"}
    with pytest.raises(Conflict, match="column id is .*long.* and the batch has .*string"):
        delta.append(spark.range(1).selectExpr("cast(id as string) as id"), table, "q", 2)


def test_compaction_and_vacuum_keep_all_rows(spark: SparkSession, tmp_path: Path) -> None:
    table = bronze.table(str(tmp_path / "bronze"))
    for batch in range(3):
        bronze.append(messages(spark, batch * 4, 4), table, "q", batch)
    assert delta.compact(table) == 6
    assert offsets(delta.read(spark, table)) == list(range(12))
    assert delta.read(spark, table).where("address = 'a/b c' and space is null").count() == 12
    assert delta.vacuum(table, 0) == 6
    assert offsets(delta.read(spark, table)) == list(range(12))


def test_statistics_prune_files(spark: SparkSession, tmp_path: Path) -> None:
    table = bronze.table(str(tmp_path / "bronze"))
    bronze.append(messages(spark, 0, 10), table, "q", 0)
    actions = DeltaTable(table.path).get_add_actions(flatten=True)
    seen = {name: actions.column(name).to_pylist() for name in ("min.offset", "max.offset")}
    assert sorted(seen["min.offset"]) == [0, 5] and sorted(seen["max.offset"]) == [4, 9]
    assert set(actions.column("max.enqueued_time").to_pylist()) == {AT}


def test_only_columns_with_repeated_values_have_dictionaries(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = bronze.table(str(tmp_path / "bronze"))
    kind = F.lit("data").alias("body_kind")
    bronze.append(messages(spark, 0, 10).select("*", kind), table, "q", 0)
    (file, *_) = DeltaTable(table.path).file_uris()
    group = pyarrow.parquet.read_metadata(file).row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    dictionaries = {one.path_in_schema: "PLAIN_DICTIONARY" in one.encodings for one in columns}
    assert [dictionaries[name] for name in ("body_kind", "body", "offset")] == [True, False, False]


def test_bronze_refuses_a_batch_without_message_columns(
    spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(Invalid, match="column space is missing"):
        bronze.append(spark.range(1), bronze.table(str(tmp_path / "b")), "q", 0)
