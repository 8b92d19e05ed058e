"""Whether gold is what the readings of silver say: a recomputation without what gold is made by.

Readings are those of the version of silver that gold has. `count`, `min`, `max` and `last` have to
be the same, sums and deviations near in proportion to the magnitudes that were summed. Of a
quantile its rank is looked at: by how much it misses the one that was asked for.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow
from deltalake import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from enmasse.pipeline.gold import windows
from enmasse.pipeline.gold.progress import progress
from enmasse.pipeline.gold.query import READINGS, isolated, waiting
from enmasse.pipeline.gold.table import GoldTable, read_files

SHOWN_MAX = 1000
"""Windows that differ, of which it is said how."""
EXACT = ("count", "min", "max", "last", "last_time")
CLOSE = ("sum", "mean", "stddev")
TOLERANCE = 1e-9
"""Relative to the sum of the magnitudes of a window."""
RANK_OFF, RANK_OFF_MAX, SHARE = 0.014, 0.03, 0.99
"""By how much a quantile's rank may be off: in this share of windows, and in all."""


@dataclass(frozen=True)
class Compared:
    """What became of comparing gold with silver."""

    windows: int
    differing: int
    """How many windows are not what their readings say."""

    far: int
    """Quantiles whose rank is off by more than `RANK_OFF`."""

    versions_behind: int
    """Versions of silver that gold does not have yet, and that were not compared."""

    differences: list[dict[str, Any]]
    """The keys of the first `SHOWN_MAX` of those that differ, and what differs."""

    @property
    def exact(self) -> bool:
        """Whether all windows are as they have to be."""
        quantiles = self.windows * len(windows.QUANTILES)
        return not self.differing and self.far <= (1 - SHARE) * quantiles


def compare(
    spark: SparkSession, name: str, silver: str, gold: str, windows_ms: Sequence[int]
) -> Compared:
    """Compare gold of a pipeline with what the readings of silver give, day by day."""
    found = progress(name, silver, gold)
    if found is None:
        return Compared(0, 0, 0, 0, [])
    if found.gold is None:
        return Compared(0, 0, 0, found.versions_behind, [])
    spark, table = isolated(spark), GoldTable(gold)
    held, unmerged = table.files(), waiting(table, name, windows_ms)
    places = _places(silver, found.gold)
    total: Counter[str] = Counter()
    shown: list[dict[str, Any]] = []
    for day in sorted(places.keys() | {day for _, day in held}):
        readings = read_files(spark, silver, places.get(day, []), READINGS)
        for length in {*windows_ms, *(one for one, of_day in held if of_day == day)}:
            files = held.get((length, day), [])
            rows = _both(readings, table.read(spark, ((length, one) for one in files)), length)
            if length not in windows_ms:
                rows = rows.where(F.col("g.count").isNotNull())
            if later := unmerged.get(length):
                rows = rows.where(~F.unix_micros(F.col("g.start")).isin(sorted(later)))
            counted, first = _judged(rows)
            total += counted
            shown += first[: SHOWN_MAX - len(shown)]
    count, differing, far = (total[one] for one in ("windows", "differing", "far"))
    return Compared(count, differing, far, found.versions_behind, shown)


def _places(silver: str, version: int) -> dict[str, list[str]]:
    """The files of silver by day, as of a version."""
    actions = pyarrow.table(DeltaTable(silver, version=version).get_add_actions(flatten=True))
    places: dict[str, list[str]] = {}
    for day, path in zip(
        actions["partition.date"].to_pylist(), actions["path"].to_pylist(), strict=True
    ):
        places.setdefault(str(day), []).append(path)
    return places


