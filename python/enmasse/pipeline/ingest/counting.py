"""What came in and what became of it: figures of a batch, added up by Spark."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from enmasse.pipeline.detect import detectors

US_A_MS = 1000
DAY = ("space", "address", "date")
"""Figures are by tenant, address and day of arrival."""


@dataclass(frozen=True)
class Came:
    """The messages of a batch, by day and partition: a row for each."""

    rows: list[Row]

    @property
    def messages(self) -> int:
        """How many there are."""
        return sum(int(row.messages) for row in self.rows)

    @property
    def known_to_us(self) -> int:
        """Up to when all that came is known, in microseconds since 1970.

        A partition that has less to read is read to its end, the others as far as the slowest.
        """
        newest: dict[int, int] = {}
        for row in self.rows:
            if row.newest_us is not None:
                newest[row.partition] = max(newest.get(row.partition, row.newest_us), row.newest_us)
        return min(newest.values(), default=detectors.NEVER_US)


@dataclass(frozen=True)
class Became:
    """The readings of a batch and what is none, by day: a row for each."""

    rows: list[Row]

    def sum(self, figure: str) -> int:
        """Return one of `readings`, `quarantined`, `late` and `clamped`."""
        return sum(int(row[figure] or 0) for row in self.rows)


def came(messages: DataFrame) -> Came:
    """Count the messages of a batch."""
    found = messages.groupBy(*DAY, "partition").agg(
        F.count("*").alias("messages"),
        F.sum(F.octet_length("body")).alias("bytes"),
        F.max(F.unix_micros("enqueued_time")).alias("newest_us"),
    )
    return Came(found.collect())


def became(judged: DataFrame, shortest_ms: int) -> Became:
    """Count the rows of `decoding.judged`; readings are late that came later than the shortest
    window after their time."""
    is_good = F.col("reason").isNull()
    delay_us = F.unix_micros("enqueued_time") - F.unix_micros("event_time")
    found = judged.groupBy("space", "address", F.to_date("enqueued_time").alias("date")).agg(
        _count(is_good).alias("readings"),
        _count(~is_good).alias("quarantined"),
        _count(is_good & (delay_us > shortest_ms * US_A_MS)).alias("late"),
        _count(is_good & F.col("clamped")).alias("clamped"),
    )
    return Became(found.collect())


def usage(came: Came, became: Became) -> list[dict[str, Any]]:
    """Return rows of the live table `usage`, to be added to what is there."""
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    figures = {"messages": 0, "bytes": 0, "readings": 0, "quarantined": 0}
    for rows, names in (
        (came.rows, ("messages", "bytes")),
        (became.rows, ("readings", "quarantined")),
    ):
        _add(found, rows, names, figures)
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
