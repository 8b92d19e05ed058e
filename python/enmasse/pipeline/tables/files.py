"""The Parquet files of a Delta table: written by Spark, described for the log, read by path.

On a local disk Spark writes to a staging folder, and files are renamed into the folder of their
partition (`date=2026-01-31/`). Renaming an object of a bucket would copy it: there files stay in
the folder that the committer of Spark wrote. Readers ignore files until a transaction adds them.
"""

import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow
import pyarrow.fs
import pyarrow.parquet
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from enmasse.pipeline.connector import uris

if TYPE_CHECKING:
    from deltalake.transaction import AddAction

NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""The partition value null in the name of a folder."""
STAGING = "_staging"
TIMESTAMPS = "spark.sql.parquet.outputTimestampType"
DISTINCT = (
    *("body", "message_id", "correlation_id", "creation_time", "absolute_expiry_time"),
    *("offset", "enqueued_time", "event_time", "last_offset", "last_time"),
    *("sum", "mean", "stddev", "spread", "sketch"),
)
"""Columns of all tables whose values hardly repeat. Parquet files have no dictionary of them: it
takes a quarter of the time of writing, and makes files larger."""
FEW_FILES = 16
"""Up to this number the driver reads the footers: a job of Spark takes longer."""
_FOOTER = "table string, path string, size long, rows long, written_ms long, statistics string"
_CLOUD = ("AWS_",)
"""Prefixes of environment variables that tasks need to read a bucket."""


@dataclass(frozen=True)
class Table:
    """The location of a table: a folder, or a URI as in `uris`."""

    path: str
    partition_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class Staged:
    """Files that Spark has written, and that no transaction has added yet."""

    table: Table
    name: str
    folder: str
    """The folder of the files within that of the table."""

    paths: tuple[str, ...]
    """The files within their folder, with the folders of their partitions."""


def stage(frame: DataFrame, table: Table, name: str) -> Staged:
    """Write rows by Spark. `name` is unique to them: files of an earlier attempt are replaced."""
    folder = name if uris.is_uri(table.path) else f"{STAGING}/{name}"
    files, root = uris.files(f"{table.path}/{folder}")
    write_parquet(frame, uris.for_spark(f"{table.path}/{folder}"), table.partition_by)
    found = files.get_file_info(pyarrow.fs.FileSelector(root, recursive=True))
    paths = (info.path[len(root) + 1 :] for info in found)
    # other files have names with an underscore
    data = tuple(path for path in paths if path.endswith(".parquet") and path[0] != "_")
    return Staged(table, name, folder, data)


def discard_staged(table: Table) -> None:
    """Delete what interrupted writers left, where no other one may be at work."""
    found, root = uris.files(table.path)
    if found.get_file_info(f"{root}/{STAGING}").type != pyarrow.fs.FileType.NotFound:
        found.delete_dir(f"{root}/{STAGING}")


def write_parquet(frame: DataFrame, path: str, partition_by: Sequence[str] = ()) -> None:
    """Write a folder of Parquet files, with times as Delta requires them, not as Hive."""
    settings = frame.sparkSession.conf
    before = settings.get(TIMESTAMPS)
    settings.set(TIMESTAMPS, "TIMESTAMP_MICROS")
    try:
        writer = frame.write.mode("overwrite").option("compression", "zstd")
        for column in DISTINCT:
            writer = writer.option(f"parquet.enable.dictionary#{column}", "false")
        writer.partitionBy(*partition_by).parquet(path)
    finally:
        settings.set(TIMESTAMPS, str(before))


def publish(spark: SparkSession, staged: Sequence[Staged]) -> "list[list[AddAction]]":
    """Put files where they stay; return the actions that add them to their tables.

    Tasks of Spark read the footers of all of them in one job, unless there are few. Empty files are
    dropped.
    """
    locations = [(one.table.path, f"{one.folder}/{path}") for one in staged for path in one.paths]
    few = len(locations) <= FEW_FILES
    footers = _read_footers(locations) if few else _footers(spark, locations)
    return [_published(one, footers) for one in staged]


def _published(staged: Staged, footers: Mapping[tuple[str, str], Any]) -> "list[AddAction]":
    # tasks, which read footers, need not import it
    from deltalake.transaction import AddAction

    files, root = uris.files(staged.table.path)
    is_renamed = staged.folder != staged.name
    actions = []
    for number, path in enumerate(staged.paths):
        final = f"{staged.folder}/{path}"
        footer = footers[staged.table.path, final]
        if not footer.rows:
            continue
        partition = path.rpartition("/")[0]
        if is_renamed:
            final = f"{partition}/{staged.name}-{number:05}.parquet".lstrip("/")
            files.create_dir(f"{root}/{partition}", recursive=True)
            files.move(f"{root}/{staged.folder}/{path}", f"{root}/{final}")
        statistics, written_ms = footer.statistics, footer.written_ms
        values = partition_values(path)
        actions.append(AddAction(final, footer.size, values, written_ms, True, statistics))
    if is_renamed:
        files.delete_dir(f"{root}/{staged.folder}")
    return actions


def partition_values(path: str) -> dict[str, str | None]:
    """Return the partition values in the path of a file."""
    pairs = [part.partition("=") for part in path.split("/")[:-1] if "=" in part]
    return {name: None if value == NULL_PARTITION else unquote(value) for name, _, value in pairs}


def read(
    spark: SparkSession, table: Table, values: Mapping[str, Mapping[str, Any]], schema: StructType
) -> DataFrame:
    """Return the rows of files with the columns of a schema. `values` has the partition values of
    each file, by its path: their columns are in no file.
    """
    if not values:
        return spark.createDataFrame([], schema)
    _, root = uris.files(table.path)
    base = uris.for_spark(table.path) if uris.is_uri(table.path) else root
    # no partition discovery: the values are known
    reader = spark.read.schema(schema).option("recursiveFileLookup", "true")
    rows = reader.parquet(*(f"{base}/{path}" for path in values))
    named = [field for field in schema if field.name in table.partition_by]
    if not named:
        return rows
    known = StructType([*named, StructField("_path", StringType())])
    columns = [(*(one[field.name] for field in named), path) for path, one in values.items()]
    if len({one[:-1] for one in columns}) == 1:
        # the same in all files, so no join
        same = zip(named, columns[0], strict=False)
        known_to_all = {field.name: F.lit(one).cast(field.dataType) for field, one in same}
        return rows.withColumns(known_to_all).selectExpr(*(f"`{name}`" for name in schema.names))
    by_path = F.broadcast(spark.createDataFrame(columns, known))
    # a URL, in which `+` is itself
    url = F.url_decode(F.replace(F.col("_metadata.file_path"), F.lit("+"), F.lit("%2B")))
    inside = F.regexp_extract(url, f"(?s)^.*?{re.escape(root)}/(.*)$", 1)
    rows = rows.drop(*(field.name for field in named)).withColumn("_path", inside)
    return rows.join(by_path, "_path").selectExpr(*(f"`{name}`" for name in schema.names))


Footers = dict[tuple[str, str], Any]
"""The sizes and statistics of files, by table and path."""


def _footers(spark: SparkSession, locations: Sequence[tuple[str, str]]) -> Footers:
    """Read footers by tasks of Spark."""
    cloud = {name: value for name, value in os.environ.items() if name.startswith(_CLOUD)}

    def read_footers(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        for name, value in cloud.items():
            os.environ.setdefault(name, value)
        for batch in batches:
            yield pyarrow.RecordBatch.from_pylist([_footer(**row) for row in batch.to_pylist()])

    frame = spark.createDataFrame(list(locations), "table string, path string")
    rows = frame.mapInArrow(read_footers, _FOOTER).collect()
    return {(row["table"], row["path"]): row for row in rows}


def _read_footers(locations: Sequence[tuple[str, str]]) -> Footers:
    """Read footers in this process."""
    return {location: Row(**_footer(*location)) for location in locations}


def _footer(table: str, path: str) -> dict[str, Any]:
    files, root = uris.files(table)
    info = files.get_file_info(f"{root}/{path}")
    metadata = pyarrow.parquet.read_metadata(info.path, filesystem=files)
    counts = {"size": info.size, "rows": metadata.num_rows, "written_ms": info.mtime_ns // 10**6}
    return {"table": table, "path": path} | counts | {"statistics": _statistics(metadata)}


def _statistics(footer: Any) -> str:
    """Rows and bounds of columns, by which readers skip files.

    pyarrow skips every file for a filter on a column without bounds.
    """
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    unknown = set[str]()
    for group in range(footer.num_row_groups):
        for index in range(footer.num_columns):
            column = footer.row_group(group).column(index)
            name, found = column.path_in_schema, column.statistics
            if footer.schema.column(index).max_repetition_level:
                # inside a list or map
                continue
            bounds = (found.min, found.max) if found is not None and found.has_min_max else ()
            if not bounds or not all(map(_has_order, bounds)):
                unknown.add(name)
            else:
                least[name] = min(least.get(name, found.min), found.min)
                greatest[name] = max(greatest.get(name, found.max), found.max)
    return json.dumps(
        {
            "numRecords": footer.num_rows,
            "minValues": {n: _json(value) for n, value in least.items() if n not in unknown},
            "maxValues": {n: _json(value) for n, value in greatest.items() if n not in unknown},
        }
    )


def _has_order(value: Any) -> bool:
    """Whether JSON can represent a bound."""
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, (int, str, date)) and not isinstance(value, bool)


def _json(value: float | str | date) -> float | str:
    if not isinstance(value, datetime):
        return value.isoformat() if isinstance(value, date) else value
    return value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
