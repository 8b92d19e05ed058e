"""Counts of a batch, aggregated by Spark: messages, readings, quarantined rows."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from enmasse.pipeline.detect import detectors

US_PER_MS = 1000
DAY = ("space", "address", "date")
"""Usage is counted by tenant, address and day of arrival."""


@dataclass(frozen=True)
class MessageCounts:
    """The messages of a batch: a row for each day and partition."""

    rows: list[Row]

    @property
    def messages(self) -> int:
        """The number of messages."""
        return sum(int(row.messages) for row in self.rows)

    @property
    def known_to_us(self) -> int:
        """The time up to which all messages are read, in microseconds since 1970.

        A partition with fewer messages is read to its end, the others as far as the slowest.
        """
        newest: dict[int, int] = {}
        for row in self.rows:
            if row.newest_us is not None:
                newest[row.partition] = max(newest.get(row.partition, row.newest_us), row.newest_us)
        return min(newest.values(), default=detectors.NEVER_US)


@dataclass(frozen=True)
class ReadingCounts:
    """The readings and quarantined rows of a batch: a row for each day."""

    rows: list[Row]

    def sum(self, column: str) -> int:
        """Return the sum of `readings`, `quarantined`, `late` or `clamped`."""
        return sum(int(row[column] or 0) for row in self.rows)


def count_messages(messages: DataFrame) -> MessageCounts:
    """Count the messages of a batch."""
    found = messages.groupBy(*DAY, "partition").agg(
        F.count("*").alias("messages"),
        F.sum(F.octet_length("body")).alias("bytes"),
        F.max(F.unix_micros("enqueued_time")).alias("newest_us"),
    )
    return MessageCounts(found.collect())


def count_readings(parsed: DataFrame, shortest_ms: int) -> ReadingCounts:
    """Count the rows of `decoding.parsed`. A reading is late if it arrived later than the shortest
    window after its time.
    """
    is_good = F.col("reason").isNull()
    delay_us = F.unix_micros("enqueued_time") - F.unix_micros("event_time")
    found = parsed.groupBy("space", "address", F.to_date("enqueued_time").alias("date")).agg(
        _count(is_good).alias("readings"),
        _count(~is_good).alias("quarantined"),
        _count(is_good & (delay_us > shortest_ms * US_PER_MS)).alias("late"),
        _count(is_good & F.col("clamped")).alias("clamped"),
    )
    return ReadingCounts(found.collect())


def usage(messages: MessageCounts, readings: ReadingCounts) -> list[dict[str, Any]]:
    """Return rows to be added to those of the live table `usage`."""
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    zero = {"messages": 0, "bytes": 0, "readings": 0, "quarantined": 0}
    for rows, names in (
        (messages.rows, ("messages", "bytes")),
        (readings.rows, ("readings", "quarantined")),
    ):
        _add(found, rows, names, zero)
    return list(found.values())


def _add(
    found: dict[tuple[str, ...], dict[str, Any]],
    rows: Iterable[Row],
    names: Iterable[str],
    zero: dict[str, int],
) -> None:
    for row in rows:
        key = {name: str(row[name] or "") for name in DAY}
        entry = found.setdefault(tuple(key.values()), key | zero)
        for name in names:
            entry[name] += row[name] or 0


def _count(condition: Column) -> Column:
    return F.count(F.when(condition, 1))
