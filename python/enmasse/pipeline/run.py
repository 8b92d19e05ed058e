"""A run of the pipeline: a streaming query for each source, the gold query, and alerts."""

import contextlib
import json
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from enmasse.base.clock import Clock
from enmasse.base.errors import Unavailable
from enmasse.pipeline import functions, session
from enmasse.pipeline.connector import ranges, reading
from enmasse.pipeline.failures import Failure, Restarts
from enmasse.pipeline.functions import Step
from enmasse.pipeline.gold.loop import GoldLoop
from enmasse.pipeline.gold.progress import Progress
from enmasse.pipeline.ingest import backfill, batches, compatibility, lag
from enmasse.pipeline.ingest.batches import Batches
from enmasse.pipeline.ingest.store import Store
from enmasse.pipeline.live.alerts import AlertSender
from enmasse.pipeline.live.database import Live
from enmasse.pipeline.paths import Paths
from enmasse.resources import Pipeline
from enmasse.resources.pipeline import Source

log = logging.getLogger("enmasse.pipeline")

POLL_S = 1.0
"""Interval in which queries and silent devices are checked."""
STOP_S, STOP_POLL_S = 20.0, 0.05
"""How long a run waits at its end for the batches in progress."""
LAST_ALERTS_S = 10.0
"""How long alerts are sent at the end; the next run sends the rest."""
US_PER_S = 1_000_000

OnBatch = Callable[[dict[str, Any]], None]


