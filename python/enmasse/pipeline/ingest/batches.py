"""The batches of a source: bronze, silver, quarantine, sinks and live state, each exactly once.

Spark repeats an interrupted batch with the same rows. Each table and the database remember the last
batch of a query, so a repeated batch skips the finished parts.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from enmasse.base.errors import Invalid
from enmasse.pipeline import functions
from enmasse.pipeline.connector import options as option_table
from enmasse.pipeline.connector import reading
from enmasse.pipeline.connector.options import Writing
from enmasse.pipeline.functions import Step
from enmasse.pipeline.ingest import bronze, counts, decoding, envelope, silver
from enmasse.pipeline.ingest.forward import Forward, task_count
from enmasse.pipeline.ingest.store import Store
from enmasse.pipeline.live.commits import COUNTED
from enmasse.pipeline.live.database import Live
from enmasse.pipeline.live.updates import Context
from enmasse.pipeline.paths import Paths
from enmasse.pipeline.session import job_description
from enmasse.pipeline.tables import delta
from enmasse.resources import Pipeline
from enmasse.resources.pipeline import Sink, Source

QUERY_ID = "sql.streaming.queryId"
"""The local property of Spark with the id of the query of a batch."""
REPORTED = COUNTED[:3]
"""Counts that the report of a batch has."""
Result = TypeVar("Result")
LIVE_TIMEOUT_S = 60.0
"""How long the database of live state may be unavailable before the run ends."""


@dataclass(frozen=True)
class Batches:
    """The function of `foreachBatch` for one source: it plans the work of Spark's tasks and
    commits the results. Raises Invalid for fields that cannot be read together.
    """

    pipeline: Pipeline
    source: Source
    store: Store
    live: Live
    steps: Sequence[Step]
    """Those of this source."""

    forwards: Sequence[Forward]
    on_batch: Callable[[dict[str, Any]], None]

    def __post_init__(self) -> None:
        decoding.columns_of(self.source)

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Process a batch, or the unfinished parts of a repeated one."""
        spark = frame.sparkSession
        query_id = spark.sparkContext.getLocalProperty(QUERY_ID) or ""
        _with_retry(lambda: self.live.claim(self.source.name, query_id, batch_id))
        batch = _Batch(spark, self.source.name, query_id, batch_id)
        query = app_id(self.pipeline, self.source.name, query_id)
        with batch.job("write bronze"):
            received = bronze.with_date(frame).coalesce(spark.sparkContext.defaultParallelism)
            appended = delta.append(received, self.store.bronze, query, batch_id)
        messages = bronze.stored(frame, self.store.bronze, appended)
        parsed = decoding.parsed(messages, self.source, self.steps)
        parsed.persist(StorageLevel.MEMORY_AND_DISK_DESER)
        try:
            self._process(batch, query, messages, parsed)
        finally:
            parsed.unpersist()
        every = self.pipeline.spec.tables.compact_every
        if batch_id % every == every - 1:
            self.store.maintain_in_background(self.pipeline.spec.tables.keep)
            _with_retry(self.live.prune)

    def _process(self, batch: "_Batch", query: str, messages: DataFrame, parsed: DataFrame) -> None:
        """Write silver and quarantine, then send to sinks, then change live state: a batch that
        live state has is finished.
        """
        with batch.job("decode messages"), functions.computing(self.steps):
            counted = counts.of_batch(messages, parsed, min(self.pipeline.spec.windows))
        total = {name: counts.total(counted, name) for name in COUNTED}
        readings, refused = silver.split_frame(parsed)
        frames = {"silver": (readings, "readings"), "quarantine": (refused, "quarantined")}
        parts = {
            table: delta.Part(rows, getattr(self.store, table), total[count])
            for table, (rows, count) in frames.items()
            if total[count]
        }
        with batch.job("write " + ", ".join(parts)):
            delta.append_all(batch.spark, list(parts.values()), query, batch.number)
        written = {"bronze": total["messages"]}
        written |= {table: total[count] for table, (_, count) in frames.items()}
        for forward in self.forwards:
            if (part := parts.get(forward.sink.table)) is not None:
                with batch.job(f"send to sink {forward.sink.name}"):
                    count = forward(part.frame, query, batch.number)
                written[f"sinks/{forward.sink.name}"] = count
        context = Context(
            source=self.source.name,
            query_id=batch.query_id,
            batch_id=batch.number,
            usage=counts.usage(counted),
            known_to_us=counts.known_to_us(counted),
            written=written,
            **total,
        )
        with batch.job("live state"):
            outcome = _with_retry(lambda: self.live.follow(readings, context))
        report = {name: total[name] for name in REPORTED} | {"again": not outcome.is_new}
        self.on_batch({"source": self.source.name, "batch": batch.number} | report)


