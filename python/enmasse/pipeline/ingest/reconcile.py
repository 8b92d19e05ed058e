"""Proves that bronze has each message of a stream exactly once.

Both sides are aggregated by partition and by the hour of arrival: number of messages, number of
offsets, and the sum of a hash over all fields. Expired messages of the stream cannot be compared:
bronze must have each of their offsets once, or, with a selector, none twice, because it is unknown
which ones the selector chose.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from enmasse.base.errors import Missing
from enmasse.pipeline.connector import options as option_table
from enmasse.pipeline.connector import ranges, reading
from enmasse.pipeline.connector.ranges import Offsets, State
from enmasse.pipeline.connector.source import end_offsets, start_offsets
from enmasse.pipeline.tables import delta
from enmasse.pipeline.tables.delta import Table

HASHED = (
    "message_id",
    "correlation_id",
    "subject",
    "to",
    "reply_to",
    "content_type",
    "group_id",
    "durable",
    "priority",
    "ttl",
    "body",
    "body_kind",
)
MAPS = ("application_properties", "annotations")
FAULTS_MAX = 100
"""Faults that are named by their offsets."""
READS_LESS = ("columns", "decode", "start", "end", "timeunit", "csvheader")
"""Options that change the columns or the range."""


@dataclass(frozen=True)
class Tally:
    """Messages of one partition and hour: their number, distinct offsets, and checksum."""

    count: int = 0
    offsets: int = 0
    checksum: int = 0


@dataclass(frozen=True)
class Hour:
    """Both sides of one partition and hour (UTC; None without a time of arrival)."""

    partition: int
    hour: datetime | None
    stream: Tally
    bronze: Tally

    @property
    def exact(self) -> bool:
        """Whether bronze has the messages of the stream, once."""
        return self.stream == self.bronze and self.bronze.count == self.bronze.offsets


@dataclass(frozen=True)
class Gone:
    """Expired offsets of the stream, `first` to `next` (exclusive)."""

    partition: int
    first: int
    next: int
    bronze: Tally
    is_selected: bool = False
    """A selector chose some of them; it is unknown which."""

    @property
    def messages(self) -> int:
        """The number of messages that bronze must have, as far as that is known."""
        return self.bronze.offsets if self.is_selected else self.next - self.first

    @property
    def exact(self) -> bool:
        """Whether bronze has each of them once, or with a selector none twice."""
        return self.bronze.count == self.bronze.offsets == self.messages


@dataclass(frozen=True)
class Fault:
    """A message that bronze does not have as it should."""

    partition: int
    offset: int
    what: str
    """`missing`; `repeated`: several rows; `unexpected`: not in the stream; `changed`."""


@dataclass(frozen=True)
class Reconciliation:
    """The result of a comparison, between offsets by partition."""

    address: str
    start: dict[int, int]
    end: dict[int, int]
    hours: list[Hour] = field(default_factory=list)
    gone: list[Gone] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    """The first `FAULTS_MAX` of them."""

    unread: int = 0
    """Messages of the range that no batch has read yet."""

    @property
    def exact(self) -> bool:
        """Whether each message is in bronze exactly once."""
        return not self.differences

    @property
    def differences(self) -> list[Hour | Gone]:
        """The parts that differ."""
        parts: list[Hour | Gone] = [*self.gone, *self.hours]
        return [part for part in parts if not part.exact]

    @property
    def messages(self) -> int:
        """Messages that were compared."""
        retained = sum(hour.stream.count for hour in self.hours)
        return retained + sum(part.messages for part in self.gone)


def reconcile(
    spark: SparkSession,
    source: Mapping[str, str],
    bronze: Table,
    *,
    start: str = "earliest",
    end: str = "latest",
    read: Offsets | None = None,
) -> Reconciliation:
    """Compare a range of a stream with bronze.

    `source` are the options of the source; `start` and `end` are as in the options of the format:
    earliest, latest, a time, or offsets by partition. Messages beyond the position `read` of the
    query, if it is known, are counted as unread. Raises errors of the server, and Missing if there
    is something to compare and no table.
    """
    given = {name: value for name, value in source.items() if name.lower() not in READS_LESS}
    options = option_table.read(given | {"start": start, "end": end})
    state = reading.state(options)
    begins, ends = start_offsets(options, state), end_offsets(options, state)
    ends, unread = _until(read, state, begins, ends)
    try:
        rows = delta.read(spark, bronze).where(F.col("address") == options.address)
    except Missing:
        if begins != ends:
            raise
        # an empty range needs no table
        return Reconciliation(options.address, begins, ends, unread=unread)
    rows = rows.where(F.col("space").eqNullSafe(F.lit(options.space).cast("string")))
    gone, firsts = _expired(rows, state, begins, ends)
    gone = [replace(part, is_selected=options.selector is not None) for part in gone]
    stream = spark.read.format("enmasse").options(
        **given, start=_offsets(state, firsts), end=_offsets(state, ends)
    )
    sent = stream.load()
    ours, theirs = _tallies(rows, firsts, ends), _tallies(sent, firsts, ends)
    hours = [
        Hour(partition, hour, theirs.get((partition, hour), Tally()), ours.get(key, Tally()))
        for key in sorted(ours.keys() | theirs.keys(), key=str)
        for partition, hour in [key]
    ]
    faults = []
    if not (all(hour.exact for hour in hours) and all(part.exact for part in gone)):
        faults = _faults(rows, sent.where(_within(firsts, ends)), (begins, ends), gone)
    return Reconciliation(options.address, begins, ends, hours, gone, faults, unread)


def _until(
    read: Offsets | None, state: State, begins: dict[int, int], ends: dict[int, int]
) -> tuple[dict[int, int], int]:
    """The ends of what a query has read, and the number of messages from there to the ends."""
    if read is None or read.get("uid", state.uid) != state.uid:
        # unknown, or of another stream
        return ends, 0
    reached = ranges.numbers(read)
    until = {
        number: max(begins[number], min(end, reached.get(number, 0)))
        for number, end in ends.items()
    }
    return until, sum(max(0, end - until[number]) for number, end in ends.items())


def _faults(
    rows: DataFrame,
    stream: DataFrame,
    bounds: tuple[dict[int, int], dict[int, int]],
    gone: Sequence[Gone],
) -> list[Fault]:
    """The first messages that bronze lacks, has several times or otherwise, or should not have."""
    key = ("partition", "offset")
    theirs = stream.select(*key, _checksum().alias("theirs"))
    for part in gone:
        if not part.is_selected:
            expired = rows.sparkSession.range(part.first, part.next).select(
                F.lit(part.partition).alias("partition"), F.col("id").alias("offset")
            )
            theirs = theirs.unionByName(expired, allowMissingColumns=True)
    grouped = rows.where(_within(*bounds)).groupBy(*key)
    ours = grouped.agg(F.count("*").alias("rows"), F.first(_checksum()).alias("ours"))
    joined = ours.join(theirs.withColumn("sent", F.lit(True)), list(key), "full_outer")
    is_selected = any(part.is_selected for part in gone)
    what = (
        F.when(F.col("rows").isNull(), "missing")
        .when(F.col("rows") > 1, "repeated")
        .when(F.col("sent").isNull() & F.lit(not is_selected), "unexpected")
        .when(F.col("ours") != F.col("theirs"), "changed")
    )
    found = joined.select(*key, what.alias("what")).where(F.col("what").isNotNull())
    first = found.orderBy(*key).limit(FAULTS_MAX).collect()
    return [Fault(row.partition, row.offset, row.what) for row in first]


def _offsets(state: State, offsets: dict[int, int]) -> str:
    inner = ", ".join(f'"{number}": {offsets[number]}' for number in sorted(state.partitions))
    return f"{{{inner}}}"


def _expired(
    rows: DataFrame, state: State, begins: dict[int, int], ends: dict[int, int]
) -> tuple[list[Gone], dict[int, int]]:
    """The expired part of the range, and the first offsets of the rest."""
    firsts = {
        number: max(begin, min(ends[number], state.partitions[number].first))
        for number, begin in begins.items()
    }
    lost = {number: begin for number, begin in begins.items() if begin < firsts[number]}
    if not lost:
        return [], firsts
    chosen = rows.where(_within(lost, firsts)).groupBy("partition")
    counted = chosen.agg(F.count("*").alias("n"), F.countDistinct("offset").alias("offsets"))
    tallies = {row.partition: Tally(row.n, row.offsets) for row in counted.collect()}
    return [
        Gone(number, begin, firsts[number], tallies.get(number, Tally()))
        for number, begin in sorted(lost.items())
    ], firsts


def _within(begins: Mapping[int, int], ends: Mapping[int, int]) -> Column:
    """Whether a row is between the offsets of its partition."""
    offset = F.col("offset")
    spans = [
        (F.col("partition") == number) & (offset >= begin) & (offset < ends[number])
        for number, begin in begins.items()
    ]
    return reduce(or_, spans, F.lit(False))


def _tallies(
    rows: DataFrame, begins: dict[int, int], ends: dict[int, int]
) -> dict[tuple[int, datetime | None], Tally]:
    checksum = _checksum().cast("decimal(38,0)")
    hour = F.date_trunc("hour", F.col("enqueued_time")).alias("hour")
    grouped = rows.where(_within(begins, ends)).groupBy("partition", hour)
    summed = grouped.agg(
        F.count("*").alias("n"),
        F.countDistinct("offset").alias("offsets"),
        F.sum(checksum).alias("checksum"),
    )
    return {
        (row.partition, row.hour): Tally(row.n, row.offsets, int(row.checksum))
        for row in summed.collect()
    }


def _checksum() -> Column:
    """A hash of all fields of a message."""
    hashed = [F.col(name) for name in HASHED] + [F.map_entries(F.col(name)) for name in MAPS]
    return F.xxhash64("partition", "offset", "enqueued_time", *hashed)
