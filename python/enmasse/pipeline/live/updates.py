"""Changes of live state by a batch, computed by executor tasks, each for its devices.

A task reads the state of its devices, follows their readings in the order of event time,
partition, offset and index (`crates/detect`), and stores the changes (`access`). The driver gets
row counts by table, incidents, and with SQLite the rows themselves.
"""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import DataFrame

from enmasse import native
from enmasse.pipeline.live import rows as live_rows
from enmasse.pipeline.live.access import Access, Attempt

COLUMNS = (
    *("device", "metric", "value", "text", "unit", "event_time", "enqueued_time"),
    *("partition", "offset", "index"),
)
"""Columns of readings for a task."""
_PART = "part long, attempt long, name string, count long, data binary"
_TIMES = {"event_time_us": "event_time", "enqueued_time_us": "enqueued_time"}


@dataclass(frozen=True)
class Context:
    """One batch of one source; plain data."""

    source: str
    query_id: str
    batch_id: int
    usage: Sequence[Mapping[str, Any]]
    """Rows to be added to those of `USAGE`."""

    known_to_us: int
    """All messages that arrived before this time have been read."""

    written: Mapping[str, int]
    """Rows written to tables and sinks, by name."""

    messages: int
    readings: int
    quarantined: int
    late: int
    clamped: int


@dataclass(frozen=True)
class LiveOutcome:
    """The result of applying a batch to live state."""

    is_new: bool
    """False: the batch had been applied already."""

    rows: int = 0
    """Changed rows of live tables."""

    skipped: int = 0
    """Readings that detectors skipped: older than the last one of their device and metric of an
    earlier batch."""


@dataclass(frozen=True)
class Work:
    """The parameters of a task, sent to executors."""

    source: str
    query_id: str
    batch_id: int
    rules: str
    """The argument of `native.follow_batch`."""

    metrics: tuple[str, ...]
    detectors: tuple[str, ...]
    access: Access


@dataclass(frozen=True)
class Part:
    """The result of one attempt of a task for one table, for incidents or for skipped readings."""

    part: int
    attempt: int
    name: str
    count: int
    data: bytes
    """Rows as an Arrow stream; empty if they are in a staging table."""


def follow(readings: DataFrame, work: Work, tasks: int) -> list[Part]:
    """Follow the readings of a batch in this many tasks; return their results."""
    return [Part(**row.asDict()) for row in plan(readings, work, tasks).collect()]


def plan(readings: DataFrame, work: Work, tasks: int) -> DataFrame:
    """Return a frame with the results of tasks as rows."""

    def live_state(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        found = list(batches)
        if found:
            context = TaskContext.get()
            number = context.partitionId() if context else 0
            results = parts(work, pyarrow.Table.from_batches(found), number)
            names = [field.strip().partition(" ")[0] for field in _PART.split(",")]
            yield pyarrow.record_batch(
                {name: [getattr(one, name) for one in results] for name in names}
            )

    by_device = readings.selectExpr(*COLUMNS).repartition(tasks, "device")
    return by_device.mapInArrow(live_state, _PART)


def parts(work: Work, readings: pyarrow.Table, number: int = 0) -> list[Part]:
    """Follow all readings of some devices. Raises Unavailable if live state is unavailable."""
    if not len(readings):
        return []
    batch = one_batch(readings)
    attempt = Attempt(work.query_id, work.batch_id, number, secrets.randbits(62))
    devices = {"device": pc.unique(batch["device"]).to_pylist()}
    with work.access.opened() as session:

        def known(table: str, **chosen: Sequence[str]) -> pyarrow.RecordBatch:
            # without detectors there is nothing to read
            if not all(chosen.values()):
                return one_batch(live_rows.TABLES[table].empty_table())
            return one_batch(session.read(table, work.source, devices | chosen))

        found = native.follow_batch(
            work.rules,
            batch,
            known("devices"),
            known("device_latest", metric=work.metrics),
            known("detector_states", detector=work.detectors),
        )
        results = [
            Part(number, attempt.attempt, table, len(rows), session.store(table, rows, attempt))
            for table, rows in _changed(work.source, batch, found)
            if len(rows)
        ]
    changes = pyarrow.record_batch(found.changes)
    if len(changes):
        data = live_rows.packed(changes)
        results.append(Part(number, attempt.attempt, live_rows.CHANGES, len(changes), data))
    if found.skipped:
        results.append(Part(number, attempt.attempt, live_rows.SKIPPED, found.skipped, b""))
    return results


def one_batch(table: pyarrow.Table) -> pyarrow.RecordBatch:
    """Return all rows as one record batch."""
    batches = table.combine_chunks().to_batches()
    if not batches:
        return pyarrow.RecordBatch.from_pylist([], table.schema)
    return batches[0]


def _changed(
    source: str, readings: pyarrow.RecordBatch, found: native.Followed
) -> Iterator[tuple[str, pyarrow.Table]]:
    """Yield changed rows by table."""
    newest = readings.take(pyarrow.record_batch(found.latest)["row"])
    for table, given in (
        ("device_latest", newest),
        ("devices", found.devices),
        ("sessions", found.sessions),
        ("detector_states", found.states),
    ):
        yield table, state_rows(table, source, pyarrow.record_batch(given))


def state_rows(
    table: str, source: str, given: pyarrow.RecordBatch | pyarrow.Table
) -> pyarrow.Table:
    """Return readings, or rows of the native core, with the columns of a table of live state."""
    constants = {"source": source, "is_online": True}
    columns = {}
    for field in live_rows.TABLES[table]:
        name = _TIMES.get(field.name, field.name)
        is_given = name in given.schema.names and name != "source"
        values = given[name] if is_given else pyarrow.repeat(constants[name], len(given))
        columns[field.name] = pc.cast(values, field.type)
    return pyarrow.table(columns)
