"""Gold out of silver, all at once: what it has to be, and gold made anew.

A window lies within a day, so days are taken one by one, and a day in portions.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import pyarrow
import pyarrow.compute as pc
import pyarrow.dataset
from deltalake import DeltaTable

from enmasse.pipeline.gold import merging
from enmasse.pipeline.ingest.store import Store
from enmasse.pipeline.tables import delta
from enmasse.pipeline.tables.delta import Table

PORTION_ROWS = 200_000
"""Readings that are in memory at a time."""
SHOWN_MAX = 1000
"""Windows that differ, of which it is said how."""
COLUMNS = (
    *("source", "device", "metric", "unit", "value", "event_time"),
    *("partition", "offset", "index"),
)


@dataclass(frozen=True)
class Compared:
    """What became of comparing gold with silver."""

    windows: int
    differing: int
    """How many windows are not what their readings say."""

    differences: list[dict[str, Any]]
    """The keys of the first `SHOWN_MAX` of those, and what differs."""


def compare(store: Store, windows_ms: Sequence[int]) -> Compared:
    """Compare gold with the windows that all readings of silver give."""
    count, differing, shown = 0, 0, list[dict[str, Any]]()
    for day, wanted in _both(store, windows_ms):
        count += len(wanted)
        found = merging.differences(store.gold.read(day), wanted)
        differing += len(found)
        shown += found[: SHOWN_MAX - len(shown)]
    return Compared(count, differing, shown)


def _both(store: Store, windows_ms: Sequence[int]) -> Iterator[tuple[date, pyarrow.Table]]:
    """Yield the windows of each day of which there are readings or gold."""
    days = set(store.gold.days())
    for day, wanted in days_of(store, windows_ms):
        days.discard(day)
        yield day, wanted
    for day in sorted(days):
        yield day, merging.SCHEMA.empty_table()


def rebuild(store: Store, windows_ms: Sequence[int], app_ids: Sequence[str]) -> int:
    """Make gold anew out of silver, with the batches of these queries in it; return its windows.

    Nobody else may write meanwhile.
    """
    count = 0

    def parts() -> Iterator[pyarrow.Table]:
        nonlocal count
        for _, windows in days_of(store, windows_ms):
            count += len(windows)
            yield windows

    store.gold.replace(parts(), last_batches(store.silver, app_ids))
    return count


def last_batches(table: Table, app_ids: Sequence[str]) -> Mapping[str, int]:
    """Return the last batch of queries that a Delta table has."""
    if not DeltaTable.is_deltatable(table.path):
        return {}
    opened = DeltaTable(table.path)
    found = {app_id: opened.transaction_version(app_id) for app_id in app_ids}
    return {app_id: version for app_id, version in found.items() if version is not None}


def days_of(store: Store, windows_ms: Sequence[int]) -> Iterator[tuple[date, pyarrow.Table]]:
    """Yield the windows of each day of which there are readings."""
    if not DeltaTable.is_deltatable(store.silver.path):
        return
    opened = DeltaTable(store.silver.path)
    dataset = delta.dataset(opened, store.silver.path)
    found = {part["date"] for part in opened.partitions()}
    for day in sorted(date.fromisoformat(str(one)) for one in found):
        windows = merging.SCHEMA.empty_table()
        chosen = pc.field("date") == pyarrow.scalar(day)
        for batch in dataset.to_batches(
            columns=list(COLUMNS), filter=chosen, batch_size=PORTION_ROWS
        ):
            portion = pyarrow.Table.from_batches([batch])
            windows = merging.merged([windows, merging.partials(portion, windows_ms)])
        yield day, windows
