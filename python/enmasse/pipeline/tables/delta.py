"""Delta tables that a batch of a streaming query is appended to once.

Spark writes the files of a batch to a staging folder. They are moved to the folder of their
partition (`date=2026-01-31/`), and one transaction adds them to the table and records the batch. A
recorded batch is not written again.
"""

import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

import pyarrow
import pyarrow.fs
from deltalake import (
    CommitProperties,
    DeltaTable,
    Field,
    Schema,
    Transaction,
    write_deltalake,
)
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from enmasse.base.errors import Conflict, Missing
from enmasse.pipeline.connector import uris
from enmasse.pipeline.tables import footers

NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""The partition value null in the name of a folder."""
STAGING = "_staging"
SMALL_SIZE = 32 << 20
"""Compaction leaves files of this size and larger as they are."""
FILE_ROWS = 500_000
"""Rows per file, if the number of rows is known."""
HOURS_PER_DAY, HOUR_MS = 24, 3_600_000
APPENDS_MAX = 8
"""Attempts to append while other writers change the table."""
_MAKING = threading.Lock()
_ESCAPED = re.compile("%([0-9A-Fa-f]{2})")
TIMESTAMPS = "spark.sql.parquet.outputTimestampType"


@dataclass(frozen=True)
class Table:
    """The location of a table: a folder, or a URI as in `uris`."""

    path: str
    partition_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class Appended:
    """The result of an append. `again`: the batch was in the table already."""

    rows: int
    files: int
    again: bool = False


@dataclass(frozen=True)
class Part:
    """Rows of a batch for one table, and their number if known."""

    frame: DataFrame
    table: Table
    rows: int | None = None


def append(frame: DataFrame, table: Table, app_id: str, batch_id: int) -> Appended:
    """Append the rows of a batch, unless this batch of this query is in the table already.

    For `foreachBatch`: `app_id` is the permanent name of the query, `batch_id` only grows. New
    columns are added to the table. Raises Conflict for a column of another type.
    """
    (appended,) = append_all(frame.sparkSession, [Part(frame, table)], app_id, batch_id)
    return appended


def append_all(
    spark: SparkSession, parts: Sequence[Part], app_id: str, batch_id: int
) -> list[Appended]:
    """Append parts of a batch as `append` does. Tasks of Spark write the files; one more job reads
    the footers of all of them.
    """
    every = [_stage(part, app_id, batch_id) for part in parts]
    new = [staged for staged in every if staged is not None]
    by_path = footers.read(spark, [path for staged in new for path in staged.paths])
    return [
        Appended(0, 0, again=True) if staged is None else _commit(staged, by_path)
        for staged in every
    ]


@dataclass(frozen=True)
class _Staged:
    """Files of a batch that Spark has written to the staging folder of a table."""

    target: "_Target"
    folder: str
    app_id: str
    batch_id: int
    moves: list[tuple[str, str]]
    """Paths in the staging folder, and in the table."""

    @property
    def paths(self) -> list[str]:
        """The files as URIs for `uris.files`."""
        return [f"{self.target.scheme}{path}" for path, _ in self.moves]


def _stage(part: Part, app_id: str, batch_id: int) -> _Staged | None:
    """Write the files of a part by Spark; return None if the table has the batch."""
    target = _Target(part.table)
    if target.has(app_id, batch_id):
        return None
    frame = part.frame
    target.prepare(frame.schema)
    name = f"{quote(app_id, safe='')}-{batch_id:010}"
    staged = f"{target.root}/{STAGING}/{name}"
    if part.rows is not None:
        frame = frame.coalesce(-(-part.rows // FILE_ROWS))
    write_parquet(frame, f"{target.prefix}{staged}", part.table.partition_by)
    found = list(_files(target.files, staged))
    stem = _file_stem(app_id)
    moves = [
        (path, f"{folder}{stem}-{batch_id:010}-{number:05}.parquet")
        for number, (path, folder) in enumerate(found)
    ]
    return _Staged(target, staged, app_id, batch_id, moves)


def _file_stem(app_id: str) -> str:
    """The unique prefix of the files of a query.

    It has no character that URLs escape: paths in the log of a Delta table are URL-encoded, which
    some readers do not decode.
    """
    escaped = quote(app_id.replace("_", "__"), safe="").replace("~", "%7E")
    return escaped.replace("%", "_")


def _commit(staged: _Staged, by_path: Mapping[str, footers.Footer]) -> Appended:
    """Move files into their table, and add them in one transaction."""
    target, files = staged.target, list[_File]()
    moves = list[tuple[str, str]]()
    for uri, (staging, path) in zip(staged.paths, staged.moves, strict=True):
        if by_path[uri].rows:
            files.append(_File(path, _values(path), by_path[uri]))
            moves.append((staging, f"{target.root}/{path}"))
    if files:
        for staging, final in moves:
            target.files.create_dir(final.rpartition("/")[0], recursive=True)
            target.files.move(staging, final)
        target.commit(files, staged.app_id, staged.batch_id)
    target.files.delete_dir(staged.folder)
    return Appended(sum(file.footer.rows for file in files), len(files))


@dataclass(frozen=True)
class _File:
    """A file of a batch: its path in the table, its partition values, its footer."""

    path: str
    values: dict[str, str | None]
    footer: footers.Footer


def append_arrow(rows: pyarrow.Table, table: Table, app_id: str, batch_id: int) -> Appended:
    """Append rows of this process, as `append` does those of a frame."""
    if not len(rows):
        return Appended(0, 0)
    for left in reversed(range(APPENDS_MAX)):
        opened = _open_or_create(table, rows.schema)
        known = opened.transaction_version(app_id)
        if known is not None and known >= batch_id:
            return Appended(0, 0, again=True)
        try:
            # against the version that was checked: a concurrent append of the batch conflicts
            write_deltalake(
                opened,
                rows,
                mode="append",
                schema_mode="merge",
                commit_properties=transactions({app_id: batch_id}),
            )
            break
        except CommitFailedError:
            # another process appended the batch, or another source changed the schema
            if not left:
                raise
    return Appended(len(rows), 1)


def _open_or_create(table: Table, schema: pyarrow.Schema) -> DeltaTable:
    """Open the table, or create it."""
    if not DeltaTable.is_deltatable(table.path):
        by = list(table.partition_by)
        # concurrent creations would conflict
        with _MAKING:
            DeltaTable.create(table.path, schema, mode="ignore", partition_by=by)
    return DeltaTable(table.path)


def replace_arrow(
    rows: pyarrow.RecordBatchReader, table: Table, where: str, batches: Mapping[str, int]
) -> None:
    """Replace the rows for which an SQL condition holds by these, in one transaction.

    The condition holds for each new row. The table records these batches of these queries.
    """
    opened = _open_or_create(table, rows.schema)
    write_deltalake(
        opened,
        rows,
        mode="overwrite",
        predicate=where,
        schema_mode="merge",
        commit_properties=transactions(batches),
    )


def transactions(batches: Mapping[str, int]) -> CommitProperties:
    """Return the properties of a commit that record the last batches of queries, by name."""
    found = [Transaction(app_id, batch_id) for app_id, batch_id in batches.items()]
    return CommitProperties(app_transactions=found)


def read(spark: SparkSession, table: Table) -> DataFrame:
    """Return the current table as a frame, without a jar; raises Missing if there is none."""
    target = _Target(table)
    paths, schema = target.contents()
    if not paths:
        return spark.createDataFrame([], schema)
    root = f"{target.prefix}{target.root}"
    reader = spark.read.schema(schema).option("basePath", root)
    return _with_partition_values(reader.parquet(*(f"{root}/{path}" for path in paths)), paths)


def compact(table: Table) -> int:
    """Compact small files; return the number of removed files. One process at a time does it."""
    # one core, and no rewriting of large files: batches run meanwhile
    compacted = DeltaTable(table.path).optimize.compact(
        target_size=SMALL_SIZE, max_concurrent_tasks=1
    )
    return int(compacted["numFilesRemoved"])


def vacuum(table: Table, keep_days: int) -> int:
    """Delete files that no version of the last days uses, and their log; return the number of
    deleted data files.
    """
    return delete_expired(DeltaTable(table.path), keep_days * HOURS_PER_DAY * HOUR_MS)


def delete_expired(opened: DeltaTable, keep_ms: int) -> int:
    """Delete data files that no version within this time uses, and the log up to the last
    checkpoint before; return the number of data files.

    A checkpoint has all files of the table, and the last batch of each query.
    """
    wanted = {
        "delta.logRetentionDuration": f"interval {-(-keep_ms // 1000)} seconds",
        # otherwise each append lists the whole log
        "delta.enableExpiredLogCleanup": "false",
    }
    if not wanted.items() <= opened.metadata().configuration.items():
        opened.alter.set_table_properties(wanted)
    gone = opened.vacuum(
        retention_hours=-(-keep_ms // HOUR_MS), dry_run=False, enforce_retention_duration=False
    )
    # later appends read the log from here
    opened.create_checkpoint()
    opened.cleanup_metadata()
    return len(gone)


class _Target:
    """A Delta table that a batch is appended to."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.files, self.root = uris.files(table.path)
        path = table.path.rstrip("/")
        # the part of a URI that selects the file system, as Spark and as pyarrow write it
        self.scheme = path[: len(path) - len(self.root)] if uris.is_uri(path) else ""
        self.prefix = uris.for_spark(self.scheme)
        self._opened = DeltaTable(path) if DeltaTable.is_deltatable(path) else None

    def has(self, app_id: str, batch_id: int) -> bool:
        version = self._opened.transaction_version(app_id) if self._opened else None
        return version is not None and version >= batch_id

    def prepare(self, schema: StructType) -> None:
        """Create the table, or add missing columns."""
        wanted = _arrow(schema)
        if self._opened is None:
            self._opened = _open_or_create(self.table, wanted)
        known = {field.name: field.type for field in self._opened.schema().fields}
        fields = Schema.from_arrow(wanted).fields
        for field in fields:
            if field.name in known and known[field.name] != field.type:
                raise Conflict(
                    "E4000",
                    f"{self.table.path}: column {field.name} is {known[field.name]} and the batch "
                    f"has {field.type}; cast it, or use a new table",
                )
        new = [Field(field.name, field.type) for field in fields if field.name not in known]
        if new:
            self._opened.alter.add_columns(new)

    def commit(self, files: list[_File], app_id: str, batch_id: int) -> None:
        table = self._opened
        assert table is not None
        now_ms = int(self.files.get_file_info(f"{self.root}/{files[0].path}").mtime_ns / 1e6)
        for left in reversed(range(APPENDS_MAX)):
            try:
                # against the version that was checked: a concurrent append of the batch conflicts
                table.create_write_transaction(
                    [_added(file, now_ms) for file in files],
                    "append",
                    table.schema(),
                    list(self.table.partition_by),
                    commit_properties=transactions({app_id: batch_id}),
                )
                return
            except CommitFailedError:
                if not left:
                    raise
            table = self._opened = DeltaTable(self.table.path)
            if self.has(app_id, batch_id):
                return

    def contents(self) -> tuple[list[str], StructType]:
        """Return the paths of files in the table, and its columns."""
        table = self._opened
        if table is None:
            raise Missing("E3000", f"{self.table.path} is no Delta table; write to it first")
        schema = from_arrow_schema(pyarrow.schema(table.schema().to_arrow()))
        # paths in the log are URL-encoded
        paths = pyarrow.table(table.get_add_actions())["path"].to_pylist()
        return [unquote(path) for path in paths], schema


