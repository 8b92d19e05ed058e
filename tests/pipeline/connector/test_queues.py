"""Queues of a real platform are read into a spool exactly once, here without Spark."""

import errno
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

from doubles import TestClock
from enmasse.base.errors import Conflict, Exhausted, Invalid, Unavailable
from enmasse.messaging import Data, Message
from enmasse.pipeline.connector import options as option_table
from enmasse.pipeline.connector.queues import Filler, QueueReader
from enmasse.pipeline.connector.ranges import Offsets
from enmasse.pipeline.connector.reading import Retry
from enmasse.pipeline.connector.source import Source
from enmasse.pipeline.connector.spool import Queue, Spool
from platform_process import Platform
from published_streams import Log, readings

TYPED = {"decode": "json", "columns": "partition, offset, device string, value double"}
ALL = ReadMaxRows(10**6)


class Query:
    """Drives a reader as Spark does: batches, a log of offsets, commits."""

    def __init__(self, folder: Path, log: Log, **options: str) -> None:
        chosen = {"url": log.url, "address": log.address, "spool": str(folder / "spool")}
        self.options = option_table.read(chosen | {"timeout": "20"} | TYPED | options)
        self.offsets: Offsets | None = None
        self.start()

    def start(self) -> None:
        self.clock = TestClock()
        self.reader = QueueReader(self.options, self.clock)

    def plan(self, limit: Any = ALL) -> tuple[Offsets, Offsets]:
        """Begin a batch; return its start and end, which Spark would log."""
        start = self.offsets or self.reader.initialOffset()
        end = self.reader.latestOffset(start, limit)
        self.offsets = end
        return start, end

    def rows(self, start: Offsets, end: Offsets) -> list[dict[str, Any]]:
        return [
            row
            for task in self.reader.partitions(start, end)
            for batch in self.reader.read(task)
            for row in batch.to_pylist()
        ]

    def batch(self, limit: Any = ALL) -> list[float]:
        """One whole batch; its values."""
        start, end = self.plan(limit)
        return [row["value"] for row in self.rows(start, end)]

    def kill(self) -> None:
        """End as a killed process does: only its links and locks are released."""
        filler = self.reader._filler
        assert filler is not None
        filler.close()

    def restart(self) -> None:
        self.kill()
        self.start()

    @property
    def files(self) -> list[str]:
        folder = Path(str(self.options.spool))
        return sorted(path.name for path in folder.glob("*.*") if path.suffix != ".json")


@pytest.fixture
def query(queue: Log, tmp_path: Path) -> Iterator[Callable[..., Query]]:
    made: list[Query] = []

    def make(log: Log = queue, **options: str) -> Query:
        made.append(Query(tmp_path, log, **options))
        return made[-1]

    yield make
    for one in made:
        one.reader.stop()


def test_batches_are_bounded_and_committed_files_are_deleted(
    queue: Log, query: Callable[..., Query]
) -> None:
    queue.publish(readings(0, 100))
    job = query()
    start, end = job.plan(ReadMaxRows(40))
    rows = job.rows(start, end)
    assert [row["value"] for row in rows] == [float(number) for number in range(40)]
    assert [(row["partition"], row["offset"]) for row in rows] == [(0, n) for n in range(40)]
    # the same offsets return the same rows each time
    assert job.rows(start, end) == rows
    assert job.batch(ReadMaxRows(40)) == [float(number) for number in range(40, 80)]
    job.reader.commit(end)
    assert [name.rpartition(".")[2] for name in job.files] == ["ids", "messages"]
    assert job.batch() == [float(number) for number in range(80, 100)]
    assert job.batch() == []
    assert job.reader.reportLatestOffset() == job.offsets
    # a restarted reader still has the uncommitted messages
    job.restart()
    assert job.rows(end, job.offsets or {}) != []


def test_a_batch_is_bounded_by_bytes(queue: Log, query: Callable[..., Query]) -> None:
    queue.publish([Message(body=Data([bytes(10_000)])) for _ in range(100)])
    job = query(columns="offset", decode="json", maxBytesPerTrigger="200000", spoolBytes="500000")
    counts = []
    for limit in (ReadMaxRows(1000), ReadMaxBytes(300_000), ReadAllAvailable()):
        start, end = job.plan(limit)
        counts.append(int(end["0"]) - int(start["0"]))
    assert 19 <= counts[0] <= 21 and 29 <= counts[1] <= 31 and 48 <= counts[2] <= 51


