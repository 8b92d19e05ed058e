"""Sinks of the document: new rows of a table go to an address, each stored once.

The rows of a batch are those of one task of the format `enmasse` (`sink`): numbered by the batch,
in the order of their bytes. What an address rejects is kept in the table `rejected`.
"""

from collections.abc import Mapping
from dataclasses import replace

import pyarrow
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from enmasse.base.errors import Invalid
from enmasse.pipeline import silver, sink
from enmasse.pipeline.options import Writing
from enmasse.resources.pipeline import Sink

COLUMNS = {"silver": silver.READING, "quarantine": silver.QUARANTINE}


class Forward:
    """Sends rows of one source to the address of one sink."""

    def __init__(self, to: Sink, server: Writing, rejected: str, path: str) -> None:
        """`rejected` is the folder of the table of rejected rows, `path` where the sink stands in
        the document; connect to nothing yet."""
        self._sink = to
        self._path = path
        self._options = replace(server, address=to.address, dead_letter=rejected)

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
        found = _messages(spark, rows, self._sink).toArrow()
        place = sink.Place(f"{app_id}/sinks/{self._sink.name}", batch_id, 0)
        sent = sink.deliver(self._options, place, iter(found.to_batches()))
        sink.keep_rejected(self._options, [sent])
        return sent.rows - (0 if sent.rejected is None else len(sent.rejected))


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
