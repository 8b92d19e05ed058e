"""The format in a real Spark, reading streams of a real platform."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from enmasse.messaging import Data, Message
from mqtt_client import device_at, publish_properties
from platform_process import Platform
from published_streams import Log, readings
from stream_documents import stream

pytestmark = pytest.mark.timeout(400)
PUSHING = "spark.sql.python.filterPushdown.enabled"
TYPED = {"decode": "json", "columns": "partition, offset, device string, value double, _index"}


def source(spark: SparkSession, log: Log, *, streaming: bool = False, **options: str) -> DataFrame:
    reader: Any = spark.readStream if streaming else spark.read
    chosen = {"url": log.url, "address": log.address} | options
    return reader.format("enmasse").options(**chosen).load()


def run_once(frame: DataFrame, folder: Path) -> list[int]:
    """Append all available rows to a table; return the row count of each batch."""
    writer = frame.writeStream.format("parquet").option("path", str(folder / "table"))
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return [progress.numInputRows for progress in query.recentProgress]


def values(spark: SparkSession, folder: Path) -> list[int]:
    return sorted(
        int(row.value)
        for row in spark.read.parquet(str(folder / "table")).select("value").collect()
    )


def test_a_stream_is_read_once_in_bounded_batches(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    log.publish(readings(0, 1000))
    frame = source(spark, log, streaming=True, maxRowsPerTrigger="300", rowsPerTask="100", **TYPED)
    assert run_once(frame, tmp_path) == [300, 300, 300, 100]
    assert values(spark, tmp_path) == list(range(1000))
    log.publish(readings(1000, 50))
    assert run_once(frame, tmp_path) == [50]
    assert values(spark, tmp_path) == list(range(1050))
    placed = spark.read.parquet(str(tmp_path / "table")).groupBy("partition")
    ends = placed.agg(F.min("offset"), F.max("offset"), F.count("*"), F.countDistinct("offset"))
    rows = sorted(tuple(row) for row in ends.collect())
    # both partitions have messages, each offset once
    assert [row[0] for row in rows] == [0, 1]
    assert all(row[1] == 0 and row[2] + 1 == row[3] == row[4] for row in rows)


def test_bodies_are_typed_columns_and_wrong_ones_are_marked(spark: SparkSession, log: Log) -> None:
    log.publish([*readings(0, 9), Message(body=Data([b"{"]))])
    rows = source(spark, log, **TYPED).collect()
    good = sorted((row.value, row.device) for row in rows if row["_error"] is None)
    assert good == [(float(number), f"d{number % 3}") for number in range(9)]
    (bad,) = [row for row in rows if row["_error"] is not None]
    assert bad.value is None and bad["_error"].startswith("JSON: ")


def test_every_envelope_column_is_read(spark: SparkSession, log: Log) -> None:
    (message,) = readings(0, 1)
    created = datetime(2026, 1, 31, tzinfo=UTC)
    properties = replace(
        message.properties,
        user_id=b"eve",
        content_encoding="identity",
        creation_time=created,
        absolute_expiry_time=datetime(2100, 1, 31, tzinfo=UTC),
        group_sequence=7,
        reply_to_group_id="g",
    )
    types = {"n": 1, "t": "1"}
    log.publish([replace(message, properties=properties, application_properties=types)])
    (row,) = source(spark, log).collect()
    assert len(row) == 27
    # the node announces the address space of the connection
    assert (row.space, row.address, row.offset) == ("default.default", log.address, 0)
    assert (row.message_id, row.content_type, row.body_kind) == ("0", "application/json", "data")
    assert (bytes(row.user_id), row.content_encoding) == (b"eve", "identity")
    assert (row.group_sequence, row.reply_to_group_id) == (7, "g")
    assert row.creation_time.astimezone(UTC) == created
    assert row.absolute_expiry_time.year == 2100
    assert row.application_properties == {"n": "1", "t": "1"}
    assert row.application_property_types == {"n": "long", "t": "string"}
    (named,) = source(spark, log, space="default").select("space").collect()
    assert named.space == "default"
    assert json.loads(bytes(row.body)) == {"device": "d0", "value": 0}
    # offset, partition and time are columns
    assert row.annotations is None
    assert row.enqueued_time is not None
    reader = spark.read.format("enmasse").options(url=log.url, address=log.address, decode="json")
    assert reader.schema("value double, offset bigint").load().collect()[0] == (0.0, 0)


def test_publications_of_mqtt_clients_are_rows(
    spark: SparkSession, streams: Platform, log: Log
) -> None:
    told = publish_properties(ContentType="application/json", UserProperty=("site", "roof"))
    with device_at(streams, "meter") as meter:
        for number in range(20):
            body = json.dumps({"device": "meter", "value": number})
            assert meter.publish(log.address, body, number % 3, properties=told) == "Success"
    rows = source(spark, log, decode="json", columns="value double, content_type").collect()
    found = sorted((row.value, row.content_type) for row in rows)
    assert found == [(float(number), "application/json") for number in range(20)]
    sites = source(spark, log).select(F.col("application_properties")["site"].alias("site"))
    assert [row.site for row in sites.distinct().collect()] == ["roof"]


@pytest.fixture(params=["false", "true"])
def pushed(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    """Whether Spark pushes filters into Python sources; by default it does not."""
    spark.conf.set(PUSHING, request.param)
    yield request.param
    spark.conf.unset(PUSHING)


def test_filters_positions_and_selectors_limit_the_rows_read(
    spark: SparkSession, log: Log, pushed: str
) -> None:
    messages = [
        replace(one, application_properties={"n": n}) for n, one in enumerate(readings(0, 100))
    ]
    log.publish(messages)
    typed = {"decode": "json", "columns": "partition, offset, enqueued_time, value double"}
    everything = source(spark, log, **typed).orderBy("partition", "offset").collect()
    assert len(everything) == 100
    ends = Counter(row.partition for row in everything)

    def found(frame: DataFrame) -> list[tuple[int, int]]:
        return sorted((row.partition, row.offset) for row in frame.collect())

    frame = source(spark, log, **typed)
    assert found(frame.where((F.col("offset") >= 10) & (F.col("offset") < 12))) == [
        (0, 10),
        (0, 11),
        (1, 10),
        (1, 11),
    ]
    assert found(frame.where("offset = 7 and partition = 1")) == [(1, 7)]
    tasks = source(spark, log, rowsPerTask="10", **typed).where("offset = 7 and partition = 1")
    assert (tasks.rdd.getNumPartitions() == 1) is (pushed == "true")
    paths = json.dumps({"0": ends[0] - 2, "1": ends[1]})
    assert found(source(spark, log, start=paths, rowsPerTask="1", **typed)) == [
        (0, ends[0] - 2),
        (0, ends[0] - 1),
    ]
    assert found(source(spark, log, start="latest", **typed)) == []
    middle = everything[len(everything) // 2].enqueued_time
    moment = middle.astimezone(UTC).isoformat()
    later = [(row.partition, row.offset) for row in everything if row.enqueued_time >= middle]
    assert found(source(spark, log, start=moment, **typed)) == later
    selected = source(spark, log, selector="n >= 95", **typed).collect()
    assert sorted(row.value for row in selected) == [95, 96, 97, 98, 99]


def test_workers_import_the_installed_pyspark(spark: SparkSession) -> None:
    """Spark would prefer its copy in a zip, which every process compiles again."""
    found = spark.sparkContext.parallelize([0], 1).map(lambda _: __import__("pyspark").__file__)
    assert [Path(file) for file in found.collect()] == [Path(pyspark.__file__)]


def test_query_ends_at_lost_messages_unless_data_loss_is_allowed(
    spark: SparkSession, streams: Platform, tmp_path: Path
) -> None:
    log = Log(streams.url(), "short")
    log.publish(readings(0, 20))

    def run(**options: str) -> int:
        typed = {"decode": "json", "columns": "offset, value double"} | options
        return sum(run_once(source(spark, log, streaming=True, **typed), tmp_path))

    assert run() == 20
    large = [
        Message(body=Data([json.dumps({"value": n, "more": "x" * 4000}).encode()]))
        for n in range(20, 120)
    ]
    log.publish(large)
    with pytest.raises(StreamingQueryException, match="unread messages of the stream are no"):
        run()
    left = run(failOnDataLoss="false")
    got = values(spark, tmp_path)
    assert 0 < left < 100 and len(got) == len(set(got)) == 20 + left
    # retention keeps the last messages of each partition
    assert got[-1] == 119


def test_query_ends_at_a_recreated_stream_unless_data_loss_is_allowed(
    spark: SparkSession, streams: Platform, log: Log, tmp_path: Path
) -> None:
    log.publish(readings(0, 10))

    def run(**options: str) -> int:
        typed = {"decode": "json", "columns": "offset, value double"} | options
        return sum(run_once(source(spark, log, streaming=True, **typed), tmp_path))

    assert run() == 10
    streams.enmasse("delete", "address", log.address, "--force")
    (tmp_path / "again.yaml").write_text(stream(log.address))
    streams.enmasse("apply", "-f", str(tmp_path / "again.yaml"))
    log.publish(readings(10, 5))
    with pytest.raises(StreamingQueryException, match="the stream was created again: its uid was"):
        run()
    assert run(failOnDataLoss="false") == 5
    assert values(spark, tmp_path) == list(range(15))


def test_unknown_option_error_suggests_the_nearest_name(spark: SparkSession, log: Log) -> None:
    with pytest.raises(Exception, match="option adress is not known: did you mean address"):
        source(spark, log, adress="x")
    with pytest.raises(Exception, match="devise has no type"):
        source(spark, log, decode="json", columns="devise")