@dataclass(frozen=True)
class _Batch:
    """One batch of one query."""

    spark: SparkSession
    source: str
    query_id: str
    number: int

    def job(self, what: str) -> AbstractContextManager[None]:
        """Describe jobs in the UI of Spark."""
        return job_description(self.spark, f"{self.source}, batch {self.number}: {what}")


def _with_retry(change: Callable[[], Result]) -> Result:
    """Change live state; repeat that while the database is unavailable."""
    return reading.retry_for(LIVE_TIMEOUT_S).repeat(change)


def app_id(pipeline: Pipeline, source: str, query_id: str) -> str:
    """Return the id of a query in the transactions of tables."""
    return f"{pipeline.metadata.name}/{source}/{query_id}"


def options(source: Source, paths: Paths) -> dict[str, str]:
    """Return the options of the format `enmasse` for a source.

    Raises Invalid for a password file that cannot be read.
    """
    chosen = _resolved(source.options, paths) | {
        "url": source.url,
        "address": source.address,
        "columns": ", ".join(envelope.MESSAGE.names),
        "start": source.start,
        "maxRowsPerTrigger": str(source.max_rows),
        "maxBytesPerTrigger": str(source.max_bytes),
        "failOnDataLoss": str(source.fail_on_data_loss).lower(),
    }
    if source.spool is not None:
        chosen["spool"] = str(paths.resolve(source.spool))
    return chosen | _password(f"source {source.name}", source.password_file, paths)


def check(pipeline: Pipeline, paths: Paths) -> None:
    """Raise Invalid for wrong options, naming the field and the nearest right name, and for fields
    that cannot be read together.

    Nothing is connected to.
    """
    for index, source in enumerate(pipeline.spec.sources):
        with _at(f"spec.sources[{index}].options"):
            option_table.read(options(source, paths))
        with _at(f"spec.sources[{index}]"):
            decoding.columns_of(source)
    first = pipeline.spec.sources[0]
    for index, sink in enumerate(pipeline.spec.sinks):
        with _at(f"spec.sinks[{index}].options"):
            _sink_server(sink, first, paths)


@contextmanager
def _at(field: str) -> Iterator[None]:
    """Add the field of the document to an error."""
    try:
        yield
    except Invalid as error:
        raise Invalid(error.code, f"{field}: {error.message}") from None


def server(source: Source, paths: Paths) -> Writing:
    """Return the options for sending to the server of a source."""
    known = {option.name.lower() for option in option_table.CONNECTION}
    chosen = options(source, paths).items()
    return option_table.write({name: value for name, value in chosen if name.lower() in known})


def forwards(
    spark: SparkSession, pipeline: Pipeline, source: Source, paths: Paths
) -> list[Forward]:
    """Return the sinks of a source. Raises Invalid for wrong options."""
    chosen = [
        (f"spec.sinks[{index}]", sink)
        for index, sink in enumerate(pipeline.spec.sinks)
        if sink.source in (None, source.name)
    ]
    if not chosen:
        return []
    wanted = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    tasks = task_count(paths.checkpoint(source.name), wanted)
    rejected = paths.table("rejected")
    return [
        Forward(sink, _sink_server(sink, source, paths), rejected, field, tasks)
        for field, sink in chosen
    ]


def _sink_server(sink: Sink, source: Source, paths: Paths) -> Writing:
    if sink.url is None:
        return server(source, paths)
    chosen = _resolved(sink.options, paths) | {"url": sink.url}
    return option_table.write(chosen | _password(f"sink {sink.name}", sink.password_file, paths))


def _resolved(given: Mapping[str, str], paths: Paths) -> dict[str, str]:
    """Return options with an absolute `tokenFile`, which executors can open too."""
    return {
        name: str(paths.resolve(value)) if name.lower() == "tokenfile" else value
        for name, value in given.items()
    }


def _password(owner: str, file: str | None, paths: Paths) -> dict[str, str]:
    return {} if file is None else {"password": paths.secret(owner, file)}


def load_steps(pipeline: Pipeline, paths: Paths) -> list[Step]:
    """Return the steps of the document's functions file, if it names one."""
    if paths.functions is None:
        return []
    return functions.load(paths.functions, [source.name for source in pipeline.spec.sources])


def stream(spark: SparkSession, chosen: Iterable[tuple[str, str]]) -> DataFrame:
    """Return a source as a streaming frame."""
    frame = spark.readStream.format("enmasse").options(**dict(chosen)).load()
    return bronze.with_batch_time(frame)
