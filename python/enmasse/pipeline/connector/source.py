"""The format `enmasse` for Spark. Readers are pickled, so they connect on first use."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from enmasse.base.errors import Invalid
from enmasse.native import declare_columns
from enmasse.pipeline.connector import options as option_table
from enmasse.pipeline.connector import queues, ranges, reading
from enmasse.pipeline.connector.options import Options, Position
from enmasse.pipeline.connector.ranges import Offsets, Slice, State

if TYPE_CHECKING:
    from enmasse.pipeline.connector import sink

log = logging.getLogger("enmasse.pipeline")

SAMPLES, SAMPLE_ROWS = 16, 32
"""Samples of message sizes per batch, and messages per sample."""
ROUNDS_MAX = 8
"""Attempts to find a batch below the size limit."""
MS = 1000


def task_rows(options: Options, task: InputPartition) -> Iterator[pyarrow.RecordBatch]:
    """Yield the rows of a task. For a batch without tasks Spark creates one without a slice."""
    return reading.batches(options, task.value) if task.value is not None else iter(())


class Source(DataSource):
    """`readStream`, `read`, `writeStream` and `write` with `.format("enmasse")`."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "enmasse"

    def schema(self) -> str:
        """Return the columns that the options declare."""
        return declare_columns(option_table.read(self.options).columns)

    def reader(self, schema: StructType) -> "BatchReader":
        """Return a reader of a range."""
        options = self._declared(schema)
        if options.spool is not None:
            raise Invalid(
                "E1003",
                "option spool: a queue is read by spark.readStream; with "
                "trigger(availableNow=True) it reads what waits and ends",
            )
        return BatchReader(options)

    def streamReader(self, schema: StructType) -> "StreamReader | queues.QueueReader":
        """Return a streaming reader."""
        options = self._declared(schema)
        return StreamReader(options) if options.spool is None else queues.QueueReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> "sink.BatchWriter":
        """Return a writer of rows; raises Invalid for mode overwrite."""
        # readers do not import the sink, which needs 20 MiB
        from enmasse.pipeline.connector import sink

        if overwrite:
            raise Invalid("E1003", "messages cannot be overwritten: use mode append")
        options = option_table.write(self.options)
        sink.check(options, schema)
        return sink.BatchWriter(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> "sink.StreamWriter":
        """Return a streaming writer."""
        from enmasse.pipeline.connector import sink

        options = option_table.write(self.options)
        sink.check(options, schema)
        return sink.StreamWriter(options)

    def _declared(self, schema: StructType) -> Options:
        """The options with the columns of a schema, which the user may have set."""
        options = option_table.read(self.options)
        columns = ", ".join(
            f"`{field.name.replace('`', '``')}` {field.dataType.simpleString()}" for field in schema
        )
        options.columns["columns"] = columns
        declare_columns(options.columns)
        return options


def start_offsets(options: Options, state: State) -> dict[int, int]:
    """Return the first offset of each partition to be read."""
    return _resolve(options, options.start, state, state.firsts)


def end_offsets(options: Options, state: State) -> dict[int, int]:
    """Return the offset of each partition where reading ends (exclusive)."""
    return _resolve(options, options.end, state, state.nexts)


def _resolve(
    options: Options, position: Position, state: State, others: Mapping[int, int]
) -> dict[int, int]:
    """The offset of a position in each partition; `others` are for partitions without one.

    Raises Invalid if it names a partition that does not exist.
    """
    if position == "earliest":
        return state.firsts
    if position == "latest":
        return state.nexts
    if isinstance(position, datetime):
        time_ms = round(position.timestamp() * MS)
        found = {number: reading.offset_at(options, number, time_ms) for number in state.partitions}
        return state.nexts | {number: at for number, at in found.items() if at is not None}
    if unknown := set(position) - set(state.partitions):
        known = ", ".join(map(str, state.partitions))
        raise Invalid("E1003", f"partition {min(unknown)} does not exist: there are {known}")
    return {**others, **position}


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming query. Its planner lives as long as the query; `read` runs on executors."""

    def __init__(self, options: Options) -> None:
        """Connect to nothing yet."""
        self._options = options
        self._last: State | None = None
        self._ends: State | None = None
        self._lost: str | None = None

    def initialOffset(self) -> Offsets:
        """Return the start of a query without a checkpoint."""
        state = self._state()
        return state.offsets(start_offsets(self._options, state))

    def prepareForTriggerAvailableNow(self) -> None:
        """Read up to the current end of the stream."""
        self._ends = self._state()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit of one batch."""
        return ReadMaxRows(self._options.max_rows_per_trigger)

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:
        """Return the end of the next batch: `start` if there are no messages."""
        state = self._ends or self._state()
        lost = ranges.check(start, state, fails_on_loss=self._options.fail_on_data_loss)
        if lost and lost != self._lost:
            # report a loss once
            log.warning("%s: %s", self._options.address, lost)
        self._lost = lost
        end = self._limited(start, state, limit)
        return end if ranges.slices(start, end, self._options.rows_per_task) else start

    def reportLatestOffset(self) -> Offsets | None:
        """Return the last known end of the stream, from which Spark computes the lag."""
        state = self._last
        return state.offsets(state.nexts) if state else None

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[InputPartition]:
        """Return the tasks of a batch: always the same for the same offsets."""
        parts = ranges.slices(start, end, self._options.rows_per_task)
        return [InputPartition(part) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Yield the rows of a task."""
        return task_rows(self._options, partition)

    def commit(self, end: Offsets) -> None:
        """Do nothing: the retention of a stream is independent of its readers."""

    def _state(self) -> State:
        self._last = reading.state(self._options)
        return self._last

    def _limited(self, start: Offsets, state: State, limit: ReadLimit) -> Offsets:
        """The end of a batch within the limits of rows and of bytes, estimated by samples."""
        rows = getattr(limit, "max_rows", self._options.max_rows_per_trigger)
        size_max = getattr(limit, "max_bytes", self._options.max_bytes_per_trigger)
        if isinstance(limit, ReadAllAvailable):
            rows = None
        end = ranges.limited(start, state, rows)
        for _ in range(ROUNDS_MAX if size_max is not None else 0):
            parts = ranges.spread(start, end, SAMPLES)
            count = sum(part.end - part.start for part in parts)
            size = sum(self._size(part) for part in parts)
            if size_max is None or size <= size_max:
                break
            fewer = ranges.limited(start, state, max(1, int(count * size_max / size)))
            if fewer == end:
                break
            end = fewer
        return end

    def _size(self, part: Slice) -> float:
        """The size of a slice in bytes, estimated from its first messages."""
        sample = replace(part, end=min(part.end, part.start + SAMPLE_ROWS))
        return reading.message_size(self._options, sample) * (part.end - part.start)


class FilterRecorder:
    """Records filters that narrow the range to read; Spark applies all of them again.

    Spark refuses a reader whose class overrides `pushFilters` unless
    `spark.sql.python.filterPushdown.enabled` is set. This reader works without filters, so it is an
    attribute of the instance whose `__func__` is the function of Spark's own class.
    """

    __func__ = staticmethod(DataSourceReader.pushFilters)

    def __init__(self) -> None:
        """Start without filters."""
        self.filters: list[Filter] = []

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        """Record the filters of a query."""
        self.filters = filters
        return filters


class BatchReader(DataSourceReader):
    """Reads from `start` to `end` once."""

    def __init__(self, options: Options) -> None:
        """Connect to nothing yet."""
        self._options = options
        self._recorder = FilterRecorder()
        self.pushFilters = self._recorder  # type: ignore[method-assign]

    def partitions(self) -> Sequence[InputPartition]:
        """Return the tasks."""
        options = self._options
        state = reading.state(options)
        begins, ends = start_offsets(options, state), end_offsets(options, state)
        for number in list(ends):
            begin, end = self._narrowed(number, begins[number], ends[number])
            begins[number], ends[number] = begin, max(begin, end)
        parts = ranges.slices(state.offsets(begins), state.offsets(ends), options.rows_per_task)
        return [InputPartition(part) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Yield the rows of a task."""
        return task_rows(self._options, partition)

    def _narrowed(self, number: int, begin: int, end: int) -> tuple[int, int]:
        """The range of a partition after the filters."""
        for each in self._recorder.filters:
            column: tuple[str, ...] = getattr(each, "attribute", ())
            value: Any = getattr(each, "value", None)
            if column == ("partition",) and isinstance(each, (EqualTo, In)):
                if number not in (value if isinstance(each, In) else (value,)):
                    return begin, begin
            elif column == ("offset",) and isinstance(value, int):
                begin, end = _within(each, value, begin, end)
            elif column == ("enqueued_time",) and isinstance(value, datetime) and value.tzinfo:
                if isinstance(each, (EqualTo, GreaterThan, GreaterThanOrEqual)):
                    at_ms = int(value.timestamp() * MS)
                    first = reading.offset_at(self._options, number, at_ms)
                    begin = max(begin, end if first is None else first)
        return begin, end


def _within(each: Filter, value: int, begin: int, end: int) -> tuple[int, int]:
    """The range of offsets of a filter."""
    lower = {EqualTo: value, GreaterThan: value + 1, GreaterThanOrEqual: value}
    upper = {EqualTo: value + 1, LessThan: value, LessThanOrEqual: value + 1}
    return max(begin, lower.get(type(each), begin)), min(end, upper.get(type(each), end))
