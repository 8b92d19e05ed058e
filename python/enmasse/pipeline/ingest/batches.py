"""What becomes of a batch: bronze, silver and quarantine, and live state, each of them once.

Spark repeats a batch that was cut off, with the same rows. Each table and the database remember the
last batch of a query, so what is done is passed over and the rest is done.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from enmasse.base.errors import Invalid, Unavailable
from enmasse.pipeline import functions
from enmasse.pipeline.connector import options as option_table
from enmasse.pipeline.connector import reading
from enmasse.pipeline.connector.options import Writing
from enmasse.pipeline.functions import Step
from enmasse.pipeline.ingest import bronze, counting, decoding, envelope, silver
from enmasse.pipeline.ingest.forward import Forward, tasks_of
from enmasse.pipeline.ingest.store import Store
from enmasse.pipeline.live.database import Live
from enmasse.pipeline.live.following import Context
from enmasse.pipeline.places import Places
from enmasse.pipeline.session import described
from enmasse.pipeline.tables import delta
from enmasse.resources import Pipeline
from enmasse.resources.pipeline import Sink, Source

QUERY_ID = "sql.streaming.queryId"
"""Under this name Spark tells which query a batch is of."""
Result = TypeVar("Result")
LIVE_TIMEOUT_S = 60.0
"""How long the database of live state may be away before the run ends."""


class Batches:
    """What `foreachBatch` calls for one source: it plans what tasks of Spark do, and commits."""

    def __init__(
        self,
        pipeline: Pipeline,
        source: Source,
        store: Store,
        live: Live,
        steps: Sequence[Step],
        forwards: Sequence[Forward],
        told: Callable[[dict[str, Any]], None],
    ) -> None:
        """Put batches of a source into tables and live state, and tell of each."""
        self._pipeline = pipeline
        self._source = source
        self._store = store
        self._live = live
        self._forwards = forwards
        decoding.declared(source)  # what cannot be read together is said before the start
        self._steps = [one for one in steps if one.source in (functions.ALL, source.name)]
        self._told = told

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Put a batch in, unless it is in already."""
        query_id = frame.sparkSession.sparkContext.getLocalProperty(QUERY_ID) or ""
        _patiently(lambda: self._live.claim(self._source.name, query_id, batch_id))
        with ExitStack() as kept:
            self._put(frame, query_id, batch_id, kept)
        every = self._pipeline.spec.tables.compact_every
        if batch_id % every == every - 1:
            self._store.tidy_beside(self._pipeline.spec.tables.keep)
            _patiently(self._live.prune)

    def _put(self, frame: DataFrame, query_id: str, batch_id: int, kept: ExitStack) -> None:
        source, windows = self._source, self._pipeline.spec.windows
        batch = _Batch(frame.sparkSession, source.name, query_id, batch_id)
        messages = _persisted(bronze.dated(frame), kept)
        with batch.job("read messages"):
            came = counting.came(messages)
        judged = _persisted(decoding.judged(messages, source, self._steps), kept)
        with batch.job("decode messages"), functions.computed(self._steps):
            became = counting.became(judged, min(windows))
        readings, refused = silver.parted_frame(judged)
        counts = {
            "bronze": came.messages,
            "silver": became.sum("readings"),
            "quarantine": became.sum("quarantined"),
        }
        frames = {"bronze": messages, "silver": readings, "quarantine": refused}
        self._append(batch, frames, counts)
        context = Context(
            pipeline=self._pipeline.metadata.name,
            source=source.name,
            query_id=query_id,
            batch_id=batch_id,
            usage=counting.usage(came, became),
            known_to_us=came.known_to_us,
            written=counts | self._forward(batch, frames, counts),
            messages=counts["bronze"],
            readings=counts["silver"],
            quarantined=counts["quarantine"],
            late=became.sum("late"),
            clamped=became.sum("clamped"),
        )
        with batch.job("live state"):
            outcome = _patiently(lambda: self._live.follow(readings, context))
        said = {name: getattr(context, name) for name in ("messages", "readings", "quarantined")}
        self._told(
            {"source": source.name, "batch": batch_id} | said | {"again": not outcome.is_new}
        )

    def _append(
        self, batch: "_Batch", frames: Mapping[str, DataFrame], counts: Mapping[str, int]
    ) -> None:
        """Append rows to their tables."""
        there = [table for table, rows in counts.items() if rows]
        parts = [
            delta.Part(frames[table], getattr(self._store, table), counts[table]) for table in there
        ]
        with batch.job("write " + ", ".join(there)):
            delta.append_all(batch.spark, parts, self._app_id(batch), batch.number)

    def _forward(
        self, batch: "_Batch", frames: Mapping[str, DataFrame], counts: Mapping[str, int]
    ) -> dict[str, int]:
        """Send rows to sinks; return how many are stored, by sink."""
        stored: dict[str, int] = {}
        for forward in self._forwards:
            if counts[forward.table]:
                with batch.job(f"send to sink {forward.name}"):
                    rows = forward(frames[forward.table], self._app_id(batch), batch.number)
                stored[f"sinks/{forward.name}"] = rows
        return stored

    def _app_id(self, batch: "_Batch") -> str:
        return app_id(self._pipeline, self._source.name, batch.query_id)


