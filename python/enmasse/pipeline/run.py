"""The run: one streaming query for each source, and what has to happen while nothing comes in."""

import json
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from enmasse.base.clock import Clock
from enmasse.base.errors import EnMasseError, Unavailable
from enmasse.pipeline import batches, ranges, reading, replay
from enmasse.pipeline.batches import Batches, Store
from enmasse.pipeline.endings import Restarts
from enmasse.pipeline.functions import Step
from enmasse.pipeline.incidents import Teller
from enmasse.pipeline.live import Live
from enmasse.pipeline.places import Places
from enmasse.resources import Pipeline
from enmasse.resources.pipeline import Source

LOOK_S = 1.0
"""How often queries are looked at, and silent devices looked for."""
STOP_S, STOP_LOOK_S = 20.0, 0.05
"""How long a batch under way may take when the run is to end."""
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
        self._restarts = {name: Restarts(name, clock) for name in names}
        self._lags: dict[str, dict[int, int]] = {}
        self._teller: Teller | None = None
        # an address that takes nothing is not to keep the watch from its work
        self._messenger = ThreadPoolExecutor(1, "alerts")
        self._telling: Future[None] | None = None

    def start(self, told: Told, *, once: bool) -> None:
        """Start a query for each source; `told` hears of each batch.

        `once`: read what is there and end. Raises Invalid for options or functions that are wrong,
        Conflict if a backfill was cut off.
        """
        replay.check_finished(self._places)
        steps = batches.steps_of(self._pipeline, self._places)
        sources = self._pipeline.spec.sources
        servers = {source.name: batches.server(source, self._places) for source in sources}
        self._teller = Teller(self._pipeline.metadata.name, self._live, servers)
        for source in sources:
            self._begins[source.name] = self._prepared(source, steps, told, once=once)
        for source in sources:
            self._begin(source.name)

    def _prepared(
        self, source: Source, steps: Sequence[Step], told: Told, *, once: bool
    ) -> Callable[[], StreamingQuery]:
        """What starts the query of a source, as often as that is needed."""
        options = batches.options(source, self._places)
        forwards = batches.forwards(self._pipeline, source, self._places)
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
        """Start a query, or let it wait for its next start if a process of Spark died of it."""
        try:
            self._queries[source] = self._begins[source]()
        except EnMasseError:
            raise
        except Exception as error:
            self._restarts[source].ended(error)
        else:
            self._restarts[source].began()

    def lags(self) -> dict[str, dict[int, int]]:
        """Return how many messages wait, by source and partition, as far as that is known."""
        return dict(self._lags)

    def watch(self, stop: threading.Event) -> None:
        """Return when all queries have ended, or `stop` is set; raises what ended one.

        A query that ended by the death of a process of Spark begins again (`endings`).
        """
        waits = reading.patience(batches.LIVE_TIMEOUT_S)
        while self._goes_on() and not stop.is_set():
            try:
                self._look()
                self._tell()
                waits.renew()
            except Unavailable as error:
                self._check()
                # the database of live state is away
                waits.wait(error)
            stop.wait(LOOK_S)
            for source, restarts in self._restarts.items():
                if restarts.is_due and not stop.is_set():
                    self._begin(source)
        self._look()

    def _goes_on(self) -> bool:
        """Whether a query is at work, or begins again; raises what ended one."""
        is_active = any(query.isActive for query in self._queries.values())
        self._check()
        return is_active or any(one.waits for one in self._restarts.values())

    def stop(self) -> None:
        """End the queries, after the batch that is under way if that ends soon; one that is cut
        off is repeated at the next start."""
        deadline = self._clock.monotonic() + STOP_S
        pause = threading.Event()
        for query in self._queries.values():
            while query.isActive and query.status["isTriggerActive"]:
                if self._clock.monotonic() > deadline:
                    break
                pause.wait(STOP_LOOK_S)
            query.stop()
        self._tell(last=True)
        self._messenger.shutdown()

    def _tell(self, *, last: bool = False) -> None:
        """Send the alerts that wait, unless that is under way; at the end all that can be sent."""
        if self._telling is not None and (last or self._telling.done()):
            telling, self._telling = self._telling, None
            telling.result()
        if self._teller is not None and self._telling is None:
            self._telling = self._messenger.submit(self._teller.tell)
            if last:
                self._telling.result()

    def _check(self) -> None:
        """Raise what ended a query, unless it begins again."""
        for source, query in self._queries.items():
            if not self._restarts[source].waits and (error := query.exception()) is not None:
                self._restarts[source].ended(error)

    def _look(self) -> None:
        self._check()
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


def _lag(progress: dict[str, Any]) -> dict[int, int] | None:
    """Messages that are in the stream and in no batch, by partition."""
    (source,) = progress["sources"]
    places = [source.get(name) for name in ("endOffset", "latestOffset")]
    end, latest = (json.loads(one) if isinstance(one, str) else one for one in places)
    if not isinstance(end, dict) or not isinstance(latest, dict):
        return None
    read = ranges.numbers(end)
    return {part: max(0, last - read.get(part, 0)) for part, last in ranges.numbers(latest).items()}
