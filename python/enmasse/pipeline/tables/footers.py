"""Statistics of files for the log of a table, from their footers, read by tasks of Spark."""

import json
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import pyarrow
import pyarrow.parquet
from pyspark.sql import SparkSession

from enmasse.pipeline.connector import uris

_SCHEMA = "path string, size long, rows long, statistics string"
_CLOUD = ("AWS_",)
"""Prefixes of environment variables that tasks need to read a bucket."""


@dataclass(frozen=True)
class Footer:
    """The size of a file, its rows, and the bounds of its columns as JSON."""

    size: int
    rows: int
    statistics: str


def read(spark: SparkSession, paths: Sequence[str]) -> dict[str, Footer]:
    """Return the footers of files by path; `paths` are as for `uris.files`."""
    if not paths:
        return {}
    cloud = {name: value for name, value in os.environ.items() if name.startswith(_CLOUD)}

    def read_footers(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        for name, value in cloud.items():
            os.environ.setdefault(name, value)
        for batch in batches:
            found = [_described(path) for path in batch["path"].to_pylist()]
            yield pyarrow.RecordBatch.from_pylist(found)

    frame = spark.createDataFrame([(path,) for path in paths], "path string")
    rows = frame.mapInArrow(read_footers, _SCHEMA).collect()
    return {row.path: Footer(row.size, row.rows, row.statistics) for row in rows}


def _described(path: str) -> dict[str, Any]:
    files, path_in_files = uris.files(path)
    found = footer(files, path_in_files)
    counts = {"size": found.size, "rows": found.rows}
    return {"path": path} | counts | {"statistics": found.statistics}


def footer(files: Any, path: str) -> Footer:
    """Return the footer of a file."""
    metadata = pyarrow.parquet.read_metadata(path, filesystem=files)
    return Footer(files.get_file_info(path).size, metadata.num_rows, _statistics(metadata))


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
