"""The columns of a whole message in the tables of a pipeline."""

import pyarrow

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
TEXT_COLUMNS = tuple(field.name for field in MESSAGE if field.type == TEXT)
"""Columns that can name a device, a metric or a unit."""
BATCH_TIME = "batch_time"
STORED = MESSAGE.append(pyarrow.field(BATCH_TIME, pyarrow.timestamp("us", "UTC")))
"""The columns of bronze: if the server reports no time of arrival, `batch_time` is the start of the
batch, an upper bound."""


def conform(messages: pyarrow.Table) -> pyarrow.Table:
    """Return messages as `STORED`; bronze of earlier versions has no `batch_time`."""
    if BATCH_TIME not in messages.column_names:
        field = STORED.field(BATCH_TIME)
        messages = messages.append_column(field, pyarrow.nulls(len(messages), field.type))
    return messages.select(STORED.names).cast(STORED)
