"""What becomes of a batch: bronze, silver and quarantine, gold, live state, each of them once.

Spark repeats a batch that was cut off, with the same rows. Each table and the database remember the
last batch of a query, so what is done is passed over and the rest is done.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import pyarrow
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from enmasse.base.errors import Invalid
from enmasse.pipeline import bronze, detect, functions, gold, gold_table, silver, tables
from enmasse.pipeline.functions import Step
from enmasse.pipeline.live import Batch, Live
from enmasse.pipeline.places import Places
from enmasse.pipeline.tables import Table
from enmasse.resources import Pipeline
from enmasse.resources.pipeline import Source

QUERY_ID = "sql.streaming.queryId"
"""Under this name Spark tells which query a batch is of."""
DAY_MS = 86_400_000


class Store:
    """The tables of a pipeline."""

    def __init__(self, pipeline: Pipeline, places: Places) -> None:
        """Name them; nothing is made yet."""
        spec = pipeline.spec.tables
        self.format = spec.format
        self.bronze = bronze.table(places.table("bronze"), spec.format)
        self.silver = Table(places.table("silver"), spec.format, ("date",))
        self.quarantine = Table(places.table("quarantine"), spec.format, ("date",))
        self.gold = gold_table.table(places.table("gold"), spec.format)
        # queries of several sources write the same tables
        self.one = threading.Lock()

    def tidy(self, keep_ms: int) -> None:
        """Make large files of small ones and delete those that were kept long enough."""
        with self.one:
            self.gold.tidy(keep_ms)
            if self.format == "delta":
                for table in (self.bronze, self.silver, self.quarantine):
                    if DeltaTable.is_deltatable(table.path):
                        tables.compact(table)
                        tables.vacuum(table, -(-keep_ms // DAY_MS))


class Batches:
    """What `foreachBatch` calls for one source."""

    def __init__(
        self,
        pipeline: Pipeline,
        source: Source,
        store: Store,
        live: Live,
        steps: Sequence[Step],
        told: Callable[[dict[str, Any]], None],
    ) -> None:
        """Put batches of a source into tables and live state, and tell of each."""
        self._pipeline = pipeline
        self._source = source
        self._store = store
        self._live = live
        self._steps = steps
        self._told = told

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Put a batch in, unless it is in already."""
        spark = frame.sparkSession
        query_id = spark.sparkContext.getLocalProperty(QUERY_ID) or ""
        self._live.claim(self._source.name, query_id)
        frame.persist()
        try:
            self._put(frame, query_id, batch_id)
        finally:
            frame.unpersist()
        every = self._pipeline.spec.tables.compact_every
        if batch_id % every == every - 1:
            self._store.tidy(self._pipeline.spec.tables.keep)

    def _put(self, frame: DataFrame, query_id: str, batch_id: int) -> None:
        source, store = self._source, self._store
        app_id = self.app_id(query_id)
        messages = first_rows(frame)
        bronze.append(messages, store.bronze, app_id, batch_id)
        parsed = self.parsed(frame).persist()
        try:
            rows = parsed.toArrow().cast(silver.SCHEMA)
            good = F.col("reason").isNull()
            silver_rows = parsed.where(good).select(*silver.READING)
            tables.append(silver_rows, store.silver, app_id, batch_id)
            if rows["reason"].null_count < len(rows):
                refused = parsed.where(~good).select(*silver.QUARANTINE)
                tables.append(refused, store.quarantine, app_id, batch_id)
        finally:
            parsed.unpersist()
        is_good = pc.is_null(rows["reason"])
        readings = rows.filter(is_good).select(silver.READING)
        with store.one:
            parts = gold.partials(readings, self._pipeline.spec.windows)
            store.gold.merge(parts, app_id, batch_id)
        usage, known_to_us = _usage(messages, rows)
        batch = Batch(source.name, query_id, batch_id, readings, usage, known_to_us)
        is_new = self._live.commit(batch)
        self._told(
            {
                "source": source.name,
                "batch": batch_id,
                "messages": sum(one["messages"] for one in usage),
                "readings": len(readings),
                "quarantined": len(rows) - len(readings),
                "again": not is_new,
            }
        )

    def app_id(self, query_id: str) -> str:
        """Return the name under which tables know a query of this source."""
        return f"{self._pipeline.metadata.name}/{self._source.name}/{query_id}"

    def parsed(self, frame: DataFrame) -> DataFrame:
        """Return the readings of records, and what is none, as `silver.SCHEMA` says."""
        stepped = functions.applied(frame, self._source.name, self._steps)
        parse = partial(silver.parse_batches, source=self._source)
        return stepped.mapInArrow(parse, silver.SPARK_SCHEMA)


