"""Delta tables that a batch of a streaming query is appended to once.

Spark writes the files of a batch (`files`); one transaction of delta-rs adds them to the table and
records the batch. A recorded batch is not written again.
"""

import json
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote

import pyarrow
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
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from enmasse.base.errors import Conflict, Missing
from enmasse.pipeline.tables import files
from enmasse.pipeline.tables.files import Table

SMALL_SIZE = 32 << 20
"""Compaction leaves files of this size and larger as they are."""
FILE_ROWS = 50_000
"""Rows of a batch from which it has another file, each written by a task, if their number is
known."""
HOUR_MS = 3_600_000
APPENDS_MAX = 8
"""Attempts to append while other writers change the table."""
_MAKING = threading.Lock()


@dataclass(frozen=True)
class Appended:
    """The result of an append. `again`: the batch was in the table already."""

    rows: int
    files: int
    again: bool = False
    values: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict, compare=False)
    """The partition values of the new files, by path."""


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
    parts = [Part(frame, table)]
    added = append_all(frame.sparkSession, parts, app_id, batch_id).get(table)
    return Appended(0, 0, again=True) if added is None else added


def append_all(
    spark: SparkSession, parts: Sequence[Part], app_id: str, batch_id: int
) -> dict[Table, Appended]:
    """Append parts of a batch as `append` does; return the tables that did not have the batch."""
    # letters that URLs do not escape: some readers do not decode the paths of a log
    escaped = quote(app_id.replace("_", "__"), safe="").replace("~", "%7E").replace("%", "_")
    opened, staged = list[DeltaTable](), list[files.Staged]()
    for part in parts:
        schema = _nullable(part.frame.schema)
        table = open_or_create(part.table, schema)
        if _has(table, app_id, batch_id):
            continue
        _add_columns(table, part.table.path, schema)
        opened.append(table)
        tasks = None if part.rows is None else -(-part.rows // FILE_ROWS)
        frame = part.frame if tasks is None else part.frame.coalesce(tasks)
        staged.append(files.stage(frame, part.table, f"{escaped}-{batch_id:010}"))
    published = zip(opened, staged, files.publish(spark, staged), strict=True)
    return {
        one.table: _commit(table, one.table, actions, app_id, batch_id)
        for table, one, actions in published
    }


def _has(opened: DeltaTable, app_id: str, batch_id: int) -> bool:
    """Whether a batch of a query is in a table."""
    known = opened.transaction_version(app_id)
    return known is not None and known >= batch_id


def _nullable(schema: StructType) -> pyarrow.Schema:
    """The schema of a table: all columns are nullable, because a later batch may lack them."""
    return pyarrow.schema(
        one.with_nullable(True) for one in to_arrow_schema(schema, timezone="UTC")
    )


def _add_columns(opened: DeltaTable, path: str, schema: pyarrow.Schema) -> None:
    """Add missing columns; raises Conflict for one of another type."""
    known = {one.name: one.type for one in opened.schema().fields}
    fields = Schema.from_arrow(schema).fields
    for one in fields:
        if one.name in known and known[one.name] != one.type:
            raise Conflict(
                "E4000",
                f"{path}: column {one.name} is {known[one.name]} and the batch "
                f"has {one.type}; cast it, or use a new table",
            )
    if new := [Field(one.name, one.type) for one in fields if one.name not in known]:
        opened.alter.add_columns(new)
        opened.update_incremental()


def _commit(
    opened: DeltaTable, table: Table, actions: list[AddAction], app_id: str, batch_id: int
) -> Appended:
    """Add files to the table in one transaction, against the version that lacked the batch."""
    rows = sum(json.loads(action.stats or "{}")["numRecords"] for action in actions)
    for left in reversed(range(APPENDS_MAX if actions else 0)):
        try:
            # a concurrent append of the batch conflicts
            opened.create_write_transaction(
                [*actions],
                "append",
                opened.schema(),
                list(table.partition_by),
                commit_properties=transactions({app_id: batch_id}),
            )
            break
        except CommitFailedError:
            if not left:
                raise
        opened.update_incremental()
        if _has(opened, app_id, batch_id):
            break
    values = {action.path: action.partition_values for action in actions}
    return Appended(rows, len(actions), values=values)


def append_arrow(rows: pyarrow.Table, table: Table, app_id: str, batch_id: int) -> Appended:
    """Append rows of this process, as `append` does those of a frame."""
    for left in reversed(range(APPENDS_MAX if len(rows) else 0)):
        opened = open_or_create(table, rows.schema)
        if _has(opened, app_id, batch_id):
            return Appended(0, 0, again=True)
        try:
            _write(rows, opened, {app_id: batch_id})
            return Appended(len(rows), 1)
        except CommitFailedError:
            # another process appended the batch, or another source changed the schema
            if not left:
                raise
    return Appended(0, 0)


def replace_arrow(
    rows: pyarrow.RecordBatchReader, table: Table, where: str, batches: Mapping[str, int]
) -> None:
    """Replace the rows for which an SQL condition holds by these, in one transaction.

    The condition holds for each new row. The table records these batches of these queries.
    """
    _write(rows, open_or_create(table, rows.schema), batches, mode="overwrite", predicate=where)


def _write(rows: Any, to: DeltaTable, batches: Mapping[str, int], **mode: Any) -> None:
    """Write rows against the version that was opened, in one transaction."""
    given = {"mode": "append", "schema_mode": "merge"} | mode
    write_deltalake(to, rows, **given, commit_properties=transactions(batches))


def open_or_create(table: Table, schema: pyarrow.Schema) -> DeltaTable:
    """Open the table, or create it."""
    if not DeltaTable.is_deltatable(table.path):
        by = list(table.partition_by)
        # concurrent creations would conflict
        with _MAKING:
            DeltaTable.create(table.path, schema, mode="ignore", partition_by=by)
    return DeltaTable(table.path)


def transactions(batches: Mapping[str, int]) -> CommitProperties:
    """Return the properties of a commit that record the last batches of queries, by name."""
    found = [Transaction(app_id, batch_id) for app_id, batch_id in batches.items()]
    return CommitProperties(app_transactions=found)


def read(spark: SparkSession, table: Table, **partition: Collection[str | None]) -> DataFrame:
    """Return the current table as a frame, without a jar: of all rows, or of those with one of the
    values of each partition column. Raises Missing if there is no table.
    """
    if not DeltaTable.is_deltatable(table.path):
        raise Missing("E3000", f"{table.path} is no Delta table; write to it first")
    opened = DeltaTable(table.path)
    schema = from_arrow_schema(pyarrow.schema(opened.schema().to_arrow()))
    by = opened.metadata().partition_columns
    values = {
        # paths in the log are URL-encoded
        unquote(one["path"]): {name: one[f"partition.{name}"] for name in by}
        for one in pyarrow.table(opened.get_add_actions(flatten=True)).to_pylist()
        if all(one[f"partition.{name}"] in values for name, values in partition.items())
    }
    return files.read(spark, Table(table.path, tuple(by)), values, schema)


def compact(table: Table) -> int:
    """Compact small files; return the number of removed files. One process at a time does it."""
    # one core, and no rewriting of large files: batches run meanwhile
    compacted = DeltaTable(table.path).optimize.compact(
        target_size=SMALL_SIZE, max_concurrent_tasks=1
    )
    return int(compacted["numFilesRemoved"])


def vacuum(table: Table, keep_ms: int) -> int:
    """Delete data files that no version within this time uses, and the log up to the last
    checkpoint before; return the number of data files.

    A checkpoint has all files of the table, and the last batch of each query.
    """
    opened = DeltaTable(table.path)
    wanted = {
        "delta.logRetentionDuration": f"interval {-(-keep_ms // 1000)} seconds",
        # otherwise each append lists the whole log
        "delta.enableExpiredLogCleanup": "false",
    }
    if not wanted.items() <= opened.metadata().configuration.items():
        opened.alter.set_table_properties(wanted)
    hours = -(-keep_ms // HOUR_MS)
    gone = opened.vacuum(retention_hours=hours, dry_run=False, enforce_retention_duration=False)
    # later appends read the log from here
    opened.create_checkpoint()
    opened.cleanup_metadata()
    return len(gone)
