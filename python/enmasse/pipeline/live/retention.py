"""Retention of live state: rows that are older than `live.keep`."""

from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from enmasse.pipeline.live.schema import (
    ALERTS,
    ANOMALIES,
    DEVICES,
    LATEST,
    PROGRESS,
    SESSIONS,
    STAGED,
    STATES,
    USAGE,
)

US_PER_MS, US_PER_S = 1000, 1_000_000


def prune(connection: sa.Connection, keep_ms: int) -> None:
    """Delete rows older than `keep_ms` before the time up to which their source has been read.

    Usage has no source, so the newest of those times counts. Devices are deleted with their
    detector states, and their open incidents end.
    """
    keep_us = keep_ms * US_PER_MS
    _devices(connection, keep_us)
    for table, time in (
        (SESSIONS, SESSIONS.c.last_us),
        (LATEST, LATEST.c.enqueued_time_us),
    ):
        connection.execute(sa.delete(table).where(time < _known_us(table) - keep_us))
    _incidents(connection, keep_us)
    newest = sa.select(sa.func.max(PROGRESS.c.known_to_us))
    oldest_us = (connection.execute(newest).scalar_one() or 0) - keep_us
    if oldest_us > 0:
        day = datetime.fromtimestamp(oldest_us / US_PER_S, UTC).date().isoformat()
        # messages without a time have no day
        gone = (USAGE.c.date < day) & (USAGE.c.date != "")
        connection.execute(sa.delete(USAGE).where(gone))


def _known_us(table: sa.Table) -> Any:
    """The time up to which the source of a row has been read."""
    known_us = sa.select(sa.func.max(PROGRESS.c.known_to_us))
    return known_us.where(PROGRESS.c.source == table.c.source).scalar_subquery()


def _devices(connection: sa.Connection, keep_us: int) -> None:
    gone = DEVICES.c.last_seen_us < _known_us(DEVICES) - keep_us

    def is_gone(table: sa.Table) -> Any:
        mine = (DEVICES.c.source == table.c.source) & (DEVICES.c.device == table.c.device)
        return sa.exists().where(mine & gone)

    lasting = ANOMALIES.c.ended_us.is_(None) & is_gone(ANOMALIES)
    known_us = _known_us(ANOMALIES)
    connection.execute(sa.update(ANOMALIES).where(lasting).values(ended_us=known_us))
    connection.execute(sa.delete(STATES).where(is_gone(STATES)))
    connection.execute(sa.delete(DEVICES).where(gone))


def _incidents(connection: sa.Connection, keep_us: int) -> None:
    """Delete ended incidents and their alerts, unless one of them is pending.

    The last alert of an address stays, because the next number follows it.
    """
    mine = ALERTS.alias()
    pending = sa.exists().where((mine.c.incident == ANOMALIES.c.id) & mine.c.outcome.is_(None))
    over = ANOMALIES.c.ended_us < _known_us(ANOMALIES) - keep_us
    connection.execute(sa.delete(ANOMALIES).where(over & ~pending))
    later = mine.c.number > ALERTS.c.number
    later &= (mine.c.source == ALERTS.c.source) & (mine.c.address == ALERTS.c.address)
    known = sa.exists().where(ANOMALIES.c.id == ALERTS.c.incident)
    settled = ALERTS.c.outcome.is_not(None) & ~known & sa.exists().where(later)
    connection.execute(sa.delete(ALERTS).where(settled))


def vacuum_staging(engine: sa.Engine) -> None:
    """Reclaim the space of published rows in the staging tables of PostgreSQL."""
    with engine.connect() as connection:
        free = connection.execution_options(isolation_level="AUTOCOMMIT")
        for name in STAGED:
            free.execute(sa.text(f"VACUUM staged_{name}"))
