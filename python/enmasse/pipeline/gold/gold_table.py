"""The table of gold: partials of a batch are merged into it once.

Delta: one transaction replaces the files that a batch touches and remembers the batch. Parquet:
a file holds an hour of windows of one source and remembers, in its footer, the batches that are in
it; each is replaced at once by a whole new one, so a batch that was cut off is finished when it is
repeated.
"""

import json
import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal, Protocol

import numpy
import pyarrow
import pyarrow.compute as pc
import pyarrow.dataset
import pyarrow.fs
import pyarrow.parquet
from deltalake import DeltaTable
from deltalake.transaction import AddAction, RemoveAction

from enmasse.base.clock import SystemClock
from enmasse.base.errors import Conflict
from enmasse.pipeline.connector import uris
from enmasse.pipeline.gold import merging
from enmasse.pipeline.gold.grouping import array, groups
from enmasse.pipeline.gold.samples import PARTITION_BY, Samples
from enmasse.pipeline.tables import delta

BATCHES = b"enmasse.batches"
"""Where the footer of a file has the last batch of each query."""
NEVER = numpy.iinfo(numpy.int64).max
FILE_SIZE = 16 << 20
"""The most of a file of Delta, about: so much is written again for a window that changes."""
HOUR_US, HOURS_A_DAY = 3_600_000_000, 24


class GoldTable(Protocol):
    """Windows, each of which stands once; any thread may use it."""

    def merge(self, parts: pyarrow.Table, app_id: str, batch_id: int) -> bool:
        """Merge partials into the windows, unless this batch of this query is in them; return
        whether anything changed."""

    def replace(self, windows: Iterable[pyarrow.Table], batches: Mapping[str, int]) -> None:
        """Let these be all windows, with these batches in them. No two parts have one day."""

    def check(self) -> None:
        """Raise Conflict if there is a table with other columns, or without samples; nothing is
        made."""

    def days(self) -> list[date]:
        """Return the days of which there may be windows, the oldest first."""

    def read(self, day: date | None = None) -> pyarrow.Table:
        """Return the windows of a day, or all."""

    def tidy(self, keep_ms: int) -> None:
        """Make large files of small ones, and delete what no version of that time has."""


def table(path: str, format: Literal["delta", "parquet"]) -> GoldTable:
    """Return the table at a folder or URI."""
    return _Delta(path) if format == "delta" else _Parquet(path)


@dataclass(frozen=True)
class _File:
    """A file of the table: the beginnings of its windows are from `first` to `last`."""

    path: str
    size: int
    first: int
    last: int


