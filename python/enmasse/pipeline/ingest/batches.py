"""What becomes of a batch: bronze, silver and quarantine, and live state, each of them once.

Spark repeats a batch that was cut off, with the same rows. Each table and the database remember the
last batch of a query, so what is done is passed over and the rest is done.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import pyarrow
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from enmasse.base.errors import Invalid, Unavailable
from enmasse.pipeline import functions
from enmasse.pipeline.connector import options as option_table
from enmasse.pipeline.connector import reading
from enmasse.pipeline.connector.options import Writing
from enmasse.pipeline.detect import detectors
from enmasse.pipeline.functions import Step
from enmasse.pipeline.ingest import bronze, decoding, silver
from enmasse.pipeline.ingest.forward import Forward
from enmasse.pipeline.ingest.store import Store
from enmasse.pipeline.live import database, following
from enmasse.pipeline.live.database import Live
from enmasse.pipeline.live.following import Context, LiveOutcome
from enmasse.pipeline.places import Places
from enmasse.resources import Pipeline
from enmasse.resources.pipeline import Sink, Source

QUERY_ID = "sql.streaming.queryId"
"""Under this name Spark tells which query a batch is of."""
Result = TypeVar("Result")
LIVE_TIMEOUT_S = 60.0
"""How long the database of live state may be away before the run ends."""


class Batches:
    """What `foreachBatch` calls for one source."""

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
        spark = frame.sparkSession
        query_id = spark.sparkContext.getLocalProperty(QUERY_ID) or ""
        self.put(frame.toArrow(), query_id, batch_id, spark)

    def put(
        self, messages: pyarrow.Table, query_id: str, batch_id: int, spark: SparkSession | None
    ) -> None:
        """Put the messages of a batch in, unless they are in already.

        Steps, sinks and Parquet tables need Spark; what else there is does without.
        """
        self._patiently(lambda: self._live.claim(self._source.name, query_id, batch_id))
        self._put(messages, query_id, batch_id, spark)
        every = self._pipeline.spec.tables.compact_every
        if batch_id % every == every - 1:
            self._store.tidy_beside(self._pipeline.spec.tables.keep)
            self._patiently(self._live.prune)

    def _put(
        self, messages: pyarrow.Table, query_id: str, batch_id: int, spark: SparkSession | None
    ) -> None:
        source, store = self._source, self._store
        name = app_id(self._pipeline, source.name, query_id)
        messages = bronze.kept(messages)
        dated = with_days(messages)
        store.append(spark, dated, store.bronze, name, batch_id)
        readings, refused = decoding.judged(messages, source, self._steps, spark)
        store.append(spark, readings, store.silver, name, batch_id)
        store.append(spark, refused, store.quarantine, name, batch_id)
        of_tables = {"silver": readings, "quarantine": refused}
        written = {"bronze": len(messages)}
        written |= {table: len(new) for table, new in of_tables.items()}
        if spark is not None:
            for forward in self._forwards:
                written[f"sinks/{forward.name}"] = forward(spark, of_tables, name, batch_id)
        usage = _usage(dated, readings, refused)
        known_to_us = _known_to(messages)
        batch = Context(
            pipeline=self._pipeline.metadata.name,
            source=source.name,
            query_id=query_id,
            batch_id=batch_id,
            usage=usage,
            known_to_us=known_to_us,
            written=written,
            messages=len(messages),
            readings=len(readings),
            quarantined=len(refused),
            late=database.late(readings, self._pipeline.spec.windows),
            clamped=pc.sum(readings["clamped"]).as_py() or 0,
        )
        outcome = self._followed(spark, readings, batch)
        self._told(
            {
                "source": source.name,
                "batch": batch_id,
                "messages": len(messages),
                "readings": len(readings),
                "quarantined": len(refused),
                "again": not outcome.is_new,
            }
        )

    def _followed(
        self, spark: SparkSession | None, readings: pyarrow.Table, batch: Context
    ) -> LiveOutcome:
        live = self._live
        if not isinstance(spark, SparkSession):
            # without Spark one task follows all devices
            work = live.work(batch)
            return self._patiently(lambda: live.commit(batch, following.parts(work, readings)))
        frame = spark.createDataFrame(readings)
        return self._patiently(lambda: live.follow(frame, batch))

    @staticmethod
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


def with_days(messages: pyarrow.Table) -> pyarrow.Table:
    """Return bronze's rows: messages with the day of their arrival, or of their batch."""
    came = pc.coalesce(messages["enqueued_time"], messages[bronze.BATCH_TIME])
    return messages.append_column("date", silver.days(came.combine_chunks()))


def _usage(
    messages: pyarrow.Table, readings: pyarrow.Table, refused: pyarrow.Table
) -> list[dict[str, Any]]:
    """What came in and what became of it, by tenant, address and day of arrival."""
    key = ["space", "address", "date"]
    usage: dict[tuple[str, str, str], dict[str, Any]] = {}

    def entry(one: Mapping[str, Any]) -> dict[str, Any]:
        names = {name: str(one[name] or "") for name in key}
        zero = names | {"messages": 0, "bytes": 0, "readings": 0, "quarantined": 0}
        return usage.setdefault((names["space"], names["address"], names["date"]), zero)

    sized = messages.select(key).append_column("bytes", pc.binary_length(messages["body"]))
    came = sized.group_by(key).aggregate([([], "count_all"), ("bytes", "sum")])
    for one in came.to_pylist():
        entry(one)["messages"] += one["count_all"]
        entry(one)["bytes"] += one["bytes_sum"] or 0
    for figure, rows in (("readings", readings), ("quarantined", refused)):
        day = pc.cast(rows["enqueued_time"], pyarrow.date32())
        placed = rows.select(["space", "address"]).append_column("date", day)
        for one in placed.group_by(key).aggregate([([], "count_all")]).to_pylist():
            entry(one)[figure] += one["count_all"]
    return list(usage.values())


def _known_to(messages: pyarrow.Table) -> int:
    """Up to when all that came is known, in microseconds since 1970."""
    newest = messages.group_by("partition").aggregate([("enqueued_time", "max")])
    times = [time for time in newest["enqueued_time_max"].cast(pyarrow.int64()).to_pylist() if time]
    # a partition that has less to read is read to its end, the others as far as the slowest
    return min(times, default=detectors.NEVER_US)


def options(source: Source, places: Places) -> dict[str, str]:
    """Return the options of the format `enmasse` by which a source is read.

    Raises Invalid for a password file that cannot be read.
    """
    chosen = _rooted(source.options, places) | {
        "url": source.url,
        "address": source.address,
        "columns": ", ".join(bronze.MESSAGE.names),
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


def forwards(pipeline: Pipeline, source: Source, places: Places) -> list[Forward]:
    """Return what of a source goes on to addresses.

    Raises Invalid for options that are wrong.
    """
    rejected = places.table("rejected")
    return [
        Forward(sink, _reached(sink, source, places), rejected, f"spec.sinks[{index}]")
        for index, sink in enumerate(pipeline.spec.sinks)
        if sink.source in (None, source.name)
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
