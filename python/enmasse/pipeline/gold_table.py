"""The table of gold: partials of a batch are merged into it once.

Delta: one transaction replaces the windows that a batch touches and remembers the batch. Parquet:
a file holds an hour of windows of one source and remembers, in its footer, the batches that are in
it; each is replaced at once by a whole new one, so a batch that was cut off is finished when it is
repeated.
"""

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from typing import Literal, Protocol

import numpy
import pyarrow
import pyarrow.compute as pc
import pyarrow.dataset
import pyarrow.fs
import pyarrow.parquet
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.transaction import AddAction, RemoveAction

from enmasse.pipeline import gold, tables, uris
from enmasse.pipeline.grouping import array, groups

PARTITION_BY = ("window_ms", "date")
BATCHES = b"enmasse.batches"
"""Where the footer of a file has the last batch of each query."""
STARTS_MAX = 64
"""Beginnings of windows that a filter names one by one."""
FILE_SIZE = 16 << 20
"""The most of a file of Delta, about: so much is written again for a window that changes."""
HOUR_US, HOURS_A_DAY = 3_600_000_000, 24


class GoldTable(Protocol):
    """Windows, each of which stands once."""

    def merge(self, parts: pyarrow.Table, app_id: str, batch_id: int) -> bool:
        """Merge partials into the windows, unless this batch of this query is in them; return
        whether anything changed."""

    def replace(self, windows: Iterable[pyarrow.Table], batches: Mapping[str, int]) -> None:
        """Let these be all windows, with these batches in them. No two parts have one day."""

    def days(self) -> list[date]:
        """Return the days of which there may be windows, the oldest first."""

    def read(self, day: date | None = None) -> pyarrow.Table:
        """Return the windows of a day, or all."""

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
        before = tables.dataset(opened, self._path).to_table(filter=_near(parts))
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

    def replace(self, windows: Iterable[pyarrow.Table], batches: Mapping[str, int]) -> None:
        opened, name = self._open(), uuid.uuid4().hex
        files: list[AddAction | RemoveAction] = [
            tables.written(rows, self._path, f"{folder}/{name}-{number:05}.parquet")
            for part in windows
            for folder, file in _by_folder(part)
            for number, rows in enumerate(_portions(file))
        ]
        opened.create_write_transaction(
            files,
            "overwrite",
            opened.schema(),
            list(PARTITION_BY),
            commit_properties=_remembering(batches),
        )

    def days(self) -> list[date]:
        found = {str(part["date"]) for part in self._open().partitions()}
        return sorted(map(date.fromisoformat, found))

    def read(self, day: date | None = None) -> pyarrow.Table:
        chosen = None if day is None else pc.field("date") == pyarrow.scalar(day)
        rows = tables.dataset(self._open(), self._path).to_table(filter=chosen)
        return rows.select(gold.SCHEMA.names).cast(gold.SCHEMA)

    def tidy(self, keep_ms: int) -> None:
        opened = self._open()
        # the newest day is written to all the time: its files stay small and cheap to replace
        for day in self.days()[:-1]:
            opened.optimize.compact(
                partition_filters=[("date", "=", str(day))], target_size=FILE_SIZE
            )
        tables.clean(opened, keep_ms)


def _remembering(batches: Mapping[str, int]) -> CommitProperties:
    found = [Transaction(app_id, batch_id) for app_id, batch_id in batches.items()]
    return CommitProperties(app_transactions=found)


def _near(parts: pyarrow.Table) -> pc.Expression:
    """What old rows partials can belong to: of the same length and day, and of the same beginnings.

    Days are asked for one by one: a late reading is not to bring in all that came since.
    """
    chosen = pc.scalar(False)
    for key in parts.group_by(list(PARTITION_BY)).aggregate([]).to_pylist():
        mine = [pc.equal(parts[name], key[name]) for name in PARTITION_BY]
        starts = pc.unique(parts.filter(pc.and_(*mine))["start"])
        start = pc.field("start")
        # of many beginnings the range says enough
        when = (
            start.isin(starts)
            if len(starts) <= STARTS_MAX
            else (start >= pc.min(starts)) & (start <= pc.max(starts))
        )
        length, day = (
            pc.field(name) == pyarrow.scalar(key[name], gold.SCHEMA.field(name).type)
            for name in PARTITION_BY
        )
        chosen |= length & day & when
    return chosen


def _by_folder(windows: pyarrow.Table) -> Iterator[tuple[str, pyarrow.Table]]:
    """Windows by the folder they lie in, without what that says, in the order of time."""
    for key in windows.group_by(list(PARTITION_BY)).aggregate([]).to_pylist():
        mine = [pc.equal(windows[name], key[name]) for name in PARTITION_BY]
        rows = windows.filter(pc.and_(*mine)).drop_columns(list(PARTITION_BY))
        folder = "/".join(f"{name}={key[name]}" for name in PARTITION_BY)
        yield folder, rows.sort_by([("start", "ascending")])


def _portions(rows: pyarrow.Table) -> Iterator[pyarrow.Table]:
    """Windows in parts that are files of no more than `FILE_SIZE`."""
    count = max(1, len(rows) * FILE_SIZE // max(1, rows.nbytes))
    for first in range(0, len(rows), count):
        yield rows.slice(first, count)


def _touched(before: pyarrow.Table, parts: pyarrow.Table) -> pyarrow.Table:
    """The windows that partials belong to, merged with them."""
    both = pyarrow.concat_tables([before, parts]).combine_chunks()
    group, _ = groups(both, gold.KEY)
    is_meant = pyarrow.array(numpy.isin(group, group[len(before) :]))
    return gold.merged([both.filter(is_meant)])


class _Parquet:
    """A file for an hour of windows of one length and source."""

    def __init__(self, path: str) -> None:
        self._files, self._root = uris.files(path)

    def merge(self, parts: pyarrow.Table, app_id: str, batch_id: int) -> bool:
        changed = False
        for place, rows in _by_file(parts):
            before, batches = self._content(place)
            if batches.get(app_id, -1) < batch_id:
                self._write(place, gold.merged([before, rows]), batches | {app_id: batch_id})
                changed = True
        return changed

    def replace(self, windows: Iterable[pyarrow.Table], batches: Mapping[str, int]) -> None:
        new = set()
        for part in windows:
            for place, rows in _by_file(part):
                self._write(place, rows, batches)
                new.add(place)
        for place in self._places():
            if place not in new:
                # an hour that has no readings any more still knows what it had
                self._write(place, gold.SCHEMA.empty_table(), batches)

    def days(self) -> list[date]:
        found = {place.partition("/date=")[2].partition("/")[0] for place in self._places()}
        return sorted(map(date.fromisoformat, found))

    def read(self, day: date | None = None) -> pyarrow.Table:
        wanted = "" if day is None else f"/date={day}/"
        places = [place for place in self._places() if wanted in place]
        parts = [self._content(place)[0] for place in places]
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
