"""Rebuilds silver and quarantine from bronze by the current document.

Spark decodes the messages of each range into files next to the tables. The rows of the range are
then replaced, each table in one transaction that also remembers the last batch of the query, so
that a batch that Spark repeats is not counted twice. A note next to the tables marks an unfinished
backfill: it has to be run again before the pipeline can run.
"""

import json
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from enmasse.base.errors import Code, Conflict, Invalid, Missing
from enmasse.pipeline import functions
from enmasse.pipeline.connector import options
from enmasse.pipeline.ingest import batches, compatibility, counts, decoding, envelope, silver
from enmasse.pipeline.ingest.store import Store
from enmasse.pipeline.live.database import Live
from enmasse.pipeline.live.schema import PROGRESS
from enmasse.pipeline.live.updates import COLUMNS
from enmasse.pipeline.paths import Paths
from enmasse.pipeline.tables import delta, files
from enmasse.pipeline.tables.files import Table
from enmasse.resources import Pipeline
from enmasse.resources.pipeline import Source

FOLDER, NOTE = "_backfill", "unfinished.json"
TABLES = {"silver": silver.READING, "quarantine": silver.QUARANTINE}
"""The columns of the tables that are rebuilt."""


@dataclass(frozen=True)
class Part:
    """A range of the messages of a source."""

    source: str
    start: str = "earliest"
    end: str = "latest"


@dataclass(frozen=True)
class Span:
    """The rows of a part in bronze, silver and quarantine.

    Without a space they are all rows of the address but those in the spaces of other sources:
    earlier versions stored no space that only the server knew.
    """

    space: str | None
    other_spaces: tuple[str, ...]
    address: str
    begin: options.Position
    end: options.Position

    def of(self, bronze: DataFrame) -> DataFrame:
        """Return the messages of the part."""
        rows = bronze.where(" AND ".join(["true", *self._bounds()]))
        # quotes in names are escaped by other rules in Spark than in delta-rs
        rows = rows.where(F.col("address") == self.address)
        if self.space is not None:
            return rows.where(F.col("space") == self.space)
        space = F.col("space")
        return rows.where(space.isNull() | ~space.isin(*self.other_spaces))

    def predicate(self, source: str) -> str:
        """Return an SQL condition for rows of silver or quarantine of a source."""
        named = [f"source = {_quoted(source)}", f"address = {_quoted(self.address)}"]
        if self.space is not None:
            named.append(f"space = {_quoted(self.space)}")
        elif self.other_spaces:
            others = ", ".join(map(_quoted, self.other_spaces))
            named.append(f"(space IS NULL OR space NOT IN ({others}))")
        return " AND ".join([*named, *self._bounds()])

    def _bounds(self) -> list[str]:
        """The conditions of the range, in SQL for Spark and for delta-rs."""
        found = []
        for position, sign in ((self.begin, ">="), (self.end, "<")):
            if isinstance(position, datetime):
                found.append(f"enqueued_time {sign} '{position:%Y-%m-%dT%H:%M:%S.%fZ}'")
            elif isinstance(position, dict):
                found += [
                    f"(`partition` <> {number} OR `offset` {sign} {offset})"
                    for number, offset in position.items()
                ]
        return found


@dataclass(frozen=True)
class BackfillResult:
    """Messages of bronze of one source, and the rows made of them."""

    source: str
    messages: int
    readings: int
    quarantined: int


