"""What `enmasse pipeline reconcile` says: each source compared with bronze, gold with silver."""

from collections.abc import Mapping
from datetime import UTC
from typing import Any

from pyspark.sql import SparkSession

from enmasse.base.errors import Code, Invalid
from enmasse.pipeline.gold import comparison
from enmasse.pipeline.ingest.reconcile import Reconciliation, Tally, reconcile
from enmasse.pipeline.ingest.settled import settled
from enmasse.pipeline.ingest.store import Store


def source(
    spark: SparkSession,
    name: str,
    options: Mapping[str, str],
    store: Store,
    start: str,
    end: str,
) -> dict[str, Any]:
    """Compare a range of a source with bronze. Raises as `reconcile` and `settled` do."""
    if "spool" in options:
        return _queue(spark, name, options, store, (start, end))
    found = reconcile(spark, options, store.bronze, start=start, end=end)
    return {
        "source": name,
        "address": found.address,
        "start": {str(part): offset for part, offset in found.start.items()},
        "end": {str(part): offset for part, offset in found.end.items()},
        "messages": found.messages,
        "exact": found.exact,
        "parts": parts(found),
    }


def _queue(
    spark: SparkSession,
    name: str,
    options: Mapping[str, str],
    store: Store,
    places: tuple[str, str],
) -> dict[str, Any]:
    if places != ("earliest", "latest"):
        raise Invalid(
            Code.REQUEST_INVALID,
            f"source {name}: a queue has no places: leave --start and --end out,"
            " or name another with --source",
        )
    found = settled(spark, options, store.bronze)
    part = {
        "settled": found.settled,
        "bronze": {"count": found.bronze, "offsets": found.offsets},
        "spool": found.waiting,
        "missing": found.missing,
        "repeated": found.repeated,
        "withoutId": found.anonymous,
        "exact": found.exact,
    }
    messages = {"messages": found.settled, "exact": found.exact, "parts": [part]}
    return {"source": name, "address": options["address"]} | messages


def parts(found: Reconciliation) -> list[dict[str, Any]]:
    """Return what was compared: what the stream no longer keeps, then its hours by partition."""
    gone = [
        {
            "partition": part.partition,
            "noLongerKept": {"first": part.first, "next": part.next},
            "selected": part.is_selected,
            "bronze": _tally(part.bronze),
            "exact": part.exact,
        }
        for part in found.gone
    ]
    hours = [
        {
            "partition": hour.partition,
            "hour": None
            if hour.hour is None
            # Spark hands out the time of this machine's clock
            else f"{hour.hour.astimezone(UTC):%Y-%m-%dT%H:00:00Z}",
            "stream": _tally(hour.stream),
            "bronze": _tally(hour.bronze),
            "exact": hour.exact,
        }
        for hour in found.hours
    ]
    return gone + hours


def _tally(tally: Tally) -> dict[str, Any]:
    # no number of JSON holds a checksum
    return {"count": tally.count, "offsets": tally.offsets, "checksum": str(tally.checksum)}


def gold(spark: SparkSession, store: Store) -> dict[str, Any]:
    """Compare gold with what the readings of silver give that it has."""
    found = comparison.compare(spark, store.name, store.silver.path, store.gold.path, store.windows)
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
    """The same for people: a line for each source and one for gold, and what differs."""
    lines = []
    for one in found["sources"]:
        said = "each is in bronze once" if one["exact"] else "bronze differs:"
        if one["exact"] and (waiting := sum(part.get("spool", 0) for part in one["parts"])):
            said = f"each is in bronze once, but for {waiting:,} that wait in the spool"
        if anonymous := sum(part.get("withoutId", 0) for part in one["parts"]):
            said += f" ({anonymous:,} have no message-id: whether one came twice nobody knows)"
        if any(part.get("selected") for part in one["parts"]):
            said += " (what the selector chose of those no longer kept nobody knows)"
        lines.append(f"{one['source']}: {one['messages']:,} messages, {said}")
        lines += [f"  {_differing(part)}" for part in one["parts"] if not part["exact"]]
    windows = found["gold"]
    said = "all as the readings say"
    if windows["differing"]:
        said = f"{windows['differing']:,} differ, the first of them:"
    elif not windows["exact"]:
        said = f"{windows['far']:,} quantiles are off by more than 1.4 % in rank"
    if behind := windows["versionsBehind"]:
        said = f"{behind:,} versions of silver are not in it yet; {said}"
    lines.append(f"gold: {windows['windows']:,} windows, {said}")
    lines += [f"  {row}" for row in windows["differences"]]
    return "\n".join(lines)


def _differing(part: Mapping[str, Any]) -> str:
    bronze = part["bronze"]
    if "settled" in part:
        return (
            f"settled {part['settled']:,}: {bronze['count']:,} are in bronze, of"
            f" {bronze['offsets']:,} offsets, {part['spool']:,} wait in the spool,"
            f" {part['missing']:,} are missing; {part['repeated']:,} came again within `idWindow`"
        )
    has = f"bronze has {bronze['count']:,} of {bronze['offsets']:,} offsets"
    if (gone := part.get("noLongerKept")) is not None:
        wanted = gone["next"] - gone["first"]
        span = f"offsets {gone['first']} to {gone['next'] - 1}"
        return f"partition {part['partition']}, {span}, no longer kept: {wanted:,}; {has}"
    stream = part["stream"]
    if stream["count"] == bronze["count"] == bronze["offsets"]:
        has = "as many in bronze, and not the same"
    when = part["hour"] or "at a time that the server does not say"
    return f"partition {part['partition']}, {when}: {stream['count']:,} messages; {has}"
