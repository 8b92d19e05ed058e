"""The table of gold: its files, reading and writing them by Spark, and its transactions.

One process at a time writes it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any
from uuid import uuid4

import pyarrow
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.transaction import AddAction, RemoveAction
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from enmasse.base.clock import SystemClock
from enmasse.base.errors import Code, Conflict
from enmasse.pipeline.gold import layout
from enmasse.pipeline.gold.layout import File
from enmasse.pipeline.gold.windows import PARTITION_BY, ROW
from enmasse.pipeline.tables import delta, files

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
        self.table = files.Table(path.rstrip("/"), PARTITION_BY)
        self.path = self.table.path

    @property
    def exists(self) -> bool:
        """Whether the table was created."""
        return DeltaTable.is_deltatable(self.path)

    def opened(self) -> DeltaTable:
        """Open the table, or create it; raises as `check`."""
        self.check()
        return delta.open_or_create(self.table, ROW)

    def has_only(self, windows_ms: Sequence[int]) -> bool:
        """Return whether the table has the columns of this version and windows of these lengths."""
        if not set(ROW.names) <= self._columns():
            return False
        lengths = {length for length, _ in self.files()}
        return not lengths or lengths == set(windows_ms)

    def _columns(self) -> set[str]:
        """The columns of the table, or those that it will have."""
        if not self.exists:
            return set(ROW.names)
        return {field.name for field in DeltaTable(self.path).schema().fields}

    def check(self) -> None:
        """Raise Conflict for a table of another version of EnMasse."""
        if lacking := set(ROW.names) - self._columns():
            raise Conflict(
                Code.STATE_CONFLICT,
                f"{self.path} is of an earlier version: it lacks {', '.join(sorted(lacking))};"
                " rebuild it from silver: enmasse pipeline backfill --gold-only",
            )

    def recreate(self) -> None:
        """Replace a table of an earlier version by an empty one."""
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
        held = self.files() if self.exists else {}
        return sum(file.rows for found in held.values() for file in found)

    def read(self, spark: SparkSession, chosen: Iterable[tuple[Folder, File]]) -> DataFrame:
        """Return the rows of files."""
        by_length: dict[int, dict[str, dict[str, Any]]] = {}
        for (length, _), file in chosen:
            by_length.setdefault(length, {})[file.path] = {}
        parts = (
            files.read(spark, self.table, paths, COLUMNS)
            .withColumn("window_ms", F.lit(length).cast("long"))
            .withColumn("date", F.to_date("start"))
            for length, paths in by_length.items()
        )
        none = spark.createDataFrame([], from_arrow_schema(ROW))
        return reduce(DataFrame.unionByName, parts, none)

    def write(self, rows: DataFrame) -> list[AddAction]:
        """Write rows to new files, one per folder and task."""
        files.discard_staged(self.table)
        staged = files.stage(rows, self.table, f"gold-{uuid4().hex}")
        (added,) = files.publish(rows.sparkSession, [staged])
        return added

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
        held = self.files()
        newest = max((day for _, day in held), default=None)
        for folder, found in held.items():
            if folder[1] == newest:
                continue
            for group in layout.compactable(found):
                small = [(folder, file) for file in group.files]
                rows = self.read(spark, small).coalesce(1)
                added = self.write(rows.sortWithinPartitions(*PARTITION_BY, "start"))
                change += Change(added, small)
        return change


def _values(folder: Folder) -> dict[str, str | None]:
    return dict(zip(PARTITION_BY, map(str, folder), strict=True))