class Backfill:
    """One backfill of a pipeline that is not running."""

    def __init__(self, pipeline: Pipeline, paths: Paths, live: Live) -> None:
        """Prepare; nothing is read yet. Raises as `batches.load_steps`."""
        self._pipeline = pipeline
        self._paths = paths
        self._live = live
        self._store = Store(pipeline, paths)
        self._steps = batches.load_steps(pipeline, paths)
        self._queries = {row["source"]: row for row in live.rows(PROGRESS)}
        self._folder = paths.state / FOLDER

    def parts(self, requested: Sequence[Part]) -> list[Part]:
        """Return the parts to rebuild: those of an interrupted backfill, then the requested ones.

        Raises Missing for an unknown source, Invalid for a wrong range or a source whose messages
        bronze cannot distinguish from another's, Conflict if a batch of a run is unfinished.
        """
        left = _unfinished(self._paths)
        wanted = [*left, *(part for part in requested if part not in left)]
        for part in wanted:
            self._check(part.source)
            self._span(part)
        return wanted

    def run(self, spark: SparkSession, parts: Sequence[Part]) -> list[BackfillResult]:
        """Replace these parts of silver and quarantine; `gold` has to follow.

        Tables change after all messages are decoded. Raises Invalid for a range of time where
        messages have no time of arrival.
        """
        shutil.rmtree(self._folder / "rows", ignore_errors=True)
        (self._folder / "rows").mkdir(parents=True)
        staged = [self._stage(spark, number, part) for number, part in enumerate(parts)]
        self._note(parts)
        for number, part in enumerate(parts):
            for name in TABLES:
                self._replace(number, part, name)
        for source in {part.source for part in parts}:
            if source in self._queries:
                self._live.recount(source, *totals(spark, self._store, self._pipeline, source))
        return staged

    def finish(self, parts: Sequence[Part]) -> None:
        """Record that all tables of these parts are done, and gold."""
        sources = {part.source for part in parts}
        compatibility.record(self._live, self._pipeline, self._paths, self._steps, sources)
        shutil.rmtree(self._folder, ignore_errors=True)

    def gold(self, spark: SparkSession, *, whole: bool) -> int:
        """Update gold from silver, or rebuild all of it; return its number of windows."""
        query = self._store.gold_query(spark)
        if whole or not self._store.gold.has_only(self._pipeline.spec.windows):
            query.rebuild()
        else:
            query.catch_up()
        return self._store.gold.windows()

    def _note(self, parts: Sequence[Part]) -> None:
        new = self._folder / f"{NOTE}.new"
        new.write_text(json.dumps([asdict(part) for part in parts]))
        new.rename(self._folder / NOTE)

    def _source(self, name: str) -> Source:
        for source in self._pipeline.spec.sources:
            if source.name == name:
                return source
        raise Missing(Code.NOT_FOUND, f"{self._paths.document} has no source {name!r}")

    def _options(self, part: Part) -> options.Options:
        chosen = batches.options(self._source(part.source), self._paths)
        # bronze has offsets for queues, too
        chosen.pop("spool", None)
        return options.read(chosen | {"start": part.start, "end": part.end})

    def _span(self, part: Part) -> Span:
        found = self._options(part)
        if found.start == "latest" or found.end == "earliest":
            raise Invalid(
                Code.REQUEST_INVALID,
                f"the range from {part.start} to {part.end} is empty: it begins at earliest,"
                " a time or offsets, and ends at latest, a time or offsets",
            )
        others = sorted(
            space
            for space, address in map(_stream_of, self._pipeline.spec.sources)
            if address == found.address and space not in (None, found.space)
        )
        return Span(found.space, tuple(others), found.address, found.start, found.end)

    def _check(self, name: str) -> None:
        source = self._source(name)
        for other in self._pipeline.spec.sources:
            if other.name != name and _stream_of(other) == _stream_of(source):
                raise Invalid(
                    Code.REQUEST_INVALID,
                    f"sources {name} and {other.name} both read {source.address}: bronze cannot"
                    " distinguish their messages; give them the option `space`, or separate"
                    " pipelines",
                )
        query = self._queries.get(name)
        path = self._store.bronze.path
        if query is None or not DeltaTable.is_deltatable(path):
            return
        last = DeltaTable(path).transaction_version(self._app_id(name))
        if last is not None and last > query["batch_id"]:
            raise Conflict(
                Code.STATE_CONFLICT,
                f"source {name}: batch {last} was interrupted; finish it first, with the document"
                f" that it began with: enmasse pipeline run --once -f {self._paths.document}",
            )

    def _app_id(self, source: str) -> str:
        return batches.app_id(self._pipeline, source, self._queries[source]["query_id"])

    def _stage(self, spark: SparkSession, number: int, part: Part) -> BackfillResult:
        """Write the new rows of a part to files next to the tables."""
        source, span = self._source(part.source), self._span(part)
        bronze = _table(spark, self._store.bronze.path, [*envelope.STORED, _DATE])
        messages = span.of(bronze)
        _check_times(bronze, span)
        steps = functions.of_source(self._steps, source.name)
        with functions.computing(steps):
            parsed = decoding.parsed(messages, source, steps)
            files.write_parquet(parsed, str(self._rows(number)))
        rows = self._found(number)
        readings = rows.count_rows(filter=_chosen("silver"))
        refused = rows.count_rows(filter=_chosen("quarantine"))
        return BackfillResult(source.name, messages.count(), readings, refused)

    def _rows(self, number: int) -> Path:
        return self._folder / "rows" / str(number)

    def _found(self, number: int) -> Any:
        """The new rows of a part as a data set."""
        # it imports pandas, and a run of the pipeline needs neither
        from pyarrow import dataset

        return dataset.dataset(self._rows(number), silver.SCHEMA)

    def _replace(self, number: int, part: Part, name: str) -> None:
        rows = self._found(number)
        chosen = rows.scanner(columns=TABLES[name], filter=_chosen(name)).to_reader()
        query = self._queries.get(part.source)
        done = {} if query is None else {self._app_id(part.source): query["batch_id"]}
        where = self._span(part).predicate(part.source)
        delta.replace_arrow(chosen, getattr(self._store, name), where, done)


