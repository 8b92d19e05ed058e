"""The columns of a whole message in the tables of a pipeline."""

import pyarrow

TEXT = pyarrow.string()
TIME = pyarrow.timestamp("us", "UTC")
MESSAGE = pyarrow.schema(
    {
        **{"space": TEXT, "address": TEXT, "partition": pyarrow.int32(), "offset": pyarrow.int64()},
        "enqueued_time": TIME,
        **{"message_id": TEXT, "correlation_id": TEXT, "subject": TEXT, "to": TEXT},
        **{"reply_to": TEXT, "content_type": TEXT, "group_id": TEXT, "durable": pyarrow.bool_()},
        **{"priority": pyarrow.int32(), "ttl": pyarrow.int64(), "delivery_count": pyarrow.int64()},
        "application_properties": pyarrow.map_(TEXT, TEXT),
        "annotations": pyarrow.map_(TEXT, TEXT),
        **{"body": pyarrow.binary(), "body_kind": TEXT},
        **{"user_id": pyarrow.binary(), "content_encoding": TEXT},
        **dict.fromkeys(("creation_time", "absolute_expiry_time"), TIME),
        **{"group_sequence": pyarrow.int64(), "reply_to_group_id": TEXT},
        "application_property_types": pyarrow.map_(TEXT, TEXT),
    }
)
"""A whole message: the envelope of `docs/guide/spark.md`."""
TEXT_COLUMNS = tuple(field.name for field in MESSAGE if field.type == TEXT)
"""Columns that can name a device, a metric or a unit."""
BATCH_TIME = "batch_time"
STORED = MESSAGE.append(pyarrow.field(BATCH_TIME, TIME))
"""The columns of bronze: if the server reports no time of arrival, `batch_time` is the start of the
batch, an upper bound."""


def conform(messages: pyarrow.Table) -> pyarrow.Table:
    """Return messages as `STORED`; columns that bronze of earlier versions lacks are null."""
    for field in STORED:
        if field.name not in messages.column_names:
            nulls = pyarrow.nulls(len(messages), field.type)
            messages = messages.append_column(field, nulls)
    return messages.select(STORED.names).cast(STORED)
