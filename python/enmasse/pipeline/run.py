"""The run: one streaming query for each source, and what has to happen while nothing comes in."""

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
from enmasse.pipeline import changes, session
from enmasse.pipeline.connector import ranges, reading
from enmasse.pipeline.endings import Restarts, Trouble
from enmasse.pipeline.functions import Step
from enmasse.pipeline.gold.loop import GoldLoop
from enmasse.pipeline.gold.progress import Progress
from enmasse.pipeline.ingest import batches, replay
from enmasse.pipeline.ingest.batches import Batches
from enmasse.pipeline.ingest.store import Store
from enmasse.pipeline.live.database import Live
from enmasse.pipeline.live.incidents import Teller
from enmasse.pipeline.places import Places
from enmasse.resources import Pipeline
from enmasse.resources.pipeline import Source

log = logging.getLogger("enmasse.pipeline")

LOOK_S = 1.0
"""How often queries are looked at, and silent devices looked for."""
STOP_S, STOP_LOOK_S = 20.0, 0.05
"""How long a batch under way may take when the run is to end."""
LAST_ALERTS_S = 10.0
"""How long alerts are sent at the end; what waits then is sent by the next run."""
US_A_S = 1_000_000

Told = Callable[[dict[str, Any]], None]


class Run:
    """The queries of a pipeline."""

    def __init__(
        self, spark: SparkSession, pipeline: Pipeline, places: Places, live: Live, clock: Clock
    ) -> None:
        """Prepare; nothing is read yet."""
        self._spark = spark
        self._pipeline = pipeline
        self._places = places
        self._live = live
        self._clock = clock
        self._store = Store(pipeline, places)
        self._queries: dict[str, StreamingQuery] = {}
        self._begins: dict[str, Callable[[], StreamingQuery]] = {}
        names = [source.name for source in pipeline.spec.sources]
        log_file = session.log_of(places.state)
        self._restarts = {name: Restarts(name, clock, log_file) for name in names}
        self._lags: dict[str, dict[int, int]] = {}
        self._once = False
        self._told: dict[str, dict[str, Trouble]] = {}
        self._teller: Teller | None = None
        self._gold: GoldLoop | None = None

    def start(self, told: Told, *, once: bool) -> None:
        """Start a query for each source; `told` hears of each batch.

        `once`: read what is there and end. Raises Invalid for options or functions that are wrong,
        Conflict if a backfill was cut off or the tables are of another document, Unavailable if
        the place of tables cannot be reached.
        """
        replay.check_finished(self._places)
        session.check_reached(self._spark, self._places.tables)
        self._live.check_reached(str(self._spark.sparkContext.master))
        self._store.gold.check()
        self._once = once
        steps = batches.steps_of(self._pipeline, self._places)
        changes.check(self._live, self._pipeline, self._places, steps)
        sources = self._pipeline.spec.sources
        servers = {source.name: batches.server(source, self._places) for source in sources}
        self._teller = Teller(self._pipeline.metadata.name, self._live, servers, self._clock)
        for source in sources:
            self._begins[source.name] = self._prepared(source, steps, told, once=once)
        for source in sources:
            self._begin(source.name)
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
            log_file=session.log_of(self._places.state),
        )

    def _prepared(
        self, source: Source, steps: Sequence[Step], told: Told, *, once: bool
    ) -> Callable[[], StreamingQuery]:
        """What starts the query of a source, as often as that is needed."""
        options = batches.options(source, self._places)
        forwards = batches.forwards(self._spark, self._pipeline, source, self._places)
        for forward in forwards:
            forward.check(self._spark)
        restarts = self._restarts[source.name]

        def heard(batch: dict[str, Any]) -> None:
            restarts.progressed()
            told(batch)

        put = Batches(self._pipeline, source, self._store, self._live, steps, forwards, heard)
        every = f"{self._pipeline.spec.trigger} milliseconds"

        def begin() -> StreamingQuery:
            writer = batches.stream(self._spark, options.items()).writeStream
            writer = writer.queryName(f"{self._pipeline.metadata.name}-{source.name}")
            writer = writer.option("checkpointLocation", self._places.checkpoint(source.name))
            if once:
                writer = writer.trigger(availableNow=True)
            else:
                writer = writer.trigger(processingTime=every)
            return writer.foreachBatch(put).start()

        return begin

    def _begin(self, source: str) -> None:
        """Start a query, or let it wait for its next start."""
        try:
            self._queries[source] = self._begins[source]()
        except Exception as error:
            self._end(source, error)
            self._refuse()
        else:
            self._restarts[source].began()

    def _end(self, source: str, error: BaseException) -> None:
        """Let a source that an error has ended wait for its next start."""
        restarts = self._restarts[source]
        restarts.ended(error)
        if restarts.trouble is not None and len(self._troubles) < len(self._restarts):
            log.warning("%s; the other sources go on", restarts.trouble.error)

    def _refuse(self) -> None:
        """Raise what ended the first source if none goes on any more."""
        if len(troubles := self._troubles) == len(self._restarts):
            # why it ended is more than that the database is away, too
            with contextlib.suppress(Unavailable):
                self._say_troubles()
            raise next(iter(troubles.values())).error

    @property
    def _troubles(self) -> dict[str, Trouble]:
        found = {source: one.trouble for source, one in self._restarts.items()}
        return {source: trouble for source, trouble in found.items() if trouble is not None}

    def lags(self) -> dict[str, dict[int, int]]:
        """Return how many messages wait, by source and partition, as far as that is known."""
        return dict(self._lags)

    def gold(self) -> Progress | None:
        """Return how far gold is."""
        return self._store.gold_progress()

    def watch(self, stop: threading.Event) -> None:
        """Return when all queries have ended, or `stop` is set; raises what ended the first
        source when none goes on.

        A query that ended begins again (`endings`): after the death of a process of Spark, or
        after an error that stands, as long as another source goes on. A run that is to end by
        itself does so without those, and raises what the first of them says.
        """
        waits = reading.patience(batches.LIVE_TIMEOUT_S)
        while self._goes_on() and not stop.is_set():
            try:
                self._look()
                if self._teller is not None:
                    self._teller.begin()
                waits.renew()
            except Unavailable as error:
                self._check()
                # the database of live state is away
                waits.wait(error)
            stop.wait(LOOK_S)
            for source, restarts in self._restarts.items():
                if restarts.is_due and not stop.is_set() and self._may_begin(restarts):
                    self._begin(source)
        self._look()
        if self._once and self._gold is not None and not stop.is_set():
            self._gold.finish()
        for trouble in self._troubles.values() if self._once else ():
            raise trouble.error

    def _goes_on(self) -> bool:
        """Whether a query is at work, or begins again; raises as `_check` does."""
        is_active = any(query.isActive for query in self._queries.values())
        self._check()
        waiting = [one for one in self._restarts.values() if one.waits]
        return is_active or any(one.trouble is None or not self._once for one in waiting)

    def _may_begin(self, restarts: Restarts) -> bool:
        return restarts.trouble is None or not self._once

    def stop(self) -> None:
        """End each query after the batch that is under way, if that ends soon; one that is cut off
        is repeated at the next start. Where much waits the next batch begins at once, and is.
        Tables that are tidied are waited for."""
        deadline = self._clock.monotonic() + STOP_S
        pause = threading.Event()
        before = {source: _last_ended(query) for source, query in self._queries.items()}
        while before:
            for source, last in list(before.items()):
                query = self._queries[source]
                is_busy = query.isActive and query.status["isTriggerActive"]
                if is_busy and _last_ended(query) == last and self._clock.monotonic() <= deadline:
                    continue
                query.stop()
                del before[source]
            if before:
                pause.wait(STOP_LOOK_S)
        try:
            if self._gold is not None:
                self._gold.close()
            # a run that ended with gold's error leaves it for `status`
            with contextlib.suppress(Unavailable):
                self._say_troubles()
            if self._teller is not None:
                self._teller.tell(LAST_ALERTS_S)
        finally:
            if self._teller is not None:
                self._teller.close()
            self._store.close()

    def _say_troubles(self) -> None:
        """Let live state have the sources in trouble, for `status` and `/metrics`."""
        gold = None if self._gold is None else self._gold.trouble
        found = {"source": self._troubles, "gold": {} if gold is None else {"gold": gold}}
        for kind, troubles in found.items():
            if troubles != self._told.get(kind):
                self._live.troubled(kind, troubles)
                self._told[kind] = troubles

    def _check(self) -> None:
        """Let queries that have ended wait for their next start; raises if none goes on."""
        for source, query in self._queries.items():
            if not self._restarts[source].waits and (error := query.exception()) is not None:
                self._end(source, error)
        self._refuse()

    def _look(self) -> None:
        self._check()
        self._say_troubles()
        for source, query in self._queries.items():
            progress = query.lastProgress
            if progress is None:
                continue
            found: dict[str, Any] = json.loads(progress.json)
            took_ms = found["durationMs"].get("triggerExecution") if found["numInputRows"] else None
            lag = _lag(found)
            if lag is not None:
                self._lags[source] = lag
            waiting = None if lag is None else sum(lag.values())
            self._live.measured(source, str(query.id), waiting, took_ms)
            status = query.status
            if query.isActive and not (status["isDataAvailable"] or status["isTriggerActive"]):
                # what has come since the last trigger is not known yet
                unknown_us = self._pipeline.spec.trigger * 1000 + US_A_S
                now_us = int(self._clock.now().timestamp() * US_A_S)
                self._live.tick(source, now_us - unknown_us)


def _last_ended(query: StreamingQuery) -> str | None:
    """When the last batch of a query began that has ended."""
    progress = query.lastProgress
    return None if progress is None else str(progress.timestamp)


def _lag(progress: dict[str, Any]) -> dict[int, int] | None:
    """Messages that are in the stream and in no batch, by partition."""
    (source,) = progress["sources"]
    places = [source.get(name) for name in ("endOffset", "latestOffset")]
    end, latest = (json.loads(one) if isinstance(one, str) else one for one in places)
    if not isinstance(end, dict) or not isinstance(latest, dict):
        return None
    read = ranges.numbers(end)
    return {part: max(0, last - read.get(part, 0)) for part, last in ranges.numbers(latest).items()}
