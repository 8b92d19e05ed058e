"""The format in a real Spark."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from publishing import Log, readings
from spark_session import session
from stream_server import StreamServer

pytestmark = pytest.mark.timeout(400)
TYPED = {"decode": "json", "columns": "offset, device string, value double, _index"}
JOB = Path(__file__).with_name("job.py")


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with session(tmp_path_factory.mktemp("spark")) as running:
        yield running


def source(spark: SparkSession, log: Log, *, streaming: bool = False, **options: str) -> DataFrame:
    reader: Any = spark.readStream if streaming else spark.read
    chosen = {"url": log.url, "address": log.address} | options
    return reader.format("enmasse").options(**chosen).load()


def test_what_is_there_is_read_once_in_bounded_batches(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    begin = log.publish(readings(0, 1000))
    sizes: list[int] = []

    def run() -> list[int]:
        frame = source(
            spark, log, streaming=True, maxRowsPerTrigger="300", rowsPerTask="100", **TYPED
        )
        writer = frame.writeStream.format("parquet").option("path", str(tmp_path / "table"))
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        sizes.extend(progress.numInputRows for progress in query.recentProgress)
        rows = spark.read.parquet(str(tmp_path / "table")).select("value").collect()
        return sorted(int(row.value) for row in rows)

    assert run() == list(range(begin))
    assert sizes == [300, 300, 300, 100]
    log.publish(readings(1000, 50))
    assert run() == list(range(1050))
    assert sizes[4:] == [50]


def test_bodies_are_typed_columns_and_what_is_none_is_marked(spark: SparkSession, log: Log) -> None:
    log.publish(readings(0, 9))
    log.publish(
        [message.__class__(body=message.body.__class__([b"{"])) for message in readings(9, 1)]
    )
    rows = source(spark, log, **TYPED).orderBy("offset").collect()
    assert [(row.offset, row.device, row.value) for row in rows[:9]] == [
        (number, f"d{number % 3}", float(number)) for number in range(9)
    ]
    assert all(row["_error"] is None for row in rows[:9])
    assert rows[9].value is None and rows[9]["_error"].startswith("JSON: ")


def test_every_column_of_the_envelope_arrives(spark: SparkSession, log: Log) -> None:
    log.publish(readings(0, 3))
    frame = source(spark, log, space="default")
    assert len(frame.columns) == 20
    row = frame.orderBy("offset").first()
    assert row is not None
    assert (row.space, row.address, row.partition, row.offset) == ("default", log.address, 0, 0)
    assert (row.message_id, row.content_type, row.body_kind) == ("0", "application/json", "data")
    assert json.loads(bytes(row.body)) == {"device": "d0", "value": 0}
    assert row.annotations["x-stream-offset"] == "0"
    by_schema = spark.read.format("enmasse").options(
        url=log.url, address=log.address, decode="json"
    )
    assert by_schema.schema("value double, offset bigint").load().orderBy("offset").collect()[
        2
    ] == (2.0, 2)


def test_filters_and_places_bound_what_is_read(spark: SparkSession, log: Log) -> None:
    log.publish(readings(0, 100))
    frame = source(spark, log, columns="offset, partition")

    def offsets(frame: DataFrame) -> list[int]:
        return sorted(row.offset for row in frame.collect())

    assert offsets(frame.where((F.col("offset") >= 90) & (F.col("offset") < 95))) == [
        *range(90, 95)
    ]
    assert offsets(frame.where("offset = 7 and partition = 0")) == [7]
    assert offsets(frame.where("partition = 3")) == []
    assert offsets(source(spark, log, columns="offset", start='{"0": 40}', end='{"0": 42}')) == [
        40,
        41,
    ]
    assert offsets(source(spark, log, columns="offset", start="latest")) == []
    assert offsets(source(spark, log, columns="offset", start="2020-01-01T00:00:00Z")) == [
        *range(100)
    ]
    # a batch of many tasks has all of them, too
    assert offsets(source(spark, log, columns="offset", rowsPerTask="7")) == [*range(100)]


def test_messages_lost_before_they_were_read_end_the_query_or_are_left_out(
    spark: SparkSession, server: StreamServer, log: Log, tmp_path: Path
) -> None:
    def run(**options: str) -> list[int]:
        frame = source(spark, log, streaming=True, columns="offset", **options)
        writer = frame.writeStream.format("parquet").option("path", str(tmp_path / "table"))
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()
        return sorted(row.offset for row in spark.read.parquet(str(tmp_path / "table")).collect())

    log.publish(readings(0, 20))
    assert run() == [*range(20)]
    log.publish(readings(20, 20))
    server.forget(log.address, 30)
    with pytest.raises(StreamingQueryException, match="10 messages that were not read yet"):
        run()
    assert run(failOnDataLoss="false") == [*range(20), *range(30, 40)]


def test_a_wrong_option_is_named_with_the_nearest(spark: SparkSession, log: Log) -> None:
    with pytest.raises(Exception, match="option adress is not known: did you mean address"):
        source(spark, log, adress="x")
    with pytest.raises(Exception, match="devise has no type"):
        source(spark, log, decode="json", columns="devise")


def run_job(folder: Path, log: Log, once: str) -> subprocess.Popen[str]:
    """The query of `job.py` in a process group of its own."""
    options = json.dumps(TYPED)
    return subprocess.Popen(
        [sys.executable, JOB, folder, log.url, log.address, options, once],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | {"PYTHONPATH": str(JOB.parents[1])},
    )


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kills", [3])
def test_a_driver_that_is_killed_loses_and_doubles_nothing(
    spark: SparkSession, log: Log, tmp_path: Path, kills: int
) -> None:
    sent = 0
    for batches in range(2, 2 + kills):
        sent += log.publish(readings(sent, 1500))
        job = run_job(tmp_path, log, "on")
        assert job.stdout is not None
        try:
            for line in job.stdout:
                batches -= line.startswith("batch ")
                if not batches:
                    break
            assert not batches, "the query ended by itself"
        finally:
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()
            job.stdout.close()
    last = run_job(tmp_path, log, "once")
    assert last.communicate()[0].strip() == "done"
    rows = spark.read.parquet(str(tmp_path / "table")).select("offset", "value").collect()
    doubled = [value for value, count in Counter(row.value for row in rows).items() if count > 1]
    assert (len(rows), doubled) == (sent, [])
    assert {row.offset for row in rows} == set(range(sent))
