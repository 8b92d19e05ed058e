"""Delta tables that a batch of a streaming query is appended to once.

Spark writes the files of a batch to a place where nobody looks; they are moved to where they
belong, and one atomic step makes them rows of the table and remembers the batch. A batch that is
remembered is not written again. The files lie by the values of their partition columns
(`date=2026-01-31/`), so that whatever reads Parquet finds its way.
"""

import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""What stands for null in the name of a folder."""
STAGING = "_staging"
SMALL_SIZE = 32 << 20
"""Compaction leaves files of this size and larger as they are."""
FILE_ROWS = 500_000
"""Rows of a batch that one task writes, if it is known how many there are."""
HOURS_A_DAY, HOUR_MS = 24, 3_600_000
APPENDS_MAX = 8
"""How often rows are appended while others change what the table is."""
_MAKING = threading.Lock()
_ESCAPED = re.compile("%([0-9A-Fa-f]{2})")
TIMESTAMPS = "spark.sql.parquet.outputTimestampType"


@dataclass(frozen=True)
class Table:
    """Where a table lies: a folder, or a URI as in `uris`."""

    path: str
    partition_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class Appended:
    """What became of a batch. `again`: it was in the table before, and nothing has changed."""

    rows: int
    files: int
    again: bool = False


@dataclass(frozen=True)
class Part:
    """Rows of a batch for one table, and how many there are if that is known."""

    frame: DataFrame
    table: Table
    rows: int | None = None


def append(frame: DataFrame, table: Table, app_id: str, batch_id: int) -> Appended:
    """Append the rows of a batch, unless this batch of this query is in the table already.

    To be called from `foreachBatch`; `app_id` names the query for ever and the table knows it by
    that name, `batch_id` only grows. Columns that the table does not have are added to it. Raises
    Conflict for a column of another type than the table's.
    """
    (appended,) = append_all(frame.sparkSession, [Part(frame, table)], app_id, batch_id)
    return appended


def append_all(
    spark: SparkSession, parts: Sequence[Part], app_id: str, batch_id: int
) -> list[Appended]:
    """Append parts of a batch as `append` does; Spark's tasks write the files, and then describe
    those of all tables in one job."""
    written = [_written(part, app_id, batch_id) for part in parts]
    there = [staged for staged in written if staged is not None]
    described = footers.read(spark, [path for staged in there for path in staged.paths])
    return [
        Appended(0, 0, again=True) if staged is None else _committed(staged, described)
        for staged in written
    ]


@dataclass(frozen=True)
class _Staged:
    """The files of a batch that Spark has written for a table, where they are no part of it yet."""

    keeper: "_Delta"
    folder: str
    app_id: str
    batch_id: int
    moves: list[tuple[str, str]]
    """Paths, and places below the table where they will lie."""

    @property
    def paths(self) -> list[str]:
        """Where the files lie, as `uris.files` takes it."""
        return [f"{self.keeper.scheme}{path}" for path, _ in self.moves]


def _written(part: Part, app_id: str, batch_id: int) -> _Staged | None:
    """Let Spark write the files of a part; None if the table has the batch."""
    keeper = _Delta(part.table)
    if keeper.has(app_id, batch_id):
        return None
    frame = part.frame
    keeper.prepare(frame.schema)
    name = f"{quote(app_id, safe='')}-{batch_id:010}"
    staged = f"{keeper.root}/{STAGING}/{name}"
    if part.rows is not None:
        frame = frame.coalesce(-(-part.rows // FILE_ROWS))
    writer = frame.write.mode("overwrite").option("compression", "zstd")
    with _microseconds(frame.sparkSession):
        writer.partitionBy(*part.table.partition_by).parquet(f"{keeper.prefix}{staged}")
    found = list(_files(keeper.files, staged))
    plain = _plain(app_id)
    moves = [
        (path, f"{folder}{plain}-{batch_id:010}-{number:05}.parquet")
        for number, (path, folder) in enumerate(found)
    ]
    return _Staged(keeper, staged, app_id, batch_id, moves)


def _plain(app_id: str) -> str:
    """The name of a query as a part of the names of files, another one for each query.

    It has nothing that a URL escapes: the log of a Delta table has places as URLs have them, and
    not every reader of it takes that back.
    """
    escaped = quote(app_id.replace("_", "__"), safe="").replace("~", "%7E")
    return escaped.replace("%", "_")


def _committed(staged: _Staged, described: Mapping[str, footers.Footer]) -> Appended:
    """Make files rows of their table."""
    keeper, files = staged.keeper, list[_File]()
    moves = list[tuple[str, str]]()
    for path, (here, place) in zip(staged.paths, staged.moves, strict=True):
        if described[path].rows:
            files.append(_File(place, _values(place), described[path]))
            moves.append((here, f"{keeper.root}/{place}"))
    if files:
        for here, there in moves:
            keeper.files.create_dir(there.rpartition("/")[0], recursive=True)
            keeper.files.move(here, there)
        keeper.commit(files, staged.app_id, staged.batch_id)
    keeper.files.delete_dir(staged.folder)
    return Appended(sum(file.footer.rows for file in files), len(files))


@dataclass(frozen=True)
class _File:
    """A file of a batch: its place below the table, its partition values, its footer."""

    place: str
    values: dict[str, str | None]
    footer: footers.Footer


def append_arrow(rows: pyarrow.Table, table: Table, app_id: str, batch_id: int) -> Appended:
    """Append rows that are in this process, as `append` does those of a frame, to a Delta table."""
    if not len(rows):
        return Appended(0, 0)
    for left in reversed(range(APPENDS_MAX)):
        opened = _opened(table, rows.schema)
        known = opened.transaction_version(app_id)
        if known is not None and known >= batch_id:
            return Appended(0, 0, again=True)
        try:
            # the version that was looked at: a batch that came in since then is a conflict
            write_deltalake(
                opened,
                rows,
                mode="append",
                schema_mode="merge",
                commit_properties=remembering({app_id: batch_id}),
            )
            break
        except CommitFailedError:
            # the same batch came in, or another source has given the table a column or a property
            if not left:
                raise
    return Appended(len(rows), 1)


def _opened(table: Table, schema: pyarrow.Schema) -> DeltaTable:
    """Return the table, made if it is not there."""
    if not DeltaTable.is_deltatable(table.path):
        by = list(table.partition_by)
        # of several that make a table at once all but one would fail
        with _MAKING:
            DeltaTable.create(table.path, schema, mode="ignore", partition_by=by)
    return DeltaTable(table.path)


def replace_arrow(
    rows: pyarrow.RecordBatchReader, table: Table, where: str, batches: Mapping[str, int]
) -> None:
    """Let these be the rows of a Delta table for which a condition holds, in one transaction.

    It holds for each of them, and is SQL. The table remembers these batches of these queries.
    """
    opened = _opened(table, rows.schema)
    write_deltalake(
        opened,
        rows,
        mode="overwrite",
        predicate=where,
        schema_mode="merge",
        commit_properties=remembering(batches),
    )


def remembering(batches: Mapping[str, int]) -> CommitProperties:
    """Return what lets a Delta table remember the last batches of queries, by their names."""
    found = [Transaction(app_id, batch_id) for app_id, batch_id in batches.items()]
    return CommitProperties(app_transactions=found)


def read(spark: SparkSession, table: Table) -> DataFrame:
    """Return the table as it is now, without any jar; raises Missing if there is none."""
    keeper = _Delta(table)
    places, schema = keeper.contents()
    if not places:
        return spark.createDataFrame([], schema)
    root = f"{keeper.prefix}{keeper.root}"
    reader = spark.read.schema(schema).option("basePath", root)
    return _named(reader.parquet(*(f"{root}/{place}" for place in places)), places)


def dataset(opened: DeltaTable, path: str) -> Any:
    """Return the rows of a Delta table that was opened at a path, as pyarrow reads them.

    It reads the files itself. By way of delta-rs its threads would ask Python for them, and abort a
    process that ends meanwhile, which happens with files of a bucket.
    """
    files, root = uris.files(path)
    return opened.to_pyarrow_dataset(filesystem=pyarrow.fs.SubTreeFileSystem(root, files))


def compact(table: Table) -> int:
    """Join small files of a table; return how many are gone. One process at a time does it."""
    # one core, and no large file again and again: batches go on meanwhile
    joined = DeltaTable(table.path).optimize.compact(target_size=SMALL_SIZE, max_concurrent_tasks=1)
    return int(joined["numFilesRemoved"])


def vacuum(table: Table, keep_days: int) -> int:
    """Delete files that no version of the last days has, and the log before them; return how many
    files of rows are gone."""
    return clean(DeltaTable(table.path), keep_days * HOURS_A_DAY * HOUR_MS)


def clean(opened: DeltaTable, keep_ms: int) -> int:
    """Delete what a Delta table has of more than this time ago: files of rows, and its log up to
    the last checkpoint before; return how many files of rows.

    Versions of that time stay. A checkpoint has all that is in the table, and each last batch.
    """
    wanted = {
        "delta.logRetentionDuration": f"interval {-(-keep_ms // 1000)} seconds",
        # each append would look at the whole log for what is too old in it
        "delta.enableExpiredLogCleanup": "false",
    }
    if not wanted.items() <= opened.metadata().configuration.items():
        opened.alter.set_table_properties(wanted)
    gone = opened.vacuum(
        retention_hours=-(-keep_ms // HOUR_MS), dry_run=False, enforce_retention_duration=False
    )
    # the next append reads no more than came since
    opened.create_checkpoint()
    opened.cleanup_metadata()
    return len(gone)


class _Delta:
    """The log of a Delta table holds the files and the last batch of each query."""

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
        """Make the table, or give it the columns that it does not have."""
        wanted = _arrow(schema)
        if self._opened is None:
            self._opened = _opened(self.table, wanted)
        known = {field.name: field.type for field in self._opened.schema().fields}
        fields = Schema.from_arrow(wanted).fields
        for field in fields:
            if field.name in known and known[field.name] != field.type:
                raise Conflict(
                    "E4000",
                    f"{self.table.path}: column {field.name} is {known[field.name]} and the batch "
                    f"has {field.type}; cast it, or begin a new table",
                )
        new = [Field(field.name, field.type) for field in fields if field.name not in known]
        if new:
            self._opened.alter.add_columns(new)

    def commit(self, files: list[_File], app_id: str, batch_id: int) -> None:
        table = self._opened
        assert table is not None
        now_ms = int(self.files.get_file_info(f"{self.root}/{files[0].place}").mtime_ns / 1e6)
        for left in reversed(range(APPENDS_MAX)):
            try:
                # the version that was looked at: a batch that came in since then is a conflict
                table.create_write_transaction(
                    [_added(file, now_ms) for file in files],
                    "append",
                    table.schema(),
                    list(self.table.partition_by),
                    commit_properties=remembering({app_id: batch_id}),
                )
                return
            except CommitFailedError:
                if not left:
                    raise
            table = self._opened = DeltaTable(self.table.path)
            if self.has(app_id, batch_id):
                return

    def contents(self) -> tuple[list[str], StructType]:
        """Return the places of files below the table, and its columns."""
        table = self._opened
        if table is None:
            raise Missing("E3000", f"{self.table.path} is no Delta table; write to it first")
        schema = from_arrow_schema(pyarrow.schema(table.schema().to_arrow()))
        return list(dataset(table, self.table.path).files), schema


def _named(frame: DataFrame, places: Iterable[str]) -> DataFrame:
    """The same frame with the values that folders are named by.

    delta-rs writes a letter beyond ASCII as its bytes in UTF-8, `%C3%A9`; Spark takes each of them
    for a letter.
    """
    values = {part for place in places for part in place.split("/")[:-1]}
    wrong: dict[str, dict[str, str]] = {}
    for name, _, value in (part.partition("=") for part in values):
        taken = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), value)
        if taken != unquote(value):
            wrong.setdefault(name, {})[taken] = unquote(value)
    for name, rights in wrong.items():
        right = F.create_map(*(F.lit(one) for pair in rights.items() for one in pair))[F.col(name)]
        frame = frame.withColumn(name, F.coalesce(right, F.col(name)))
    return frame


def _arrow(schema: StructType) -> pyarrow.Schema:
    """The same in Arrow. A table takes null everywhere: a later batch may lack the column."""
    return pyarrow.schema(
        field.with_nullable(True) for field in to_arrow_schema(schema, timezone="UTC")
    )


def _files(files: Any, root: str) -> Iterator[tuple[str, str]]:
    """Each Parquet file below a folder, with the folders of its partition between."""
    for info in files.get_file_info(pyarrow.fs.FileSelector(root, recursive=True)):
        below = info.path[len(root) + 1 :]
        folder = below.rpartition("/")[0]
        if below.endswith(".parquet") and not below.startswith("_"):
            yield info.path, f"{folder}/" if folder else ""


def _values(place: str) -> dict[str, str | None]:
    """The partition values that the folders of a file are named by."""
    pairs = [part.partition("=") for part in place.split("/")[:-1]]
    return {name: None if value == NO_VALUE else unquote(value) for name, _, value in pairs}


def added(files: Any, path: str, place: str) -> AddAction:
    """Return what makes a file one of the Delta table that it lies in, at a place below it."""
    now_ms = int(files.get_file_info(path).mtime_ns / 1e6)
    return _added(_File(place, _values(place), footers.footer(files, path)), now_ms)


def _added(file: _File, now_ms: int) -> AddAction:
    footer = file.footer
    return AddAction(file.place, footer.size, file.values, now_ms, True, footer.statistics)


@contextmanager
def _microseconds(spark: SparkSession) -> Iterator[None]:
    """Let Spark write times as Delta wants them, not as Hive did."""
    before = spark.conf.get(TIMESTAMPS)
    spark.conf.set(TIMESTAMPS, "TIMESTAMP_MICROS")
    try:
        yield
    finally:
        spark.conf.set(TIMESTAMPS, str(before))
