"""Code of Spark tasks that decode and parse the messages of a batch: record batches to record
batches.

A message of a hundred bytes may contain a thousand readings, so rows are produced in parts and the
memory of a task stays bounded. Executors import this module, so it imports little.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import pyarrow
import pyarrow.compute as pc

from enmasse.native import Replay
from enmasse.pipeline.ingest import envelope, silver

Rows = TypeVar("Rows", pyarrow.Table, pyarrow.RecordBatch)
Batches = Iterator[pyarrow.RecordBatch]
ENQUEUED = "enqueued_time"


def decode_and_parse(
    columns: Mapping[str, Any], layout: silver.Layout
) -> Callable[[Batches], Batches]:
    """Return a function from messages to readings and quarantined rows."""

    def decode_and_parse(batches: Batches) -> Batches:
        return parse(layout)(decode(columns)(batches))

    return decode_and_parse


def decode(columns: Mapping[str, Any]) -> Callable[[Batches], Batches]:
    """Return a function from messages to records."""

    def decode(batches: Batches) -> Batches:
        for batch in batches:
            for records in decoded(pyarrow.Table.from_batches([batch]), columns):
                yield from records.to_batches()

    return decode


def parse(layout: silver.Layout) -> Callable[[Batches], Batches]:
    """Return a function from records to readings and quarantined rows."""

    def parse(batches: Batches) -> Batches:
        for batch in batches:
            records = pyarrow.Table.from_batches([batch])
            yield from silver.parse(records, layout).to_batches()

    return parse


def decoded(messages: pyarrow.Table, columns: Mapping[str, Any]) -> Iterator[pyarrow.Table]:
    """Yield messages as records, as the format `enmasse` does for a source, with
    `silver.BATCH_TIME`.
    """
    for batch in envelope.conform(messages).combine_chunks().to_batches():
        for part, time in _by_time(batch):
            replay = Replay(part, columns)
            while (rows := replay.next_batch()) is not None:
                yield _with_time(pyarrow.Table.from_batches([pyarrow.record_batch(rows)]), time)


def _by_time(batch: pyarrow.RecordBatch) -> Iterator[tuple[pyarrow.RecordBatch, pyarrow.Scalar]]:
    """The messages of each `batch_time`. It replaces the missing time of arrival, which relative
    times in bodies refer to.
    """
    runs, start = pc.run_end_encode(batch[envelope.BATCH_TIME]), 0
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
