"""The table of gold: partials of a batch are merged into it once.

Delta: one transaction replaces the windows that a batch touches and remembers the batch. Parquet:
a file holds an hour of windows of one source and remembers, in its footer, the batches that are in
it; each is replaced at once by a whole new one, so a batch that was cut off is finished when it is
repeated.
"""

import json
from collections.abc import Mapping
from typing import Literal, Protocol

import numpy
import pyarrow
import pyarrow.compute as pc
import pyarrow.dataset
import pyarrow.fs
import pyarrow.parquet
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from enmasse.pipeline import gold
from enmasse.pipeline.grouping import array, groups

PARTITION_BY = ("window_ms", "date")
BATCHES = b"enmasse.batches"
"""Where the footer of a file has the last batch of each query."""
STARTS_MAX = 64
"""Beginnings of windows that a filter names one by one."""
HOUR_US, HOURS_A_DAY = 3_600_000_000, 24


class GoldTable(Protocol):
    """Windows, each of which stands once."""

    def merge(self, parts: pyarrow.Table, app_id: str, batch_id: int) -> bool:
        """Merge partials into the windows, unless this batch of this query is in them; return
        whether anything changed."""

    def replace(self, windows: pyarrow.Table, batches: Mapping[str, int]) -> None:
        """Let these be all windows, with these batches in them."""

    def read(self) -> pyarrow.Table:
        """Return all windows."""

    def tidy(self, keep_ms: int) -> None:
        """Make large files of small ones, and delete what no version of that time has."""


def table(path: str, format: Literal["delta", "parquet"]) -> GoldTable:
    """Return the table at a folder or URI."""
    return _Delta(path) if format == "delta" else _Parquet(path)


