"""What tasks of executors do with the messages of a batch: record batches in, record batches out.

A message of a hundred bytes may hold a thousand readings: rows are made of a part at a time, so
that the memory of a task is bounded. Executors import this, so it imports little.
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


def decode_and_judge(
    columns: Mapping[str, Any], layout: silver.Layout
) -> Callable[[Batches], Batches]:
    """Return what makes readings of messages, and what of them is none."""

    def decode_and_judge(batches: Batches) -> Batches:
        for batch in batches:
            for records in decoded(pyarrow.Table.from_batches([batch]), columns):
                yield from silver.parse(records, layout).to_batches()

    return decode_and_judge


def decode(columns: Mapping[str, Any]) -> Callable[[Batches], Batches]:
    """Return what makes records of messages."""

    def decode(batches: Batches) -> Batches:
        for batch in batches:
            for records in decoded(pyarrow.Table.from_batches([batch]), columns):
                yield from records.to_batches()

    return decode


def judge(layout: silver.Layout) -> Callable[[Batches], Batches]:
    """Return what makes readings of records, and what of them is none."""

    def judge(batches: Batches) -> Batches:
        for batch in batches:
            records = pyarrow.Table.from_batches([batch])
            yield from silver.parse(records, layout).to_batches()

    return judge


def decoded(messages: pyarrow.Table, columns: Mapping[str, Any]) -> Iterator[pyarrow.Table]:
    """Yield messages as records, as the format `enmasse` gives those of a source, with their
    `silver.BATCH_TIME`."""
    for batch in envelope.kept(messages).combine_chunks().to_batches():
        for part, time in _by_time(batch):
            again = Replay(part, columns)
            while (rows := again.next_batch()) is not None:
                yield _with_time(pyarrow.Table.from_batches([pyarrow.record_batch(rows)]), time)


def _by_time(batch: pyarrow.RecordBatch) -> Iterator[tuple[pyarrow.RecordBatch, pyarrow.Scalar]]:
    """The messages of each `batch_time`. Times in bodies are relative to it, as else to that of
    arrival."""
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
