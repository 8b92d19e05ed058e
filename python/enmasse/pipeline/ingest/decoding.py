"""Messages as readings: decoded, stepped and judged part by part.

Small messages can become many rows. So what comes through Spark is messages as they are, whose size
a source bounds; rows are made of them here, for which the heap of the JVM need have no room.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import pyarrow
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from enmasse.native import Replay
from enmasse.pipeline import functions
from enmasse.pipeline.connector import options
from enmasse.pipeline.functions import Step
from enmasse.pipeline.ingest import bronze, silver
from enmasse.resources.pipeline import Source

Rows = TypeVar("Rows", pyarrow.Table, pyarrow.RecordBatch)
ENQUEUED = "enqueued_time"
STEP_ROWS = 100_000
"""Records that functions of the document get at a time, or a few more: each time costs a job."""


def declared(source: Source) -> dict[str, Any]:
    """Return what of the messages of a source is to be decoded.

    Raises Invalid for fields that cannot be read together.
    """
    chosen = {
        "url": source.url,
        "address": source.address,
        "decode": source.format,
        "columns": silver.columns(source),
        "timeUnit": source.time_unit,
    }
    if source.format == "csv":
        chosen["csvHeader"] = str(source.csv_header).lower()
        chosen["csvDelimiter"] = source.csv_delimiter
    return options.read(chosen).columns


def judged(
    messages: pyarrow.Table, source: Source, steps: Sequence[Step], spark: SparkSession | None
) -> tuple[pyarrow.Table, pyarrow.Table]:
    """Return the readings of messages (`bronze.KEPT`), and what of them is none.

    Steps need Spark; without it they are left out.
    """
    first, second = silver.parted(silver.SCHEMA.empty_table())
    readings, refused = [first], [second]
    records = decoded(messages, declared(source))
    for some in stepped(records, steps, spark) if steps and spark is not None else records:
        good, bad = silver.parted(silver.parse(some, source))
        readings.append(good)
        refused.append(bad)
    return pyarrow.concat_tables(readings), pyarrow.concat_tables(refused)


def decoded(messages: pyarrow.Table, columns: Mapping[str, Any]) -> Iterator[pyarrow.Table]:
    """Yield messages as records, as the format `enmasse` gives those of a source, with their
    `silver.BATCH_TIME`."""
    for batch in messages.combine_chunks().to_batches():
        for part, time in _by_time(batch):
            again = Replay(part, columns)
            while (rows := again.next_batch()) is not None:
                yield _with_time(pyarrow.Table.from_batches([pyarrow.record_batch(rows)]), time)


def _by_time(batch: pyarrow.RecordBatch) -> Iterator[tuple[pyarrow.RecordBatch, pyarrow.Scalar]]:
    """The messages of each `batch_time`. Times in bodies are relative to it, as else to that of
    arrival."""
    runs, start = pc.run_end_encode(batch[bronze.BATCH_TIME]), 0
    for end, time in zip(runs.run_ends.to_pylist(), runs.values, strict=True):
        part = batch.slice(start, end - start)
        if time.is_valid:
            part = _replaced(part, pyarrow.repeat(time, len(part)))
        yield part, time
        start = end


def _with_time(records: pyarrow.Table, time: pyarrow.Scalar) -> pyarrow.Table:
    if time.is_valid:
        records = _replaced(records, pyarrow.nulls(len(records), time.type))
    return records.append_column(silver.BATCH_TIME, pyarrow.repeat(time, len(records)))


def _replaced(rows: Rows, times: pyarrow.Array) -> Rows:
    return rows.set_column(rows.schema.get_field_index(ENQUEUED), ENQUEUED, times)


def stepped(
    records: Iterable[pyarrow.Table], steps: Sequence[Step], spark: SparkSession
) -> Iterator[pyarrow.Table]:
    """Yield what functions of the document make of records, many at a time."""
    for some in _gathered(records):
        yield functions.applied(spark.createDataFrame(some), steps)


def _gathered(records: Iterable[pyarrow.Table]) -> Iterator[pyarrow.Table]:
    waiting: list[pyarrow.Table] = []
    for one in records:
        waiting.append(one)
        if sum(map(len, waiting)) >= STEP_ROWS:
            yield pyarrow.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pyarrow.concat_tables(waiting)
