"""Bronze: every message as received, append only, exactly once.

    query = stream.writeStream.foreachBatch(bronze.writer(table, "readings")).start()

A row is the whole envelope of a message (`docs/guide/spark.md`) and `date`, the day in UTC on which
the server accepted it. The table is partitioned by space, address and date.
"""

from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from enmasse.base.errors import Invalid
from enmasse.pipeline.ingest import envelope, silver
from enmasse.pipeline.tables import delta, files
from enmasse.pipeline.tables.delta import Appended
from enmasse.pipeline.tables.files import Table

PARTITION_BY = ("space", "address", "date")
REQUIRED = ("space", "address", "partition", "offset", "enqueued_time", "body")
"""Columns that identify a message."""
_ARRIVAL = f"coalesce(enqueued_time, {envelope.BATCH_TIME})"
_FIRST, _LAST = (f"TIMESTAMP '{day.isoformat(sep=' ')}'" for day in silver.DAYS)
_DATE = f"CASE WHEN {_ARRIVAL} >= {_FIRST} AND {_ARRIVAL} < {_LAST} THEN to_date({_ARRIVAL}) END"
_DATED = (*envelope.STORED.names, f"{_DATE} AS date")
"""In SQL, as all expressions of a batch: each function of PySpark calls the JVM several times."""


def table(path: str) -> Table:
    """Return the bronze table at a folder or URI."""
    return Table(path, PARTITION_BY)


def with_batch_time(messages: DataFrame) -> DataFrame:
    """Return messages of a streaming query with `batch_time`."""
    # Spark logs the time of a batch, so a repeated one has the same. Spark would write it into the
    # code that it generates, and Java would compile that again for each batch. A higher-order
    # function is not part of that code.
    time = F.get(F.transform(F.array(F.current_timestamp()), lambda one: one), 0)
    is_absent = F.col("enqueued_time").isNull()
    return messages.withColumn(envelope.BATCH_TIME, F.when(is_absent, time))


def with_date(messages: DataFrame) -> DataFrame:
    """Return messages as `envelope.STORED`, with the day of their arrival, or of their batch.

    The day is null outside the years of tables.
    """
    return messages.selectExpr(*_DATED)


def append(frame: DataFrame, to: Table, app_id: str, batch_id: int) -> Appended:
    """Append the messages of a batch; a batch that is in the table already changes nothing.

    `frame` comes from the format `enmasse` without `columns` and `decode`. `app_id` is the
    permanent name of the query. Raises Invalid if a column of the envelope is missing.
    """
    missing = [name for name in REQUIRED if name not in frame.columns]
    if missing:
        raise Invalid(
            "E1003", f"bronze takes whole messages: column {missing[0]} is missing; read it as well"
        )
    zone = str(frame.sparkSession.conf.get("spark.sql.session.timeZone"))
    dated = frame.withColumn("date", F.to_date(F.to_utc_timestamp("enqueued_time", zone)))
    return delta.append(dated, to, app_id, batch_id)


def stored(given: DataFrame, to: Table, appended: Appended) -> DataFrame:
    """Return the messages of a batch as `with_date`: from the files that it has added to the table,
    else as given. So a batch is read from its server once, and tasks that read it again read the
    columns that they need.
    """
    if appended.again:
        return with_date(given)
    schema = from_arrow_schema(envelope.STORED)
    return with_date(files.read(given.sparkSession, to, appended.values, schema))


def writer(to: Table, app_id: str) -> Callable[[DataFrame, int], None]:
    """Return a function for `foreachBatch`."""

    def write(frame: DataFrame, batch_id: int) -> None:
        append(frame, to, app_id, batch_id)

    return write
