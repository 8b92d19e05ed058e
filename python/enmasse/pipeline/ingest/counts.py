"""Counts of a batch, aggregated by Spark: messages, readings, quarantined rows."""

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from enmasse.pipeline.detect import detectors

US_PER_MS = 1000
DAY = ("space", "address", "date")
"""Usage is counted by tenant, address and day of arrival."""
USED = ("messages", "bytes", "readings", "quarantined")


def of_batch(messages: DataFrame, parsed: DataFrame, shortest_ms: int) -> list[Row]:
    """Count messages and readings of a batch in one job; a row has null for what it lacks."""
    found = _of_messages(messages).unionByName(
        _of_readings(parsed, shortest_ms), allowMissingColumns=True
    )
    return found.collect()


def of_readings(parsed: DataFrame, shortest_ms: int) -> list[Row]:
    """Count the rows of `decoding.parsed`."""
    return _of_readings(parsed, shortest_ms).collect()


def _of_messages(messages: DataFrame) -> DataFrame:
    """A row for each day and partition."""
    return messages.groupBy(*DAY, "partition").agg(
        F.expr("count(*) AS messages"),
        F.expr("sum(octet_length(body)) AS bytes"),
        F.expr("max(unix_micros(enqueued_time)) AS newest_us"),
    )


def _of_readings(parsed: DataFrame, shortest_ms: int) -> DataFrame:
    """A row for each day. A reading is late if it arrived later than the shortest window after its
    time.
    """
    delay_us = "unix_micros(enqueued_time) - unix_micros(event_time)"
    is_late = f"{delay_us} > {shortest_ms * US_PER_MS}"
    conditions = {
        "readings": "reason IS NULL",
        "quarantined": "reason IS NOT NULL",
        "late": f"reason IS NULL AND {is_late}",
        "clamped": "reason IS NULL AND clamped",
    }
    counts = [F.expr(f"count_if({condition}) AS {name}") for name, condition in conditions.items()]
    return parsed.groupBy("space", "address", F.expr("to_date(enqueued_time) AS date")).agg(*counts)


def total(rows: Sequence[Row], column: str) -> int:
    """Return the sum of a count."""
    return sum(int(row[column] or 0) for row in rows)


def known_to_us(messages: Sequence[Row]) -> int:
    """Return the time up to which all messages are read, in microseconds since 1970.

    A partition with fewer messages is read to its end, the others as far as the slowest.
    """
    newest: dict[int, int] = {}
    for row in messages:
        if row.newest_us is not None:
            newest[row.partition] = max(newest.get(row.partition, row.newest_us), row.newest_us)
    return min(newest.values(), default=detectors.NEVER_US)


def usage(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the rows to be added to those of the live table `usage`."""
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for row in rows:
        key = tuple(str(row[name] or "") for name in DAY)
        known = dict(zip(DAY, key, strict=True)) | dict.fromkeys(USED, 0)
        entry = found.setdefault(key, known)
        for name in USED:
            entry[name] += (row[name] or 0) if name in row else 0
    return list(found.values())
