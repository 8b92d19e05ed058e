"""Arrow schemas of live state, for the exchange between executors and the driver.

`schema` makes tables of them, which executors cannot import: only the driver has SQLAlchemy.
"""

import io

import pyarrow
from pyarrow import csv

TEXT, LONG, NUMBER = pyarrow.string(), pyarrow.int64(), pyarrow.float64()

LATEST = pyarrow.schema(
    {
        **{"source": TEXT, "device": TEXT, "metric": TEXT},
        **{"value": NUMBER, "text": TEXT, "unit": TEXT},
        **{"event_time_us": LONG, "enqueued_time_us": LONG},
        **{"partition": LONG, "offset": LONG, "index": LONG},
    }
)
DEVICES = pyarrow.schema(
    {
        **{"source": TEXT, "device": TEXT, "first_seen_us": LONG, "last_seen_us": LONG},
        **{"session_began_us": LONG, "is_online": pyarrow.bool_(), "readings": LONG},
    }
)
SESSIONS = pyarrow.schema(
    {"source": TEXT, "device": TEXT, "began_us": LONG, "last_us": LONG, "readings": LONG}
)
STATES = pyarrow.schema(
    {
        **{"detector": TEXT, "source": TEXT, "device": TEXT},
        **{"time_us": LONG, "value": NUMBER, "is_open": pyarrow.bool_(), "began_us": LONG},
        **{"count": LONG, "mean": NUMBER, "variance": NUMBER, "recent": TEXT},
    }
)
TABLES = {
    "device_latest": LATEST,
    "devices": DEVICES,
    "sessions": SESSIONS,
    "detector_states": STATES,
}
"""Schemas by table of live state."""

CHANGES, SKIPPED = "changes", "skipped"
"""Further results of a task: incidents that began or ended, and the number of skipped readings."""


def packed(rows: pyarrow.RecordBatch | pyarrow.Table) -> bytes:
    """Return rows as a stream of Arrow."""
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, rows.schema) as writer:
        writer.write(rows)
    return bytes(sink.getvalue())


def unpacked(data: bytes) -> pyarrow.Table:
    """Return the rows of a stream of Arrow."""
    with pyarrow.ipc.open_stream(data) as reader:
        return reader.read_all()


def as_csv(rows: pyarrow.Table) -> bytes:
    """Return rows as CSV for COPY of PostgreSQL: null is an empty field, text is quoted."""
    sink = io.BytesIO()
    csv.write_csv(rows, sink, csv.WriteOptions(include_header=False, quoting_style="needed"))
    return sink.getvalue()


def from_csv(data: bytes, schema: pyarrow.Schema) -> pyarrow.Table:
    """Return rows from CSV of COPY of PostgreSQL."""
    if not data:
        return schema.empty_table()
    return csv.read_csv(
        io.BytesIO(data),
        csv.ReadOptions(column_names=schema.names),
        csv.ParseOptions(newlines_in_values=True),
        csv.ConvertOptions(
            column_types=schema,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            true_values=["t"],
            false_values=["f"],
        ),
    )
