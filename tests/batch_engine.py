"""What a streaming query of Spark does with a pipeline's batches, killed at any call of its driver.

A batch is planned and written down, handed over, and written down as done; a batch that is planned
and not done is handed over again, with the same rows. That is all that
`enmasse.pipeline.ingest.batches` stands on.
"""

import functools
import json
import os
import signal
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow
from pyspark.sql.streaming.datasource import ReadMaxRows

from enmasse.base.clock import SystemClock
from enmasse.base.errors import Unavailable
from enmasse.pipeline.connector import options as option_table
from enmasse.pipeline.connector import reading, sink
from enmasse.pipeline.connector.options import Writing
from enmasse.pipeline.connector.queues import Filler, QueueReader
from enmasse.pipeline.connector.source import StreamReader
from enmasse.pipeline.connector.spool import Spool
from enmasse.pipeline.ingest import batches, envelope
from enmasse.pipeline.ingest.batches import Batches
from enmasse.pipeline.ingest.store import Store
from enmasse.pipeline.live import commits, updates
from enmasse.pipeline.live.alerts import AlertSender
from enmasse.pipeline.live.database import Live
from enmasse.pipeline.paths import read
from enmasse.pipeline.tables import delta, files
from spark_session import session

ROWS_OF_A_PARTITION, ROWS_TAKEN = 40, 1000
"""Messages of one partition that a batch has at most; those that a planner takes at a time."""
TASKS = 2
"""Tasks of a batch that write."""
FORWARDED = pyarrow.schema({"address": pyarrow.string(), "body": pyarrow.string()})
Reader = StreamReader | QueueReader
POINTS: dict[str, tuple[Any, str]] = {
    "write": (files, "stage"),
    "append": (delta, "_commit"),
    "maintain": (Store, "maintain"),
    "stage": (updates, "follow"),
    "publish": (commits, "publish"),
    "commit": (Live, "commit"),
    "within commit": (commits, "upsert"),
    "send": (AlertSender, "_send"),
    "told": (Live, "record_outcomes"),
}
"""Where a process is killed: before or after a call."""
SINK_POINTS: dict[str, tuple[Any, str]] = {
    "deliver": (sink, "deliver"),
    "write down": (sink, "stage_rejected"),
    "keep rejected": (sink, "commit_rejected"),
}
"""Where one that writes rows to addresses is killed as well."""
SPOOL_POINTS: dict[str, tuple[Any, str]] = {
    "spool add": (Spool, "add"),
    "spool write": (Spool, "_write"),
    "settle": (Filler, "_store"),
    "spool commit": (Spool, "commit"),
}
"""Where one that reads a queue is killed as well."""


def die() -> None:
    """End this process as `kill -9` does."""
    os.kill(os.getpid(), signal.SIGKILL)


