"""What a batch changes in live state, found by tasks of executors: rows are together by device.

A task reads the state of its devices, follows their readings in the order of event time,
partition, offset and index (`crates/detect`), and keeps what changes (`access`). The driver gets a
row for each table that a task has rows for, the incidents, and with SQLite the rows themselves.
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
from enmasse.pipeline.live.access import Access, Asked, Attempt

COLUMNS = (
    *("device", "metric", "value", "text", "unit", "event_time", "enqueued_time"),
    *("partition", "offset", "index"),
)
"""Columns of readings that a task gets."""
_PART = "part long, attempt long, name string, count long, data binary"
_TIMES = {"event_time_us": "event_time", "enqueued_time_us": "enqueued_time"}


@dataclass(frozen=True)
class Context:
    """One batch of one source; plain data."""

    pipeline: str
    source: str
    query_id: str
    batch_id: int
    usage: Sequence[Mapping[str, Any]]
    """Rows of `USAGE`, to be added."""

    known_to_us: int
    """All that the server took before this has been read."""

    written: Mapping[str, int]
    """Rows that went into tables and sinks, by their names."""

    messages: int
    readings: int
    quarantined: int
    late: int
    clamped: int

    @property
    def app_id(self) -> str:
        """The name under which tables know the query."""
        return f"{self.pipeline}/{self.source}/{self.query_id}"


@dataclass(frozen=True)
class LiveOutcome:
    """What became of a batch in live state."""

    is_new: bool
    """False: the batch was in live state already."""

    rows: int = 0
    """Rows of live tables that changed."""

    skipped: int = 0
    """Readings older than the last one of their device and metric of an earlier batch, which
    detectors skip."""


@dataclass(frozen=True)
class Work:
    """What a task has to know; it travels to executors."""

    source: str
    query_id: str
    batch_id: int
    rules: str
    """`native.follow_batch`."""

    metrics: tuple[str, ...]
    detectors: tuple[str, ...]
    access: Access


@dataclass(frozen=True)
class Part:
    """What one attempt at a task tells of one table, of incidents or of skipped readings."""

    part: int
    attempt: int
    name: str
    count: int
    data: bytes
    """Rows as a stream of Arrow; empty where they are in a staging table."""


def follow(readings: DataFrame, work: Work, tasks: int) -> list[Part]:
    """Follow the readings of a batch in so many tasks; return what each of them tells."""
    return [Part(**row.asDict()) for row in planned(readings, work, tasks).collect()]


def planned(readings: DataFrame, work: Work, tasks: int) -> DataFrame:
    """Return the frame whose rows are what tasks tell."""

    def live_state(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        found = list(batches)
        if found:
            context = TaskContext.get()
            number = context.partitionId() if context else 0
            told = parts(work, pyarrow.Table.from_batches(found), number)
            names = [field.strip().partition(" ")[0] for field in _PART.split(",")]
            yield pyarrow.record_batch(
                {name: [getattr(one, name) for one in told] for name in names}
            )

    by_device = readings.select(*COLUMNS).repartition(tasks, "device")
    return by_device.mapInArrow(live_state, _PART)


def parts(work: Work, readings: pyarrow.Table, number: int = 0) -> list[Part]:
    """Follow all readings of some devices. Raises Unavailable if live state is away."""
    if not len(readings):
        return []
    batch = one_batch(readings)
    attempt = Attempt(work.query_id, work.batch_id, number, secrets.randbits(62))
    devices = pc.unique(batch["device"]).to_pylist()
    asked = Asked(work.source, devices, work.metrics, work.detectors)
    with work.access.opened() as session:
        known = session.known(asked)
        found = native.follow_batch(
            work.rules,
            batch,
            one_batch(known.devices),
            one_batch(known.latest),
            one_batch(known.states),
        )
        told = [
            Part(number, attempt.attempt, table, len(rows), session.keep(table, rows, attempt))
            for table, rows in _changed(work.source, batch, found)
            if len(rows)
        ]
    changes = pyarrow.record_batch(found.changes)
    if len(changes):
        data = live_rows.packed(changes)
        told.append(Part(number, attempt.attempt, live_rows.CHANGES, len(changes), data))
    if found.skipped:
        told.append(Part(number, attempt.attempt, live_rows.SKIPPED, found.skipped, b""))
    return told


def one_batch(table: pyarrow.Table) -> pyarrow.RecordBatch:
    """Return all rows as one record batch."""
    batches = table.combine_chunks().to_batches()
    if not batches:
        return pyarrow.RecordBatch.from_pylist([], table.schema)
    return batches[0]


def newest(readings: pyarrow.Table) -> pyarrow.Table:
    """Return the newest reading of each device and metric."""
    empty = [one_batch(live_rows.TABLES[name].empty_table())
             for name in ("devices", "device_latest", "detector_states")]  # fmt: skip
    rules = '{"offlineAfterUs": 0, "detectors": []}'
    found = native.follow_batch(rules, one_batch(readings), *empty)
    return readings.take(pyarrow.record_batch(found.latest)["row"])


def latest_rows(source: str, readings: pyarrow.Table | pyarrow.RecordBatch) -> pyarrow.Table:
    """Return readings as rows of `device_latest`."""
    columns = {
        field.name: pyarrow.repeat(source, len(readings))
        if field.name == "source"
        else pc.cast(readings[_TIMES.get(field.name, field.name)], field.type)
        for field in live_rows.LATEST
    }
    return pyarrow.table(columns)


def _changed(
    source: str, readings: pyarrow.RecordBatch, found: native.Followed
) -> Iterator[tuple[str, pyarrow.Table]]:
    """Yield the rows of each table."""
    newest = readings.take(pyarrow.record_batch(found.latest)["row"])
    yield "device_latest", latest_rows(source, newest)
    for table, given in (
        ("devices", found.devices),
        ("sessions", found.sessions),
        ("detector_states", found.states),
    ):
        yield table, state_rows(table, source, pyarrow.record_batch(given))


def state_rows(table: str, source: str, given: pyarrow.RecordBatch) -> pyarrow.Table:
    """Return native rows with the columns of a table."""
    known = {"source": source, "is_online": True}
    columns = {
        field.name: given[field.name]
        if field.name in given.schema.names
        else pyarrow.repeat(known[field.name], len(given))
        for field in live_rows.TABLES[table]
    }
    return pyarrow.table(columns)
