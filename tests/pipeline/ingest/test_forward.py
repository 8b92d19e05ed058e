"""Sinks of the document on a real Spark and a real platform forward each row once."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from enmasse.base.errors import Invalid
from enmasse.pipeline.connector import options as option_table
from enmasse.pipeline.connector import reading
from enmasse.pipeline.connector.ranges import Slice
from enmasse.pipeline.ingest.forward import Forward, task_count
from enmasse.resources.pipeline import Sink
from platform_process import Platform
from published_streams import Log
from silver_readings import measured

pytestmark = pytest.mark.timeout(400)
TASKS = 2


@pytest.fixture
def target(streams: Platform, numbers: Iterator[int]) -> Log:
    return Log(streams.url(), f"s{next(numbers)}")


def forward(log: Log, folder: Path, **said: str) -> Forward:
    to = Sink.model_validate({"name": "on", "address": log.address} | said, by_alias=True)
    return Forward(
        to, option_table.write({"url": log.url}), str(folder / "rejected"), "spec.sinks[0]", TASKS
    )


def bodies(log: Log) -> list[bytes]:
    options = option_table.read({"url": log.url, "address": log.address, "columns": "body"})
    return [
        body
        for number, part in reading.state(options).partitions.items()
        for batch in reading.batches(options, Slice(number, part.first, part.next, None))
        for body in batch.column("body").to_pylist()
    ]


def test_rows_that_match_the_condition_are_forwarded_once(
    spark: SparkSession, target: Log, tmp_path: Path
) -> None:
    rows = measured(*({"value": float(number), "seconds": number} for number in range(20)))
    on = forward(target, tmp_path, where="value >= 15")
    on.check(spark)
    for batch in (0, 0, 1, 1):
        on(spark.createDataFrame(rows if batch else rows.slice(0, 17)), "p/q", batch)
    found = [json.loads(body) for body in bodies(target)]
    assert sorted(row["value"] for row in found) == [15, 15, 16, 16, 17, 18, 19]
    assert {row["event_time"][:16] for row in found} == {"2026-01-31T12:00"}
    assert not DeltaTable.is_deltatable(str(tmp_path / "rejected"))


def test_batch_repeated_with_another_condition_loses_no_row(
    spark: SparkSession, target: Log, tmp_path: Path
) -> None:
    rows = measured(*({"value": float(number), "seconds": number} for number in range(20)))
    # an interrupted batch has sent its first rows; then the document is edited
    first = spark.createDataFrame(rows.slice(0, 14))
    forward(target, tmp_path, where="value >= 10")(first, "p/q", 4)
    for _ in range(2):
        forward(target, tmp_path, where="value >= 5")(spark.createDataFrame(rows), "p/q", 4)
    found = {json.loads(body)["value"] for body in bodies(target)}
    assert found == {float(number) for number in range(5, 20)}
    assert len(bodies(target)) == 4 + 15


def test_batch_is_forwarded_once_for_any_division_into_tasks(
    spark: SparkSession, target: Log, tmp_path: Path
) -> None:
    rows = measured(*({"value": float(number), "seconds": number} for number in range(100)))
    on = forward(target, tmp_path)
    backwards = spark.createDataFrame(rows.take(list(reversed(range(100)))))
    spread = [spark.createDataFrame(rows).coalesce(1), backwards.repartition(5)]
    assert [on(found, "p/q", 4) for found in spread] == [100, 100]
    found = sorted(json.loads(body)["value"] for body in bodies(target))
    assert found == [float(number) for number in range(100)]


def test_task_count_of_a_query_is_fixed_at_its_first_start(tmp_path: Path) -> None:
    began, old = tmp_path / "began", tmp_path / "old"
    assert [task_count(str(began), wanted) for wanted in (3, 5)] == [3, 3]
    # a checkpoint of a version without this setting
    (old / "offsets").mkdir(parents=True)
    assert [task_count(str(old), wanted) for wanted in (3, 5)] == [1, 1]


def test_invalid_condition_is_refused_before_the_run(
    spark: SparkSession, target: Log, tmp_path: Path
) -> None:
    with pytest.raises(Invalid, match=r"^spec.sinks\[0\].where: .*valu"):
        forward(target, tmp_path, where="valu > 3").check(spark)
    forward(target, tmp_path, table="quarantine", where="reason like 'JSON%'").check(spark)


def test_rows_for_a_missing_address_are_written_to_the_rejected_table(
    spark: SparkSession, target: Log, tmp_path: Path
) -> None:
    lost = forward(Log(target.url, "nowhere"), tmp_path)
    for _ in range(2):
        lost(spark.createDataFrame(measured({}, {"seconds": 1})), "p/q", 3)
    (first, second) = DeltaTable(str(tmp_path / "rejected")).to_pyarrow_table().to_pylist()
    assert {first["condition"], second["condition"]} == {"amqp:not-found"}
    assert first["batch"] == 3 and json.loads(first["body"])["metric"] == "m"
