"""Readings as silver has them, for tests of what comes after it."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow

from enmasse.pipeline import silver

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
