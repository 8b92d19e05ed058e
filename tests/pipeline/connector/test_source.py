"""Ends of the batches of a stream, planned without Spark."""

import logging
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

from enmasse.base.errors import Conflict
from enmasse.messaging import Data, Message, Properties
from enmasse.pipeline.connector import options as option_table
from enmasse.pipeline.connector import ranges, reading
from enmasse.pipeline.connector.options import Options
from enmasse.pipeline.connector.ranges import Offsets, Partition, Slice, State
from enmasse.pipeline.connector.source import StreamReader, end_offsets, start_offsets
from platform_process import Platform
from published_streams import Log
from stream_documents import stream

SMALL, LARGE = 100, 20_000
COUNT = 300
SIZE_MAX = 400_000


def sized(*sizes: int) -> list[Message]:
    """`COUNT` messages of each size, all in one partition."""
    one = Properties(group_id="one")
    return [
        Message(body=Data([bytes(size)]), properties=one) for size in sizes for _ in range(COUNT)
    ]


def planned(log: Log, **chosen: str) -> list[list[Slice]]:
    """The slices of each batch of a query that reads every available message."""
    reader = StreamReader(option_table.read({"url": log.url, "address": log.address} | chosen))
    start = reader.initialOffset()
    found = []
    while (end := reader.latestOffset(start, reader.getDefaultReadLimit())) != start:
        found.append(ranges.slices(start, end, 1_000_000))
        start = end
    return found


def count(end: Offsets) -> int:
    return sum(ranges.numbers(end).values())


def size_of(log: Log, parts: list[Slice]) -> float:
    options = option_table.read({"url": log.url, "address": log.address})
    return sum(
        reading.message_size(options, replace(part, start=number, end=number + 1))
        for part in parts
        for number in range(part.start, part.end)
    )


@pytest.fixture
def recreated(log: Log, streams: Platform, tmp_path: Path) -> tuple[Options, Offsets, Offsets]:
    """Options, and two offsets of a stream that was deleted and created again."""
    options = option_table.read({"url": log.url, "address": log.address, "failOnDataLoss": "false"})
    log.publish(sized(SMALL)[:20])
    start = StreamReader(options).initialOffset()
    end = StreamReader(options).latestOffset(start, ReadMaxRows(10))
    streams.enmasse("delete", "address", log.address, "--force")
    (tmp_path / "again.yaml").write_text(stream(log.address))
    streams.enmasse("apply", "-f", str(tmp_path / "again.yaml"))
    log.publish(sized(LARGE)[:15])
    return options, start, end


def read(reader: StreamReader, start: Offsets, end: Offsets) -> int:
    tasks = reader.partitions(start, end)
    return sum(len(rows) for task in tasks for rows in reader.read(task))


def test_recreated_stream_is_read_and_logged_once(
    recreated: tuple[Options, Offsets, Offsets], caplog: pytest.LogCaptureFixture
) -> None:
    options, _, start = recreated
    reader = StreamReader(options)
    with caplog.at_level(logging.WARNING, logger="enmasse.pipeline"):
        ends = [reader.latestOffset(start, ReadMaxRows(100)) for _ in range(2)]
    assert ends[0] == ends[1] and count(ends[0]) == 15
    (said,) = caplog.messages
    assert f"its uid was {start['uid']} and is {ends[0]['uid']}" in said
    assert read(reader, start, ends[0]) == 15


def test_batch_planned_before_the_stream_was_recreated_is_lost_entirely(
    recreated: tuple[Options, Offsets, Offsets], caplog: pytest.LogCaptureFixture
) -> None:
    options, start, end = recreated
    with caplog.at_level(logging.WARNING, logger="enmasse.pipeline"):
        assert read(StreamReader(options), start, end) == 0
    (said,) = caplog.messages
    assert "10 messages of 0..10 are no longer kept" in said
    with pytest.raises(Conflict, match="its uid was"):
        read(StreamReader(replace(options, fail_on_data_loss=True)), start, end)


@pytest.mark.parametrize("sizes", [(SMALL, LARGE), (LARGE, SMALL), (SMALL, LARGE, SMALL)])
def test_byte_limit_holds_for_any_order_of_message_sizes(log: Log, sizes: tuple[int, ...]) -> None:
    log.publish(sized(*sizes))
    batches = planned(log, maxBytesPerTrigger=str(SIZE_MAX))
    assert sum(part.end - part.start for (part,) in batches) == COUNT * len(sizes)
    # the error of sampling is less than the bytes between two samples
    assert all(size_of(log, batch) <= SIZE_MAX * 1.25 for batch in batches)
    # and no batch is much smaller than it may be
    assert len(batches) <= 2 + 2 * sum(sizes) * COUNT // SIZE_MAX


def test_message_above_the_byte_limit_is_a_batch_of_its_own(log: Log) -> None:
    log.publish(sized(LARGE)[:3])
    batches = planned(log, maxBytesPerTrigger="1000")
    assert [(part.start, part.end) for (part,) in batches] == [(0, 1), (1, 2), (2, 3)]


def test_read_limit_of_spark_overrides_the_options(log: Log) -> None:
    log.publish(sized(SMALL))
    given = {"url": log.url, "address": log.address, "maxBytesPerTrigger": "1000000"}
    reader = StreamReader(option_table.read(given))
    start = reader.initialOffset()
    assert count(reader.latestOffset(start, ReadMaxRows(7))) == 7
    assert 0 < count(reader.latestOffset(start, ReadMaxBytes(2000))) < 20
    assert count(reader.latestOffset(start, ReadAllAvailable())) == COUNT


def test_unnamed_partitions_are_read_from_first_to_last_message() -> None:
    state = State(None, {0: Partition(2, 9), 1: Partition(3, 8)})
    named = {"url": "amqp://h", "address": "a", "start": '{"0": 5}', "end": '{"0": 7}'}
    options = option_table.read(named)
    assert start_offsets(options, state) == {0: 5, 1: 3}
    assert end_offsets(options, state) == {0: 7, 1: 8}
