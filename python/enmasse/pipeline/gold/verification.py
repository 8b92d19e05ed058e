"""Compares gold with a recomputation from silver that shares no code with the gold query.

Readings are those of the version of silver that gold has. `count`, `min`, `max` and `last` must be
equal, sums and deviations close relative to the summed magnitudes. Of a quantile the error of its
rank is checked.
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
from enmasse.pipeline.gold.query import gold_session, read_readings, unmerged
from enmasse.pipeline.gold.table import GoldTable

SHOWN_MAX = 1000
"""Differing windows that are reported in detail."""
EXACT = ("count", "min", "max", "last", "last_time")
CLOSE = ("sum", "mean", "stddev")
TOLERANCE = 1e-9
"""Relative to the sum of the magnitudes of a window."""
RANK_ERROR, RANK_ERROR_MAX, SHARE = 0.014, 0.03, 0.99
"""Maximum error of a quantile's rank: in this share of windows, and in all."""


@dataclass(frozen=True)
class Verification:
    """The result of comparing gold with silver."""

    windows: int
    differing: int
    """Windows that differ from their readings."""

    far: int
    """Quantiles with an error of the rank above `RANK_ERROR`."""

    versions_behind: int
    """Versions of silver that gold does not have yet."""

    differences: list[dict[str, Any]]
    """Key and differing columns of the first `SHOWN_MAX` of them."""

    @property
    def exact(self) -> bool:
        """Whether gold is correct."""
        quantiles = self.windows * len(windows.QUANTILES)
        return not self.differing and self.far <= (1 - SHARE) * quantiles


def verify(
    spark: SparkSession, name: str, silver: str, gold: str, windows_ms: Sequence[int]
) -> Verification:
    """Compare gold of a pipeline with the readings of silver, day by day."""
    found = progress(name, silver, gold)
    if found is None:
        return Verification(0, 0, 0, 0, [])
    if found.gold is None:
        return Verification(0, 0, 0, found.versions_behind, [])
    spark, table = gold_session(spark), GoldTable(gold)
    held, pending = table.files(), unmerged(table, name, windows_ms)
    paths = _paths_by_day(silver, found.gold)
    total: Counter[str] = Counter()
    shown: list[dict[str, Any]] = []
    for day in sorted(paths.keys() | {day for _, day in held}):
        readings = read_readings(spark, silver, paths.get(day, []))
        for length in {*windows_ms, *(one for one, of_day in held if of_day == day)}:
            folder = length, day
            gold_rows = table.read(spark, ((folder, one) for one in held.get(folder, [])))
            rows = _both(readings, gold_rows, length)
            if length not in windows_ms:
                rows = rows.where(F.col("g.count").isNotNull())
            if later := pending.get(length):
                rows = rows.where(~F.unix_micros(F.col("g.start")).isin(sorted(later)))
            counted, first = _evaluate(rows)
            total += counted
            shown += first[: SHOWN_MAX - len(shown)]
    count, differing, far = (total[one] for one in ("windows", "differing", "far"))
    return Verification(count, differing, far, found.versions_behind, shown)


def _paths_by_day(silver: str, version: int) -> dict[str, list[str]]:
    """The files of silver by day, at a version."""
    actions = pyarrow.table(DeltaTable(silver, version=version).get_add_actions(flatten=True))
    paths: dict[str, list[str]] = {}
    for day, path in zip(
        actions["partition.date"].to_pylist(), actions["path"].to_pylist(), strict=True
    ):
        paths.setdefault(str(day), []).append(path)
    return paths