@dataclass(frozen=True)
class _Batch:
    """Which batch of which query is put in."""

    spark: SparkSession
    source: str
    query_id: str
    number: int

    def job(self, what: str) -> AbstractContextManager[None]:
        """Name jobs in the UI of Spark."""
        return described(self.spark, f"{self.source}, batch {self.number}: {what}")


def _persisted(frame: DataFrame, kept: ExitStack) -> DataFrame:
    """Keep the rows of a frame in memory, or on disk, once they are computed."""
    frame.persist(StorageLevel.MEMORY_AND_DISK)
    kept.callback(frame.unpersist)
    return frame


def _patiently(change: Callable[[], Result]) -> Result:
    """Change live state, waiting for a database that is away."""
    waits = reading.patience(LIVE_TIMEOUT_S)
    while True:
        try:
            return change()
        except Unavailable as error:
            waits.wait(error)


def app_id(pipeline: Pipeline, source: str, query_id: str) -> str:
    """Return the name under which tables know a query."""
    return f"{pipeline.metadata.name}/{source}/{query_id}"


def options(source: Source, places: Places) -> dict[str, str]:
    """Return the options of the format `enmasse` by which a source is read.

    Raises Invalid for a password file that cannot be read.
    """
    chosen = _rooted(source.options, places) | {
        "url": source.url,
        "address": source.address,
        "columns": ", ".join(envelope.MESSAGE.names),
        "start": source.start,
        "maxRowsPerTrigger": str(source.max_rows),
        "maxBytesPerTrigger": str(source.max_bytes),
        "failOnDataLoss": str(source.fail_on_data_loss).lower(),
    }
    if source.spool is not None:
        chosen["spool"] = str(places.document.resolve().parent / source.spool)
    return chosen | _password(f"source {source.name}", source.password_file, places)


def check(pipeline: Pipeline, places: Places) -> None:
    """Raise Invalid for options that are wrong, with the field and the nearest right name, and for
    fields that cannot be read together.

    Nothing is connected to.
    """
    for index, source in enumerate(pipeline.spec.sources):
        with _named(f"spec.sources[{index}].options"):
            option_table.read(options(source, places))
        with _named(f"spec.sources[{index}]"):
            decoding.declared(source)
    first = pipeline.spec.sources[0]
    for index, sink in enumerate(pipeline.spec.sinks):
        with _named(f"spec.sinks[{index}].options"):
            _reached(sink, first, places)


@contextmanager
def _named(path: str) -> Iterator[None]:
    """Say where in the document it is that is wrong."""
    try:
        yield
    except Invalid as error:
        raise Invalid(error.code, f"{path}: {error.message}") from None


def server(source: Source, places: Places) -> Writing:
    """Return how the server of a source is reached to send something there."""
    known = {option.name.lower() for option in option_table.CONNECTION}
    chosen = options(source, places).items()
    return option_table.write({name: value for name, value in chosen if name.lower() in known})


def forwards(
    spark: SparkSession, pipeline: Pipeline, source: Source, places: Places
) -> list[Forward]:
    """Return what of a source goes on to addresses.

    Raises Invalid for options that are wrong.
    """
    chosen = [
        (f"spec.sinks[{index}]", sink)
        for index, sink in enumerate(pipeline.spec.sinks)
        if sink.source in (None, source.name)
    ]
    if not chosen:
        return []
    wanted = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    tasks = tasks_of(places.checkpoint(source.name), wanted)
    rejected = places.table("rejected")
    return [
        Forward(sink, _reached(sink, source, places), rejected, path, tasks)
        for path, sink in chosen
    ]


def _reached(sink: Sink, source: Source, places: Places) -> Writing:
    if sink.url is None:
        return server(source, places)
    chosen = _rooted(sink.options, places) | {"url": sink.url}
    return option_table.write(chosen | _password(f"sink {sink.name}", sink.password_file, places))


def _rooted(given: Mapping[str, str], places: Places) -> dict[str, str]:
    """Return options with the file of a token beside the document, where executors find it too."""
    folder = places.document.resolve().parent
    return {
        name: str(folder / value) if name.lower() == "tokenfile" else value
        for name, value in given.items()
    }


def _password(whose: str, named: str | None, places: Places) -> dict[str, str]:
    return {} if named is None else {"password": places.secret(whose, named)}


def steps_of(pipeline: Pipeline, places: Places) -> list[Step]:
    """Return the steps of the document's functions file, if it names one."""
    if places.functions is None:
        return []
    return functions.load(places.functions, [source.name for source in pipeline.spec.sources])


def stream(spark: SparkSession, chosen: Iterable[tuple[str, str]]) -> DataFrame:
    """Return a source as a frame that grows."""
    return bronze.timed(spark.readStream.format("enmasse").options(**dict(chosen)).load())
