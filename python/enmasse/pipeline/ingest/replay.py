"""Silver and quarantine out of bronze: what the document of today makes of messages that came.

What a source and a range have in silver and quarantine is replaced, each table in one transaction
that also remembers the last batch of the query, so that nothing is counted twice when Spark repeats
that batch. A note lies beside the tables as long as not all of them are done: whoever is cut off is
run again, and until then the pipeline does not run.
"""

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from enmasse.base.errors import Code, Conflict, Invalid, Missing
from enmasse.pipeline import changes, functions
from enmasse.pipeline.connector import options
from enmasse.pipeline.functions import Step
from enmasse.pipeline.ingest import batches, decoding, envelope, recount, silver
from enmasse.pipeline.ingest.store import Store
from enmasse.pipeline.live.database import Live
from enmasse.pipeline.live.schema import PROGRESS
from enmasse.pipeline.places import Places
from enmasse.pipeline.tables import delta
from enmasse.resources import Pipeline
from enmasse.resources.pipeline import Source

PORTION_ROWS = 4096
"""Messages that are in memory at a time."""
FOLDER, NOTE = "_backfill", "unfinished.json"


@dataclass(frozen=True)
class Part:
    """A range of the messages of a source."""

    source: str
    start: str = "earliest"
    end: str = "latest"


@dataclass(frozen=True)
class Span:
    """The same as bronze, silver and quarantine know it."""

    space: str | None
    address: str
    begin: options.Start
    end: options.Start

    def filter(self) -> pc.Expression:
        """Whether a row of bronze lies in it."""
        space = pc.field("space")
        chosen = space.is_null() if self.space is None else space == self.space
        chosen &= pc.field("address") == self.address
        for place, is_begin in ((self.begin, True), (self.end, False)):
            if isinstance(place, datetime):
                time = pc.field("enqueued_time")
                chosen &= time >= place if is_begin else time < place
            elif isinstance(place, dict):
                for number, offset in place.items():
                    lies = pc.field("offset") >= offset if is_begin else pc.field("offset") < offset
                    chosen &= (pc.field("partition") != number) | lies
        return chosen

    def predicate(self, source: str) -> str:
        """The same in SQL, of the rows of silver or quarantine that a source has."""
        parts = [f"source = {_text(source)}", f"address = {_text(self.address)}"]
        parts.append("space IS NULL" if self.space is None else f"space = {_text(self.space)}")
        for place, sign in ((self.begin, ">="), (self.end, "<")):
            if isinstance(place, datetime):
                parts.append(f"enqueued_time {sign} '{place:%Y-%m-%dT%H:%M:%S.%fZ}'")
            elif isinstance(place, dict):
                parts += [
                    f'("partition" <> {number} OR "offset" {sign} {offset})'
                    for number, offset in place.items()
                ]
        return " AND ".join(parts)


@dataclass(frozen=True)
class Replayed:
    """What became of a source: messages of bronze, and rows that they are now."""

    source: str
    messages: int
    readings: int
    quarantined: int

    def document(self) -> dict[str, Any]:
        """Return it as the command says it."""
        return asdict(self)