def _both(readings: DataFrame, gold: DataFrame, length: int) -> DataFrame:
    """Windows from readings, as `w`, joined with those of gold, as `g`."""
    keys = list(windows.KEY)
    key = [F.coalesce(F.col(name), F.lit("")).alias(f"k_{name}") for name in keys[2:]]
    key = [F.col("start").alias("k_start"), (F.col("unit").isNull()).alias("k_none"), *key]
    named = [f"k_{name}" for name in (*keys[1:], "none")]
    values = readings.where(F.col("value").isNotNull())
    values = values.withColumn("start", windows.start_of(F.col("event_time"), length))
    quantiles = gold.select(*key, *windows.QUANTILES)
    ranked = values.select(*key, "*").join(quantiles, named, "left")
    value = F.col("value")
    position = F.struct("event_time", "partition", "offset", "index", "value")
    shares = [
        F.avg(compared.cast("double")).alias(f"{side}_{name}")
        for name in windows.QUANTILES
        for side, compared in (("below", value < F.col(name)), ("upto", value <= F.col(name)))
    ]
    wanted = ranked.groupBy(*named).agg(
        F.count(value).alias("count"),
        F.min(value).alias("min"),
        F.max(value).alias("max"),
        F.max(position).alias("position"),
        F.sum(value).alias("sum"),
        F.avg(value).alias("mean"),
        windows.deviation(F.stddev_samp, value).alias("stddev"),
        F.sum(F.abs(value)).alias("magnitudes"),
        *shares,
    )
    wanted = wanted.withColumn("last", F.col("position.value"))
    wanted = wanted.withColumn("last_time", F.col("position.event_time"))
    return wanted.alias("w").join(gold.select(*key, "*").alias("g"), named, "full_outer")


def _evaluate(rows: DataFrame) -> tuple[Counter[str], list[dict[str, Any]]]:
    """Counts of all, differing and imprecise windows, and the first that differ."""
    is_missing, is_spare = F.col("g.count").isNull(), F.col("w.count").isNull()
    wrong = [
        F.when(is_missing, F.lit("missing")),
        F.when(is_spare, F.lit("not in silver")),
        *(_named(name, ~_pair(name)[0].eqNullSafe(_pair(name)[1])) for name in EXACT),
        *(_named(name, ~_is_close(*_pair(name))) for name in CLOSE),
        *(_named(name, _rank_error(name) > RANK_ERROR_MAX) for name in windows.QUANTILES),
    ]
    is_far = [(_rank_error(name) > RANK_ERROR).cast("int") for name in windows.QUANTILES]
    names = {"window_ms": "g.window_ms", **{name: f"k_{name}" for name in windows.KEY[1:]}}
    evaluated = rows.select(
        *(F.col(column).alias(name) for name, column in names.items() if name != "start"),
        # collected times would be in the zone of this machine
        F.date_format("k_start", "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'").alias("start"),
        F.array_compact(F.array(*wrong)).alias("differs"),
        F.coalesce(reduce(Column.__add__, is_far), F.lit(0)).alias("far"),
    ).persist()
    try:
        differs = F.size("differs") > 0
        counted = evaluated.agg(
            F.count("*").alias("windows"),
            F.count_if(differs).alias("differing"),
            F.coalesce(F.sum("far"), F.lit(0)).alias("far"),
        )
        (counts,) = counted.collect()
        first = evaluated.where(differs).drop("far").limit(SHOWN_MAX).collect()
        return Counter(counts.asDict()), [row.asDict() for row in first]
    finally:
        evaluated.unpersist()


def _pair(name: str) -> tuple[Column, Column]:
    return F.col(f"g.{name}"), F.col(f"w.{name}")


def _named(name: str, is_wrong: Column) -> Column:
    """The name of a column if it is wrong in a window that exists on both sides."""
    both = F.col("g.count").isNotNull() & F.col("w.count").isNotNull()
    return F.when(both & F.coalesce(is_wrong, F.lit(True)), F.lit(name))


def _is_close(actual: Column, wanted: Column) -> Column:
    near = F.abs(actual - wanted) <= F.col("w.magnitudes") * TOLERANCE
    # one reading has no deviation; overflow is infinite on both sides
    return actual.eqNullSafe(wanted) | F.coalesce(near, F.lit(False))


def _rank_error(name: str) -> Column:
    """The distance between the ranks of a quantile and the wanted one."""
    share = F.lit(windows.QUANTILES[name])
    below, upto = F.col(f"w.below_{name}"), F.col(f"w.upto_{name}")
    return F.greatest(F.lit(0.0), below - share, share - upto)
