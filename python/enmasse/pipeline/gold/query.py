"""The gold query: updates windows of gold from the commits of silver since the recorded version.

Files that a commit of silver adds are new readings. A commit that removes files, as a backfill
does, causes a recomputation of its days. Compaction is ignored. One transaction of gold has the new
windows and the version of silver, so an interrupted step is repeated from the same version. Long
windows are merged from shorter ones in the same way, from the log of gold.
"""

import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow
import pyarrow.fs
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.utils import is_remote

from enmasse.pipeline.connector import uris
from enmasse.pipeline.gold import layout, windows
from enmasse.pipeline.gold.layout import File, Group
from enmasse.pipeline.gold.progress import gold_app_id
from enmasse.pipeline.gold.table import Change, Folder, GoldTable
from enmasse.pipeline.tables import delta, files, log
from enmasse.pipeline.tables.log import LogGoneError

STEP_ROWS = 2_000_000
"""Maximum readings of a step, unless a single commit has more."""
US_PER_MS, DAY_US = 1000, 86_400_000_000
POOL = "gold"
SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    # with more windows per task Spark sorts and spills sketches
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "50000",
}
READINGS = from_arrow_schema(
    pyarrow.schema(
        {
            **dict.fromkeys(("source", "device", "metric", "unit"), pyarrow.string()),
            "value": pyarrow.float64(),
            "event_time": windows.TIME,
            "partition": pyarrow.int32(),
            "offset": pyarrow.int64(),
            "index": pyarrow.int32(),
        }
    )
)
"""The columns of silver that are read."""
PLACEMENT = ("of_length", "first", "last_start", "task", "tasks")
TASKS = ("spark.sql.shuffle.partitions", "spark.sql.files.minPartitionNum")
DAY_MS = DAY_US // US_PER_MS
SLICES = (1, 2, 3, 4, 6, 8, 12, 24)
"""Numbers of parts in which a day may be recomputed."""


@dataclass(frozen=True)
class SilverChanges:
    """The input of a step: files with new readings, and days to recompute, up to a version."""

    version: int
    paths: tuple[str, ...]
    days: frozenset[str]


