"""Commits the results of tasks, and silences of devices, to live state in one transaction.

Only attempts that Spark reported count, and their number of rows is checked. With PostgreSQL the
rows are in staging tables; with SQLite the driver has them.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow
import sqlalchemy as sa

from enmasse import native
from enmasse.base.errors import Code, Unavailable
from enmasse.pipeline.detect import detectors
from enmasse.pipeline.live import alerts
from enmasse.pipeline.live import rows as live_rows
from enmasse.pipeline.live.access import STAGING_KEY, STAGING_PREFIX
from enmasse.pipeline.live.schema import (
    ALERTS,
    ANOMALIES,
    PROGRESS,
    STAGED,
    STATES,
    USAGE,
    WRITTEN,
    insert,
    upsert,
)
from enmasse.pipeline.live.updates import Context, LiveOutcome, Part, one_batch, state_rows
from enmasse.resources.pipeline import Detector

COUNTED = ("messages", "readings", "quarantined", "late", "clamped")
"""Counters that a batch adds to the progress of its query."""


def is_committed(connection: sa.Connection, batch: Context) -> bool:
    """Return whether a batch is in live state already."""
    found = connection.execute(sa.select(PROGRESS.c.batch_id).where(_of(batch)))
    return bool(found.scalar_one() >= batch.batch_id)


def publish(
    connection: sa.Connection,
    batch: Context,
    parts: Sequence[Part],
    by_name: Mapping[str, Detector],
) -> LiveOutcome:
    """Apply a batch that is not applied yet. Raises Unavailable if staged rows are missing."""
    changed = sum(part.count for part in parts if part.name in STAGED) + len(batch.usage)
    skipped = sum(part.count for part in parts if part.name == live_rows.SKIPPED)
    for name, table in STAGED.items():
        _apply_parts(connection, batch, table, [part for part in parts if part.name == name])
    changes = [part for part in parts if part.name == live_rows.CHANGES]
    record_incidents(
        connection, batch.source, by_name, (live_rows.unpacked(one.data) for one in changes)
    )
    upsert(connection, USAGE, batch.usage)
    written = [
        {"source": batch.source, "target": target, "rows": count}
        for target, count in [*batch.written.items(), ("live", changed)]
        if count
    ]
    upsert(connection, WRITTEN, written)
    added: dict[str, Any] = {name: PROGRESS.c[name] + getattr(batch, name) for name in COUNTED}
    added |= {"skipped": PROGRESS.c.skipped + skipped, "batch_id": batch.batch_id}
    known_us = PROGRESS.c.known_to_us
    newer = sa.case((known_us > batch.known_to_us, known_us), else_=batch.known_to_us)
    added["known_to_us"] = newer
    connection.execute(sa.update(PROGRESS).where(_of(batch)).values(added))
    return LiveOutcome(True, changed, skipped)


def _of(batch: Context) -> Any:
    return (PROGRESS.c.source == batch.source) & (PROGRESS.c.query_id == batch.query_id)


def _apply_parts(
    connection: sa.Connection, batch: Context, table: sa.Table, parts: Sequence[Part]
) -> None:
    if connection.dialect.name == "sqlite":
        for part in parts:
            upsert(connection, table, live_rows.unpacked(part.data))
        return
    names = [*STAGING_KEY, *table.c.keys()]
    staged = sa.table(STAGING_PREFIX + table.name, *(sa.column(name) for name in names))
    mine = staged.c.query == batch.query_id
    wanted = mine & (staged.c.batch == batch.batch_id)
    wanted &= staged.c.attempt.in_([part.attempt for part in parts])
    counted = connection.execute(sa.select(sa.func.count()).select_from(staged).where(wanted))
    if (count := counted.scalar_one()) != (expected := sum(part.count for part in parts)):
        raise Unavailable(
            Code.DATA_UNUSABLE,
            f"live state: {staged.name} has {count} rows of batch {batch.batch_id} of source"
            f" {batch.source}, and executors wrote {expected}; a restart of the database"
            " discards staged rows: the batch is repeated",
        )
    rows = sa.select(*(staged.c[name] for name in table.c.keys())).where(wanted)  # noqa: SIM118
    upsert(connection, table, rows)
    # and rows of failed attempts and killed drivers
    connection.execute(sa.delete(staged).where(mine & (staged.c.batch <= batch.batch_id)))


def record_silences(
    connection: sa.Connection, source: str, detector: Detector, now_us: int
) -> None:
    """Record devices without messages for too long before a time."""
    assert detector.heartbeat is not None
    due_us = now_us - detector.heartbeat.timeout * detectors.US_PER_MS
    silent = (STATES.c.detector == detector.name) & (STATES.c.source == source)
    silent &= (STATES.c.time_us < due_us) & ~STATES.c.is_open
    silent &= STATES.c.began_us < now_us - detector.cooldown * detectors.US_PER_MS
    found = connection.execute(sa.select(STATES).where(silent)).mappings().all()
    if not found:
        return
    known = pyarrow.Table.from_pylist([dict(row) for row in found], live_rows.STATES)
    rules = detectors.rules([detector], 0)
    states, changes = native.follow_silences(rules, one_batch(known), now_us)
    rows = state_rows(STATES.name, source, pyarrow.record_batch(states))
    upsert(connection, STATES, rows.to_pylist())
    record_incidents(connection, source, {detector.name: detector}, [pyarrow.table(changes)])


def record_incidents(
    connection: sa.Connection,
    source: str,
    by_name: Mapping[str, Detector],
    changes: Iterable[pyarrow.Table],
) -> None:
    """Record incidents that began or ended, and their alerts, ordered by time."""
    found = [row for table in changes for row in table.to_pylist()]
    # an incident within one batch begins before it ends, whatever its times are
    found.sort(
        key=lambda row: (row["began_us"], row["detector"], row["device"], not row["is_open"])
    )
    for row in found:
        detector = by_name[row["detector"]]
        metric = detector.metric if detector.heartbeat is None else None
        words = (detector.name, source, row["device"], metric, row["began_us"])
        name = detectors.incident_id(*words)
        if row["is_open"]:
            known = {"id": name, "detector": detector.name, "source": source, "metric": metric}
            known |= {field: row[field] for field in ("device", "began_us", "value", "reason")}
            _begin(connection, detector, known)
        else:
            of = ANOMALIES.c.id == name
            connection.execute(sa.update(ANOMALIES).where(of).values(ended_us=row["time_us"]))


def _begin(connection: sa.Connection, detector: Detector, incident: Mapping[str, Any]) -> None:
    # a known incident causes no further alert
    known = insert(connection, ANOMALIES).on_conflict_do_nothing()
    if not connection.execute(known, dict(incident)).rowcount:
        return
    for address, subject, body in alerts.messages(detector, incident):
        of = (ALERTS.c.source == incident["source"]) & (ALERTS.c.address == address)
        last = connection.execute(sa.select(sa.func.max(ALERTS.c.number)).where(of))
        alert = {
            "source": incident["source"],
            "address": address,
            "number": int(last.scalar_one() or 0) + 1,
            "incident": incident["id"],
            "device": incident["device"],
            "subject": subject,
            "body": body,
        }
        connection.execute(sa.insert(ALERTS), alert)