def test_batch_left_uncommitted_by_a_kill_is_repeated_and_committed(
    queue: Log, query: Callable[..., Query]
) -> None:
    queue.publish(readings(0, 10))
    job = query()
    start, end = job.plan()
    whole = job.rows(start, end)
    # killed after its commit in the sink and before that of the source: Spark repeats the batch
    job.restart()
    assert job.reader.initialOffset() == start
    assert job.rows(start, end) == whole
    assert job.plan() == (end, end)
    job.reader.commit(end)
    assert job.files == [f"{0:020}-{10:020}.ids"]


def test_driver_killed_before_settlement_reads_each_message_once(
    queue: Log, query: Callable[..., Query], monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.publish(readings(0, 30))
    job = query()
    with monkeypatch.context() as patched:

        def killed(_: object, **__: bool) -> None:
            raise KeyboardInterrupt

        patched.setattr("enmasse.native.Intake.settle", killed)
        with pytest.raises(KeyboardInterrupt):
            job.plan()
    assert job.files == [f"{0:020}-{30:020}.messages"]
    job.restart()
    queue.publish(readings(30, 5))
    assert job.batch() == [float(number) for number in range(35)]
    assert job.batch() == []
    # the messages are settled now: no other query receives them
    other = query(spool=str(Path(str(job.options.spool)).with_name("other")))
    assert other.batch() == []


def test_message_redelivered_after_its_commit_is_skipped(
    queue: Log, query: Callable[..., Query], caplog: pytest.LogCaptureFixture
) -> None:
    job = query(idWindow="20")
    seen = []
    for first in range(0, 40, 10):
        queue.publish(readings(first, 10))
        seen += job.batch()
        job.reader.commit(job.offsets or {})
    job.restart()
    with caplog.at_level(logging.WARNING):
        # a server that lost its last settlements repeats messages, as does a sender that retries
        queue.publish(readings(25, 15))
        assert job.batch() == []
    assert "skipped 15 redelivered messages" in caplog.text
    assert seen == [float(number) for number in range(40)]
    # a different message with a known id is read
    changed = Message(body=Data([b'{"value": -1}']), properties=readings(39, 1)[0].properties)
    queue.publish([changed])
    assert job.batch() == [-1.0]


def test_messages_without_an_id_are_read_at_least_once(
    queue: Log,
    query: Callable[..., Query],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    queue.publish([Message(body=Data([b'{"value": 1}'])) for _ in range(6)])
    job = query()
    with monkeypatch.context() as patched:
        patched.setattr("enmasse.native.Intake.settle", lambda *_, **__: None)
        assert len(job.batch()) == 6
        job.restart()
    with caplog.at_level(logging.WARNING):
        assert len(job.batch()) == 6
    assert "messages without a message-id may be duplicated after a crash" in caplog.text


def test_messages_are_returned_to_the_queue_when_the_disk_is_full(
    queue: Log, query: Callable[..., Query], monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.publish(readings(0, 10))
    job = query()
    start = job.reader.initialOffset()
    with monkeypatch.context() as patched:

        def full(_: int) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        patched.setattr(os, "fsync", full)
        with pytest.raises(Exhausted, match="were returned to the queue"):
            job.reader.latestOffset(start, ALL)
    assert job.files == []
    # the same reader continues once there is space
    found = sorted(job.batch())
    assert found == [float(number) for number in range(10)]


def test_lag_counts_the_messages_in_the_queue(queue: Log, query: Callable[..., Query]) -> None:
    queue.publish(readings(0, 50))
    job = query()
    assert job.reader.reportLatestOffset() is None
    _, end = job.plan(ReadMaxRows(20))
    latest = job.reader.reportLatestOffset()
    assert (end["0"], latest and latest["0"]) == (20, 50)
    queue.publish(readings(50, 10))
    # the reader requests the depth once a second, not at every call
    assert job.reader.reportLatestOffset() == latest
    job.clock.advance(1.5)
    assert (job.reader.reportLatestOffset() or {})["0"] == 60


def test_available_now_reads_only_the_messages_present_at_its_start(
    queue: Log, query: Callable[..., Query]
) -> None:
    queue.publish(readings(0, 25))
    job = query()
    job.reader.prepareForTriggerAvailableNow()
    queue.publish(readings(25, 25))
    assert [len(job.batch(ReadMaxRows(10))) for _ in range(4)] == [10, 10, 5, 0]
    job.restart()
    job.reader.prepareForTriggerAvailableNow()
    assert job.batch() == [float(number) for number in range(25, 50)]


def test_a_subscription_is_read_like_a_queue(
    streams: Platform, query: Callable[..., Query]
) -> None:
    log = Log(streams.url(), "news::desk")
    Log(streams.url(), "news").publish(readings(0, 10))
    assert query(log).batch() == [float(number) for number in range(10)]


def test_spool_refuses_a_topic_and_a_stream(
    streams: Platform, log: Log, query: Callable[..., Query], tmp_path: Path
) -> None:
    for name, said in [
        ("news", "name a queue, or a subscription"),
        (log.address, "remove the option spool"),
    ]:
        job = query(Log(streams.url(), name), spool=str(tmp_path / name))
        with pytest.raises(Invalid, match=said):
            job.plan()


def test_selector_filters_the_messages_of_a_queue(queue: Log, query: Callable[..., Query]) -> None:
    def numbered(number: int) -> Message:
        (message,) = readings(number, 1)
        properties = {"n": number}
        return Message(message.body, message.properties, application_properties=properties)

    queue.publish(map(numbered, range(20)))
    assert query(selector="n >= 15").batch() == [15.0, 16.0, 17.0, 18.0, 19.0]


def test_a_spool_of_another_query_is_refused(queue: Log, query: Callable[..., Query]) -> None:
    queue.publish(readings(0, 10))
    job = query()
    job.plan()
    with pytest.raises(Conflict, match="each query needs its own spool"):
        spool_without_retry(job)
    job.reader.commit(job.offsets or {})
    job.restart()
    with pytest.raises(Conflict, match="use its checkpoint"):
        job.reader.initialOffset()
    other = {"uid": "0" * 32, "0": 5}
    with pytest.raises(Conflict, match="the spool was created again: its uid was 0000"):
        job.reader.latestOffset(other, ALL)
    with pytest.raises(Conflict, match="checkpoint belongs to another spool"):
        job.reader.partitions(other, other | {"0": 7})
    job.kill()
    tolerant = query(failOnDataLoss="false")
    assert tolerant.reader.partitions(other, other | {"0": 7}) == []
    queue.publish(readings(10, 5))
    end = tolerant.reader.latestOffset(other, ALL)
    assert [row["value"] for row in tolerant.rows(other, end)] == [10.0, 11.0, 12.0, 13.0, 14.0]


def spool_without_retry(job: Query) -> Spool:
    no_retry = Retry(0, TestClock(), lambda _: None)
    folder = Path(str(job.options.spool))
    return Spool(folder, Queue(job.options.address), fails_on_loss=True, retry=no_retry)


def test_task_error_names_the_missing_or_damaged_file(
    queue: Log, query: Callable[..., Query], caplog: pytest.LogCaptureFixture
) -> None:
    queue.publish(readings(0, 10))
    job = query()
    start, end = job.plan()
    (task,) = job.reader.partitions(start, end)
    path = Path(task.value.paths[0])
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(
        Conflict, match=r"messages: the file is (?:truncated|damaged).*have to share the folder"
    ):
        list(job.reader.read(task))
    path.unlink()
    with pytest.raises(Conflict, match="No such file"):
        list(job.reader.read(task))
    job.kill()
    tolerant = query(failOnDataLoss="false")
    with caplog.at_level(logging.WARNING):
        assert list(tolerant.reader.read(task)) == []
    assert "skipped its messages" in caplog.text


def test_unreachable_server_is_an_error_only_when_the_spool_is_empty(
    queue: Log, query: Callable[..., Query], caplog: pytest.LogCaptureFixture
) -> None:
    queue.publish(readings(0, 10))
    job = query()
    job.plan()
    job.kill()
    away = query(url="amqp://127.0.0.1:1")
    spool = spool_without_retry(away)
    no_retry = Retry(0, TestClock(), lambda _: None)
    filler = Filler(away.options, spool, no_retry)
    with caplog.at_level(logging.WARNING):
        assert filler.fill(0, 100, 10**6) == 10
    assert "continuing with the messages in the spool" in caplog.text
    with pytest.raises(Unavailable, match="refused"):
        filler.fill(10, 100, 10**6)
    assert filler.depth() is None
    filler.close()


def test_a_queue_is_read_by_streaming_queries_only(queue: Log, tmp_path: Path) -> None:
    given = {"url": queue.url, "address": queue.address, "spool": str(tmp_path)}
    with pytest.raises(Invalid, match=r"read by spark.readStream"):
        source = Source(given | {"columns": "offset"})
        source.reader(schema_of("offset bigint"))
    with pytest.raises(Invalid, match="a queue has no offsets"):
        option_table.read(given | {"start": "latest"})
    with pytest.raises(Invalid, match="an absolute path"):
        option_table.read(given | {"spool": "here"})


def schema_of(text: str) -> Any:
    from pyspark.sql.types import LongType, StructField, StructType

    name, _ = text.split()
    return StructType([StructField(name, LongType())])
