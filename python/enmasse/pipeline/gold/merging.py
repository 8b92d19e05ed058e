"""Gold: statistics of readings by device, metric and window, out of partials that merge.

A partial is what is known of a part of a window's readings. Merging knows no order: any grouping of
the same readings, and any way to it, gives the same window. So late readings correct it, and gold
equals what a recomputation from bronze gives: `count`, `min`, `max`, `last`, `p50`, `p95` exactly,
`sum`, `mean` and `stddev` but for the last bits.

Quantiles are exact up to `SAMPLE_MAX` readings. Of more, those with the least hash of their place
in the stream and value are kept: a fair sample, the same in any order. The rank of a quantile q is
then off by a standard error of sqrt(q (1 - q) / SAMPLE_MAX): 2.2 % for p50, 1.0 % for p95. A sample
is a set: a value that is read again at its place is in it once.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy
import pyarrow
import pyarrow.compute as pc

from enmasse.pipeline.gold.grouping import Numbers, array, groups, in_order

SAMPLE_MAX = 512
"""Readings of a window that are kept for its quantiles."""

US_A_MS, DAY_US = 1000, 86_400_000_000
TIME = pyarrow.timestamp("us", "UTC")
KEY = ("window_ms", "start", "source", "device", "metric")
"""What names a window: its length, where it begins, and whose readings it holds."""

ORDER = ("last_time", "last_partition", "last_offset", "last_index")
"""Where a reading stands among those of its window."""

SCHEMA = pyarrow.schema(
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
        "sum_rest": pyarrow.float64(),
        "spread": pyarrow.float64(),
        "sample": pyarrow.list_(pyarrow.float64()),
        "sample_keys": pyarrow.list_(pyarrow.int64()),
    }
)
"""A window with all that merging needs. What follows `last_time` is there for that: where the last
reading stood, what the sum lost by rounding, the root of the sum of squared deviations (the sum
itself leaves the range of numbers), and the sample with its hashes."""
SAMPLE = ("sample", "sample_keys")
ROW = pyarrow.schema([field for field in SCHEMA if field.name not in SAMPLE])
"""A row of the table, whose samples lie elsewhere."""
QUANTILES = (("p50", 0.5), ("p95", 0.95))

EXACT = ("count", "min", "max", "last", "last_time", "p50", "p95", "unit")
CLOSE = ("sum", "mean", "stddev")
TOLERANCE = 1e-9
"""Relative to the largest magnitude of the window."""
LEAST = float(numpy.finfo(numpy.float64).tiny)
"""Numbers below it have fewer digits than the tolerance asks for."""


def partials(readings: pyarrow.Table, windows_ms: Sequence[int]) -> pyarrow.Table:
    """Return the windows of readings that are numbers; columns as `silver.READING` names them."""
    numbers = readings.filter(pc.is_valid(readings["value"]))
    return merged([_alone(numbers, window_ms) for window_ms in windows_ms])


def _alone(readings: pyarrow.Table, window_ms: int) -> pyarrow.Table:
    """Each reading as a window that holds nothing else."""
    rows = len(readings)
    time = array(pc.cast(readings["event_time"], pyarrow.int64()))
    start = time - time % (window_ms * US_A_MS)
    value = array(readings["value"])
    partition, offset, index = (array(readings[name]) for name in ("partition", "offset", "index"))
    zero, one = numpy.zeros(rows), numpy.arange(rows + 1, dtype=numpy.int32)
    hashes = _hashes(partition, offset, index, value)
    table = {
        "window_ms": pyarrow.repeat(pyarrow.scalar(window_ms, pyarrow.int64()), rows),
        "start": pyarrow.array(start).cast(TIME),
        "date": pyarrow.array(start // DAY_US, pyarrow.int32()).cast(pyarrow.date32()),
        "count": numpy.ones(rows, numpy.int64),
        "last_time": readings["event_time"],
        "sum_rest": zero,
        "spread": zero,
        "stddev": pyarrow.nulls(rows, pyarrow.float64()),
        "sample": pyarrow.ListArray.from_arrays(one, value),
        "sample_keys": pyarrow.ListArray.from_arrays(one, hashes),
    }
    table |= {name: readings[name] for name in ("source", "device", "metric", "unit")}
    table |= {name: value for name in ("min", "max", "sum", "mean", "p50", "p95", "last")}
    table |= {"last_partition": partition, "last_offset": offset, "last_index": index}
    return pyarrow.table(table).select(SCHEMA.names).cast(SCHEMA)


def merged(parts: Sequence[pyarrow.Table]) -> pyarrow.Table:
    """Return windows of which each stands once, out of any number of partials of each."""
    rows = pyarrow.concat_tables([SCHEMA.empty_table(), *parts]).combine_chunks()
    if not len(rows):
        return rows
    group, first = groups(rows, KEY)
    return _joined(rows, group, first, _sampled(rows, group, len(first)), SCHEMA)


def renewed(before: pyarrow.Table, parts: pyarrow.Table) -> tuple[pyarrow.Table, Numbers]:
    """Return rows of the table with partials merged into them, and of each what it was before.

    Each window stands once in `before` and once in `parts`, whose quantiles are those of all its
    readings. What it was is a row of `before`, or -1.
    """
    rows = pyarrow.concat_tables([before, parts.select(ROW.names)]).combine_chunks()
    group, first = groups(rows, KEY)
    newest = numpy.empty(len(first), numpy.int64)
    newest[group] = numpy.arange(len(rows))
    quantiles = {name: rows[name].take(newest) for name, _ in QUANTILES}
    merged_rows = _joined(rows, group, first, quantiles, ROW)
    return merged_rows, numpy.where(first < len(before), first, -1)


def _joined(
    rows: pyarrow.Table,
    group: Numbers,
    first: Numbers,
    quantiles: dict[str, Any],
    schema: pyarrow.Schema,
) -> pyarrow.Table:
    """One row for each group of rows, with quantiles that are known already."""
    # in the order of time within each window, so that the last row is the last reading
    order, bounds = in_order(rows, group, ORDER)
    starts, ends = bounds[:-1], bounds[1:] - 1
    kept = {name: rows[name].take(first) for name in (*KEY, "date")}
    last = rows.take(order[ends])
    kept |= {name: last[name] for name in ("unit", "last", *ORDER)}
    figures = _figures(rows, order, starts)
    return pyarrow.table(kept | figures | quantiles).select(schema.names).cast(schema)


def _figures(rows: pyarrow.Table, order: Numbers, starts: Numbers) -> dict[str, Numbers | Any]:
    def column(name: str) -> Numbers:
        return array(rows[name])[order]

    count_each = column("count")
    count = numpy.add.reduceat(count_each, starts)
    sizes = numpy.diff(numpy.append(starts, len(rows)))
    # the deviation of one reading divides by nothing, and sums may leave the range of numbers
    with numpy.errstate(invalid="ignore", divide="ignore", over="ignore"):
        sum_each = column("sum").astype(numpy.longdouble) + column("sum_rest")
        total = numpy.add.reduceat(sum_each, starts)
        mean = total / count
        away = sum_each / count_each - numpy.repeat(mean, sizes)
        spread = column("spread").astype(numpy.longdouble)
        squares = numpy.add.reduceat(spread * spread + count_each * away * away, starts)
        rounded = total.astype(numpy.float64)
        rest = (total - rounded).astype(numpy.float64)
        stddev = numpy.sqrt(squares / (count - 1)).astype(numpy.float64)
        means = mean.astype(numpy.float64)
        spreads = numpy.sqrt(squares).astype(numpy.float64)
    return {
        "count": count,
        "min": numpy.minimum.reduceat(column("min"), starts),
        "max": numpy.maximum.reduceat(column("max"), starts),
        "sum": rounded,
        # a sum that is no number any more has lost nothing by rounding
        "sum_rest": numpy.where(numpy.isfinite(rounded), rest, 0.0),
        "mean": means,
        "spread": spreads,
        "stddev": pyarrow.array(stddev, mask=count < 2),
    }


def _sampled(rows: pyarrow.Table, group: Numbers, windows: int) -> dict[str, Any]:
    """The samples of windows, and the quantiles of these."""
    sizes = array(pc.list_value_length(rows["sample"]))
    value = array(pc.list_flatten(rows["sample"]))
    key = array(pc.list_flatten(rows["sample_keys"]))
    of = numpy.repeat(group, sizes)
    order = numpy.lexsort([key, of])
    value, key, of = value[order], key[order], of[order]
    is_new = numpy.append([True], (key[1:] != key[:-1]) | (of[1:] != of[:-1]))[: len(of)]
    value, key, of = value[is_new], key[is_new], of[is_new]
    starts = numpy.searchsorted(of, numpy.arange(windows))
    kept = numpy.arange(len(of)) - starts[of] < SAMPLE_MAX
    value, key, of = value[kept], key[kept], of[kept]
    offsets = numpy.searchsorted(of, numpy.arange(windows + 1)).astype(numpy.int32)
    ranked = value[numpy.lexsort([value, of])]
    count = numpy.diff(offsets)
    found: dict[str, Any] = {
        # the least value that so many of the readings do not exceed
        name: ranked[offsets[:-1] + rank(count, share)]
        for name, share in QUANTILES
    }
    found["sample"] = pyarrow.ListArray.from_arrays(offsets, value)
    found["sample_keys"] = pyarrow.ListArray.from_arrays(offsets, key)
    return found


def rank(count: Numbers, share: float) -> Numbers:
    """Return where in the order of so many readings a quantile stands, from 0 on."""
    return numpy.asarray(numpy.ceil(share * count).astype(numpy.int64) - 1)


def _hashes(partition: Numbers, offset: Numbers, index: Numbers, value: Numbers) -> Numbers:
    """A number of 62 bits for each place in a stream and the value there, that says nothing of
    them (splitmix64)."""
    mixed = offset.astype(numpy.uint64)
    for more in (partition, index, value.view(numpy.uint64)):
        mixed = _mix(mixed) ^ more.astype(numpy.uint64)
    return numpy.asarray(_mix(mixed) >> numpy.uint64(2), numpy.int64)


def _mix(number: Any) -> Any:
    with numpy.errstate(over="ignore"):
        number = number + numpy.uint64(0x9E3779B97F4A7C15)
        number = (number ^ (number >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        number = (number ^ (number >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
        return number ^ (number >> numpy.uint64(31))


def differences(gold: pyarrow.Table, wanted: pyarrow.Table) -> list[dict[str, Any]]:
    """Return how two sets of windows differ: for each window its key and what is not alike."""
    # samples are large, and their quantiles say enough
    names = list(dict.fromkeys((*KEY, *EXACT, *CLOSE)))
    found = {_key(row): row for row in gold.select(names).to_pylist()}
    expected = {_key(row): row for row in wanted.select(names).to_pylist()}
    differing = []
    for key in sorted(found.keys() | expected.keys(), key=str):
        here, there = found.get(key), expected.get(key)
        if here is None or there is None:
            what = ["missing" if here is None else "not in bronze"]
        else:
            what = [name for name in EXACT if here[name] != there[name]]
            what += [name for name in CLOSE if not _close(here, there, name)]
        if what:
            differing.append(dict(zip(KEY, key, strict=True)) | {"differs": what})
    return differing


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in KEY)


def _close(here: dict[str, Any], there: dict[str, Any], name: str) -> bool:
    one, other = here[name], there[name]
    if one is None or other is None:
        return one is other
    if one == other or (math.isnan(one) and math.isnan(other)):
        return True
    scale = max(abs(there["min"]), abs(there["max"]))
    bound = scale * (there["count"] if name == "sum" else 1)
    return bool(abs(one - other) <= TOLERANCE * max(abs(other), bound) + LEAST)
