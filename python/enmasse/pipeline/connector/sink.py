"""`df.write.format("enmasse")` and `df.writeStream.format("enmasse")`: rows to addresses.

A task is a numbered producer (`docs/contracts.md` 8): it has a name that stays the same when a
batch is repeated, and the number of a row is that of its batch and its place in the task. So a row
that was stored is accepted again, and not stored again. That stands on equal tasks: by default a
task sends its rows in the order of their bytes, which a shuffle cannot change.
"""

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import quote

import pyarrow
import pyarrow.fs
import pyarrow.ipc
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from enmasse.base.errors import Exhausted, Invalid, Misuse, Unavailable
from enmasse.native import Outbox
from enmasse.pipeline.connector import reading, uris
from enmasse.pipeline.connector.options import Writing

QUERY_ID, BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"
"""Under these names Spark tells a task what it is part of."""
ROWS_OF_A_BATCH = 1 << 32
"""Numbers that each batch has of its own."""
TASK_SIZE_MAX = 256 << 20
"""Bytes of encoded messages that a task holds to bring them into order."""
PENDING = "_pending"
REJECTED_MAX = 10_000
"""Rejected rows of a task that go to the table; more of them end the batch."""


@dataclass(frozen=True)
class Sent(WriterCommitMessage):
    """What became of the rows of one task."""

    rows: int
    producer: str | None
    batch: int
    rejected: pyarrow.Table | None


@dataclass(frozen=True)
class Place:
    """Which task of which batch: rows are numbered from `first` on."""

    producer: str | None
    batch: int
    task: int

    @property
    def name(self) -> str | None:
        """What the numbers of the task's rows are known under."""
        return None if self.producer is None else f"{self.producer}/{self.task}"

    @property
    def first(self) -> int:
        """The number of the task's first row."""
        return self.batch * ROWS_OF_A_BATCH


def check(options: Writing, schema: StructType) -> None:
    """Raise Invalid for columns that no message is made of, or rows that go nowhere."""
    if options.address is None and "address" not in schema.fieldNames():
        raise Invalid("E1003", "option address is missing, and there is no column address either")
    if options.producer is not None and not options.numbered:
        raise Invalid("E1003", "option producer: numbered is false; leave one of them out")
    columns = to_arrow_schema(schema, timezone="UTC")
    Outbox(options.outbox(None)).add(pyarrow.RecordBatch.from_pylist([], columns))


def deliver(options: Writing, place: Place, batches: Iterator[pyarrow.RecordBatch]) -> Sent:
    """Send the rows of a task and wait until each has an outcome.

    Raises Invalid for a rejected row without a table for it, Exhausted beyond the bounds, and what
    the server says.
    """
    outbox = Outbox(options.outbox(place.name))
    rejected: list[pyarrow.Table] = []
    rows = 0

    def flush() -> None:
        nonlocal rows
        count = len(outbox)
        if count:
            rejected.extend(_sent(options, outbox, place, rows))
            rows += count
        if sum(len(table) for table in rejected) > REJECTED_MAX:
            raise Exhausted(
                "E5000", f"more than {REJECTED_MAX} rows of a task are rejected: {_cause(rejected)}"
            )

    for batch in batches:
        outbox.add(batch)
        if not options.by_content:
            flush()
        elif outbox.size > TASK_SIZE_MAX:
            raise Exhausted(
                "E5000",
                f"a task has more than {TASK_SIZE_MAX >> 20} MiB of rows to bring into order: make "
                "batches smaller, or set order=input where rows come in the same order each time",
            )
    if options.by_content:
        outbox.sort()
    flush()
    joined = pyarrow.concat_tables(rejected) if rejected else None
    return Sent(rows, place.producer, place.batch, joined)


def _sent(options: Writing, outbox: Outbox, place: Place, before: int) -> list[pyarrow.Table]:
    """Send what is in the outbox, again while the server is away; return what was rejected.

    A numbered row that the server rejects counts as stored as soon as a later one is. So it is
    written down first, or ends the batch.
    """
    patience = reading.patience(options.timeout_s)
    found: list[pyarrow.Table] = []
    done = False
    while not done:
        try:
            done, causes, messages = outbox.send(place.first + before)
        except Unavailable as error:
            patience.wait(error)
            continue
        patience.renew()
        if causes:
            table = _rejected(causes, messages, place, before)
            if options.dead_letter is None:
                raise Invalid(
                    "E1000",
                    f"rows are rejected: {_cause([table])}; mend them, or set deadLetter to keep "
                    "such rows in a table",
                )
            found.append(table)
            if not done:
                write_down(options.dead_letter, place, table)
    return found