class Run:
    """The queries of a pipeline."""

    def __init__(
        self, spark: SparkSession, pipeline: Pipeline, paths: Paths, live: Live, clock: Clock
    ) -> None:
        """Prepare; nothing is read yet."""
        self._spark = spark
        self._pipeline = pipeline
        self._paths = paths
        self._live = live
        self._clock = clock
        self._store = Store(pipeline, paths)
        self._queries: dict[str, StreamingQuery] = {}
        self._starters: dict[str, Callable[[], StreamingQuery]] = {}
        names = [source.name for source in pipeline.spec.sources]
        log_file = session.log_file_of(paths.state)
        self._restarts = {name: Restarts(name, clock, log_file) for name in names}
        self._lags: dict[str, dict[int, int]] = {}
        self._once = False
        self._recorded: dict[str, dict[str, Failure]] = {}
        self._alerts: AlertSender | None = None
        self._gold: GoldLoop | None = None

    def start(self, on_batch: OnBatch, *, once: bool) -> None:
        """Start a query for each source; `on_batch` is called after each batch.

        `once`: end after the messages that are there. Raises Invalid for wrong options or
        functions, Conflict for an unfinished backfill or tables of another document, Unavailable
        if the tables cannot be reached.
        """
        backfill.check_finished(self._paths)
        session.check_reachable(self._spark, self._paths.tables)
        self._live.check_reachable(str(self._spark.sparkContext.master))
        self._store.gold.check()
        self._once = once
        steps = batches.load_steps(self._pipeline, self._paths)
        compatibility.check(self._live, self._pipeline, self._paths, steps)
        sources = self._pipeline.spec.sources
        servers = {source.name: batches.server(source, self._paths) for source in sources}
        name = self._pipeline.metadata.name
        self._alerts = AlertSender(name, self._live, servers, self._clock)
        for source in sources:
            self._starters[source.name] = self._starter(source, steps, on_batch)
        for source in sources:
            self._start(source.name)
        self._gold = self._gold_loop()
        if not once:
            self._gold.start()

    def _gold_loop(self) -> GoldLoop:
        spec = self._pipeline.spec
        return GoldLoop(
            self._store.gold_query(self._spark),
            self._clock,
            every_ms=spec.gold_trigger,
            compact_every=spec.tables.compact_every,
            keep_ms=spec.tables.keep,
            log_file=session.log_file_of(self._paths.state),
        )

    def _starter(
        self, source: Source, steps: Sequence[Step], on_batch: OnBatch
    ) -> Callable[[], StreamingQuery]:
        """Return a function that starts the query of a source, and starts it again."""
        options = batches.options(source, self._paths)
        forwards = batches.forwards(self._spark, self._pipeline, source, self._paths)
        for forward in forwards:
            forward.check(self._spark)
        restarts = self._restarts[source.name]

        def committed(batch: dict[str, Any]) -> None:
            restarts.progressed()
            on_batch(batch)

        mine = functions.of_source(steps, source.name)
        write = Batches(self._pipeline, source, self._store, self._live, mine, forwards, committed)
        every = f"{self._pipeline.spec.trigger} milliseconds"

        def start() -> StreamingQuery:
            writer = batches.stream(self._spark, options.items()).writeStream
            writer = writer.queryName(f"{self._pipeline.metadata.name}-{source.name}")
            writer = writer.option("checkpointLocation", self._paths.checkpoint(source.name))
            if self._once:
                writer = writer.trigger(availableNow=True)
            else:
                writer = writer.trigger(processingTime=every)
            return writer.foreachBatch(write).start()

        return start

    def _start(self, source: str) -> None:
        """Start a query, or schedule its next start."""
        try:
            self._queries[source] = self._starters[source]()
        except Exception as error:
            self._fail(source, error)
            self._raise_if_all_failed()
        else:
            self._restarts[source].started()

    def _fail(self, source: str, error: BaseException) -> None:
        """Schedule the next start of a source that ended with an error."""
        restarts = self._restarts[source]
        restarts.failed(error)
        if restarts.failure is not None and len(self._failures) < len(self._restarts):
            log.warning("%s; the other sources continue", restarts.failure.error)

    def _raise_if_all_failed(self) -> None:
        """Raise the error of the first source if no source continues."""
        if len(failures := self._failures) == len(self._restarts):
            # the error of the source matters more than an unavailable database
            with contextlib.suppress(Unavailable):
                self._record_failures()
            raise next(iter(failures.values())).error

    @property
    def _failures(self) -> dict[str, Failure]:
        found = {source: one.failure for source, one in self._restarts.items()}
        return {source: failure for source, failure in found.items() if failure is not None}

    def lags(self) -> dict[str, dict[int, int] | None]:
        """Return the numbers of unread messages by source and partition, None if unknown.

        The server reports those of a failing source.
        """
        failing = [one for one in self._pipeline.spec.sources if one.name in self._failures]
        return {**self._lags, **{one.name: lag.unread(one, self._paths) for one in failing}}

    def gold(self) -> Progress | None:
        """Return the progress of gold."""
        return self._store.gold_progress()

    def watch(self, stop: threading.Event) -> None:
        """Return when all queries have ended or `stop` is set; raise the error of the first source
        when none continues.

        A query that ended starts again (`failures`): after a failure of Spark, or after an error
        while another source continues. With `once` errors are final; the first is raised after
        the other sources have ended.
        """
        retry = reading.retry_for(batches.LIVE_TIMEOUT_S)
        while self._is_running() and not stop.is_set():
            try:
                self._poll()
                if self._alerts is not None:
                    self._alerts.start_pending()
                retry.renew()
            except Unavailable as error:
                self._check()
                # only live state is unavailable
                retry.wait(error)
            stop.wait(POLL_S)
            for source, restarts in self._restarts.items():
                if restarts.is_due and not stop.is_set() and self._may_restart(restarts):
                    self._start(source)
        self._poll()
        if self._once and self._gold is not None and not stop.is_set():
            self._gold.finish()
        for failure in self._failures.values() if self._once else ():
            raise failure.error

    def _is_running(self) -> bool:
        """Whether a query is active or will start again; raises as `_check` does."""
        is_active = any(query.isActive for query in self._queries.values())
        self._check()
        pending = [one for one in self._restarts.values() if one.is_pending]
        return is_active or any(map(self._may_restart, pending))

    def _may_restart(self, restarts: Restarts) -> bool:
        return restarts.failure is None or not self._once

    def stop(self) -> None:
        """End each query after its batch in progress, if that ends in time; an interrupted batch
        is repeated at the next start. Wait for maintenance of tables.
        """
        deadline = self._clock.monotonic() + STOP_S
        pause = threading.Event()
        before = {source: _last_batch(query) for source, query in self._queries.items()}
        while before:
            for source, last in list(before.items()):
                query = self._queries[source]
                is_busy = query.isActive and query.status["isTriggerActive"]
                # with a backlog the next batch starts at once: it is interrupted
                if is_busy and _last_batch(query) == last and self._clock.monotonic() <= deadline:
                    continue
                query.stop()
                del before[source]
            if before:
                pause.wait(STOP_POLL_S)
        try:
            if self._gold is not None:
                self._gold.close()
            # `status` shows the error of gold after the run
            with contextlib.suppress(Unavailable):
                self._record_failures()
            if self._alerts is not None:
                self._alerts.send(LAST_ALERTS_S)
        finally:
            if self._alerts is not None:
                self._alerts.close()
            self._store.close()

    def _record_failures(self) -> None:
        """Record failing sources in live state, for `status` and `/metrics`."""
        gold = None if self._gold is None else self._gold.failure
        found = {"source": self._failures, "gold": {} if gold is None else {"gold": gold}}
        for kind, failures in found.items():
            if failures != self._recorded.get(kind):
                self._live.record_failures(kind, failures)
                self._recorded[kind] = failures

    def _check(self) -> None:
        """Schedule the next start of queries that ended; raise if none continues."""
        for source, query in self._queries.items():
            if not self._restarts[source].is_pending and (error := query.exception()) is not None:
                self._fail(source, error)
        self._raise_if_all_failed()

    def _poll(self) -> None:
        self._check()
        self._record_failures()
        for source, query in self._queries.items():
            progress = query.lastProgress
            if progress is None:
                continue
            found: dict[str, Any] = json.loads(progress.json)
            took_ms = found["durationMs"].get("triggerExecution") if found["numInputRows"] else None
            lags = _lag(found)
            if lags is not None:
                self._lags[source] = lags
            unread = None if lags is None else sum(lags.values())
            self._live.record_progress(source, str(query.id), unread, took_ms)
            status = query.status
            if query.isActive and not (status["isDataAvailable"] or status["isTriggerActive"]):
                # messages that arrived since the last trigger are not known yet
                unknown_us = self._pipeline.spec.trigger * 1000 + US_PER_S
                now_us = int(self._clock.now().timestamp() * US_PER_S)
                self._live.tick(source, now_us - unknown_us)


def _last_batch(query: StreamingQuery) -> str | None:
    """The start time of the last batch of a query that has ended."""
    progress = query.lastProgress
    return None if progress is None else str(progress.timestamp)


def _lag(progress: dict[str, Any]) -> dict[int, int] | None:
    """Messages in the stream that no batch has read, by partition."""
    (source,) = progress["sources"]
    offsets = [source.get(name) for name in ("endOffset", "latestOffset")]
    end, latest = (json.loads(one) if isinstance(one, str) else one for one in offsets)
    if not isinstance(end, dict) or not isinstance(latest, dict):
        return None
    read = ranges.numbers(end)
    return {part: max(0, last - read.get(part, 0)) for part, last in ranges.numbers(latest).items()}
