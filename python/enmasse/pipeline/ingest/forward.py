"""Sinks of the document: new rows of a table go to an address, each stored once.

Tasks of Spark send the rows of a batch: each row is of the task that a hash of its partition,
offset and index says, of as many tasks as the checkpoint says, and has its number by its place
among them (`sink`). So a batch that is repeated gives the same numbers, wherever its rows come
from. Another `where` or table gives rows numbers of their own, so none passes for one that was
sent before. What an address rejects is kept in the table `rejected`.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
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
PLACE = ("partition", "offset", "index")
ORDER = 1
"""Counts up with each change of the order of rows."""
DIGEST_LENGTH = 12
NOTE = "sink-tasks"
"""The file of a checkpoint that says how many tasks send."""
_SENT = "rows long, rejected long"


def tasks_of(checkpoint: str, wanted: int) -> int:
    """Return in how many tasks rows of a query are sent: for ever as many as when it began.

    A query that began before there was a choice has one.
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


class Forward:
    """Sends rows of one source to the address of one sink."""

    def __init__(self, to: Sink, server: Writing, rejected: str, path: str, tasks: int) -> None:
        """`rejected` is the folder of the table of rejected rows, `path` where the sink stands in
        the document; connect to nothing yet."""
        self._sink = to
        self._path = path
        self._tasks = tasks
        self._options = replace(server, address=to.address, dead_letter=rejected, by_content=False)

    @property
    def name(self) -> str:
        """What the document calls it."""
        return self._sink.name

    @property
    def table(self) -> str:
        """The table whose new rows are sent."""
        return self._sink.table

    def check(self, spark: SparkSession) -> None:
        """Raise Invalid for a condition that Spark does not understand."""
        schema = pyarrow.schema([silver.SCHEMA.field(name) for name in COLUMNS[self.table]])
        try:
            self._messages(spark.createDataFrame([], from_arrow_schema(schema))).schema  # noqa: B018
        except PySparkException as error:
            first = str(error).splitlines()[0]
            raise Invalid("E1003", f"{self._path}.where: {first}") from None

    def __call__(self, rows: DataFrame, app_id: str, batch_id: int) -> int:
        """Send the rows of a batch, wait until each has an outcome, and return how many are stored.

        Raises Unavailable if the server is away for too long.
        """
        producer = f"{app_id}/sinks/{self._sink.name}/{_asked(self._sink)}"
        found = self._messages(rows).mapInArrow(_send(self._options, producer, batch_id), _SENT)
        tasks = found.collect()
        # what is rejected was written down by its task
        sink.keep_rejected(self._options, [sink.Sent(0, producer, batch_id, None)])
        return sum(one.rows - one.rejected for one in tasks)

    def _messages(self, rows: DataFrame) -> DataFrame:
        """Rows as messages, each in its task and in its place there."""
        if self._sink.where is not None:
            rows = rows.where(self._sink.where)
        others = [name for name in rows.columns if name not in PLACE]
        # an order that depends on nothing but the rows
        order = [F.col(name).asc_nulls_last() for name in (*PLACE, *others)]
        names = [f"`{name}`" for name in rows.columns]
        placed = rows.repartition(self._tasks, *PLACE).sortWithinPartitions(*order)
        return placed.select(
            F.to_json(F.struct(*names)).alias("body"),
            F.col("device").alias("group_id"),
            F.lit(self._sink.name).alias("subject"),
            F.lit("application/json").alias("content_type"),
        )


def _send(
    options: Writing, producer: str, batch_id: int
) -> Callable[[Iterator[pyarrow.RecordBatch]], Iterator[pyarrow.RecordBatch]]:
    def send(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        first = next(batches, None)
        if first is None:
            return
        context = TaskContext.get()
        place = sink.Place(producer, batch_id, context.partitionId() if context else 0)
        sent = sink.deliver(options, place, chain([first], batches))
        rejected = 0
        if sent.rejected is not None and options.dead_letter is not None:
            rejected = len(sent.rejected)
            sink.write_down(options.dead_letter, place, sent.rejected)
        yield pyarrow.RecordBatch.from_pylist([{"rows": sent.rows, "rejected": rejected}])

    return send


def _asked(to: Sink) -> str:
    """A digest of what decides which number a row has."""
    chosen = json.dumps([ORDER, to.table, to.where])
    return hashlib.sha256(chosen.encode()).hexdigest()[:DIGEST_LENGTH]