class GoldQuery:
    """Updates gold from silver in steps. One thread calls it."""

    def __init__(
        self, spark: SparkSession, name: str, silver: str, table: str, windows_ms: Sequence[int]
    ) -> None:
        """Prepare for the pipeline with this name; nothing is read yet."""
        self._spark = gold_session(spark)
        self._name = name
        self._silver = silver
        self._windows = sorted(windows_ms)
        self.table = GoldTable(table)

    def advance(self) -> Iterator[None]:
        """Process the readings that silver has now, and yield after each step.

        Later ones wait for the next call, because there are always some while sources run.
        """
        if not DeltaTable.is_deltatable(self._silver):
            return
        opened = DeltaTable(self._silver)
        app_id = gold_app_id(self._name, opened)
        is_behind = True
        while is_behind and self.step():
            yield
            is_behind = (self.table.committed_version(app_id) or 0) < opened.version()

    def step(self) -> bool:
        """Process up to `STEP_ROWS` new readings of silver; return whether there were any.

        Raises Conflict if gold is of an earlier version of EnMasse.
        """
        if not DeltaTable.is_deltatable(self._silver):
            return False
        opened = DeltaTable(self._silver)
        app_id = gold_app_id(self._name, opened)
        changes = self._changes_since(opened, self.table.committed_version(app_id))
        if changes is None:
            return False
        with self._described("new readings"):
            change = self._merge_new(changes.paths) if changes.paths else Change()
        change += self._recompute_days(changes)
        self.table.commit(change, {app_id: changes.version})
        return True

    def rebuild(self) -> None:
        """Recompute all windows."""
        self.table.recreate()
        if not DeltaTable.is_deltatable(self._silver):
            return
        opened = DeltaTable(self._silver)
        changes = self._all_days(opened)
        app_id = gold_app_id(self._name, opened)
        self.table.commit(self._recompute_days(changes), {app_id: changes.version})
        self.merge_long()

    def catch_up(self) -> None:
        """Update all windows."""
        for _ in self.advance():
            pass
        self.merge_long()

    def cancel(self) -> None:
        """Interrupt the step in progress, from another thread."""
        self._spark.sparkContext.cancelJobGroup(POOL)

    def maintain(self, keep_ms: int) -> None:
        """Compact small files and delete expired ones."""
        if not self.table.exists:
            return
        self.merge_long()
        with self._described("small files"):
            change = self.table.compact(self._spark)
        if change.added:
            self.table.commit(change, {}, data_change=False)
        delta.vacuum(self.table.table, keep_ms)

    def _changes_since(self, opened: DeltaTable, known: int | None) -> SilverChanges | None:
        now = opened.version()
        if known == now:
            return None
        if known is None and not self.table.files():
            return self._first(opened)
        if known is None or known > now:
            return self._all_days(opened)
        try:
            return self._since(opened, known)
        except LogGoneError:
            return self._all_days(opened)

    def _first(self, opened: DeltaTable) -> SilverChanges:
        """The first step: all files at once, which is faster than day by day, if they are few."""
        actions = pyarrow.table(opened.get_add_actions())
        if sum(actions["num_records"].to_pylist()) > STEP_ROWS:
            return self._all_days(opened)
        return SilverChanges(opened.version(), tuple(actions["path"].to_pylist()), frozenset())

    def _all_days(self, opened: DeltaTable) -> SilverChanges:
        days = {str(values["date"]) for values in opened.partitions()}
        days.update(day for _, day in self.table.files())
        return SilverChanges(opened.version(), (), frozenset(days))

    def _since(self, opened: DeltaTable, known: int) -> SilverChanges:
        days, added, rows, version = set[str](), list[log.Added](), 0, known
        for commit in log.commits(self._silver, known, opened.version(), "event_time"):
            more = sum(file.rows for file in commit.added)
            if added and rows + more > STEP_ROWS:
                break
            version, rows = commit.version, rows + more
            added += commit.added
            if commit.removed:
                days.update(str(values["date"]) for values in commit.removed)
                days.update(str(file.values["date"]) for file in commit.added)
        if self._has_lost(opened, added):
            touched = log.commits(self._silver, known, opened.version(), "event_time")
            every = {str(file.values["date"]) for one in touched for file in one.added}
            return SilverChanges(opened.version(), (), frozenset(days | every))
        paths = tuple(file.path for file in added if file.values["date"] not in days)
        return SilverChanges(version, paths, frozenset(days))

    def _has_lost(self, opened: DeltaTable, added: Sequence[log.Added]) -> bool:
        """Whether a file was compacted since it was added, and deleted."""
        held = set(pyarrow.table(opened.get_add_actions())["path"].to_pylist())
        compacted = [file.path for file in added if file.path not in held]
        disk, root = uris.files(self._silver)
        found = disk.get_file_info([f"{root}/{path}" for path in compacted])
        return any(info.type == pyarrow.fs.FileType.NotFound for info in found)

    def _merge_new(self, paths: Sequence[str]) -> Change:
        """Merge the readings of files of silver into their windows."""
        readings = read_readings(self._spark, self._silver, paths)
        new = self._aggregate(readings).persist()
        try:
            held = self.table.files()
            plan = {
                folder: layout.groups(starts, held.get(folder, []))
                for folder, starts in _starts(new).items()
            }
            old = [
                (folder, file)
                for folder, groups in plan.items()
                for group in groups
                for file in group.files
            ]
            rows = windows.merge(self.table.read(self._spark, old), new) if old else new
            return Change(self._write(rows, plan), old)
        finally:
            new.unpersist()

    def _recompute_days(self, changes: SilverChanges) -> Change:
        """Recompute days, without their long windows, which are merged later."""
        if not changes.days:
            return Change()
        opened = DeltaTable(self._silver, version=changes.version)
        actions = pyarrow.table(opened.get_add_actions(flatten=True)).to_pylist()
        added = list[Any]()
        for day in sorted(changes.days):
            mine = [one for one in actions if str(one["partition.date"]) == day]
            rows = sum(one["num_records"] or 0 for one in mine)
            with self._described(f"recompute {day}"):
                added += self._recompute_day([one["path"] for one in mine], day, rows)
        held = self.table.files().items()
        old = [
            (folder, file) for folder, found in held for file in found if folder[1] in changes.days
        ]
        return Change(added, old)

    def _recompute_day(self, paths: Sequence[str], day: str, rows: int) -> list[Any]:
        """Write the windows of a day, in parts if it has many readings."""
        if not paths:
            return []
        whole = [n for n in SLICES if not any(DAY_MS // n % one for one in self._base_lengths)]
        parts = next((n for n in whole if n * STEP_ROWS >= rows), whole[-1])
        readings = read_readings(self._spark, self._silver, paths)
        of_day = F.pmod(F.unix_micros("event_time"), F.lit(DAY_US))
        added = list[Any]()
        for part in range(parts):
            mine = readings.where(F.floor(of_day * parts / DAY_US) == part)
            new = self._aggregate(mine if parts > 1 else readings).persist()
            try:
                starts = _starts(new)
                plan = {folder: layout.groups(found, []) for folder, found in starts.items()}
                added += self._write(new, plan)
            finally:
                new.unpersist()
        return added

    @property
    def _base_lengths(self) -> list[int]:
        return windows.base_lengths(self._windows)

    def _aggregate(self, readings: DataFrame) -> DataFrame:
        """The windows of all lengths that are aggregated from readings."""
        found = [windows.aggregate_readings(readings, length) for length in self._base_lengths]
        return reduce(DataFrame.unionByName, found)

    def _write(self, rows: DataFrame, plan: Mapping[Folder, Sequence[Group]]) -> list[Any]:
        """Write rows into the files of a plan, by a task for each file."""
        placements, tasks = _placements(plan)
        if not placements:
            return []
        columns = [pyarrow.array(one, pyarrow.int64()) for one in zip(*placements, strict=True)]
        targets = F.broadcast(self._spark.createDataFrame(pyarrow.table(columns, PLACEMENT)))
        us = F.unix_micros("start")
        matches = (F.col("window_ms") == F.col("of_length")) & (us >= F.col("first"))
        placed = rows.join(targets, matches & (us <= F.col("last_start")))
        # each window goes to one file
        share = F.pmod(F.xxhash64("source", "device", "metric"), F.col("tasks"))
        placed = placed.repartitionById(tasks, (F.col("task") + share).cast("int"))
        ordered = placed.select(*windows.ROW.names).sortWithinPartitions(
            *windows.PARTITION_BY, "start", "source", "device"
        )
        return self.table.write(ordered)

    def merge_long(self) -> None:
        """Merge long windows from shorter ones that have changed."""
        for length in self._windows:
            if (shorter := windows.parent(length, self._windows)) is not None:
                with self._described(f"windows of {length} ms"):
                    self._merge_long(length, shorter)

    def _merge_long(self, length: int, shorter: int) -> None:
        if not self.table.exists:
            return
        opened, held = self.table.opened(), self.table.files()
        app_id = long_app_id(self._name, length)
        known, now = opened.transaction_version(app_id), opened.version()
        spans, is_all = _spans(self.table.path, known, now, held, shorter)
        starts = _within(spans, length)
        change = Change()
        if is_all:
            old = [(folder, file) for folder, files in held.items() for file in files]
            change += Change([], [one for one in old if one[0][0] == length])
            held = {folder: files for folder, files in held.items() if folder[0] != length}
        for day, mine in _by_day(starts).items():
            change += self._long_day(held, day, mine, (length, shorter))
        if change != Change() or known is None:
            self.table.commit(change, {app_id: now})

    def _long_day(
        self,
        held: Mapping[Folder, Sequence[File]],
        day: str,
        starts: Sequence[int],
        lengths: tuple[int, int],
    ) -> Change:
        """Merge the long windows of a day with these starts."""
        length, shorter = lengths
        parts = layout.covering(held.get((shorter, day), []), starts, length * US_PER_MS)
        # estimate: as many windows as shorter ones of one start
        rows = max((group.rows for group in layout.overlapping(parts)), default=0)
        folder = (length, day)
        groups = layout.groups(dict.fromkeys(starts, rows), held.get(folder, []))
        old = [file for group in groups for file in group.files]
        chosen = self._spark.createDataFrame(
            pyarrow.table({"chosen": pyarrow.array(starts, pyarrow.int64()).cast(windows.TIME)})
        )
        start = windows.start_of(F.col("start"), length)
        read = self.table.read(self._spark, (((shorter, day), file) for file in parts))
        short = read.join(F.broadcast(chosen), start == F.col("chosen"), "left_semi")
        keeps = any(windows.parent(one, self._windows) == length for one in self._windows)
        found = windows.aggregate_windows(short, length, keeps_sketch=keeps)
        before = self.table.read(self._spark, ((folder, file) for file in old))
        unchanged = before.join(F.broadcast(chosen), F.col("start") == F.col("chosen"), "left_anti")
        added = self._write(found.unionByName(unchanged), {folder: groups})
        return Change(added, [(folder, file) for file in old])

    @contextmanager
    def _described(self, what: str) -> Iterator[None]:
        """Describe jobs in the UI of Spark, and run them in the pool of gold."""
        context = self._spark.sparkContext
        context.setLocalProperty("spark.scheduler.pool", POOL)
        context.setJobGroup(POOL, f"gold: {what}", interruptOnCancel=True)
        try:
            yield
        finally:
            context.setJobDescription("")


def read_readings(spark: SparkSession, silver: str, paths: Iterable[str]) -> DataFrame:
    """Return the readings of files of silver."""
    return files.read(spark, files.Table(silver), {path: {} for path in paths}, READINGS)


def gold_session(spark: SparkSession) -> SparkSession:
    """Return a session of the same Spark with the settings of gold."""
    if is_remote():
        # a client of Spark Connect has its own session
        return spark
    found = spark.newSession()
    # leave the other cores to live state
    tasks = max(1, spark.sparkContext.defaultParallelism // 4)
    for setting, value in (SETTINGS | dict.fromkeys(TASKS, str(tasks))).items():
        found.conf.set(setting, value)
    return found


def unmerged(table: GoldTable, name: str, windows_ms: Sequence[int]) -> dict[int, set[int]]:
    """Return the starts of long windows that are not merged yet, by length."""
    opened, held = table.opened(), table.files()
    found: dict[int, set[int]] = {}
    for length in sorted(windows_ms):
        if (shorter := windows.parent(length, windows_ms)) is not None:
            known = opened.transaction_version(long_app_id(name, length))
            spans, _ = _spans(table.path, known, opened.version(), held, shorter)
            # windows of unmerged windows are unmerged, too
            more = [(start, start) for start in found.get(shorter, ())]
            found[length] = _within([*spans, *more], length)
    return found


def long_app_id(name: str, length: int) -> str:
    """Return the id of the transaction in which long windows record the version of gold."""
    return f"{name}/gold/{length}"


def _within(spans: Iterable[tuple[int, int]], length: int) -> set[int]:
    """The starts of the longer windows of these times."""
    length_us = length * US_PER_MS
    return {
        start
        for first, last in spans
        for start in range(first - first % length_us, last + 1, length_us)
    }


def _starts(new: DataFrame) -> dict[Folder, dict[int, int]]:
    """The number of windows by start, by folder."""
    start = F.unix_micros("start").alias("start")
    counted = new.groupBy("window_ms", F.col("date").cast("string").alias("date"), start).count()
    found: dict[Folder, dict[int, int]] = {}
    for row in counted.collect():
        found.setdefault((row["window_ms"], row["date"]), {})[row["start"]] = row["count"]
    return found


def _placements(plan: Mapping[Folder, Sequence[Group]]) -> tuple[list[tuple[int, ...]], int]:
    """The range of starts and the tasks of each group as `PLACEMENT`, and the number of tasks."""
    found, task = list[tuple[int, ...]](), 0
    for (length, _), groups in plan.items():
        for group in groups:
            tasks = max(1, group.tasks)
            found.append((length, group.first, group.last, task, tasks))
            task += tasks
    return found, task


def _spans(
    table: str, known: int | None, now: int, held: Mapping[Folder, Sequence[File]], length: int
) -> tuple[Iterable[tuple[int, int]], bool]:
    """The time spans of changed windows of a length, and whether these are all windows."""
    if known is not None:
        try:
            commits = log.commits(table, known, now, "start")
            changed = [file for commit in commits for file in commit.added]
            mine = [file.bounds for file in changed if file.values["window_ms"] == str(length)]
            return [bounds for bounds in mine if bounds is not None], False
        except LogGoneError:
            pass
    files = [file for folder, found in held.items() if folder[0] == length for file in found]
    return [(file.first, file.last) for file in files], True


def _by_day(starts: Iterable[int]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for start in sorted(starts):
        day = datetime.date(1970, 1, 1) + datetime.timedelta(days=start // DAY_US)
        found.setdefault(str(day), []).append(start)
    return found
