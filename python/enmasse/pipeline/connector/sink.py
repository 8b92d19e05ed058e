"""`df.write.format("enmasse")` and `df.writeStream.format("enmasse")`: rows to addresses.

A task is a numbered producer (`docs/contracts.md` 8). Its name stays the same when a batch is
repeated, and a row is numbered by its batch and its position in the task. So a row that was stored
is accepted again, and not stored again. This requires equal tasks: by default a task sends its rows
in the order of their bytes, which a shuffle cannot change.
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
"""Local properties of Spark that identify the batch of a task."""
ROWS_PER_BATCH = 1 << 32
"""Numbers reserved for each batch."""
TASK_SIZE_MAX = 256 << 20
"""Maximum bytes of encoded messages that a task sorts."""
PENDING = "_pending"
_REJECTED = pyarrow.schema(
    {
        **{"batch": pyarrow.int64(), "task": pyarrow.int32(), "row": pyarrow.int64()},
        **{"condition": pyarrow.string(), "cause": pyarrow.string()},
    }
)
"""The position and the cause of a rejected row."""
REJECTED_MAX = 10_000
"""Maximum rejected rows of a task; more of them fail the batch."""


@dataclass(frozen=True)
class Sent(WriterCommitMessage):
    """The result of one task."""

    rows: int
    producer: str | None
    batch: int
    rejected: pyarrow.Table | None


@dataclass(frozen=True)
class TaskOfBatch:
    """One task of one batch: rows are numbered from `first` on."""

    producer: str | None
    batch: int
    task: int

    @property
    def name(self) -> str | None:
        """The producer of the task's rows."""
        return None if self.producer is None else f"{self.producer}/{self.task}"

    @property
    def first(self) -> int:
        """The number of the task's first row."""
        return self.batch * ROWS_PER_BATCH


def check(options: Writing, schema: StructType) -> None:
    """Raise Invalid for unknown columns, or rows without an address."""
    if options.address is None and "address" not in schema.fieldNames():
        raise Invalid("E1003", "option address is missing, and there is no column address either")
    if options.producer is not None and not options.numbered:
        raise Invalid("E1003", "option producer: numbered is false; omit one of them")
    columns = to_arrow_schema(schema, timezone="UTC")
    Outbox(options.outbox(None)).add(pyarrow.RecordBatch.from_pylist([], columns))


def deliver(options: Writing, task: TaskOfBatch, batches: Iterator[pyarrow.RecordBatch]) -> Sent:
    """Send the rows of a task and wait for their outcomes.

    Raises Invalid for a rejected row without `deadLetter`, Exhausted beyond the bounds, and errors
    of the server.
    """
    outbox = Outbox(options.outbox(task.name))
    rejected: list[pyarrow.Table] = []
    rows = 0

    def flush() -> None:
        nonlocal rows
        count = len(outbox)
        if count:
            rejected.extend(_sent(options, outbox, task, rows))
            rows += count
        if sum(len(table) for table in rejected) > REJECTED_MAX:
            raise Exhausted(
                "E5000", f"more than {REJECTED_MAX} rows of a task are rejected: {_cause(rejected)}"
            )

    for batch in batches:
        outbox.add(batch)
        if options.order != "content":
            flush()
        elif outbox.size > TASK_SIZE_MAX:
            raise Exhausted(
                "E5000",
                f"a task has more than {TASK_SIZE_MAX >> 20} MiB of rows to sort: make batches"
                " smaller, or set order=input if the order of rows is always the same",
            )
    if options.order == "content":
        outbox.sort()
    flush()
    joined = pyarrow.concat_tables(rejected) if rejected else None
    return Sent(rows, task.producer, task.batch, joined)


def _sent(options: Writing, outbox: Outbox, task: TaskOfBatch, before: int) -> list[pyarrow.Table]:
    """Send the outbox, again while the server is unavailable; return rejected rows.

    A rejected numbered row counts as stored once a later one is stored. So it is staged first, or
    fails the batch.
    """
    retry = reading.retry_for(options.timeout_s)
    found: list[pyarrow.Table] = []
    done = False
    while not done:
        try:
            done, causes, messages = outbox.send(task.first + before)
        except Unavailable as error:
            retry.wait(error)
            continue
        retry.renew()
        if causes:
            table = _rejected(causes, messages, task, before)
            if options.dead_letter is None:
                raise Invalid(
                    "E1000",
                    f"rows are rejected: {_cause([table])}; correct them, or set deadLetter to "
                    "store such rows in a table",
                )
            found.append(table)
            if not done:
                stage_rejected(options.dead_letter, task, table)
    return found