def kill_at(point: tuple[Any, str], count: int, *, after: bool) -> None:
    """Let this process be killed at the so-manyth call of a point."""
    owner, name = point
    real: Callable[..., Any] = getattr(owner, name)
    calls = 0

    @functools.wraps(real)
    def called(*values: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == count and not after:
            die()
        found = real(*values, **named)
        if calls == count:
            die()
        return found

    setattr(owner, name, called)


def kill_in(seconds: float) -> None:
    """Let this process be killed after a time, wherever it is."""
    timer = threading.Timer(seconds, die)
    timer.daemon = True
    timer.start()


class Log:
    """The plans of batches, and which are done."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(exist_ok=True)

    def _write(self, name: str, text: str) -> None:
        new = self._folder / f"{name}.new"
        new.write_text(text)
        new.rename(self._folder / name)

    def plan(self, number: int) -> dict[str, Any] | None:
        file = self._folder / f"plan-{number}"
        return dict(json.loads(file.read_text())) if file.exists() else None

    def write_plan(self, number: int, plan: dict[str, Any]) -> None:
        self._write(f"plan-{number}", json.dumps(plan))

    def is_done(self, number: int) -> bool:
        return (self._folder / f"done-{number}").exists()

    def write_done(self, number: int) -> None:
        self._write(f"done-{number}", "")


def run(
    file: Path, kill: dict[str, Any] | None, opened: Any = None, forwarded: str | None = None
) -> None:
    """Put all that the source of a pipeline has into its tables, or be killed on the way.

    Sets the event `opened`, if there is one, when live state is open. Each message goes on to the
    address `forwarded`, if one is named, as a task of Spark writes rows.
    """
    pipeline, paths = read(file)
    (source,) = pipeline.spec.sources
    options = option_table.read(batches.options(source, paths))
    log = Log(file.parent / "engine")
    reader = StreamReader(options) if options.spool is None else QueueReader(options)
    with (
        session(file.parent / "spark") as spark,
        paths.locked(),
        closing(Live(paths.live_url, pipeline.spec, pipeline.metadata.name)) as db,
    ):
        if opened is not None:
            opened.set()
        if kill is not None:
            _arm(kill)
        spark.sparkContext.setLocalProperty(batches.QUERY_ID, "q")
        store = Store(pipeline, paths)
        put = Batches(pipeline, source, store, db, [], [], lambda _: None)
        server = batches.server(source, paths)
        sender = AlertSender(pipeline.metadata.name, db, {source.name: server}, SystemClock())
        number = 0
        while True:
            if not log.is_done(number):
                plan = log.plan(number) or _planned(reader, log, number)
                if plan is None:
                    break
                rows = envelope.conform(_rows(reader, plan))
                put(spark.createDataFrame(rows), number)
                if forwarded is not None:
                    rejected = replace(server, dead_letter=paths.table("rejected"))
                    _forward(rows, rejected, forwarded, number)
                _tell(sender)
                log.write_done(number)
            number += 1
        _tell(sender)
        store.close()


def _arm(kill: dict[str, Any]) -> None:
    """Let this process be killed when and where `kill` says."""
    if "seconds" in kill:
        kill_in(kill["seconds"])
    else:
        points = POINTS | SINK_POINTS | SPOOL_POINTS
        kill_at(points[kill["point"]], kill["count"], after=kill["after"])


def _forward(rows: pyarrow.Table, to: Writing, address: str, number: int) -> None:
    """Write the messages of a batch as two tasks; what is no JSON goes where nothing is."""
    messages = rows.to_pylist()
    out = [
        {
            "address": "nowhere" if one["body"] == b"{" else address,
            "body": json.dumps([one["partition"], one["offset"]]),
        }
        for one in messages
    ]
    sent = []
    for task in range(TASKS):
        mine = pyarrow.RecordBatch.from_pylist(out[task::TASKS], FORWARDED)
        sent.append(sink.deliver(to, sink.TaskOfBatch("q/forwarded", number, task), iter([mine])))
    sink.commit_rejected(to, sent)


def _tell(sender: AlertSender) -> None:
    """Send alerts, waiting for a database that is away as a run does."""
    waits = reading.retry_for(batches.LIVE_TIMEOUT_S)
    while True:
        try:
            return sender.send()
        except Unavailable as error:
            waits.wait(error)


def _planned(reader: Reader, log: Log, number: int) -> dict[str, Any] | None:
    """What the next batch has, or nothing; then what was before it is committed."""
    before = log.plan(number - 1) if number else None
    start = reader.initialOffset() if before is None else before["end"]
    ends = reader.latestOffset(start, ReadMaxRows(ROWS_TAKEN))
    # where batches end does not depend on when messages came: detectors order those of a batch
    end = {
        name: offset if name == "uid" else min(offset, start.get(name, 0) + ROWS_OF_A_PARTITION)
        for name, offset in ends.items()
    }
    if end == start:
        return None
    plan = {"start": start, "end": end}
    log.write_plan(number, plan)
    if before is not None:
        reader.commit(before["end"])
    return plan


def _rows(reader: Reader, plan: dict[str, Any]) -> pyarrow.Table:
    tasks = reader.partitions(plan["start"], plan["end"])
    return pyarrow.Table.from_batches([rows for task in tasks for rows in reader.read(task)])
