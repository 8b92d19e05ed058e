"""Readings as silver has them, for tests of what comes after it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow
import pyarrow.compute

from enmasse.pipeline.detect.detectors import NEVER_US
from enmasse.pipeline.ingest import envelope, silver
from enmasse.pipeline.live import updates
from enmasse.pipeline.live.database import Live
from enmasse.pipeline.live.updates import Context
from enmasse.resources.pipeline import Source

BEGIN = datetime(2026, 1, 31, 12, tzinfo=UTC)
SCHEMA = pyarrow.schema([field for field in silver.SCHEMA if field.name != "reason"])


def at(seconds: float) -> datetime:
    """So many seconds after the beginning."""
    return BEGIN + timedelta(seconds=seconds)


def us(seconds: float) -> int:
    """The same in microseconds since 1970."""
    return round(at(seconds).timestamp() * 1e6)


def measured(*rows: Mapping[str, Any], first: int = 0) -> pyarrow.Table:
    """Readings; each says what differs from a reading of device `a` at the beginning.

    `seconds` is when it was measured, and, unless `came` says so, when it came.
    """
    known = {"source": "s", "space": "sp", "address": "x", "partition": 0, "index": 0}
    known |= {"device": "a", "metric": "m", "value": 1.0, "clamped": False, "date": BEGIN.date()}
    full = []
    for offset, row in enumerate(rows, first):
        given = dict(row)
        seconds = given.pop("seconds", 0.0)
        times = {"event_time": at(seconds), "enqueued_time": at(given.pop("came", seconds))}
        full.append(known | {"offset": offset} | times | given)
    return pyarrow.Table.from_pylist(full, SCHEMA)


@dataclass(frozen=True)
class Batch:
    """Readings of a batch, and what comes with them."""

    source: str
    query_id: str
    batch_id: int
    readings: pyarrow.Table
    usage: Sequence[Mapping[str, Any]] = ()
    known_to_us: int = NEVER_US
    written: Mapping[str, int] = field(default_factory=dict)

    def context(self, windows_ms: Sequence[int] = (60_000,)) -> Context:
        """What the driver says of it."""
        return Context(
            source=self.source,
            query_id=self.query_id,
            batch_id=self.batch_id,
            usage=self.usage,
            known_to_us=self.known_to_us,
            written=self.written,
            messages=sum(row["messages"] for row in self.usage),
            readings=len(self.readings),
            quarantined=sum(row["quarantined"] for row in self.usage),
            late=_late(self.readings, min(windows_ms)),
            clamped=sum(self.readings["clamped"].to_pylist()),
        )


def _late(readings: pyarrow.Table, shortest_ms: int) -> int:
    rows = readings.select(["event_time", "enqueued_time"]).to_pylist()
    shortest = timedelta(milliseconds=shortest_ms)
    delays = (row["enqueued_time"] - row["event_time"] for row in rows if row["enqueued_time"])
    return sum(delay > shortest for delay in delays)


def put_in(db: Live, batch: Batch, tasks: int = 2) -> bool:
    """Follow a batch as tasks of Spark would, devices dealt out among them; return whether it is
    new."""
    context = batch.context()
    work = db.work(context)
    devices = pyarrow.compute.unique(batch.readings["device"]).to_pylist()
    found: list[updates.Part] = []
    for task in range(tasks):
        mine = pyarrow.array(devices[task::tasks], pyarrow.string())
        rows = batch.readings.filter(pyarrow.compute.is_in(batch.readings["device"], mine))
        found += updates.parts(work, rows, task)
    return db.commit(context, found).is_new


ENVELOPE = pyarrow.schema(
    {
        **dict.fromkeys(envelope.TEXT_COLUMNS, pyarrow.string()),
        **{"partition": pyarrow.int32(), "offset": pyarrow.int64(), "enqueued_time": silver.TIME},
        **{"durable": pyarrow.bool_(), "priority": pyarrow.int32(), "ttl": pyarrow.int64()},
        **{"delivery_count": pyarrow.int64(), "body": pyarrow.binary()},
        "application_properties": pyarrow.map_(pyarrow.string(), pyarrow.string()),
        "annotations": pyarrow.map_(pyarrow.string(), pyarrow.string()),
        **{"_index": pyarrow.int32(), "_error": pyarrow.string(), "_batch_time": silver.TIME},
    }
)
TYPES = {
    "string": pyarrow.string(),
    "double": pyarrow.float64(),
    "boolean": pyarrow.bool_(),
    "timestamp": silver.TIME,
}


def decoded(of: Source, *records: Mapping[str, Any], first: int = 0) -> pyarrow.Table:
    """Records as the format `enmasse` gives them for a source: a message each, unless they say
    otherwise. `seconds` is when it came."""
    schema = ENVELOPE
    for name, kind in silver._fields(of):
        if name not in schema.names:
            schema = schema.append(pyarrow.field(name, TYPES[kind]))
    known = {"space": "sp", "address": of.address, "partition": 0, "_index": 0, "body": b"12345"}
    rows = []
    for offset, record in enumerate(records, first):
        given = dict(record)
        came = at(given.pop("seconds", 0.0))
        rows.append(known | {"offset": offset, "enqueued_time": came} | given)
    return pyarrow.Table.from_pylist(rows, schema)


def messages(of: Source, *records: Mapping[str, Any], first: int = 0) -> pyarrow.Table:
    """The same records as messages: of several of one offset the body is a list, and what has an
    `_error` is no JSON."""
    bodies: dict[int, list[dict[str, Any]]] = {}
    rows: dict[int, dict[str, Any]] = {}
    for offset, record in enumerate(records, first):
        given = dict(record)
        came = at(given.pop("seconds", 0.0))
        place = given.pop("offset", offset)
        fields = {name: given.pop(name) for name in ("device", "value", "time") if name in given}
        known = {"space": "sp", "address": of.address, "partition": 0, "offset": place}
        known |= {"enqueued_time": came, "body_kind": "data"}
        rows.setdefault(place, known | given)
        bodies.setdefault(place, []).append(fields)
    for place, row in rows.items():
        is_json = row.pop("_error", None) is None
        row["body"] = json.dumps(bodies[place]).encode() if is_json else b"no"
    return pyarrow.Table.from_pylist(list(rows.values()), envelope.STORED)