_DATE = pyarrow.field("date", pyarrow.date32())


def _chosen(name: str) -> pc.Expression:
    """A filter for the rows of a table."""
    is_reading = pc.field("reason").is_null()
    return is_reading if name == "silver" else ~is_reading


def _table(spark: SparkSession, path: str, fields: Iterable[pyarrow.Field]) -> DataFrame:
    """The rows of a table; none if it does not exist."""
    if DeltaTable.is_deltatable(path):
        return delta.read(spark, Table(path))
    return spark.createDataFrame([], from_arrow_schema(pyarrow.schema(fields)))


def _check_times(bronze: DataFrame, span: Span) -> None:
    """Raise Invalid for a range of time where messages have no time of arrival."""
    if isinstance(span.begin, datetime) or isinstance(span.end, datetime):
        every = replace(span, begin="earliest", end="latest").of(bronze)
        if not every.where("enqueued_time IS NULL").isEmpty():
            raise Invalid(
                Code.REQUEST_INVALID,
                f"{span.address}: its server reports no time of arrival: give the range as"
                ' offsets, such as {"0": 17}',
            )


def totals(spark: SparkSession, store: Store, pipeline: Pipeline, source: str) -> tuple[Any, ...]:
    """Return usage, counters and last values of a source, computed from its tables."""

    def rows(name: str) -> DataFrame:
        fields = [silver.SCHEMA.field(column) for column in TABLES[name]]
        return _table(spark, getattr(store, name).path, fields).where(F.col("source") == source)

    readings = rows("silver")
    good = readings.withColumn("reason", F.lit(None).cast("string"))
    every = good.unionByName(rows("quarantine"), allowMissingColumns=True)
    counted = counts.of_readings(every, min(pipeline.spec.windows))
    newest = F.max_by(
        F.struct(*COLUMNS), F.struct("event_time", "partition", "offset", "index")
    ).alias("newest")
    latest = readings.groupBy("device", "metric").agg(newest).select("newest.*")
    return (
        counts.usage(counted),
        {
            name: counts.total(counted, name)
            for name in ("readings", "quarantined", "late", "clamped")
        },
        latest.toArrow(),
    )


def check_finished(paths: Paths) -> None:
    """Raise Conflict if a backfill was interrupted."""
    if _unfinished(paths):
        raise Conflict(
            Code.STATE_CONFLICT,
            "a backfill was interrupted: some tables are made by the current document and some are"
            f" not; finish it first: enmasse pipeline backfill -f {paths.document}",
        )


def _unfinished(paths: Paths) -> list[Part]:
    """The parts of an interrupted backfill."""
    note = paths.state / FOLDER / NOTE
    if not note.exists():
        return []
    return [Part(**part) for part in json.loads(note.read_text())]


def _stream_of(source: Source) -> tuple[str | None, str]:
    named = {name.lower(): value for name, value in source.options.items()}
    return named.get("space"), source.address


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
