"""Rebuilds silver and quarantine from bronze by the current document.

The rows of a source and range are replaced, each table in one transaction that also remembers the
last batch of the query, so that a batch that Spark repeats is not counted twice. A note next
to the tables marks an unfinished backfill: it has to be run again before the pipeline can run.
"""

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.compute as pc
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import SparkSession

from enmasse.base.errors import Code, Conflict, Invalid, Missing
from enmasse.pipeline import functions
from enmasse.pipeline.connector import options
from enmasse.pipeline.functions import Step
from enmasse.pipeline.ingest import batches, compatibility, decoding, envelope, silver
from enmasse.pipeline.ingest.store import Store
from enmasse.pipeline.live.database import Day, Live, Totals
from enmasse.pipeline.live.schema import PROGRESS
from enmasse.pipeline.paths import Paths
from enmasse.pipeline.tables import delta
from enmasse.pipeline.tables.delta import Table
from enmasse.resources import Pipeline
from enmasse.resources.pipeline import Source

PORTION_ROWS = 4096
"""Messages in memory at a time."""
FOLDER, NOTE = "_backfill", "unfinished.json"
_DAY = """coalesce(space, '') AS space, coalesce(address, '') AS address,
    coalesce(CAST(CAST(enqueued_time AS DATE) AS VARCHAR), '') AS date"""
_READINGS = """SELECT {day}, count(*) AS count,
    count(*) FILTER (WHERE enqueued_time - event_time > INTERVAL '{late_ms} milliseconds') AS late,
    count(*) FILTER (WHERE clamped) AS clamped
    FROM rows WHERE source = {source} GROUP BY 1, 2, 3"""
_QUARANTINED = "SELECT {day}, count(*) AS count FROM rows WHERE source = {source} GROUP BY 1, 2, 3"
_LATEST = """SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY device, metric
    ORDER BY event_time DESC, "partition" DESC, "offset" DESC, "index" DESC) AS place
    FROM rows WHERE source = {source}) WHERE place = 1"""


@dataclass(frozen=True)
class Part:
    """A range of the messages of a source."""

    source: str
    start: str = "earliest"
    end: str = "latest"


@dataclass(frozen=True)
class Span:
    """The rows of a part in bronze, silver and quarantine."""

    space: str | None
    address: str
    begin: options.Position
    end: options.Position

    def filter(self) -> pc.Expression:
        """Return a filter for rows of bronze."""
        space = pc.field("space")
        chosen = space.is_null() if self.space is None else space == self.space
        chosen &= pc.field("address") == self.address
        for position, is_begin in ((self.begin, True), (self.end, False)):
            if isinstance(position, datetime):
                time = pc.field("enqueued_time")
                chosen &= time >= position if is_begin else time < position
            elif isinstance(position, dict):
                for number, offset in position.items():
                    matches = (
                        pc.field("offset") >= offset if is_begin else pc.field("offset") < offset
                    )
                    chosen &= (pc.field("partition") != number) | matches
        return chosen

    def predicate(self, source: str) -> str:
        """Return an SQL condition for rows of silver or quarantine of a source."""
        parts = [f"source = {_quoted(source)}", f"address = {_quoted(self.address)}"]
        parts.append("space IS NULL" if self.space is None else f"space = {_quoted(self.space)}")
        for position, sign in ((self.begin, ">="), (self.end, "<")):
            if isinstance(position, datetime):
                parts.append(f"enqueued_time {sign} '{position:%Y-%m-%dT%H:%M:%S.%fZ}'")
            elif isinstance(position, dict):
                parts += [
                    f'("partition" <> {number} OR "offset" {sign} {offset})'
                    for number, offset in position.items()
                ]
        return " AND ".join(parts)


