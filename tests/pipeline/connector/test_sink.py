"""Spark writes rows to addresses of a real platform once, even when batches repeat."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from deltalake import DeltaTable
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from enmasse.base.errors import Exhausted, Invalid
from enmasse.client import connect
from enmasse.messaging import Message, Value
from enmasse.pipeline.connector import options as option_table
from enmasse.pipeline.connector import reading, sink
from enmasse.pipeline.connector.ranges import Slice
from enmasse.pipeline.connector.sink import TaskOfBatch
from enmasse.pipeline.tables import delta
from enmasse.pipeline.tables.files import Table
from platform_process import Platform
from published_streams import Log, readings

pytestmark = pytest.mark.timeout(400)
TEXT = pyarrow.string()
TYPED = {"decode": "json", "columns": "device string, value double"}


@pytest.fixture
def target(streams: Platform, numbers: Iterator[int]) -> Log:
    """A second stream for a test."""
    return Log(streams.url(), f"s{next(numbers)}")


def contents(log: Log) -> list[str]:
    """The bodies in a stream, sorted."""
    options = option_table.read({"url": log.url, "address": log.address, "columns": "body"})
    parts = reading.state(options).partitions
    return sorted(
        body.decode()
        for number, part in parts.items()
        for batch in reading.batches(options, Slice(number, part.first, part.next, None))
        for body in batch.column("body").to_pylist()
    )


def received(url: str, address: str, count: int) -> list[Message]:
    async def receive() -> list[Message]:
        async with connect(url) as session, session.receiver(address, count=count) as receiver:
            messages = []
            async for delivery in receiver:
                delivery.settle()
                messages.append(delivery.message)
                if len(messages) == count:
                    break
            return messages

    return asyncio.run(receive())


def forwarded(spark: SparkSession, log: Log) -> DataFrame:
    reader = spark.readStream.format("enmasse").options(url=log.url, address=log.address, **TYPED)
    rows = reader.option("maxRowsPerTrigger", "40").option("rowsPerTask", "10").load()
    # after a shuffle the order of rows differs each time
    shuffled = rows.repartition(2, "device")
    return shuffled.selectExpr("device as group_id", "to_json(struct(device, value)) as body")


def test_repeated_write_batch_is_stored_once(
    spark: SparkSession, log: Log, target: Log, tmp_path: Path
) -> None:
    def run() -> None:
        writer = forwarded(spark, log).writeStream.format("enmasse")
        writer = writer.options(url=target.url, address=target.address)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()

    log.publish(readings(0, 100))
    expected = sorted(f'{{"device":"d{n % 3}","value":{float(n)}}}' for n in range(100))
    run()
    assert contents(target) == expected
    # as after a kill before Spark recorded the last batch
    commits = tmp_path / "checkpoint" / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdecimal())
    for name in (f"{last}", f".{last}.crc"):
        (commits / name).unlink(missing_ok=True)
    run()
    assert (commits / str(last)).exists()
    assert contents(target) == expected


def test_columns_map_to_the_sections_of_a_message(spark: SparkSession, streams: Platform) -> None:
    rows = spark.range(1).select(
        F.lit("q0").alias("address"),
        F.lit("text").alias("body"),
        F.lit("string").alias("body_kind"),
        F.lit(7).alias("message_id"),
        F.lit("c").alias("correlation_id"),
        F.lit("s").alias("subject"),
        F.lit("r").alias("reply_to"),
        F.lit("text/plain").alias("content_type"),
        F.lit("g").alias("group_id"),
        F.lit(False).alias("durable"),
        F.lit(9).alias("priority"),
        F.lit(60_000).alias("ttl"),
        F.create_map(F.lit("n"), F.lit(1.5)).alias("application_properties"),
        F.create_map(F.lit("x-opt-a"), F.lit(True)).alias("annotations"),
    )
    rows.write.format("enmasse").mode("append").option("url", streams.url()).save()
    (message,) = received(streams.url(), "q0", 1)
    properties = message.properties
    assert message.body == Value("text")
    assert (properties.message_id, properties.correlation_id, properties.subject) == (7, "c", "s")
    assert (properties.reply_to, properties.group_id) == ("r", "g")
    assert message.header is not None
    assert (message.header.durable, message.header.priority) == (False, 9)
    assert message.application_properties == {"n": 1.5}
    assert message.annotations["x-opt-a"] is True


def test_rejected_rows_are_written_to_a_table_with_their_cause(
    spark: SparkSession, streams: Platform, target: Log, tmp_path: Path
) -> None:
    rows = spark.range(0, 20, 1, 2).select(
        F.when(F.col("id") == 3, "nowhere").otherwise(target.address).alias("address"),
        F.col("id").cast("string").alias("body"),
        F.when(F.col("id") == 5, -1).otherwise(60_000).alias("priority"),
    )
    writer = rows.withColumn("priority", F.expr("if(body = '5', -1, 4)")).write.format("enmasse")
    writer = writer.mode("append").option("url", streams.url()).option("producer", "job")
    with pytest.raises(Exception, match="rows are rejected: .*set deadLetter"):
        writer.option("batch", "0").save()
    kept = tmp_path / "rejected"
    for _ in range(2):
        writer.option("batch", "1").option("deadLetter", str(kept)).save()
    rejected = delta.read(spark, Table(str(kept))).collect()
    found = {bytes(row.body).decode(): (row.address, row.condition, row.cause) for row in rejected}
    assert len(rejected) == 2 and found.keys() == {"3", "5"}
    assert found["3"][:2] == ("nowhere", "amqp:not-found")
    assert found["5"] == (target.address, "amqp:invalid-field", "priority: -1 is not from 0 to 255")
    times = Counter(contents(target))
    assert times.keys() == {str(n) for n in range(20)} - {"3", "5"}
    # the failed write was another batch, whose rows may be stored already
    assert max(times.values()) <= 2


def batch_of(count: int, **columns: Any) -> Iterator[pyarrow.RecordBatch]:
    values = {"body": [str(n) for n in range(count)]} | columns
    yield pyarrow.RecordBatch.from_pydict(values)


def batch_with_bad_row(count: int, wrong: int) -> Iterator[pyarrow.RecordBatch]:
    """Rows, one of which has a delivery delay that the server rejects."""
    delays = [{"x-opt-delivery-delay": "soon"} if n == wrong else None for n in range(count)]
    return batch_of(count, annotations=pyarrow.array(delays, pyarrow.map_(TEXT, TEXT)))


def test_no_row_is_stored_after_the_row_that_ends_the_batch(target: Log) -> None:
    options = option_table.write({"url": target.url, "address": target.address, "order": "input"})
    for _ in range(2):
        with pytest.raises(Invalid, match="rows are rejected: .*x-opt-delivery-delay"):
            sink.deliver(options, TaskOfBatch("p", 4, 0), batch_with_bad_row(100, 30))
        assert len(contents(target)) == 30
    sink.deliver(options, TaskOfBatch("p", 4, 0), batch_of(100))
    assert contents(target) == sorted(str(n) for n in range(100))


def test_rejected_row_is_in_the_table_after_an_interrupted_batch(
    target: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = str(tmp_path / "rejected")
    given = {"url": target.url, "address": target.address, "order": "input", "deadLetter": folder}
    options = option_table.write(given)
    # interrupted after the row was rejected and all others were stored
    sink.deliver(options, TaskOfBatch("p", 4, 0), batch_with_bad_row(100, 30))
    assert len(contents(target)) == 99
    # the server may take the row for a duplicate, because later rows are stored
    sent = sink.deliver(options, TaskOfBatch("p", 4, 0), batch_of(100))
    assert sent.rejected is None
    for _ in range(2):
        sink.commit_rejected(options, [sent, None])
    rows = DeltaTable(folder).to_pyarrow_table().to_pylist()
    assert [(row["batch"], row["task"], row["row"], row["body"]) for row in rows] == [
        (4, 0, 30, b"30")
    ]
    assert len(contents(target)) == 99
    assert not list((tmp_path / "rejected" / "_pending").iterdir())


def test_rows_are_sent_in_order_of_content_or_of_input(target: Log) -> None:
    url = {"url": target.url, "address": target.address}
    mixed = pyarrow.RecordBatch.from_pydict({"body": ["b", "c", "a"], "group_id": ["g"] * 3})
    for order, batch in (("content", 0), ("input", 1)):
        options = option_table.write(url | {"order": order})
        sent = sink.deliver(options, TaskOfBatch("p", batch, 0), iter([mixed]))
        assert (sent.rows, sent.rejected, sent.producer) == (3, None, "p")
    read = option_table.read(url | {"columns": "body"})
    parts = reading.state(read).partitions
    found = [
        [
            body
            for rows in reading.batches(read, Slice(n, 0, part.next, None))
            for body in rows["body"].to_pylist()
        ]
        for n, part in parts.items()
    ]
    assert sorted(found) == [[], [b"a", b"b", b"c", b"b", b"c", b"a"]]


def test_memory_and_rejected_rows_of_a_task_are_bounded(
    target: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = option_table.write({"url": target.url, "address": target.address, "deadLetter": "x"})
    monkeypatch.setattr(sink, "TASK_SIZE_MAX", 10_000)
    with pytest.raises(Exhausted, match="set order=input"):
        sink.deliver(options, TaskOfBatch("p", 0, 0), batch_of(1000))
    assert contents(target) == []
    monkeypatch.setattr(sink, "TASK_SIZE_MAX", 1 << 20)
    monkeypatch.setattr(sink, "REJECTED_MAX", 10)
    with pytest.raises(Exhausted, match="more than 10 rows of a task are rejected: .* ttl: -1"):
        sink.deliver(options, TaskOfBatch("p", 0, 0), batch_of(11, ttl=[-1] * 11))


@pytest.mark.parametrize(
    ("select", "options", "said"),
    [
        ("id as body", {}, "column body is Int64: it must be string or binary"),
        ("'x' as body, id as devise", {}, "column devise is not part of a message"),
        ("'x' as body", {"address": ""}, "option address is missing, and there is no column"),
        ("'x' as body", {"producer": "p"}, "option batch is missing"),
        ("'x' as body", {"producer": "p", "numbered": "false"}, "omit one of them"),
    ],
)
def test_invalid_write_is_refused_before_a_task_runs(
    spark: SparkSession, target: Log, select: str, options: dict[str, str], said: str
) -> None:
    chosen = {"url": target.url, "address": target.address} | options
    given = {name: value for name, value in chosen.items() if value}
    with pytest.raises(Exception, match=said):
        spark.range(1).selectExpr(*select.split(", ")).write.format("enmasse").mode(
            "append"
        ).options(**given).save()


def test_numbered_write_to_a_topic_is_refused(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    log.publish(readings(0, 1))
    writer = forwarded(spark, log).writeStream.format("enmasse").option("url", log.url)
    writer = writer.option("address", "live").option("checkpointLocation", str(tmp_path))
    with pytest.raises(StreamingQueryException, match="messages of a topic are not numbered"):
        writer.trigger(availableNow=True).start().awaitTermination()