class Backfill:
    """One backfill of a pipeline that nobody runs."""

    def __init__(self, pipeline: Pipeline, places: Places, live: Live) -> None:
        """Prepare; nothing is read yet. Raises as `batches.steps_of`."""
        self._pipeline = pipeline
        self._places = places
        self._live = live
        self._store = Store(pipeline, places)
        self._steps = batches.steps_of(pipeline, places)
        self._queries = {row["source"]: row for row in live.rows(PROGRESS)}
        self._folder = places.state / FOLDER

    def parts(self, asked: Sequence[Part]) -> list[Part]:
        """Return what is to be done: what is asked, after what another backfill left undone.

        Raises Missing for a source that the document does not have, Invalid for a place that cannot
        be read or a source whose messages bronze cannot tell from another's, Conflict if a batch of
        a run is not finished.
        """
        left = _noted(self._places)
        wanted = [*left, *(part for part in asked if part not in left)]
        for part in wanted:
            self._check(part.source)
            self._check_times(self._span(part))
        return wanted

    def messages(self, parts: Sequence[Part]) -> int:
        """Return how many messages bronze has of these parts."""
        return sum(len(self._messages(part)) for part in parts)

    def run(
        self, parts: Sequence[Part], spark: SparkSession | None, told: Callable[[int], None]
    ) -> list[Replayed]:
        """Replace what these parts have in silver and quarantine; `gold` has to follow.

        `told` hears of messages that are decoded. Nothing is changed before all are.
        """
        shutil.rmtree(self._folder / "rows", ignore_errors=True)
        (self._folder / "rows").mkdir(parents=True)
        staged = [self._staged(number, part, spark, told) for number, part in enumerate(parts)]
        self._note(parts)
        for number, part in enumerate(parts):
            for name in ("silver", "quarantine"):
                self._replace(number, part, name)
        for source in {part.source for part in parts}:
            if source in self._queries:
                self._live.recount(source, recount.figures(self._store, self._pipeline, source))
        return staged

    def finish(self, parts: Sequence[Part]) -> None:
        """Say that all tables are done, these parts and gold."""
        sources = {part.source for part in parts}
        changes.made(self._live, self._pipeline, self._places, self._steps, sources)
        shutil.rmtree(self._folder, ignore_errors=True)

    def gold(self, spark: SparkSession, *, whole: bool) -> int:
        """Bring gold to where silver is, or make all of it anew; return its windows."""
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
        raise Missing(Code.NOT_FOUND, f"{self._places.document} has no source {name!r}")

    def _options(self, part: Part) -> options.Options:
        chosen = batches.options(self._source(part.source), self._places)
        # bronze has places, whatever the source has
        chosen.pop("spool", None)
        return options.read(chosen | {"start": part.start, "end": part.end})

    def _span(self, part: Part) -> Span:
        found = self._options(part)
        if found.start == "latest" or found.end == "earliest":
            raise Invalid(
                Code.REQUEST_INVALID,
                f"from {part.start} to {part.end} there is nothing: the range begins at earliest,"
                " a time or offsets, and ends at latest, a time or offsets",
            )
        return Span(found.space, found.address, found.start, found.end)

    def _check(self, name: str) -> None:
        mine = self._source(name)
        for other in self._pipeline.spec.sources:
            if other.name != name and _place(other) == _place(mine):
                raise Invalid(
                    Code.REQUEST_INVALID,
                    f"sources {name} and {other.name} both read {mine.address}: bronze does not"
                    " tell their messages apart; give them the option `space`, or a pipeline each",
                )
        query = self._queries.get(name)
        path = self._store.bronze.path
        if query is None or not DeltaTable.is_deltatable(path):
            return
        last = DeltaTable(path).transaction_version(self._app_id(name))
        if last is not None and last > query["batch_id"]:
            raise Conflict(
                Code.STATE_CONFLICT,
                f"source {name}: batch {last} was cut off; finish it first, by the document"
                " that it was begun by:"
                f" enmasse pipeline run --once -f {self._places.document}",
            )

    def _check_times(self, span: Span) -> None:
        """Raise Invalid for a range of time where messages do not say when they came."""
        if isinstance(span.begin, datetime) or isinstance(span.end, datetime):
            whole = Span(span.space, span.address, "earliest", "latest").filter()
            timeless = whole & pc.field("enqueued_time").is_null()
            if len(_Messages(self._store.bronze.path, timeless)):
                raise Invalid(
                    Code.REQUEST_INVALID,
                    f"{span.address}: its server does not say when messages came: name the range"
                    ' by offsets, such as {"0": 17}',
                )

    def _app_id(self, source: str) -> str:
        return batches.app_id(self._pipeline, source, self._queries[source]["query_id"])

    def _messages(self, part: Part) -> "_Messages":
        return _Messages(self._store.bronze.path, self._span(part).filter())

    def _staged(
        self, number: int, part: Part, spark: SparkSession | None, told: Callable[[int], None]
    ) -> Replayed:
        """Write what the messages of a part are now to where nobody looks."""
        source = self._source(part.source)
        steps = [one for one in self._steps if one.source in (functions.ALL, source.name)]
        counts = {"messages": 0, "silver": 0, "quarantine": 0}
        with (
            self._writer(number, "silver", silver.READING) as good,
            self._writer(number, "quarantine", silver.QUARANTINE) as bad,
        ):
            for portion in self._messages(part):
                readings, refused = _judged(portion, source, steps, spark)
                good.write_table(readings)
                bad.write_table(refused)
                counts["silver"] += len(readings)
                counts["quarantine"] += len(refused)
                counts["messages"] += len(portion)
                told(len(portion))
        return Replayed(source.name, counts["messages"], counts["silver"], counts["quarantine"])

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
        # a table that is older has no batch_time
        there = self._dataset.schema.names
        for batch in self._dataset.to_batches(
            columns=[name for name in envelope.KEPT.names if name in there],
            filter=self._chosen,
            batch_size=PORTION_ROWS,
            batch_readahead=1,
            fragment_readahead=1,
        ):
            if len(batch):
                yield envelope.kept(pyarrow.Table.from_batches([batch]))


def _judged(
    messages: pyarrow.Table, source: Source, steps: Sequence[Step], spark: SparkSession | None
) -> tuple[pyarrow.Table, pyarrow.Table]:
    """The readings of messages and what of them is none; steps need Spark."""
    if not steps or spark is None:
        return decoding.judged_here(messages, source)
    with functions.computed(steps):
        found = decoding.judged(spark.createDataFrame(messages), source, steps).toArrow()
    return silver.parted(found.cast(silver.SCHEMA))


def check_finished(places: Places) -> None:
    """Raise Conflict if a backfill was cut off."""
    if _noted(places):
        raise Conflict(
            Code.STATE_CONFLICT,
            "a backfill was cut off: some tables are of today's document and some are not;"
            f" finish it first: enmasse pipeline backfill -f {places.document}",
        )


def _noted(places: Places) -> list[Part]:
    """What a backfill that was cut off has left undone."""
    note = places.state / FOLDER / NOTE
    if not note.exists():
        return []
    return [Part(**part) for part in json.loads(note.read_text())]


def _place(source: Source) -> tuple[str | None, str]:
    named = {name.lower(): value for name, value in source.options.items()}
    return named.get("space"), source.address


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
