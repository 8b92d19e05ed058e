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

from enmasse.pipeline import gold
from enmasse.pipeline.batches import Store
from enmasse.pipeline.tables import Table

PORTION_ROWS = 200_000
"""Readings that are in memory at a time."""
COLUMNS = (
    *("source", "device", "metric", "unit", "value", "event_time"),
    *("partition", "offset", "index"),
)


@dataclass(frozen=True)
class Compared:
    """What became of comparing gold with silver."""

    windows: int
    differences: list[dict[str, Any]]
    """The key of each window that is not what its readings say, and what differs."""


def compare(store: Store, windows_ms: Sequence[int]) -> Compared:
    """Compare gold with the windows that all readings of silver give."""
    held = store.gold.read()
    count, found = 0, []
    days = set(pc.unique(held["date"]).to_pylist())
    for day, wanted in days_of(store, windows_ms):
        days.discard(day)
        count += len(wanted)
        found += gold.differences(_of_day(held, day), wanted)
    for day in sorted(days):
        found += gold.differences(_of_day(held, day), gold.SCHEMA.empty_table())
    return Compared(count, found)


def rebuild(store: Store, windows_ms: Sequence[int], app_ids: Sequence[str]) -> int:
    """Make gold anew out of silver, with the batches of these queries in it; return its windows.

    Nobody else may write meanwhile.
    """
    parts = [windows for _, windows in days_of(store, windows_ms)]
    whole = pyarrow.concat_tables([gold.SCHEMA.empty_table(), *parts])
    store.gold.replace(whole, last_batches(store.silver, app_ids))
    return len(whole)


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
    dataset = DeltaTable(store.silver.path).to_pyarrow_dataset()
    found = {part["date"] for part in DeltaTable(store.silver.path).partitions()}
    for day in sorted(date.fromisoformat(str(one)) for one in found):
        windows = gold.SCHEMA.empty_table()
        chosen = pc.field("date") == pyarrow.scalar(day)
        for batch in dataset.to_batches(
            columns=list(COLUMNS), filter=chosen, batch_size=PORTION_ROWS
        ):
            portion = pyarrow.Table.from_batches([batch])
            windows = gold.merged([windows, gold.partials(portion, windows_ms)])
        yield day, windows


def _of_day(windows: pyarrow.Table, day: date) -> pyarrow.Table:
    return windows.filter(pc.equal(windows["date"], pyarrow.scalar(day)))
