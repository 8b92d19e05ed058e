"""Sinks of the document: new rows of a table go to an address, each stored once.

Tasks of Spark send the rows of a batch. A hash of partition, offset and index selects the task of a
row, among a number of tasks fixed in the checkpoint; the row is numbered by its position in the
task (`sink`). So a repeated batch gives the same numbers, whichever executors run it. Another
`where` or table is another producer, so that no row is taken for an earlier one. Rejected rows go
to the table `rejected`.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import pyarrow
import pyarrow.fs
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from enmasse.base.errors import Invalid
from enmasse.pipeline.connector import sink, uris
from enmasse.pipeline.connector.options import Writing
from enmasse.pipeline.ingest import silver
from enmasse.resources.pipeline import Sink

COLUMNS = {"silver": silver.READING, "quarantine": silver.QUARANTINE}
POSITION = ("partition", "offset", "index")
ORDER = 1
"""Version of the order of rows."""
DIGEST_LENGTH = 12
NOTE = "sink-tasks"
"""The file of a checkpoint with the number of tasks."""
_SENT = "rows long, rejected long"


def task_count(checkpoint: str, wanted: int) -> int:
    """Return the number of tasks that send rows of a query, which never changes.

    Queries of earlier versions, without the file, have one.
    """
    files, root = uris.files(checkpoint)
    note = f"{root}/{NOTE}"
    if _exists(files, note):
        with files.open_input_stream(note) as file:
            return int(file.read())
    tasks = 1 if _exists(files, f"{root}/offsets") else wanted
    files.create_dir(root, recursive=True)
    with files.open_output_stream(f"{note}.new") as file:
        file.write(str(tasks).encode())
    files.move(f"{note}.new", note)
    return tasks


def _exists(files: Any, path: str) -> bool:
    return bool(files.get_file_info(path).type != pyarrow.fs.FileType.NotFound)


@dataclass(frozen=True)
class Forward:
    """Sends rows of one source to the address of one sink."""

    sink: Sink
    server: Writing
    rejected: str
    """The folder of the table of rejected rows."""

    field: str
    """The field of the document that has the sink."""

    tasks: int

    def check(self, spark: SparkSession) -> None:
        """Raise Invalid for a condition that Spark refuses."""
        schema = pyarrow.schema([silver.SCHEMA.field(name) for name in COLUMNS[self.sink.table]])
        try:
            self._messages(spark.createDataFrame([], from_arrow_schema(schema))).schema  # noqa: B018
        except PySparkException as error:
            first = str(error).splitlines()[0]
            raise Invalid("E1003", f"{self.field}.where: {first}") from None

    def __call__(self, rows: DataFrame, app_id: str, batch_id: int) -> int:
        """Send the rows of a batch, wait until each has an outcome, and return how many are stored.

        Raises Unavailable if the server is unavailable for too long.
        """
        producer = f"{app_id}/sinks/{self.sink.name}/{_producer_digest(self.sink)}"
        options = replace(
            self.server, address=self.sink.address, dead_letter=self.rejected, order="input"
        )
        tasks = self._messages(rows).mapInArrow(_send(options, producer, batch_id), _SENT).collect()
        # tasks have staged the rejected rows
        sink.commit_rejected(options, [sink.Sent(0, producer, batch_id, None)])
        return sum(one.rows - one.rejected for one in tasks)

    def _messages(self, rows: DataFrame) -> DataFrame:
        """Rows as messages, distributed among tasks and ordered."""
        if self.sink.where is not None:
            rows = rows.where(self.sink.where)
        others = [name for name in rows.columns if name not in POSITION]
        # the order depends on the rows only
        order = [F.col(name).asc_nulls_last() for name in (*POSITION, *others)]
        names = [f"`{name}`" for name in rows.columns]
        placed = rows.repartition(self.tasks, *POSITION).sortWithinPartitions(*order)
        return placed.select(
            F.to_json(F.struct(*names)).alias("body"),
            F.col("device").alias("group_id"),
            F.lit(self.sink.name).alias("subject"),
            F.lit("application/json").alias("content_type"),
        )


def _send(
    options: Writing, producer: str, batch_id: int
) -> Callable[[Iterator[pyarrow.RecordBatch]], Iterator[pyarrow.RecordBatch]]:
    def send_rows(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        first = next(batches, None)
        if first is None:
            return
        context = TaskContext.get()
        task = sink.TaskOfBatch(producer, batch_id, context.partitionId() if context else 0)
        sent = sink.deliver(options, task, chain([first], batches))
        rejected = 0
        if sent.rejected is not None and options.dead_letter is not None:
            rejected = len(sent.rejected)
            sink.stage_rejected(options.dead_letter, task, sent.rejected)
        yield pyarrow.RecordBatch.from_pylist([{"rows": sent.rows, "rejected": rejected}])

    return send_rows


def _producer_digest(to: Sink) -> str:
    """A digest of the settings that determine the number of a row."""
    chosen = json.dumps([ORDER, to.table, to.where])
    return hashlib.sha256(chosen.encode()).hexdigest()[:DIGEST_LENGTH]
