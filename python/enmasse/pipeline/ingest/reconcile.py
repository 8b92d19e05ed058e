"""Proves that bronze has each message of its source exactly once.

Messages of a stream and rows of bronze are joined by offset and compared by a hash of all fields.
Expired messages cannot be compared: bronze must have each of their offsets once, or, with a
selector, none twice, because it is unknown which ones the selector chose.

A queue forgets delivered messages. Its spool numbers messages without a gap before it settles
them: bronze and spool together must have each number, and bronze each of its numbers once.
Repeated deliveries have the same message-id and content.
"""

from collections.abc import Iterable, Mapping
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from enmasse.base.errors import Missing
from enmasse.pipeline.connector import options as option_table
from enmasse.pipeline.connector import ranges, reading, spool
from enmasse.pipeline.connector.options import Options
from enmasse.pipeline.connector.ranges import Offsets, State
from enmasse.pipeline.connector.source import end_offsets, start_offsets
from enmasse.pipeline.tables import delta
from enmasse.pipeline.tables.files import Table

BARE = (
    *("message_id", "correlation_id", "subject", "to", "reply_to", "content_type", "group_id"),
    *("body", "body_kind"),
)
"""The bare message, which no server changes, apart from application properties."""
HEADER = ("durable", "priority", "ttl", "enqueued_time")
PLACED = ("x-stream-offset", "x-opt-partition", "x-opt-enqueued-time")
"""Annotations that are columns; bronze of earlier versions has them also among the others."""
KEY = ("partition", "offset")
FAULTS_MAX = 100
"""Faults that are named by their offsets."""
READS_LESS = ("columns", "decode", "start", "end", "timeunit", "csvheader")
"""Options that change the columns or the range."""
Ends = dict[int, int]
"""An offset of each partition."""


