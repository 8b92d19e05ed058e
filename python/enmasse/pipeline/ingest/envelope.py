"""The columns of a whole message, as a table of a pipeline has them."""

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
BATCH_TIME = "batch_time"
KEPT = MESSAGE.append(pyarrow.field(BATCH_TIME, pyarrow.timestamp("us", "UTC")))
"""The same in the table of a pipeline: where no server says when it took a message, `batch_time`
is when its batch was begun, before which it came."""


def kept(messages: pyarrow.Table) -> pyarrow.Table:
    """Return messages as `KEPT` says; null where nobody has noted a `batch_time`."""
    if BATCH_TIME not in messages.column_names:
        messages = messages.append_column(
            KEPT.field(BATCH_TIME), pyarrow.nulls(len(messages), KEPT.field(BATCH_TIME).type)
        )
    return messages.select(KEPT.names).cast(KEPT)
