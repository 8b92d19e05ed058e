"""The table of gold: its files, reading and writing them by Spark, and its transactions.

Spark writes files to their final folder; readers ignore them until a transaction adds them. One
process at a time writes, so new files in a folder are those that it wrote.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow
import pyarrow.compute as pc
import pyarrow.fs
from deltalake import DeltaTable
from deltalake.transaction import AddAction, RemoveAction
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from enmasse.base.clock import SystemClock
from enmasse.base.errors import Code, Conflict
from enmasse.pipeline.connector import uris
from enmasse.pipeline.gold import layout
from enmasse.pipeline.gold.layout import File
from enmasse.pipeline.gold.windows import PARTITION_BY, ROW
from enmasse.pipeline.tables import delta

TEMPORARY = "_temporary"
COLUMNS = from_arrow_schema(
    pyarrow.schema([field for field in ROW if field.name not in PARTITION_BY])
)
"""Columns inside a file; the others are in its path."""
Folder = tuple[int, str]
"""Window length and day, as in the path."""


@dataclass(frozen=True)
class Change:
    """New files that are not part of the table yet, and the files that they replace."""

    added: Sequence[AddAction] = ()
    removed: Sequence[tuple[Folder, File]] = ()

    def __add__(self, other: "Change") -> "Change":
        return Change([*self.added, *other.added], [*self.removed, *other.removed])


class GoldTable:
    """The Delta table of windows; each window occurs once."""

    def __init__(self, path: str) -> None:
        """Name the table; nothing is created."""
        self.path = path.rstrip("/")

    def opened(self) -> DeltaTable:
        """Open the table, or create it; raises as `check`."""
        if not DeltaTable.is_deltatable(self.path):
            by = list(PARTITION_BY)
            return DeltaTable.create(self.path, ROW, mode="ignore", partition_by=by)
        self.check()
        return DeltaTable(self.path)

    def has_only(self, windows_ms: Sequence[int]) -> bool:
        """Return whether the table has the columns of this version and windows of these lengths."""
        if not DeltaTable.is_deltatable(self.path):
            return True
        if not set(ROW.names) <= self._columns():
            return False
        lengths = {length for length, _ in self.files()}
        return not lengths or lengths == set(windows_ms)

    def _columns(self) -> set[str]:
        return {field.name for field in DeltaTable(self.path).schema().fields}

    def check(self) -> None:
        """Raise Conflict for a table of another version of EnMasse."""
        if not DeltaTable.is_deltatable(self.path):
            return
        if lacking := set(ROW.names) - self._columns():
            raise Conflict(
                Code.STATE_CONFLICT,
                f"{self.path} is of an earlier version: it lacks {', '.join(sorted(lacking))};"
                " rebuild it from silver: enmasse pipeline backfill --gold-only",
            )

    def recreate(self) -> None:
        """Replace a table of an earlier version by an empty one."""
        if not DeltaTable.is_deltatable(self.path):
            return
        if self._columns() != set(ROW.names):
            by = list(PARTITION_BY)
            DeltaTable.create(self.path, ROW, mode="overwrite", partition_by=by)

    def committed_version(self, app_id: str) -> int | None:
        """Return the version in the last transaction with this id."""
        return self.opened().transaction_version(app_id)

    def files(self) -> dict[Folder, list[File]]:
        """Return the files of the table by folder, from the log."""
        actions = pyarrow.table(self.opened().get_add_actions(flatten=True))
        found: dict[Folder, list[File]] = {}
        if not len(actions):
            return found
        least, most = (
            pc.cast(actions[f"{side}.start"], pyarrow.int64()).to_pylist()
            for side in ("min", "max")
        )
        columns = ("path", "size_bytes", "num_records")
        described = (actions[name].to_pylist() for name in columns)
        lengths = actions["partition.window_ms"].to_pylist()
        days = actions["partition.date"].to_pylist()
        for length, day, *one in zip(lengths, days, *described, least, most, strict=True):
            found.setdefault((int(length), str(day)), []).append(File(*one))
        return found

    def windows(self) -> int:
        """Return the number of windows."""
        held = self.files() if DeltaTable.is_deltatable(self.path) else {}
        return sum(file.rows for files in held.values() for file in files)

    def read(self, spark: SparkSession, files: Iterable[tuple[int, File]]) -> DataFrame:
        """Return the rows of files, given with their window lengths."""
        by_length: dict[int, list[str]] = {}
        for length, file in files:
            by_length.setdefault(length, []).append(file.path)
        if not by_length:
            empty = spark.createDataFrame([], from_arrow_schema(ROW))
            return empty.withColumn("file", F.lit(""))
        parts = [
            read_files(spark, self.path, paths, COLUMNS)
            .withColumn("window_ms", F.lit(length).cast("long"))
            .withColumn("date", F.to_date("start"))
            .select(*ROW.names, "file")
            for length, paths in by_length.items()
        ]
        return reduce(DataFrame.unionByName, parts)

    def write(self, rows: DataFrame, folders: Iterable[Folder]) -> list[AddAction]:
        """Write rows to new files of these folders, one per folder and task."""
        files, root = uris.files(self.path)
        # the committer would move leftovers of an interrupted job into the table
        if files.get_file_info(f"{root}/{TEMPORARY}").type != pyarrow.fs.FileType.NotFound:
            files.delete_dir(f"{root}/{TEMPORARY}")
        names = [f"window_ms={length}/date={day}" for length, day in folders]
        before = {path for name in names for path in _parquet_files(files, f"{root}/{name}")}
        writer = rows.write.mode("append").option("compression", "zstd")
        writer = writer.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
        writer.partitionBy(*PARTITION_BY).parquet(uris.for_spark(self.path))
        written = [path for name in names for path in _parquet_files(files, f"{root}/{name}")]
        return [
            delta.added(files, path, path[len(root) + 1 :])
            for path in written
            if path not in before
        ]

    def commit(
        self, change: Change, versions: Mapping[str, int], *, data_change: bool = True
    ) -> None:
        """Commit a change in one transaction that records versions."""
        opened = self.opened()
        now_ms = int(SystemClock().now().timestamp() * 1000)
        removed = [
            RemoveAction(file.path, data_change, now_ms, file.size, _values(folder))
            for folder, file in change.removed
        ]
        added = change.added
        if not data_change:
            for action in added:
                action.data_change = False
        opened.create_write_transaction(
            [*added, *removed],
            "append",
            opened.schema(),
            list(PARTITION_BY),
            commit_properties=delta.transactions(versions),
        )

    def compact(self, spark: SparkSession) -> Change:
        """Merge adjacent small files of all days but the newest."""
        change = Change()
        files = self.files()
        newest = max((day for _, day in files), default=None)
        for folder, held in files.items():
            if folder[1] == newest:
                continue
            for group in layout.compactable(held):
                rows = self.read(spark, [(folder[0], file) for file in group.files])
                rows = rows.coalesce(1).sortWithinPartitions(*PARTITION_BY, "start")
                added = self.write(rows, [folder])
                change += Change(added, [(folder, file) for file in group.files])
        return change


def read_files(
    spark: SparkSession, root: str, paths: Sequence[str], columns: StructType
) -> DataFrame:
    """Return the rows of files of a Delta table, with their file name as `file`, without partition
    columns.
    """
    if not paths:
        return spark.createDataFrame([], columns).withColumn("file", F.lit(""))
    base = uris.for_spark(root)
    # no partition discovery: the files are known
    reader = spark.read.schema(columns).option("recursiveFileLookup", "true")
    rows = reader.parquet(*(f"{base}/{path}" for path in paths))
    return rows.select("*", F.col("_metadata.file_name").alias("file"))


def _parquet_files(files: Any, folder: str) -> list[str]:
    """The Parquet files of a folder."""
    chosen = pyarrow.fs.FileSelector(folder, allow_not_found=True)
    found = files.get_file_info(chosen)
    return [info.path for info in found if info.path.endswith(".parquet")]


def _values(folder: Folder) -> dict[str, str | None]:
    return dict(zip(PARTITION_BY, map(str, folder), strict=True))