def _rejected(
    causes: list[tuple[int, str, str]], messages: object, task: TaskOfBatch, before: int
) -> pyarrow.Table:
    """Rejected messages with their position and cause."""
    table = pyarrow.Table.from_batches([pyarrow.record_batch(messages)])
    rows = [
        (task.batch, task.task, before + row, condition, description)
        for row, condition, description in causes
    ]
    for field, values in zip(_REJECTED, zip(*rows, strict=True), strict=True):
        table = table.append_column(field, pyarrow.array(values, field.type))
    return table


def _pending(folder: str, producer: str, batch: int) -> tuple[Any, str]:
    """The folder of staged rejected rows of a batch."""
    files, root = uris.files(folder)
    return files, f"{root}/{PENDING}/{quote(producer, safe='')}-{batch:010}"


def stage_rejected(folder: str, task: TaskOfBatch, table: pyarrow.Table) -> None:
    """Write rejected rows for `commit_rejected`, which finds them even if their task fails."""
    files, pending = _pending(folder, str(task.producer), task.batch)
    files.create_dir(pending, recursive=True)
    name = f"{pending}/{task.task}-{table.column('row')[0].as_py():010}.arrow"
    with (
        files.open_output_stream(f"{name}.new") as file,
        pyarrow.ipc.new_file(file, table.schema) as writer,
    ):
        writer.write_table(table)
    files.move(f"{name}.new", name)


def _cause(rejected: list[pyarrow.Table]) -> str:
    row = rejected[0].select(["address", "condition", "cause"]).slice(0, 1).to_pylist()[0]
    return f"{row['address']}: {row['condition']}: {row['cause']}"


def commit_rejected(options: Writing, messages: Sequence[Sent | None]) -> None:
    """Append the rejected rows of a batch to their table, once."""
    sent = [message for message in messages if message is not None]
    if not sent or options.dead_letter is None:
        return
    from enmasse.pipeline.tables import delta
    from enmasse.pipeline.tables.files import Table

    producer, batch = sent[0].producer, sent[0].batch
    rejected = [message.rejected for message in sent if message.rejected is not None]
    # a batch without a producer cannot be repeated
    name = producer or str(uuid.uuid4())
    files, pending = _pending(options.dead_letter, name, batch)
    exists = files.get_file_info(pending).type != pyarrow.fs.FileType.NotFound
    if exists:
        for info in files.get_file_info(pyarrow.fs.FileSelector(pending)):
            if info.path.endswith(".arrow"):
                with files.open_input_file(info.path) as file:
                    rejected.append(pyarrow.ipc.open_file(file).read_all())
    if rejected:
        # staged rows of an earlier attempt may be the same
        table = pyarrow.concat_tables(rejected)
        rows = zip(table.column("task").to_pylist(), table.column("row").to_pylist(), strict=True)
        first = {row: index for index, row in reversed(list(enumerate(rows)))}
        table = table.take(sorted(first.values()))
        delta.append_arrow(table, Table(options.dead_letter), f"rejected/{name}", batch)
    if exists:
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
            raise Misuse("E8000", "Spark has not set the query and batch of this task")
        name = (self._options.producer or query) if self._options.numbered else None
        return deliver(
            self._options, TaskOfBatch(name, int(batch), context.partitionId()), iterator
        )

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Commit rejected rows."""
        commit_rejected(self._options, cast(list[Sent | None], messages))


class BatchWriter(DataSourceArrowWriter):
    """Writes rows once, or one batch of `foreachBatch`."""

    def __init__(self, options: Writing) -> None:
        """Connect to nothing yet. Raises Invalid for a producer without a batch number."""
        if options.producer is not None and options.batch is None:
            raise Invalid("E1003", "option batch is missing: a producer numbers its rows by batch")
        self._options = options

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> Sent:
        """Send the rows of a task."""
        number = _context().partitionId()
        task = TaskOfBatch(self._options.producer, self._options.batch or 0, number)
        return deliver(self._options, task, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit rejected rows."""
        commit_rejected(self._options, cast(list[Sent | None], messages))


def _context() -> Any:
    context = TaskContext.get()
    if context is None:
        raise Misuse("E8000", "rows are written by tasks of Spark only")
    return context