def first_rows(frame: DataFrame) -> DataFrame:
    """Return whole messages out of decoded records, of which the first has the body."""
    return frame.where(F.col("_index") == 0).select(*silver.ENVELOPE)


def _usage(messages: DataFrame, rows: pyarrow.Table) -> tuple[list[dict[str, Any]], int]:
    """What came in by tenant, address and day, and up to when all is known, in microseconds."""
    day = F.date_format("enqueued_time", "yyyy-MM-dd").alias("date")
    counted = messages.groupBy("space", "address", "partition", day).agg(
        F.count("*").alias("messages"),
        F.coalesce(F.sum(F.length("body")), F.lit(0)).alias("bytes"),
        F.unix_micros(F.max("enqueued_time")).alias("newest_us"),
    )
    found = counted.collect()
    usage: dict[tuple[str, str, str], dict[str, Any]] = {}
    newest: dict[int, int] = {}
    for row in found:
        key = (row.space or "", row.address, row.date or "")
        names = dict(zip(("space", "address", "date"), key, strict=True))
        entry = usage.setdefault(
            key, names | {"messages": 0, "bytes": 0, "readings": 0, "quarantined": 0}
        )
        entry["messages"] += row.messages
        entry["bytes"] += row.bytes
        if row.newest_us is not None:
            newest[row.partition] = max(newest.get(row.partition, row.newest_us), row.newest_us)
    for key, what in _days(rows).items():
        if key in usage:
            usage[key] |= what
    # a partition that has less to read is read to its end, the others as far as the slowest
    return list(usage.values()), min(newest.values(), default=detect.NEVER_US)


def _days(rows: pyarrow.Table) -> dict[tuple[str, str, str], dict[str, int]]:
    """Readings and what was quarantined, by tenant, address and day."""
    day = pc.strftime(rows["enqueued_time"], "%Y-%m-%d")
    fields = (rows["space"].to_pylist(), rows["address"].to_pylist(), day.to_pylist())
    good = pc.is_null(rows["reason"]).to_pylist()
    counts = Counter(zip(*fields, good, strict=True))
    found: dict[tuple[str, str, str], dict[str, int]] = {}
    for (space, address, date, is_good), count in counts.items():
        entry = found.setdefault((space or "", address, date or ""), {})
        entry["readings" if is_good else "quarantined"] = count
    return found


def options(source: Source, places: Places) -> dict[str, str]:
    """Return the options of the format `enmasse` by which a source is read.

    Raises Invalid for a password file that cannot be read.
    """
    chosen = dict(source.options) | {
        "url": source.url,
        "address": source.address,
        "decode": source.format,
        "columns": silver.columns(source),
        "timeUnit": source.time_unit,
        "start": source.start,
        "maxRowsPerTrigger": str(source.max_rows),
        "failOnDataLoss": str(source.fail_on_data_loss).lower(),
    }
    if source.format == "csv":
        chosen["csvHeader"] = str(source.csv_header).lower()
        chosen["csvDelimiter"] = source.csv_delimiter
    if source.password_file is not None:
        file = places.document.resolve().parent / source.password_file
        try:
            chosen["password"] = file.read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise Invalid(
                "E1003", f"source {source.name}: passwordFile: cannot read {file}: {error}"
            ) from None
    return chosen


def steps_of(pipeline: Pipeline, places: Places) -> list[Step]:
    """Return the steps of the document's functions file, if it names one."""
    if places.functions is None:
        return []
    return functions.load(places.functions, [source.name for source in pipeline.spec.sources])


def stream(spark: SparkSession, chosen: Iterable[tuple[str, str]]) -> DataFrame:
    """Return a source as a frame that grows."""
    return spark.readStream.format("enmasse").options(**dict(chosen)).load()
