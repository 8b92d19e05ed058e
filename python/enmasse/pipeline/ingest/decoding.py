"""Messages to readings: decoded, changed by the steps of the document, and parsed.

Tasks of Spark map record batches to record batches. A message of a hundred bytes may contain a
thousand readings, so rows are produced in parts and the memory of a task stays bounded.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from enmasse.native import Replay, declare_columns
from enmasse.pipeline.connector import options
from enmasse.pipeline.ingest import envelope, silver
from enmasse.pipeline.ingest.envelope import MESSAGE

if TYPE_CHECKING:
    from enmasse.pipeline.functions import Step
    from enmasse.resources.pipeline import Source

Batches = Iterator[pyarrow.RecordBatch]
Task = Callable[[Batches], Batches]
ENQUEUED = "enqueued_time"


BODY = ("body", "body_kind", "content_type", "content_encoding")
"""Columns of the envelope that are needed to decode a body."""


def columns_of(source: "Source", chosen: Sequence[str] = MESSAGE.names) -> dict[str, Any]:
    """Return the columns to be decoded from the messages of a source, and those of the envelope.

    Raises Invalid for fields that cannot be read together.
    """
    given = {
        "url": source.url,
        "address": source.address,
        "decode": source.format,
        "columns": silver.columns(silver.Layout.of(source), chosen),
        "timeUnit": source.time_unit,
    }
    if source.format == "csv":
        given["csvHeader"] = str(source.csv_header).lower()
        given["csvDelimiter"] = source.csv_delimiter
    return options.read(given).columns


def parsed(messages: DataFrame, source: "Source", steps: "Sequence[Step]") -> DataFrame:
    """Return the readings and quarantined rows of messages, as `silver.SCHEMA`.

    Nothing is computed yet. Raises Invalid for steps that return no frame of records.
    """
    # the tasks of executors, which import this module, need no functions
    from enmasse.pipeline import functions

    layout = silver.Layout.of(source)
    schema = from_arrow_schema(silver.SCHEMA)
    if not steps:
        used = silver.used(layout)
        names = dict.fromkeys([*used, *BODY, envelope.BATCH_TIME])
        # bronze of earlier versions lacks columns, which `conform` adds
        known = messages.columns
        needed = messages.selectExpr(*(name for name in names if name in known))
        return needed.mapInArrow(_decode_and_parse(columns_of(source, used), layout), schema)
    columns = columns_of(source)
    declared = f"{declare_columns(columns)}, {silver.BATCH_TIME} timestamp"
    records = messages.mapInArrow(_decode(columns), declared)
    return functions.apply(records, steps).mapInArrow(_parse(layout), schema)


def _decode_and_parse(columns: Mapping[str, Any], layout: silver.Layout) -> Task:
    def decode_and_parse(batches: Batches) -> Batches:
        return _parse(layout)(_decode(columns)(batches))

    return decode_and_parse


def _parse(layout: silver.Layout) -> Task:
    """A task from records to readings and quarantined rows."""

    def parse(batches: Batches) -> Batches:
        for batch in batches:
            records = pyarrow.Table.from_batches([batch])
            yield from silver.parse(records, layout).to_batches()

    return parse


def _decode(columns: Mapping[str, Any]) -> Task:
    """A task from messages to records, as the format `enmasse` gives them for a source, with
    `silver.BATCH_TIME`.
    """

    def decode(batches: Batches) -> Batches:
        for batch in batches:
            messages = envelope.conform(pyarrow.Table.from_batches([batch]))
            for whole in messages.combine_chunks().to_batches():
                for part, time in _by_time(whole):
                    replay = Replay(part, columns)
                    while (rows := replay.next_batch()) is not None:
                        yield _with_time(pyarrow.record_batch(rows), time)

    return decode


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


def _with_time(records: pyarrow.RecordBatch, time: pyarrow.Scalar) -> pyarrow.RecordBatch:
    if time.is_valid:
        records = _replaced(records, pyarrow.nulls(len(records), time.type))
    return records.append_column(silver.BATCH_TIME, pyarrow.repeat(time, len(records)))


def _replaced(rows: pyarrow.RecordBatch, times: pyarrow.Array) -> pyarrow.RecordBatch:
    return rows.set_column(rows.schema.get_field_index(ENQUEUED), ENQUEUED, times)