def _with_partition_values(frame: DataFrame, paths: Iterable[str]) -> DataFrame:
    """Correct partition values that Spark decodes from names of folders.

    delta-rs escapes a letter beyond ASCII as its bytes in UTF-8, `%C3%A9`; Spark decodes each byte
    as a letter.
    """
    values = {part for path in paths for part in path.split("/")[:-1]}
    wrong: dict[str, dict[str, str]] = {}
    for name, _, value in (part.partition("=") for part in values):
        decoded = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), value)
        if decoded != unquote(value):
            wrong.setdefault(name, {})[decoded] = unquote(value)
    for name, by_wrong in wrong.items():
        pairs = (F.lit(one) for pair in by_wrong.items() for one in pair)
        right = F.create_map(*pairs)[F.col(name)]
        frame = frame.withColumn(name, F.coalesce(right, F.col(name)))
    return frame


def _arrow(schema: StructType) -> pyarrow.Schema:
    """The schema in Arrow. All columns are nullable: a later batch may lack them."""
    return pyarrow.schema(
        field.with_nullable(True) for field in to_arrow_schema(schema, timezone="UTC")
    )


def _files(files: Any, root: str) -> Iterator[tuple[str, str]]:
    """Yield the Parquet files in a folder, with their partition folders."""
    for info in files.get_file_info(pyarrow.fs.FileSelector(root, recursive=True)):
        below = info.path[len(root) + 1 :]
        folder = below.rpartition("/")[0]
        if below.endswith(".parquet") and not below.startswith("_"):
            yield info.path, f"{folder}/" if folder else ""


def _values(path: str) -> dict[str, str | None]:
    """The partition values in the path of a file."""
    pairs = [part.partition("=") for part in path.split("/")[:-1]]
    return {name: None if value == NULL_PARTITION else unquote(value) for name, _, value in pairs}


def added(files: Any, path: str, name: str) -> AddAction:
    """Return the action that adds a file to the Delta table of its folder, under its name there."""
    now_ms = int(files.get_file_info(path).mtime_ns / 1e6)
    return _added(_File(name, _values(name), footers.footer(files, path)), now_ms)


def _added(file: _File, now_ms: int) -> AddAction:
    footer = file.footer
    return AddAction(file.path, footer.size, file.values, now_ms, True, footer.statistics)


def write_parquet(frame: DataFrame, path: str, partition_by: Sequence[str] = ()) -> None:
    """Write a folder of Parquet files, with times as Delta requires them, not as Hive."""
    settings = frame.sparkSession.conf
    before = settings.get(TIMESTAMPS)
    settings.set(TIMESTAMPS, "TIMESTAMP_MICROS")
    try:
        writer = frame.write.mode("overwrite").option("compression", "zstd")
        writer.partitionBy(*partition_by).parquet(path)
    finally:
        settings.set(TIMESTAMPS, str(before))
