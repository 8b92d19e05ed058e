"""Bronze: every message as it came, append only, once.

    query = stream.writeStream.foreachBatch(bronze.writer(table, "readings")).start()

A row is the whole envelope of a message (`docs/guide/spark.md`) and `date`, the day in UTC on which
the server took it. The table lies by space, address and date.
"""

from collections.abc import Callable
from typing import Literal

import pyarrow
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from enmasse.base.errors import Invalid
from enmasse.pipeline.tables import delta
from enmasse.pipeline.tables.delta import Appended, Table

PARTITION_BY = ("space", "address", "date")
TEXT = pyarrow.string()
MESSAGE = pyarrow.schema(
    {
        **{"space": TEXT, "address": TEXT, "partition": pyarrow.int32(), "offset": pyarrow.int64()},
        "enqueued_time": pyarrow.timestamp("us", "UTC"),
        **{"message_id": TEXT, "correlation_id": TEXT, "subject": TEXT, "to": TEXT},
        **{"reply_to": TEXT, "content_type": TEXT, "group_id": TEXT, "durable": pyarrow.bool_()},
        **{"priority": pyarrow.int32(), "ttl": pyarrow.int64(), "delivery_count": pyarrow.int64()},
        "application_properties": pyarrow.map_(TEXT, TEXT),
        "annotations": pyarrow.map_(TEXT, TEXT),
        **{"body": pyarrow.binary(), "body_kind": TEXT},
    }
)
"""A whole message: the envelope of `docs/guide/spark.md`."""
BATCH_TIME = "batch_time"
KEPT = MESSAGE.append(pyarrow.field(BATCH_TIME, pyarrow.timestamp("us", "UTC")))
"""The same in the table of a pipeline: where no server says when it took a message, `batch_time`
is when its batch was begun, before which it came."""
NEEDED = ("space", "address", "partition", "offset", "enqueued_time", "body")
"""Without these columns nobody can tell a message from another."""


def table(path: str, format: Literal["delta", "parquet"] = "delta") -> Table:
    """Return the bronze table at a folder or URI."""
    return Table(path, format, PARTITION_BY)


def timed(messages: DataFrame) -> DataFrame:
    """Return messages of a streaming query with their `batch_time`."""
    # Spark keeps the time of a batch in its log: one that is repeated has the same
    time = F.when(F.col("enqueued_time").isNull(), F.current_timestamp())
    return messages.withColumn(BATCH_TIME, time)


def kept(messages: pyarrow.Table) -> pyarrow.Table:
    """Return messages as `KEPT` says; null where nobody has noted a `batch_time`."""
    if BATCH_TIME not in messages.column_names:
        messages = messages.append_column(
            KEPT.field(BATCH_TIME), pyarrow.nulls(len(messages), KEPT.field(BATCH_TIME).type)
        )
    return messages.select(KEPT.names).cast(KEPT)


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
