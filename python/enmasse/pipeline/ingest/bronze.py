"""Bronze: every message as it came, append only, once.

    query = stream.writeStream.foreachBatch(bronze.writer(table, "readings")).start()

A row is the whole envelope of a message (`docs/guide/spark.md`) and `date`, the day in UTC on which
the server took it. The table lies by space, address and date.
"""

from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from enmasse.base.errors import Invalid
from enmasse.pipeline.ingest import envelope, silver
from enmasse.pipeline.tables import delta
from enmasse.pipeline.tables.delta import Appended, Table

PARTITION_BY = ("space", "address", "date")
NEEDED = ("space", "address", "partition", "offset", "enqueued_time", "body")
"""Without these columns nobody can tell a message from another."""


def table(path: str) -> Table:
    """Return the bronze table at a folder or URI."""
    return Table(path, PARTITION_BY)


def timed(messages: DataFrame) -> DataFrame:
    """Return messages of a streaming query with their `batch_time`."""
    # Spark keeps the time of a batch in its log: one that is repeated has the same
    time = F.when(F.col("enqueued_time").isNull(), F.current_timestamp())
    return messages.withColumn(envelope.BATCH_TIME, time)


def dated(messages: DataFrame) -> DataFrame:
    """Return messages as `envelope.KEPT` says, with the day of their arrival, or of their batch.

    It is null for a day that no table has.
    """
    came = F.coalesce("enqueued_time", envelope.BATCH_TIME)
    first, last = (F.lit(day) for day in silver.DAYS)
    day = F.when((came >= first) & (came < last), F.to_date(came))
    return messages.select(*(F.col(name) for name in envelope.KEPT.names), day.alias("date"))


def append(frame: DataFrame, to: Table, app_id: str, batch_id: int) -> Appended:
    """Append the messages of a batch; a batch that is there already changes nothing.

    `frame` is what the format `enmasse` gives without `columns` and `decode`. `app_id` names the
    query for ever. Raises Invalid if a column of the envelope is missing.
    """
    missing = [name for name in NEEDED if name not in frame.columns]
    if missing:
        raise Invalid(
            "E1003", f"bronze takes whole messages: column {missing[0]} is missing; read it as well"
        )
    dated = frame.withColumn("date", F.to_date(F.to_utc_timestamp("enqueued_time", _zone(frame))))
    return delta.append(dated, to, app_id, batch_id)


def writer(to: Table, app_id: str) -> Callable[[DataFrame, int], None]:
    """Return what `foreachBatch` takes."""

    def write(frame: DataFrame, batch_id: int) -> None:
        append(frame, to, app_id, batch_id)

    return write


def _zone(frame: DataFrame) -> str:
    return str(frame.sparkSession.conf.get("spark.sql.session.timeZone"))