def _rejected(
    causes: list[tuple[int, str, str]], messages: object, place: Place, before: int
) -> pyarrow.Table:
    """Rejected messages with what is known of them."""
    columns = {
        "batch": pyarrow.array([place.batch] * len(causes), pyarrow.int64()),
        "task": pyarrow.array([place.task] * len(causes), pyarrow.int32()),
        "row": pyarrow.array([before + row for row, _, _ in causes], pyarrow.int64()),
        "condition": pyarrow.array([condition for _, condition, _ in causes], pyarrow.string()),
        "cause": pyarrow.array([description for _, _, description in causes], pyarrow.string()),
    }
    table = pyarrow.Table.from_batches([pyarrow.record_batch(messages)])
    for name, column in columns.items():
        table = table.append_column(name, column)
    return table


def _pending(folder: str, producer: str, batch: int) -> tuple[Any, str]:
    """Where rejected rows of a batch lie until it is committed."""
    files, root = uris.files(folder)
    return files, f"{root}/{PENDING}/{quote(producer, safe='')}-{batch:010}"


def write_down(folder: str, place: Place, table: pyarrow.Table) -> None:
    """Write rejected rows to where `keep_rejected` finds them, whatever becomes of their task."""
    files, pending = _pending(folder, str(place.producer), place.batch)
    files.create_dir(pending, recursive=True)
    name = f"{pending}/{place.task}-{table.column('row')[0].as_py():010}.arrow"
    with (
        files.open_output_stream(f"{name}.new") as file,
        pyarrow.ipc.new_file(file, table.schema) as writer,
    ):
        writer.write_table(table)
    files.move(f"{name}.new", name)


def _cause(rejected: list[pyarrow.Table]) -> str:
    row = rejected[0].select(["address", "condition", "cause"]).slice(0, 1).to_pylist()[0]
    return f"{row['address']}: {row['condition']}: {row['cause']}"


def keep_rejected(options: Writing, messages: Sequence[Sent | None]) -> None:
    """Write the rejected rows of a batch to their table, once."""
    sent = [message for message in messages if message is not None]
    if not sent or options.dead_letter is None:
        return
    from enmasse.pipeline.tables import delta

    producer, batch = sent[0].producer, sent[0].batch
    rejected = [message.rejected for message in sent if message.rejected is not None]
    # without a name nobody can repeat the batch: it is another one each time
    name = producer or str(uuid.uuid4())
    files, pending = _pending(options.dead_letter, name, batch)
    there = files.get_file_info(pending).type != pyarrow.fs.FileType.NotFound
    if there:
        for info in files.get_file_info(pyarrow.fs.FileSelector(pending)):
            if info.path.endswith(".arrow"):
                with files.open_input_file(info.path) as file:
                    rejected.append(pyarrow.ipc.open_file(file).read_all())
    if rejected:
        # what an earlier attempt wrote down is there, too, and may be the same
        table = pyarrow.concat_tables(rejected)
        rows = zip(table.column("task").to_pylist(), table.column("row").to_pylist(), strict=True)
        first = {row: place for place, row in reversed(list(enumerate(rows)))}
        table = table.take(sorted(first.values()))
        delta.append_arrow(table, delta.Table(options.dead_letter), f"rejected/{name}", batch)
    if there:
        files.delete_dir(pending)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the batches of a streaming query."""

    def __init__(self, options: Writing) -> None:
        """Connect to nothing yet."""
        self._options = options

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> Sent:
        """Send the rows of a task."""
        context = _context()
        query, batch = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
        if query is None or batch is None:
            raise Misuse("E8000", "Spark does not tell which batch of which query this task has")
        name = (self._options.producer or query) if self._options.numbered else None
        return deliver(self._options, Place(name, int(batch), context.partitionId()), iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Keep what was rejected."""
        keep_rejected(self._options, cast(list[Sent | None], messages))


class BatchWriter(DataSourceArrowWriter):
    """Writes rows once, or one batch of `foreachBatch`."""

    def __init__(self, options: Writing) -> None:
        """Connect to nothing yet. Raises Invalid for a producer without the number of the batch."""
        if options.producer is not None and options.batch is None:
            raise Invalid("E1003", "option batch is missing: a producer numbers its rows by batch")
        self._options = options

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> Sent:
        """Send the rows of a task."""
        place = Place(self._options.producer, self._options.batch or 0, _context().partitionId())
        return deliver(self._options, place, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Keep what was rejected."""
        keep_rejected(self._options, cast(list[Sent | None], messages))


def _context() -> Any:
    context = TaskContext.get()
    if context is None:
        raise Misuse("E8000", "rows are written by a task of Spark")
    return context
