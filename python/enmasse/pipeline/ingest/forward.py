"""Sinks of the document: new rows of a table go to an address, each stored once.

The rows of a batch are those of one task of the format `enmasse` (`sink`), numbered by the batch.
They go in the order of what they say, part by part: a batch that is repeated, whose rows a step may
hand over in another order, gives the same numbers, and no batch is too large. Another `where` or
table gives rows numbers of their own, so none passes for one that was sent before. What an address
rejects is kept in the table `rejected`.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace

import pyarrow
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from enmasse.base.errors import Invalid
from enmasse.pipeline.connector import sink
from enmasse.pipeline.connector.options import Writing
from enmasse.pipeline.ingest import silver
from enmasse.resources.pipeline import Sink

COLUMNS = {"silver": silver.READING, "quarantine": silver.QUARANTINE}
PLACE = ("partition", "offset", "index")
ORDER = 1
"""Counts up with each change of the order of rows."""
PART_ROWS = 100_000
"""Rows that are made messages at a time."""
DIGEST_LENGTH = 12
SEND_ROWS = 20_000
"""Rows that have an outcome before the next ones are sent."""


class Forward:
    """Sends rows of one source to the address of one sink."""

    def __init__(self, to: Sink, server: Writing, rejected: str, path: str) -> None:
        """`rejected` is the folder of the table of rejected rows, `path` where the sink stands in
        the document; connect to nothing yet."""
        self._sink = to
        self._path = path
        self._options = replace(server, address=to.address, dead_letter=rejected, by_content=False)

    @property
    def name(self) -> str:
        """What the document calls it."""
        return self._sink.name

    def check(self, spark: SparkSession) -> None:
        """Raise Invalid for a condition that Spark does not understand."""
        names = COLUMNS[self._sink.table]
        empty = pyarrow.schema(silver.SCHEMA.field(name) for name in names).empty_table()
        try:
            _messages(spark, empty, self._sink).schema  # noqa: B018 - Spark reads it only now
        except PySparkException as error:
            first = str(error).splitlines()[0]
            raise Invalid("E1003", f"{self._path}.where: {first}") from None

    def __call__(
        self,
        spark: SparkSession,
        rows_by_table: Mapping[str, pyarrow.Table],
        app_id: str,
        batch_id: int,
    ) -> int:
        """Send the rows of a batch, wait until each has an outcome, and return how many are stored.

        Raises Unavailable if the server is away for too long.
        """
        rows = rows_by_table[self._sink.table]
        if not len(rows):
            return 0
        place = sink.Place(f"{app_id}/sinks/{self._sink.name}/{_asked(self._sink)}", batch_id, 0)
        sent = sink.deliver(self._options, place, self._parts(spark, in_order(rows)))
        sink.keep_rejected(self._options, [sent])
        return sent.rows - (0 if sent.rejected is None else len(sent.rejected))

    def _parts(self, spark: SparkSession, rows: pyarrow.Table) -> Iterator[pyarrow.RecordBatch]:
        for first in range(0, len(rows), PART_ROWS):
            found = _messages(spark, rows.slice(first, PART_ROWS), self._sink).toArrow()
            yield from found.to_batches(max_chunksize=SEND_ROWS)


def _asked(to: Sink) -> str:
    """A digest of what decides which number a row has."""
    chosen = json.dumps([ORDER, to.table, to.where])
    return hashlib.sha256(chosen.encode()).hexdigest()[:DIGEST_LENGTH]


def in_order(rows: pyarrow.Table) -> pyarrow.Table:
    """Return rows in an order that depends on nothing but them."""
    others = [name for name in rows.column_names if name not in PLACE]
    return rows.sort_by([(name, "ascending") for name in (*PLACE, *others)])


def _messages(spark: SparkSession, rows: pyarrow.Table, to: Sink) -> DataFrame:
    frame = spark.createDataFrame(rows)
    if to.where is not None:
        frame = frame.where(to.where)
    names = [f"`{name}`" for name in frame.columns]
    return frame.select(
        F.to_json(F.struct(*names)).alias("body"),
        F.col("device").alias("group_id"),
        F.lit(to.name).alias("subject"),
        F.lit("application/json").alias("content_type"),
    )