def _both(readings: DataFrame, gold: DataFrame, length: int) -> DataFrame:
    """What readings give, as `w`, beside what gold has, as `g`."""
    keys = list(windows.KEY)
    key = [F.coalesce(F.col(name), F.lit("")).alias(f"k_{name}") for name in keys[2:]]
    key = [F.col("start").alias("k_start"), (F.col("unit").isNull()).alias("k_none"), *key]
    named = [f"k_{name}" for name in (*keys[1:], "none")]
    values = readings.where(F.col("value").isNotNull())
    values = values.withColumn("start", windows.start_of(F.col("event_time"), length))
    quantiles = gold.select(*key, *windows.QUANTILES)
    ranked = values.select(*key, "*").join(quantiles, named, "left")
    value = F.col("value")
    place = F.struct("event_time", "partition", "offset", "index", "value")
    shares = [
        F.avg(compared.cast("double")).alias(f"{side}_{name}")
        for name in windows.QUANTILES
        for side, compared in (("below", value < F.col(name)), ("upto", value <= F.col(name)))
    ]
    wanted = ranked.groupBy(*named).agg(
        F.count(value).alias("count"),
        F.min(value).alias("min"),
        F.max(value).alias("max"),
        F.max(place).alias("place"),
        F.sum(value).alias("sum"),
        F.avg(value).alias("mean"),
        windows.deviation(F.stddev_samp, value).alias("stddev"),
        F.sum(F.abs(value)).alias("magnitudes"),
        *shares,
    )
    wanted = wanted.withColumn("last", F.col("place.value"))
    wanted = wanted.withColumn("last_time", F.col("place.event_time"))
    return wanted.alias("w").join(gold.select(*key, "*").alias("g"), named, "full_outer")


def _judged(rows: DataFrame) -> tuple[Counter[str], list[dict[str, Any]]]:
    """How many windows there are and how many are wrong, and the first of these."""
    is_missing, is_spare = F.col("g.count").isNull(), F.col("w.count").isNull()
    wrong = [
        F.when(is_missing, F.lit("missing")),
        F.when(is_spare, F.lit("not in silver")),
        *(_named(name, ~_pair(name)[0].eqNullSafe(_pair(name)[1])) for name in EXACT),
        *(_named(name, ~_is_close(*_pair(name))) for name in CLOSE),
        *(_named(name, _rank_off(name) > RANK_OFF_MAX) for name in windows.QUANTILES),
    ]
    is_far = [(_rank_off(name) > RANK_OFF).cast("int") for name in windows.QUANTILES]
    names = {"window_ms": "g.window_ms", **{name: f"k_{name}" for name in windows.KEY[1:]}}
    said = rows.select(
        *(F.col(place).alias(name) for name, place in names.items() if name != "start"),
        # Spark hands out the time of this machine's clock
        F.date_format("k_start", "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'").alias("start"),
        F.array_compact(F.array(*wrong)).alias("differs"),
        F.coalesce(reduce(Column.__add__, is_far), F.lit(0)).alias("far"),
    ).persist()
    try:
        differs = F.size("differs") > 0
        counted = said.agg(
            F.count("*").alias("windows"),
            F.count_if(differs).alias("differing"),
            F.coalesce(F.sum("far"), F.lit(0)).alias("far"),
        )
        (counts,) = counted.collect()
        first = said.where(differs).drop("far").limit(SHOWN_MAX).collect()
        return Counter(counts.asDict()), [row.asDict() for row in first]
    finally:
        said.unpersist()


def _pair(name: str) -> tuple[Column, Column]:
    return F.col(f"g.{name}"), F.col(f"w.{name}")


def _named(name: str, is_wrong: Column) -> Column:
    """The name of a column that is wrong in a window that both have."""
    both = F.col("g.count").isNotNull() & F.col("w.count").isNotNull()
    return F.when(both & F.coalesce(is_wrong, F.lit(True)), F.lit(name))


def _is_close(here: Column, there: Column) -> Column:
    near = F.abs(here - there) <= F.col("w.magnitudes") * TOLERANCE
    # of one reading there is no deviation; what exceeds all numbers is infinite in both
    return here.eqNullSafe(there) | F.coalesce(near, F.lit(False))


def _rank_off(name: str) -> Column:
    """How far the ranks of a quantile are from the one that was asked for."""
    share = F.lit(windows.QUANTILES[name])
    below, upto = F.col(f"w.below_{name}"), F.col(f"w.upto_{name}")
    return F.greatest(F.lit(0.0), below - share, share - upto)
