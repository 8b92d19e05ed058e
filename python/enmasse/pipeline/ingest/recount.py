"""Figures of live state out of silver and quarantine, for when those are made anew."""

from collections import Counter
from collections.abc import Iterator

import pyarrow
import pyarrow.compute as pc
from deltalake import DeltaTable

from enmasse.pipeline.ingest.store import Store
from enmasse.pipeline.live import database, following
from enmasse.pipeline.live.database import Day, Figures
from enmasse.pipeline.tables import delta
from enmasse.pipeline.tables.delta import Table
from enmasse.resources import Pipeline

PORTION_ROWS = 200_000
"""Readings that are in memory at a time."""
COLUMNS = (
    *("space", "address", "partition", "offset", "index", "device", "metric", "value", "text"),
    *("unit", "event_time", "enqueued_time", "clamped"),
)


def figures(store: Store, pipeline: Pipeline, source: str) -> Figures:
    """Count what the tables have of a source, in portions."""
    readings, latest = Counter[Day](), None
    late = clamped = 0
    for rows in _portions(store.silver, source, COLUMNS):
        readings += _by_day(rows)
        late += database.late(rows, pipeline.spec.windows)
        clamped += pc.sum(rows["clamped"]).as_py() or 0
        both = rows if latest is None else pyarrow.concat_tables([latest, rows])
        latest = following.newest(both)
    quarantined = Counter[Day]()
    for rows in _portions(store.quarantine, source, ("space", "address", "enqueued_time")):
        quarantined += _by_day(rows)
    none = pyarrow.schema([]).empty_table()
    return Figures(readings, quarantined, late, clamped, none if latest is None else latest)


def _portions(table: Table, source: str, columns: tuple[str, ...]) -> Iterator[pyarrow.Table]:
    if not DeltaTable.is_deltatable(table.path):
        return
    dataset = delta.dataset(DeltaTable(table.path), table.path)
    mine = pc.field("source") == source
    for batch in dataset.to_batches(columns=list(columns), filter=mine, batch_size=PORTION_ROWS):
        if len(batch):
            yield pyarrow.Table.from_batches([batch])


def _by_day(rows: pyarrow.Table) -> Counter[Day]:
    day = pc.cast(rows["enqueued_time"], pyarrow.date32())
    of = rows.select(["space", "address"]).append_column("date", day)
    counted = of.group_by(["space", "address", "date"]).aggregate([([], "count_all")])
    return Counter(
        {
            (one["space"] or "", one["address"] or "", str(one["date"] or "")): one["count_all"]
            for one in counted.to_pylist()
        }
    )
