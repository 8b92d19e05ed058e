"""The report of `enmasse pipeline reconcile`: sources compared with bronze, gold with silver."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from pyspark.sql import SparkSession

from enmasse.base.errors import Code, Invalid
from enmasse.pipeline.connector.ranges import Offsets
from enmasse.pipeline.gold import verification
from enmasse.pipeline.ingest.reconcile import FAULTS_MAX, reconcile, reconcile_queue
from enmasse.pipeline.ingest.store import Store


def source(
    spark: SparkSession,
    name: str,
    options: Mapping[str, str],
    store: Store,
    start: str,
    end: str,
    read: Offsets | None,
) -> dict[str, Any]:
    """Compare a range of a source with bronze, up to the position `read` of its query.

    Raises as `reconcile` and `reconcile_queue` do.
    """
    if "spool" not in options:
        found = reconcile(spark, options, store.bronze, start=start, end=end, read=read)
    elif (start, end) == ("earliest", "latest"):
        found = reconcile_queue(spark, options, store.bronze)
    else:
        raise Invalid(
            Code.REQUEST_INVALID,
            f"source {name}: a queue has no offsets: omit --start and --end,"
            " or name another source with --source",
        )
    return {"source": name} | found


def gold(spark: SparkSession, store: Store) -> dict[str, Any]:
    """Compare gold with the readings of silver at the version that gold has."""
    paths = store.silver.path, store.gold.path
    found = verification.verify(spark, store.name, *paths, store.windows)
    differing = [{name: str(value) for name, value in row.items()} for row in found.differences]
    return {
        "windows": found.windows,
        "exact": found.exact,
        "differing": found.differing,
        "far": found.far,
        "versionsBehind": found.versions_behind,
        "differences": differing,
    }


def text(found: Mapping[str, Any]) -> str:
    """The report as text: a line for each source and one for gold, and the differences."""
    lines = []
    for one in found["sources"]:
        result = "each is in bronze once" if one["exact"] else "bronze differs"
        if one["exact"] and (waiting := sum(part.get("spool", 0) for part in one["parts"])):
            result = f"each is in bronze once, except {waiting:,} that are in the spool"
        if anonymous := sum(part.get("withoutId", 0) for part in one["parts"]):
            result += f" ({anonymous:,} have no message-id, so repeated ones are not detected)"
        if any(part.get("selected") for part in one["parts"]):
            result += " (of expired messages, those that the selector chose are unknown)"
        if unread := one.get("unread"):
            result += f"; {unread:,} are not read yet"
        end = "" if one["exact"] else ":"
        lines.append(f"{one['source']}: {one['messages']:,} messages, {result}{end}")
        lines += [f"  {_differing(part)}" for part in one["parts"] if not part["exact"]]
        lines += [f"  {fault}" for fault in _faults(one.get("faults", ()))]
    windows = found["gold"]
    result = "all match the readings"
    if windows["differing"]:
        result = f"{windows['differing']:,} differ, the first of them:"
    elif not windows["exact"]:
        result = f"{windows['far']:,} quantiles are off by more than 1.4 % in rank"
    if behind := windows["versionsBehind"]:
        result = f"gold is {behind:,} versions of silver behind; {result}"
    lines.append(f"gold: {windows['windows']:,} windows, {result}")
    lines += [f"  {row}" for row in windows["differences"]]
    return "\n".join(lines)


def _faults(faults: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A line for each kind of fault of a partition, with its offsets."""
    for (what, partition), same in groupby(
        sorted(faults, key=lambda one: (one["what"], one["partition"])),
        key=lambda one: (one["what"], one["partition"]),
    ):
        offsets = ", ".join(str(one["offset"]) for one in same)
        yield f"{what} in partition {partition}: offsets {offsets}"
    if len(faults) == FAULTS_MAX:
        yield f"these are the first {FAULTS_MAX}"


def _differing(part: Mapping[str, Any]) -> str:
    bronze = part["bronze"]
    if "settled" in part:
        return (
            f"settled {part['settled']:,}: {bronze['count']:,} are in bronze, of"
            f" {bronze['offsets']:,} offsets, {part['spool']:,} are in the spool,"
            f" {part['missing']:,} are missing; {part['repeated']:,} were repeated within"
            " `idWindow`"
        )
    has = f"bronze has {bronze['count']:,} of {bronze['offsets']:,} offsets"
    if (gone := part.get("noLongerKept")) is not None:
        count = gone["next"] - gone["first"]
        span = f"offsets {gone['first']} to {gone['next'] - 1}"
        return f"partition {part['partition']}, {span}, no longer kept: {count:,}; {has}"
    stream = part["stream"]
    if stream["count"] == bronze["count"] == bronze["offsets"]:
        has = "bronze has as many, with other content"
    when = part["hour"] or "without a time of arrival"
    return f"partition {part['partition']}, {when}: {stream['count']:,} messages; {has}"