class _Delta:
    """One file or more for a day of windows of one length; their samples lie beside, in a table of
    the same name with `_samples` behind it.

    A batch replaces the files that may hold its windows. Those that are new go to a file of their
    own, so what is written for each batch is what came lately.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._samples = Samples(f"{path.rstrip('/')}_samples")
        self._one = threading.Lock()

    def check(self) -> None:
        if not DeltaTable.is_deltatable(self._path):
            return
        if self._open().file_uris() and not self._samples.exist():
            raise Conflict(
                "E4000",
                f"{self._path} has windows, and there is no {self._samples.path}, where their "
                "quantiles come from: run `enmasse pipeline backfill --gold-only`, which makes it",
            )

    def _open(self) -> DeltaTable:
        if not DeltaTable.is_deltatable(self._path):
            by = list(PARTITION_BY)
            return DeltaTable.create(self._path, merging.ROW, mode="ignore", partition_by=by)
        opened = DeltaTable(self._path)
        found = {field.name for field in opened.schema().fields}
        if found != set(merging.ROW.names):
            raise Conflict(
                "E4000",
                f"{self._path} has other columns than gold has now, "
                f"{', '.join(sorted(found ^ set(merging.ROW.names)))}: move the folder away and "
                "run `enmasse pipeline backfill`, which makes it anew",
            )
        return opened

    def merge(self, parts: pyarrow.Table, app_id: str, batch_id: int) -> bool:
        with self._one:
            return self._merge(parts, app_id, batch_id)

    def _merge(self, parts: pyarrow.Table, app_id: str, batch_id: int) -> bool:
        opened = self._open()
        known = opened.transaction_version(app_id)
        if not len(parts) or (known is not None and known >= batch_id):
            return False
        for name, found in self._samples.add(parts, app_id, batch_id).items():
            place = parts.schema.get_field_index(name)
            parts = parts.set_column(place, name, pyarrow.array(found))
        name = f"{uuid.uuid4().hex}-{{:05}}.parquet"
        now_ms = int(SystemClock().now().timestamp() * 1000)
        added: list[AddAction | RemoveAction] = []
        removed: list[AddAction | RemoveAction] = []
        for key in _folders(parts):
            mine = parts.filter(_is_in(parts, key))
            old = _covering(opened, mine, key)
            for file in self._renewed(old, mine):
                added.append(
                    delta.written(
                        file.drop_columns(list(PARTITION_BY)),
                        self._path,
                        f"{_folder(key)}/{name.format(len(added))}",
                    )
                )
            values: dict[str, str | None] = {part: str(value) for part, value in key.items()}
            removed += [RemoveAction(one.path, True, now_ms, one.size, values) for one in old]
        opened.create_write_transaction(
            [*added, *removed],
            "append",
            opened.schema(),
            list(PARTITION_BY),
            commit_properties=delta.remembering({app_id: batch_id}),
        )
        return True

    def _renewed(self, old: Sequence[_File], parts: pyarrow.Table) -> Iterator[pyarrow.Table]:
        """What old files become with partials of windows that they may hold."""
        held = [self._read_file(file, parts) for file in old]
        before = pyarrow.concat_tables([merging.ROW.empty_table(), *held])
        of_file = numpy.repeat(numpy.arange(len(old)), [len(rows) for rows in held])
        rows, was = merging.renewed(before, parts)
        home = numpy.where(was >= 0, numpy.append(of_file, -1)[was], len(old))
        start = array(rows["start"].cast(pyarrow.int64()))
        for number, file in enumerate(old):
            # a new window of a time that a file has goes there
            home[(home == len(old)) & (start >= file.first) & (start <= file.last)] = number
        for number in range(len(old) + 1):
            mine = rows.filter(pyarrow.array(home == number))
            if len(mine):
                yield from _portions(mine.sort_by([("start", "ascending")]))

    def _read_file(self, file: _File, parts: pyarrow.Table) -> pyarrow.Table:
        files, root = uris.files(self._path)
        with files.open_input_file(f"{root}/{file.path}") as opened:
            rows = pyarrow.parquet.ParquetFile(opened).read()
        for name in PARTITION_BY:
            value = pyarrow.repeat(parts[name][0], len(rows))
            rows = rows.append_column(name, value)
        return rows.select(merging.ROW.names).cast(merging.ROW)

    def replace(self, windows: Iterable[pyarrow.Table], batches: Mapping[str, int]) -> None:
        opened, name = self._open(), uuid.uuid4().hex
        files: list[AddAction | RemoveAction] = []
        sampled: list[AddAction] = []
        for part in windows:
            for key in _folders(part):
                rows = part.filter(_is_in(part, key)).sort_by([("start", "ascending")])
                for number, file in enumerate(_portions(rows)):
                    place = f"{name}-{number:05}.parquet"
                    sampled.append(self._samples.written(file, _folder(key), place))
                    rows_of_file = file.drop_columns([*merging.SAMPLE, *PARTITION_BY])
                    files.append(delta.written(rows_of_file, self._path, f"{_folder(key)}/{place}"))
        self._samples.replace(sampled, batches)
        opened.create_write_transaction(
            files,
            "overwrite",
            opened.schema(),
            list(PARTITION_BY),
            commit_properties=delta.remembering(batches),
        )

    def days(self) -> list[date]:
        found = {str(part["date"]) for part in self._open().partitions()}
        return sorted(map(date.fromisoformat, found))

    def read(self, day: date | None = None) -> pyarrow.Table:
        chosen = None if day is None else pc.field("date") == pyarrow.scalar(day)
        rows = delta.dataset(self._open(), self._path).to_table(filter=chosen)
        return rows.select(merging.ROW.names).cast(merging.ROW)

    def tidy(self, keep_ms: int) -> None:
        with self._one:
            opened = self._open()
            # the newest day is written to all the time: its files stay small and cheap to replace
            for day in self.days()[:-1]:
                opened.optimize.compact(
                    partition_filters=[("date", "=", str(day))], target_size=FILE_SIZE
                )
            delta.clean(opened, keep_ms)
        # what is only appended to may be joined meanwhile
        self._samples.tidy(keep_ms)


def _covering(opened: DeltaTable, parts: pyarrow.Table, key: Mapping[str, Any]) -> list[_File]:
    """The files of a folder that may hold windows."""
    actions = pyarrow.table(opened.get_add_actions(flatten=True))
    if not len(actions):
        return []
    mine = [pc.equal(actions[f"partition.{name}"], value) for name, value in key.items()]
    here = actions.filter(pc.and_(*mine))
    starts = numpy.unique(array(parts["start"].cast(pyarrow.int64())))
    # without statistics a file may hold whatever there is
    least, most = (
        array(pc.fill_null(here[f"{side}.start"].cast(pyarrow.int64()), other))
        for side, other in (("min", starts[0]), ("max", starts[-1]))
    )
    next_start = numpy.searchsorted(starts, least)
    is_meant = numpy.append(starts, NEVER)[next_start] <= most
    found = here.filter(pyarrow.array(is_meant))
    names = zip(found["path"].to_pylist(), found["size_bytes"].to_pylist(), strict=True)
    bounds = zip(least[is_meant].tolist(), most[is_meant].tolist(), strict=True)
    return [_File(*name, *bound) for name, bound in zip(names, bounds, strict=True)]


def _folders(windows: pyarrow.Table) -> list[dict[str, Any]]:
    """The lengths and days that there are."""
    found: list[dict[str, Any]] = windows.group_by(list(PARTITION_BY)).aggregate([]).to_pylist()
    return found


def _is_in(windows: pyarrow.Table, key: Mapping[str, Any]) -> Any:
    return pc.and_(*(pc.equal(windows[name], value) for name, value in key.items()))


def _folder(key: Mapping[str, Any]) -> str:
    return "/".join(f"{name}={value}" for name, value in key.items())


def _portions(rows: pyarrow.Table) -> Iterator[pyarrow.Table]:
    """Windows in parts that are files of no more than `FILE_SIZE`."""
    count = max(1, len(rows) * FILE_SIZE // max(1, rows.nbytes))
    for first in range(0, len(rows), count):
        yield rows.slice(first, count)


class _Parquet:
    """A file for an hour of windows of one length and source."""

    def __init__(self, path: str) -> None:
        self._files, self._root = uris.files(path)
        self._one = threading.Lock()

    def merge(self, parts: pyarrow.Table, app_id: str, batch_id: int) -> bool:
        with self._one:
            return self._merge(parts, app_id, batch_id)

    def _merge(self, parts: pyarrow.Table, app_id: str, batch_id: int) -> bool:
        changed = False
        for place, rows in _by_file(parts):
            before, batches = self._content(place)
            if batches.get(app_id, -1) < batch_id:
                self._write(place, merging.merged([before, rows]), batches | {app_id: batch_id})
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
                self._write(place, merging.SCHEMA.empty_table(), batches)

    def days(self) -> list[date]:
        found = {place.partition("/date=")[2].partition("/")[0] for place in self._places()}
        return sorted(map(date.fromisoformat, found))

    def read(self, day: date | None = None) -> pyarrow.Table:
        wanted = "" if day is None else f"/date={day}/"
        places = [place for place in self._places() if wanted in place]
        parts = [self._content(place)[0].select(merging.ROW.names) for place in places]
        return pyarrow.concat_tables([merging.ROW.empty_table(), *parts])

    def check(self) -> None:
        """Files have one layout only."""

    def tidy(self, keep_ms: int) -> None:
        """There is one file for each hour anyway."""

    def _places(self) -> list[str]:
        chosen = pyarrow.fs.FileSelector(self._root, recursive=True, allow_not_found=True)
        found = [info.path for info in self._files.get_file_info(chosen)]
        return [path[len(self._root) + 1 :] for path in found if path.endswith(".parquet")]

    def _content(self, place: str) -> tuple[pyarrow.Table, dict[str, int]]:
        path = f"{self._root}/{place}"
        if self._files.get_file_info(path).type == pyarrow.fs.FileType.NotFound:
            return merging.SCHEMA.empty_table(), {}
        with self._files.open_input_file(path) as file:
            rows = pyarrow.parquet.ParquetFile(file).read()
        batches: dict[str, int] = json.loads(rows.schema.metadata[BATCHES])
        return rows.replace_schema_metadata().cast(merging.SCHEMA), batches

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
