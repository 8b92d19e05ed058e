"""The table of gold: which files it has, Spark's way to read and write them, and its transactions.

Spark writes files where they belong; they are nothing to readers until a transaction names them.
One process at a time writes, so what is in a folder and was not there before is what it wrote.
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
"""What is in a file; the rest is in its path."""
Folder = tuple[int, str]
"""The length of windows and the day, as in the path."""


@dataclass(frozen=True)
class Change:
    """Files that were written and are no part of the table yet, and files that they replace."""

    added: Sequence[AddAction] = ()
    removed: Sequence[tuple[Folder, File]] = ()

    def __add__(self, other: "Change") -> "Change":
        return Change([*self.added, *other.added], [*self.removed, *other.removed])


class GoldTable:
    """Windows, each of which stands once."""

    def __init__(self, path: str) -> None:
        """Name it; nothing is made."""
        self.path = path.rstrip("/")

    def opened(self) -> DeltaTable:
        """Return the table, made if it is not there; raises as `check`."""
        if not DeltaTable.is_deltatable(self.path):
            by = list(PARTITION_BY)
            return DeltaTable.create(self.path, ROW, mode="ignore", partition_by=by)
        self.check()
        return DeltaTable(self.path)

    def has_only(self, windows_ms: Sequence[int]) -> bool:
        """Return whether the table is of this version and has windows of these lengths."""
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
                f"{self.path} is of an earlier version: it lacks {', '.join(sorted(lacking))}; make"
                " it anew out of silver: enmasse pipeline backfill --gold-only",
            )

    def made_anew(self) -> None:
        """Begin an empty table where one of an earlier version is."""
        if not DeltaTable.is_deltatable(self.path):
            return
        if self._columns() != set(ROW.names):
            by = list(PARTITION_BY)
            DeltaTable.create(self.path, ROW, mode="overwrite", partition_by=by)

    def remembered(self, app_id: str) -> int | None:
        """Return the version that the last transaction of this name remembers."""
        return self.opened().transaction_version(app_id)

    def files(self) -> dict[Folder, list[File]]:
        """Return the files of the table by folder, as the log describes them."""
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
        """Return how many windows there are."""
        held = self.files() if DeltaTable.is_deltatable(self.path) else {}
        return sum(file.rows for files in held.values() for file in files)

    def read(self, spark: SparkSession, files: Iterable[tuple[int, File]]) -> DataFrame:
        """Return the rows of files, each with the length of its windows, and nothing of others."""
        by_length: dict[int, list[str]] = {}
        for length, file in files:
            by_length.setdefault(length, []).append(file.path)
        if not by_length:
            empty = spark.createDataFrame([], from_arrow_schema(ROW))
            return empty.withColumn("file", F.lit(""))
        parts = [
            read_files(spark, self.path, places, COLUMNS)
            .withColumn("window_ms", F.lit(length).cast("long"))
            .withColumn("date", F.to_date("start"))
            .select(*ROW.names, "file")
            for length, places in by_length.items()
        ]
        return reduce(DataFrame.unionByName, parts)

    def write(self, rows: DataFrame, folders: Iterable[Folder]) -> list[AddAction]:
        """Write rows into the files of some folders, one of each folder for each task."""
        files, root = uris.files(self.path)
        # what a job left that was cut off would be moved into the table with what this one writes
        if files.get_file_info(f"{root}/{TEMPORARY}").type != pyarrow.fs.FileType.NotFound:
            files.delete_dir(f"{root}/{TEMPORARY}")
        places = [f"window_ms={length}/date={day}" for length, day in folders]
        before = {path for place in places for path in _in(files, f"{root}/{place}")}
        writer = rows.write.mode("append").option("compression", "zstd")
        writer = writer.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
        writer.partitionBy(*PARTITION_BY).parquet(uris.for_spark(self.path))
        written = [path for place in places for path in _in(files, f"{root}/{place}")]
        return [
            delta.added(files, path, path[len(root) + 1 :])
            for path in written
            if path not in before
        ]

    def commit(
        self, change: Change, remembered: Mapping[str, int], *, data_change: bool = True
    ) -> None:
        """Let files be part of the table in one transaction that remembers versions."""
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
            commit_properties=delta.remembering(remembered),
        )

    def compacted(self, spark: SparkSession) -> Change:
        """Write neighbouring small files of all days but the newest as one."""
        change = Change()
        files = self.files()
        newest = max((day for _, day in files), default=None)
        for folder, held in files.items():
            if folder[1] == newest:
                continue
            for group in layout.small(held):
                rows = self.read(spark, [(folder[0], file) for file in group.files])
                rows = rows.coalesce(1).sortWithinPartitions(*PARTITION_BY, "start")
                added = self.write(rows, [folder])
                change += Change(added, [(folder, file) for file in group.files])
        return change


def read_files(
    spark: SparkSession, root: str, places: Sequence[str], columns: StructType
) -> DataFrame:
    """Return the rows of files of a Delta table, and the name of its file with each as `file`.

    What the names of folders say of the rows is left out.
    """
    if not places:
        return spark.createDataFrame([], columns).withColumn("file", F.lit(""))
    base = uris.for_spark(root)
    # places are known: folders are not looked for what they are named by
    reader = spark.read.schema(columns).option("recursiveFileLookup", "true")
    rows = reader.parquet(*(f"{base}/{place}" for place in places))
    return rows.select("*", F.col("_metadata.file_name").alias("file"))


def _in(files: Any, folder: str) -> list[str]:
    """The files of a folder."""
    chosen = pyarrow.fs.FileSelector(folder, allow_not_found=True)
    found = files.get_file_info(chosen)
    return [info.path for info in found if info.path.endswith(".parquet")]


def _values(folder: Folder) -> dict[str, str | None]:
    return dict(zip(PARTITION_BY, map(str, folder), strict=True))