def reconcile(
    spark: SparkSession,
    source: Mapping[str, str],
    bronze: Table,
    *,
    start: str = "earliest",
    end: str = "latest",
    read: Offsets | None = None,
) -> dict[str, Any]:
    """Compare a range of a stream with bronze: expired offsets, hours by partition, and faults.

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
    found: dict[str, Any] = {"address": options.address}
    found |= {"start": _named(begins), "end": _named(ends)}
    found |= {"messages": 0, "unread": unread, "exact": True, "parts": [], "faults": []}
    try:
        rows = _bronze(spark, bronze, options, reading.space(options))
        rows = rows.where(_within(begins, ends))
    except Missing:
        if begins != ends:
            raise
        # an empty range needs no table
        return found
    retained = {
        number: max(begin, min(ends[number], state.partitions[number].first))
        for number, begin in begins.items()
    }
    limits = {"start": _json(retained, state), "end": _json(ends, state)}
    stream = spark.read.format("enmasse").options(**given | limits).load()
    sent = stream.where(_within(retained, ends))
    is_selected = options.selector is not None
    compared = _hours(_joined(rows, sent), _within(retained, ends))
    parts, lost = [], []
    for number, begin in sorted(begins.items()):
        if begin < retained[number]:
            sides = compared.get((number, False, None))
            parts.append(_expired_part(number, (begin, retained[number]), sides, is_selected))
            if not is_selected:
                offsets = spark.range(begin, retained[number]).withColumnRenamed("id", "offset")
                lost.append(offsets.withColumn("partition", F.lit(number)))
    is_known = not (parts and is_selected)
    for number, is_retained, hour in sorted(compared, key=str):
        if is_retained:
            sides = compared[number, is_retained, hour]
            parts.append({"partition": number, "hour": hour} | sides)
    exact = all(part["exact"] for part in parts)
    faults = [] if exact else _faults(_joined(rows, sent, lost), is_known=is_known)
    messages = sum(map(_messages, parts))
    return found | {"messages": messages, "exact": exact, "parts": parts, "faults": faults}


def _messages(part: Mapping[str, Any]) -> int:
    """The number of messages that bronze must have, as far as that is known."""
    if "stream" in part:
        return int(part["stream"]["count"])
    span = part["noLongerKept"]
    return int(part["bronze"]["offsets"] if part["selected"] else span["next"] - span["first"])


def _bronze(
    spark: SparkSession, bronze: Table, options: Options, announced: str | None
) -> DataFrame:
    """The rows of an address: without the option `space` those of the space that the server
    announced, and those without one, which earlier versions wrote.
    """
    spaces = {announced, None} if options.space is None else {options.space}
    return delta.read(spark, bronze, space=spaces, address={options.address})


def _named(offsets: Ends) -> dict[str, int]:
    return {str(number): offset for number, offset in offsets.items()}


def _json(offsets: Ends, state: State) -> str:
    inner = ", ".join(f'"{number}": {offsets[number]}' for number in sorted(state.partitions))
    return f"{{{inner}}}"


def _until(read: Offsets | None, state: State, begins: Ends, ends: Ends) -> tuple[Ends, int]:
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


def _within(begins: Ends, ends: Ends) -> Column:
    """Whether a row is between the offsets of its partition."""
    spans = (
        (F.col("partition") == number) & _between([(begin, ends[number])])
        for number, begin in begins.items()
    )
    return reduce(or_, spans, F.lit(False))


def _between(spans: Iterable[tuple[int, int]]) -> Column:
    """Whether an offset is in one of these spans, each up to its end (exclusive)."""
    offset = F.col("offset")
    return reduce(
        or_, ((offset >= first) & (offset < after) for first, after in spans), F.lit(False)
    )


def _joined(rows: DataFrame, sent: DataFrame, lost: Iterable[DataFrame] = ()) -> DataFrame:
    """Rows of bronze and messages of the stream by offset: their hours, hashes and counts.

    Of `lost` messages of the stream only the offsets are known.
    """
    ours, theirs = (_hashed(frame, side) for frame, side in ((rows, "ours"), (sent, "theirs")))
    for offsets in lost:
        one = offsets.withColumn("theirs_count", F.lit(1))
        theirs = theirs.unionByName(one, allowMissingColumns=True)
    return ours.join(theirs, list(KEY), "full_outer")


def _hashed(rows: DataFrame, side: str) -> DataFrame:
    """The hash over all fields of the messages of each offset, by name of a side."""
    names = [F.col(name) for name in (*KEY, *HEADER, *BARE)]
    hour = F.date_format("enqueued_time", "yyyy-MM-dd'T'HH:00:00'Z'")
    properties = F.map_entries("application_properties")
    annotations = F.filter(F.map_entries("annotations"), lambda one: ~one["key"].isin(*PLACED))
    hashed = rows.select(
        *KEY, hour.alias("hour"), F.xxhash64(*names, properties, annotations).alias("hash")
    )
    return hashed.groupBy(*KEY).agg(
        F.count("*").alias(f"{side}_count"),
        F.first("hour").alias(f"{side}_hour"),
        F.first("hash").alias(f"{side}_hash"),
        F.sum(F.col("hash").cast("decimal(38,0)")).alias(f"{side}_sum"),
    )


def _hours(
    joined: DataFrame, is_retained: Column
) -> dict[tuple[int, bool, str | None], dict[str, Any]]:
    """Both sides by partition and hour of arrival (UTC); expired messages without the hour."""
    hour = F.when(is_retained, F.coalesce("theirs_hour", "ours_hour"))
    sums = [
        one.alias(f"{side}_{name}")
        for side in ("ours", "theirs")
        for name, one in (
            ("count", F.coalesce(F.sum(f"{side}_count"), F.lit(0))),
            ("offsets", F.count(f"{side}_count")),
            ("checksum", F.coalesce(F.sum(f"{side}_sum"), F.lit(0))),
        )
    ]
    grouped = joined.groupBy("partition", is_retained.alias("retained"), hour.alias("hour")).agg(
        *sums
    )
    found = {}
    for row in grouped.collect():
        stream, bronze = _tally(row, "theirs"), _tally(row, "ours")
        exact = stream == bronze and bronze["count"] == bronze["offsets"]
        sides = {"stream": stream, "bronze": bronze, "exact": exact}
        found[row.partition, row.retained, row.hour] = sides
    return found


def _tally(row: Any, side: str) -> dict[str, Any]:
    # a checksum exceeds the integers of JSON
    counts = {name: row[f"{side}_{name}"] for name in ("count", "offsets")}
    return counts | {"checksum": str(row[f"{side}_checksum"])}


def _expired_part(
    number: int, span: tuple[int, int], sides: dict[str, Any] | None, is_selected: bool
) -> dict[str, Any]:
    """Expired offsets of a partition; with a selector it is unknown which of them it chose."""
    first, after = span
    bronze = {"count": 0, "offsets": 0, "checksum": "0"} if sides is None else sides["bronze"]
    part: dict[str, Any] = {"partition": number, "noLongerKept": {"first": first, "next": after}}
    part |= {"selected": is_selected, "bronze": bronze}
    return part | {"exact": bronze["count"] == bronze["offsets"] == _messages(part)}


def _faults(joined: DataFrame, *, is_known: bool) -> list[dict[str, Any]]:
    """The first messages that bronze lacks, has several times or otherwise, or should not have."""
    what = (
        F.when(F.col("ours_count").isNull(), "missing")
        .when(F.col("ours_count") > 1, "repeated")
        .when(F.col("theirs_count").isNull() & F.lit(is_known), "unexpected")
        .when(F.col("ours_hash") != F.col("theirs_hash"), "changed")
    )
    found = joined.select(*KEY, what.alias("what")).where(F.col("what").isNotNull())
    return [row.asDict() for row in found.orderBy(*KEY).limit(FAULTS_MAX).collect()]


def reconcile_queue(
    spark: SparkSession, source: Mapping[str, str], bronze: Table
) -> dict[str, Any]:
    """Compare spool and bronze; the queue may be read meanwhile.

    `source` are the options of the source. Raises Missing without a spool or a table.
    """
    options = option_table.read(source)
    assert options.spool is not None
    # read before bronze: messages that leave the spool later are in bronze
    extent = spool.extent(Path(options.spool))
    rows = _bronze(spark, bronze, options, extent.announced_space)
    rows = rows.where(F.col("offset") < extent.next)
    (found,) = rows.agg(
        F.count("*").alias("count"),
        F.countDistinct("offset").alias("offsets"),
        F.countDistinct(F.when(_between(extent.spans), F.col("offset"))).alias("both"),
        F.count_if(F.col("message_id").isNull()).alias("anonymous"),
    ).collect()
    # messages in the spool only
    waiting = sum(after - first for first, after in extent.spans) - found.both
    missing = extent.next - found.offsets - waiting
    repeated = _repeated(rows, options.id_window)
    exact = missing == 0 and found["count"] == found.offsets and repeated == 0
    part = {
        "settled": extent.next,
        "bronze": {"count": found["count"], "offsets": found.offsets},
        "spool": waiting,
        "missing": missing,
        "repeated": repeated,
        "withoutId": found.anonymous,
        "exact": exact,
    }
    return {"address": options.address, "messages": extent.next, "exact": exact, "parts": [part]}


def _repeated(rows: DataFrame, window: int) -> int:
    """The number of rows with the id and content of one of the messages before them."""
    bare = [F.col(name) for name in BARE] + [F.map_entries("application_properties")]
    identity = F.sha2(F.to_json(F.struct(*bare)), 256)
    named = rows.where("message_id is not null").select("offset", identity.alias("identity"))
    before = F.lag("offset").over(Window.partitionBy("identity").orderBy("offset"))
    # a repeated offset is another fault than a message with two offsets
    distance = F.col("offset") - before
    found = named.select(distance.alias("distance")).where(F.col("distance") > 0)
    return found.where(F.col("distance") <= window).count()
