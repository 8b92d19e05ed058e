"""Sources on other brokers: queues of Artemis and RabbitMQ, streams of RabbitMQ."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadMaxRows

from backfill_runs import run_backfill
from brokers import Broker, artemis, rabbitmq
from enmasse.base.errors import Invalid
from enmasse.pipeline.connector import options as option_table
from enmasse.pipeline.connector import reading
from enmasse.pipeline.connector.queues import QueueReader
from enmasse.pipeline.connector.ranges import Offsets, Slice
from enmasse.pipeline.connector.source import StreamReader
from enmasse.pipeline.ingest import batches, report
from enmasse.pipeline.ingest.store import Store
from pipeline_runs import document, message, open_pipeline, rows, run_once
from published_streams import Log, readings

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
TYPED = {"decode": "json", "columns": "offset, device string, value double", "timeout": "60"}
MANY = 20_000
Brokers = Callable[[Path], AbstractContextManager[tuple[Broker, str]]]


class Artemis:
    """A queue of Artemis."""

    def __init__(self, folder: Path) -> None:
        self._running = artemis(folder, "orders")

    def __enter__(self) -> tuple[Broker, str]:
        return self._running.__enter__(), "orders"

    def __exit__(self, *error: object) -> None:
        self._running.__exit__(None, None, None)


class RabbitMq(Artemis):
    """A quorum queue of RabbitMQ, which is on disk before a message is accepted."""

    def __init__(self, folder: Path) -> None:
        self._running = rabbitmq(folder, orders="quorum", classic="classic")

    def __enter__(self) -> tuple[Broker, str]:
        return self._running.__enter__(), "/queues/orders"


@pytest.fixture(scope="module")
def rabbit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with rabbitmq(
        tmp_path_factory.mktemp("rabbit"),
        readings="stream",
        empty="stream",
        log="stream",
        future="stream",
    ) as broker:
        yield broker


def reader_of(log: Log, spool: Path) -> QueueReader:
    given = {"url": log.url, "address": log.address, "spool": str(spool)}
    return QueueReader(option_table.read(given | TYPED))


def values(reader: QueueReader | StreamReader, start: Offsets, end: Offsets) -> list[float]:
    """The rows of a batch."""
    return [
        value
        for task in reader.partitions(start, end)
        for batch in reader.read(task)
        for value in batch.column("value").to_pylist()
    ]


def drained(reader: QueueReader, start: Offsets, rows: int) -> tuple[Offsets, list[float]]:
    """Read all pending messages in batches, each committed while the next is planned."""
    found: list[float] = []
    while (end := reader.latestOffset(start, ReadMaxRows(rows))) != start:
        reader.commit(start)
        found += values(reader, start, end)
        start = end
    return start, found


@pytest.mark.parametrize("broker", [Artemis, RabbitMq])
def test_queue_is_read_once_across_kills_of_reader_and_broker(
    broker: Brokers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with broker(tmp_path) as (running, address):
        log = Log(running.url, address)
        log.publish(readings(0, MANY))
        reader = reader_of(log, tmp_path / "spool")
        start = reader.initialOffset()
        end = reader.latestOffset(start, ReadMaxRows(300))
        assert end["0"] == 300
        found = values(reader, start, end)
        with monkeypatch.context() as patched:
            # the batch is on disk, but not settled when the process is killed
            patched.setattr("enmasse.native.Intake.settle", lambda *_, **__: None)
            reader.latestOffset(end, ReadMaxRows(500))
        reader.stop()
        reader = reader_of(log, tmp_path / "spool")
        end, more = drained(reader, end, 7000)
        assert found + more == [float(number) for number in range(MANY)]
        # the broker does not report the depth of its queue, which is empty
        assert reader.reportLatestOffset() is None
        reader.stop()
        running.kill()
    with broker(tmp_path) as (running, address):
        log = Log(running.url, address)
        log.publish(readings(MANY, 10))
        reader = reader_of(log, tmp_path / "spool")
        reader.prepareForTriggerAvailableNow()
        # the reader skips messages whose settlement the broker lost
        _, more = drained(reader, end, 7000)
        assert more == [float(number) for number in range(MANY, MANY + 10)]
        reader.stop()


def test_rabbitmq_stream_is_read_by_offsets(rabbit: Broker) -> None:
    log = Log(rabbit.url, "/queues/readings")
    log.publish(readings(0, 5000))
    given = {"url": log.url, "address": log.address}
    options = option_table.read(given | TYPED | {"rowsPerTask": "1000"})
    reader = StreamReader(options)
    start = reader.initialOffset()
    assert start == {"0": 0}
    end = reader.latestOffset(start, ReadMaxRows(3000))
    assert end == {"0": 3000}
    assert values(reader, start, end) == [float(number) for number in range(3000)]
    log.publish(readings(5000, 7))
    last = reader.latestOffset(end, ReadMaxRows(10**6))
    assert last == {"0": 5007} == reader.reportLatestOffset()
    assert values(reader, end, last) == [float(number) for number in range(3000, 5007)]
    assert reader.latestOffset(last, ReadMaxRows(10)) == last
    # any range can be read again
    middle = reading.batches(options, Slice(0, 2500, 2503, None))
    assert [n for batch in middle for n in batch.column("offset").to_pylist()] == [2500, 2501, 2502]
    empty = option_table.read(given | TYPED | {"address": "/queues/empty"})
    assert StreamReader(empty).initialOffset() == {"0": 0}


def test_future_time_from_rabbitmq_is_clamped_to_the_batch_time(
    spark: SparkSession, rabbit: Broker, tmp_path: Path
) -> None:
    log = Log(rabbit.url, "/queues/future")
    at = urlsplit(log.url)
    source = {"url": f"amqp://{at.hostname}:{at.port}", "passwordFile": "password.txt"}
    file = document(tmp_path / "p", log, source | {"options": {"user": at.username}})
    (file.parent / "password.txt").write_text(str(at.password))
    log.publish([message(0, time="2100-01-01T00:00:00Z"), message(3), message(1, time=1)])
    run_once(spark, file)
    pipeline, paths, db = open_pipeline(file)
    db.close()
    begun = rows(paths, "bronze")["batch_time"].to_pylist()
    assert None not in begun and len(set(begun)) == 1
    held = rows(paths, "silver").sort_by("offset")
    assert held["event_time"].to_pylist() == [
        begun[0] + timedelta(minutes=1),
        begun[0],
        datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
    ]
    assert held["clamped"].to_pylist() == [True, False, False]
    run_backfill(file)
    assert rows(paths, "silver").sort_by("offset") == held
    options = batches.options(pipeline.spec.sources[0], paths)
    store = Store(pipeline, paths)
    found = report.source(spark, "s", options, store, "earliest", "latest", None)
    assert (found["messages"], found["exact"]) == (3, True)
    assert report.gold(spark, store)["exact"]


def test_rabbitmq_stream_is_refused_as_a_queue(rabbit: Broker, tmp_path: Path) -> None:
    log = Log(rabbit.url, "/queues/log")
    reader = reader_of(log, tmp_path / "spool")
    start = reader.initialOffset()
    # a link without an offset gets no earlier messages, and the server reports no error yet
    assert reader.latestOffset(start, ReadMaxRows(10)) == start
    log.publish(readings(0, 1))
    try:
        with pytest.raises(Invalid, match="is a stream"):
            reader.latestOffset(start, ReadMaxRows(10))
    finally:
        reader.stop()


def test_spark_reads_a_rabbitmq_stream(spark: SparkSession, rabbit: Broker, tmp_path: Path) -> None:
    log = Log(rabbit.url, "/queues/empty")
    log.publish(readings(0, 1000))
    source = spark.readStream.format("enmasse").options(url=log.url, address=log.address, **TYPED)
    frame = source.option("maxRowsPerTrigger", "400").load()
    writer = frame.writeStream.format("parquet").option("path", str(tmp_path / "table"))
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    assert [progress.numInputRows for progress in query.recentProgress] == [400, 400, 200]
    rows = spark.read.parquet(str(tmp_path / "table")).select("offset", "value").collect()
    assert sorted((row.offset, row.value) for row in rows) == [(n, float(n)) for n in range(1000)]
