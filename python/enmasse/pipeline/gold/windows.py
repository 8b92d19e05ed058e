"""Aggregations as frames: readings to windows, new windows merged into old ones, short windows to
long ones.

A row of gold has everything that merging needs: the position of its last reading, the root of its
squared deviations (their sum may overflow), and a KLL sketch if the window may change or a longer
one is merged from it.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

SKETCH_K = 256
"""Quantiles of up to this many readings are exact; beyond, the error of a rank is less than 1.1 %
for 99 % of windows."""
US_PER_MS = 1000
TIME = pyarrow.timestamp("us", "UTC")
SCALE = 2.0**-600
"""Values are scaled by this so that their squares do not overflow."""

KEY = ("window_ms", "start", "source", "device", "metric", "unit")
"""The key of a window."""
PARTITION_BY = ("window_ms", "date")
LAST = ("last_time", "last_partition", "last_offset", "last_index", "last")
"""The position of the last reading of a window, and its value."""
QUANTILES = {"p50": 0.5, "p95": 0.95}

ROW = pyarrow.schema(
    {
        "window_ms": pyarrow.int64(),
        "date": pyarrow.date32(),
        "start": TIME,
        "source": pyarrow.string(),
        "device": pyarrow.string(),
        "metric": pyarrow.string(),
        "unit": pyarrow.string(),
        "count": pyarrow.int64(),
        "min": pyarrow.float64(),
        "max": pyarrow.float64(),
        "sum": pyarrow.float64(),
        "mean": pyarrow.float64(),
        "stddev": pyarrow.float64(),
        "p50": pyarrow.float64(),
        "p95": pyarrow.float64(),
        "last": pyarrow.float64(),
        "last_time": TIME,
        "last_partition": pyarrow.int32(),
        "last_offset": pyarrow.int64(),
        "last_index": pyarrow.int32(),
        "spread": pyarrow.float64(),
        "sketch": pyarrow.binary(),
    }
)
"""A row of gold."""


def base_lengths(windows_ms: Sequence[int]) -> list[int]:
    """Return the lengths that are aggregated from readings: those that no shorter one divides."""
    return [one for one in sorted(windows_ms) if parent(one, windows_ms) is None]


def parent(window_ms: int, windows_ms: Sequence[int]) -> int | None:
    """Return the length that a longer one is merged from: the longest that divides it."""
    shorter = [one for one in windows_ms if one < window_ms and window_ms % one == 0]
    return max(shorter, default=None)


def start_of(time: Column, window_ms: int) -> Column:
    """Return the start of the window of a time."""
    us = F.unix_micros(time)
    return F.timestamp_micros(us - F.pmod(us, F.lit(window_ms * US_PER_MS)))


def deviation(of: Callable[[Column], Column], value: Column) -> Column:
    """Return a deviation of values whose squares may overflow."""
    found = of(value)
    scaled = of(value * F.lit(SCALE)) / F.lit(SCALE)
    return F.when(found == float("inf"), scaled).when(F.isnan(found), scaled).otherwise(found)


def aggregate_readings(readings: DataFrame, window_ms: int) -> DataFrame:
    """Return the windows of numeric readings."""
    value = F.col("value")
    spread = deviation(F.stddev_pop, value) * F.sqrt(F.count(value))
    columns = ("event_time", "partition", "offset", "index", "value")
    last = F.struct(*(F.col(one).alias(name) for one, name in zip(columns, LAST, strict=True)))
    grouped = readings.where(value.isNotNull()).groupBy(
        F.lit(window_ms).cast("long").alias("window_ms"),
        start_of(F.col("event_time"), window_ms).alias("start"),
        *KEY[2:],
    )
    found = grouped.agg(
        F.count(value).alias("count"),
        F.min(value).alias("min"),
        F.max(value).alias("max"),
        F.sum(value).alias("sum"),
        spread.alias("spread"),
        F.max(last).alias("last_reading"),
        F.kll_sketch_agg_double(value, F.lit(SKETCH_K)).alias("sketch"),
    )
    return _complete(found)


def aggregate_windows(shorter: DataFrame, window_ms: int, *, keeps_sketch: bool) -> DataFrame:
    """Return longer windows from all shorter ones within them."""
    part = F.struct(F.col("count").alias("n"), F.col("mean"), F.col("spread"))
    grouped = shorter.groupBy(
        F.lit(window_ms).cast("long").alias("window_ms"),
        start_of(F.col("start"), window_ms).alias("start"),
        *KEY[2:],
    )
    found = grouped.agg(
        F.sum("count").alias("count"),
        F.min("min").alias("min"),
        F.max("max").alias("max"),
        F.sum("sum").alias("sum"),
        F.collect_list(part).alias("parts"),
        F.max(F.struct(*LAST)).alias("last_reading"),
        F.kll_merge_agg_double("sketch", F.lit(SKETCH_K)).alias("sketch"),
    )
    zero = F.struct(F.lit(0).cast("long").alias("n"), *_zeros("mean", "spread"))
    spread = F.aggregate("parts", zero, _combined, lambda one: one["spread"])
    rows = _complete(found.withColumn("spread", spread))
    return rows if keeps_sketch else rows.withColumn("sketch", F.lit(None).cast("binary"))


def _zeros(*names: str) -> list[Column]:
    return [F.lit(0.0).alias(name) for name in names]


def _combined(one: Column, other: Column) -> Column:
    """Two parts of a window as one."""
    count = one["n"] + other["n"]
    away = other["mean"] - one["mean"]
    return F.struct(
        count.alias("n"),
        (one["mean"] + away * (other["n"] / count)).alias("mean"),
        _spread(one["spread"], other["spread"], away, one["n"], other["n"]).alias("spread"),
    )


def _spread(one: Column, other: Column, away: Column, count: Column, further: Column) -> Column:
    """The root of the squared deviations of two parts, from the mean of both (Chan et al.)."""
    between = F.abs(away) * F.sqrt(count / (count + further)) * F.sqrt(further)
    return F.hypot(F.hypot(one, other), between)


def merge(old: DataFrame, new: DataFrame) -> DataFrame:
    """Return rows of gold with new windows merged in; in each frame a window occurs once.

    Rows without a new window stay unchanged.
    """
    o, n = old.alias("o"), new.alias("n")
    same = [F.col(f"o.{name}").eqNullSafe(F.col(f"n.{name}")) for name in KEY]
    joined = o.join(n, same, "full_outer")
    is_new, is_old = (F.col(f"{side}.count").isNull() for side in "on")

    def either(name: str, both: Column) -> Column:
        before, now = F.col(f"o.{name}"), F.col(f"n.{name}")
        return F.when(is_new, now).when(is_old, before).otherwise(both)

    def pair(name: str) -> tuple[Column, Column]:
        return F.col(f"o.{name}"), F.col(f"n.{name}")

    counts = pair("count")
    away = F.col("n.mean") - F.col("o.mean")
    before, now = (F.struct(*(F.col(f"{side}.{name}") for name in LAST)) for side in "on")
    columns = {
        **{name: either(name, F.col(f"o.{name}")) for name in (*KEY, "date")},
        "count": either("count", counts[0] + counts[1]),
        "min": either("min", F.least(*pair("min"))),
        "max": either("max", F.greatest(*pair("max"))),
        "sum": either("sum", F.col("o.sum") + F.col("n.sum")),
        "spread": either("spread", _spread(*pair("spread"), away, *counts)),
        "last_reading": F.when(is_new, now).when(is_old, before).otherwise(F.greatest(before, now)),
        "sketch": either("sketch", F.kll_sketch_merge_double(*pair("sketch"))),
        "quantiles": F.when(is_old, F.array(F.col("o.p50"), F.col("o.p95"))),
    }
    return _complete(joined.select(*(column.alias(name) for name, column in columns.items())))


def _complete(rows: DataFrame) -> DataFrame:
    """The columns of gold from count, sum, spread, last reading and sketch; known quantiles are in
    the column `quantiles`.
    """
    wanted = F.array(*(F.lit(share) for share in QUANTILES.values()))
    quantiles = F.kll_sketch_get_quantile_double("sketch", wanted)
    if "quantiles" in rows.columns:
        quantiles = F.coalesce("quantiles", quantiles)
    count = F.col("count")
    derived: dict[str, Any] = {
        "date": F.to_date("start"),
        "mean": F.col("sum") / count,
        "stddev": F.when(count > 1, F.col("spread") / F.sqrt(count - 1)),
        **{name: F.col("quantiles")[number] for number, name in enumerate(QUANTILES)},
        **{name: F.col("last_reading")[name] for name in LAST},
    }
    columns = [derived.get(name, F.col(name)).alias(name) for name in ROW.names]
    return rows.withColumn("quantiles", quantiles).select(*columns)