class _Delta:
    """One file or more for a day of windows of one length."""

    def __init__(self, path: str) -> None:
        self._path = path

    def _open(self) -> DeltaTable:
        if not DeltaTable.is_deltatable(self._path):
            by = list(PARTITION_BY)
            return DeltaTable.create(self._path, gold.SCHEMA, mode="ignore", partition_by=by)
        return DeltaTable(self._path)

    def merge(self, parts: pyarrow.Table, app_id: str, batch_id: int) -> bool:
        opened = self._open()
        known = opened.transaction_version(app_id)
        if not len(parts) or (known is not None and known >= batch_id):
            return False
        before = opened.to_pyarrow_dataset().to_table(filter=_near(parts))
        windows = _touched(before.select(gold.SCHEMA.names).cast(gold.SCHEMA), parts)
        same = " AND ".join(f"t.{name} = s.{name}" for name in (*PARTITION_BY, *gold.KEY[1:]))
        days = ", ".join(f"'{day}'" for day in pc.unique(parts["date"]).to_pylist())
        merger = opened.merge(
            windows,
            f"t.date IN ({days}) AND {same}",
            source_alias="s",
            target_alias="t",
            commit_properties=_remembering({app_id: batch_id}),
        )
        merger.when_matched_update_all().when_not_matched_insert_all().execute()
        return True

    def replace(self, windows: pyarrow.Table, batches: Mapping[str, int]) -> None:
        opened = self._open()
        write_deltalake(opened, windows, mode="overwrite", commit_properties=_remembering(batches))

    def read(self) -> pyarrow.Table:
        rows = self._open().to_pyarrow_table()
        return rows.select(gold.SCHEMA.names).cast(gold.SCHEMA)

    def tidy(self, keep_ms: int) -> None:
        opened = self._open()
        days = sorted({str(part["date"]) for part in opened.partitions()})
        # the newest day is written to all the time: its files stay small and cheap to replace
        for day in days[:-1]:
            opened.optimize.compact(partition_filters=[("date", "=", day)])
        opened.vacuum(
            retention_hours=-(-keep_ms // (HOUR_US // 1000)),
            dry_run=False,
            enforce_retention_duration=False,
        )


def _remembering(batches: Mapping[str, int]) -> CommitProperties:
    found = [Transaction(app_id, batch_id) for app_id, batch_id in batches.items()]
    return CommitProperties(app_transactions=found)


def _near(parts: pyarrow.Table) -> pc.Expression:
    """What old rows partials can belong to: of the same length, and of the same beginnings."""
    chosen = pc.scalar(False)
    for window_ms in pc.unique(parts["window_ms"]).to_pylist():
        mine = parts.filter(pc.equal(parts["window_ms"], window_ms))
        dates, starts = pc.unique(mine["date"]), pc.unique(mine["start"])
        start = pc.field("start")
        # of many beginnings the range says enough
        when = (
            start.isin(starts)
            if len(starts) <= STARTS_MAX
            else (start >= pc.min(starts)) & (start <= pc.max(starts))
        )
        chosen |= (pc.field("window_ms") == window_ms) & pc.field("date").isin(dates) & when
    return chosen


def _touched(before: pyarrow.Table, parts: pyarrow.Table) -> pyarrow.Table:
    """The windows that partials belong to, merged with them."""
    both = pyarrow.concat_tables([before, parts]).combine_chunks()
    group, _ = groups(both, gold.KEY)
    is_meant = pyarrow.array(numpy.isin(group, group[len(before) :]))
    return gold.merged([both.filter(is_meant)])


class _Parquet:
    """A file for an hour of windows of one length and source."""

    def __init__(self, path: str) -> None:
        if "://" in path:
            self._files, self._root = pyarrow.fs.FileSystem.from_uri(path)
        else:
            self._files, self._root = pyarrow.fs.LocalFileSystem(), path

    def merge(self, parts: pyarrow.Table, app_id: str, batch_id: int) -> bool:
        changed = False
        for place, rows in _by_file(parts):
            before, batches = self._content(place)
            if batches.get(app_id, -1) < batch_id:
                self._write(place, gold.merged([before, rows]), batches | {app_id: batch_id})
                changed = True
        return changed

    def replace(self, windows: pyarrow.Table, batches: Mapping[str, int]) -> None:
        new = dict(_by_file(windows))
        for place, rows in new.items():
            self._write(place, rows, batches)
        for place in self._places():
            if place not in new:
                # an hour that has no readings any more still knows what it had
                self._write(place, gold.SCHEMA.empty_table(), batches)

    def read(self) -> pyarrow.Table:
        parts = [self._content(place)[0] for place in self._places()]
        return pyarrow.concat_tables([gold.SCHEMA.empty_table(), *parts])

    def tidy(self, keep_ms: int) -> None:
        """There is one file for each hour anyway."""

    def _places(self) -> list[str]:
        chosen = pyarrow.fs.FileSelector(self._root, recursive=True, allow_not_found=True)
        found = [info.path for info in self._files.get_file_info(chosen)]
        return [path[len(self._root) + 1 :] for path in found if path.endswith(".parquet")]

    def _content(self, place: str) -> tuple[pyarrow.Table, dict[str, int]]:
        path = f"{self._root}/{place}"
        if self._files.get_file_info(path).type == pyarrow.fs.FileType.NotFound:
            return gold.SCHEMA.empty_table(), {}
        with self._files.open_input_file(path) as file:
            rows = pyarrow.parquet.ParquetFile(file).read()
        batches: dict[str, int] = json.loads(rows.schema.metadata[BATCHES])
        return rows.replace_schema_metadata().cast(gold.SCHEMA), batches

    def _write(self, place: str, rows: pyarrow.Table, batches: Mapping[str, int]) -> None:
        path = f"{self._root}/{place}"
        self._files.create_dir(path.rpartition("/")[0], recursive=True)
        noted = rows.replace_schema_metadata({BATCHES: json.dumps(dict(batches))})
        with self._files.open_output_stream(f"{path}.new") as file:
            pyarrow.parquet.write_table(noted, file, compression="zstd")
        self._files.move(f"{path}.new", path)


def _by_file(rows: pyarrow.Table) -> list[tuple[str, pyarrow.Table]]:
    """Windows by the file that holds them."""
    start = array(rows["start"].cast(pyarrow.int64()))
    hour = pyarrow.array(start // HOUR_US % HOURS_A_DAY)
    of = rows.select(["window_ms", "date", "source"]).append_column("hour", hour)
    if not len(rows):
        return []
    group, first = groups(of, of.column_names)
    places = [
        f"window_ms={one['window_ms']}/date={one['date']}/{one['source']}-{one['hour']:02}.parquet"
        for one in of.take(first).to_pylist()
    ]
    return [
        (place, rows.filter(pyarrow.array(group == number))) for number, place in enumerate(places)
    ]