@dataclass(frozen=True)
class BackfillResult:
    """Messages of bronze of one source, and the rows made of them."""

    source: str
    messages: int
    readings: int
    quarantined: int

    def document(self) -> dict[str, Any]:
        """Return the output of the command."""
        return asdict(self)


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
            self._check_times(self._span(part))
        return wanted

    def messages(self, parts: Sequence[Part]) -> int:
        """Return the number of messages of these parts in bronze."""
        return sum(len(self._messages(part)) for part in parts)

    def run(
        self, parts: Sequence[Part], spark: SparkSession | None, advance: Callable[[int], None]
    ) -> list[BackfillResult]:
        """Replace these parts of silver and quarantine; `gold` has to follow.

        `advance` is called with the number of decoded messages. Tables change after all messages
        are decoded.
        """
        shutil.rmtree(self._folder / "rows", ignore_errors=True)
        (self._folder / "rows").mkdir(parents=True)
        staged = [self._stage(number, part, spark, advance) for number, part in enumerate(parts)]
        self._note(parts)
        for number, part in enumerate(parts):
            for name in ("silver", "quarantine"):
                self._replace(number, part, name)
        for source in {part.source for part in parts}:
            if source in self._queries:
                self._live.recount(source, totals(self._store, self._pipeline, source))
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
        return Span(found.space, found.address, found.start, found.end)

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

    def _check_times(self, span: Span) -> None:
        """Raise Invalid for a range of time where messages have no time of arrival."""
        if isinstance(span.begin, datetime) or isinstance(span.end, datetime):
            whole = Span(span.space, span.address, "earliest", "latest").filter()
            timeless = whole & pc.field("enqueued_time").is_null()
            if len(_Messages(self._store.bronze.path, timeless)):
                raise Invalid(
                    Code.REQUEST_INVALID,
                    f"{span.address}: its server reports no time of arrival: give the range as"
                    ' offsets, such as {"0": 17}',
                )

    def _app_id(self, source: str) -> str:
        return batches.app_id(self._pipeline, source, self._queries[source]["query_id"])

    def _messages(self, part: Part) -> "_Messages":
        return _Messages(self._store.bronze.path, self._span(part).filter())

    def _stage(
        self, number: int, part: Part, spark: SparkSession | None, advance: Callable[[int], None]
    ) -> BackfillResult:
        """Write the new rows of a part to files next to the tables."""
        source = self._source(part.source)
        steps = functions.of_source(self._steps, source.name)
        counts: Counter[str] = Counter()
        with (
            self._writer(number, "silver", silver.READING) as good,
            self._writer(number, "quarantine", silver.QUARANTINE) as bad,
        ):
            for portion in self._messages(part):
                readings, refused = _parsed(portion, source, steps, spark)
                good.write_table(readings)
                bad.write_table(refused)
                counts += Counter(
                    messages=len(portion), readings=len(readings), quarantined=len(refused)
                )
                advance(len(portion))
        names = ("messages", "readings", "quarantined")
        return BackfillResult(source.name, *(counts[name] for name in names))

    def _file(self, number: int, name: str) -> Path:
        return self._folder / "rows" / f"{name}-{number}.arrow"

    def _writer(self, number: int, name: str, columns: Sequence[str]) -> Any:
        schema = pyarrow.schema([silver.SCHEMA.field(column) for column in columns])
        packed = pyarrow.ipc.IpcWriteOptions(compression="zstd")
        return pyarrow.ipc.new_stream(str(self._file(number, name)), schema, options=packed)

    def _replace(self, number: int, part: Part, name: str) -> None:
        table = getattr(self._store, name)
        query = self._queries.get(part.source)
        done = {} if query is None else {self._app_id(part.source): query["batch_id"]}
        with pyarrow.ipc.open_stream(str(self._file(number, name))) as rows:
            delta.replace_arrow(rows, table, self._span(part).predicate(part.source), done)


class _Messages:
    """Messages of bronze, in portions."""

    def __init__(self, path: str, chosen: pc.Expression) -> None:
        exists = DeltaTable.is_deltatable(path)
        self._dataset = delta.dataset(DeltaTable(path), path) if exists else None
        self._chosen = chosen

    def __len__(self) -> int:
        return 0 if self._dataset is None else int(self._dataset.count_rows(filter=self._chosen))

    def __iter__(self) -> Iterator[pyarrow.Table]:
        if self._dataset is None:
            return
        # tables of earlier versions have no batch_time
        known = self._dataset.schema.names
        for batch in self._dataset.to_batches(
            columns=[name for name in envelope.STORED.names if name in known],
            filter=self._chosen,
            batch_size=PORTION_ROWS,
            batch_readahead=1,
            fragment_readahead=1,
        ):
            if len(batch):
                yield envelope.conform(pyarrow.Table.from_batches([batch]))


def _parsed(
    messages: pyarrow.Table, source: Source, steps: Sequence[Step], spark: SparkSession | None
) -> tuple[pyarrow.Table, pyarrow.Table]:
    """The readings and quarantined rows of messages; steps need Spark."""
    if not steps or spark is None:
        return decoding.parsed_here(messages, source)
    with functions.computing(steps):
        found = decoding.parsed(spark.createDataFrame(messages), source, steps).toArrow()
    return silver.split_rows(found.cast(silver.SCHEMA))


def totals(store: Store, pipeline: Pipeline, source: str) -> Totals:
    """Return the counters and last values of a source, computed from its tables."""
    late_ms = min(pipeline.spec.windows)
    readings = _query(store.silver, _READINGS, source, late_ms=late_ms).to_pylist()
    quarantined = _query(store.quarantine, _QUARANTINED, source).to_pylist()
    return Totals(
        _by_day(readings),
        _by_day(quarantined),
        late=sum(row["late"] for row in readings),
        clamped=sum(row["clamped"] for row in readings),
        latest=_query(store.silver, _LATEST, source),
    )


def _query(table: Table, sql: str, source: str, **values: object) -> pyarrow.Table:
    """Return the result of a query over `rows` of a table; no rows without a table."""
    if not DeltaTable.is_deltatable(table.path):
        return pyarrow.table({})
    query = QueryBuilder().register("rows", DeltaTable(table.path))
    return pyarrow.table(query.execute(sql.format(day=_DAY, source=_quoted(source), **values)))


def _by_day(rows: Sequence[dict[str, Any]]) -> Counter[Day]:
    return Counter({(row["space"], row["address"], row["date"]): row["count"] for row in rows})


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
