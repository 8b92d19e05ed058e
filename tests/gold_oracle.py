"""What gold has to be, computed reading by reading, and how a table of it differs from that."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow

Key = tuple[int, datetime, str, str, str, str | None]
EXACT = ("count", "min", "max", "last", "last_time")
QUANTILES = {"p50": 0.5, "p95": 0.95}
RANK_OFF, RANK_OFF_MAX, SHARE = 0.014, 0.03, 0.99


def expected(readings: pyarrow.Table, windows_ms: Sequence[int]) -> dict[Key, dict[str, Any]]:
    """The windows of readings, by key."""
    held: dict[Key, list[dict[str, Any]]] = defaultdict(list)
    for row in readings.to_pylist():
        if row["value"] is None:
            continue
        for length in windows_ms:
            ms = math.floor(row["event_time"].timestamp() * 1000)
            start = datetime.fromtimestamp(ms // length * length / 1000, UTC)
            names = ("source", "device", "metric", "unit")
            held[(length, start, *(row[name] for name in names))].append(row)
    return {key: _window(rows) for key, rows in held.items()}


def _window(rows: list[dict[str, Any]]) -> dict[str, Any]:
    values = sorted(row["value"] for row in rows)
    names = ("event_time", "partition", "offset", "index")
    last = max(rows, key=lambda row: [row[name] for name in names])
    mean = math.fsum(values) / len(values)
    # the squares themselves leave the range of numbers
    spread = math.hypot(*(value - mean for value in values))
    return {
        "count": len(values),
        "min": values[0],
        "max": values[-1],
        "sum": math.fsum(values),
        "mean": mean,
        "stddev": spread / math.sqrt(len(values) - 1) if len(values) > 1 else None,
        "last": last["value"],
        "last_time": last["event_time"],
        "values": values,
        "magnitudes": math.fsum(map(abs, values)),
    }


def differences(gold: Iterable[dict[str, Any]], wanted: dict[Key, dict[str, Any]]) -> list[str]:
    """What of gold is not as it has to be; empty if it is."""
    names = ("window_ms", "start", "source", "device", "metric", "unit")
    rows = list(gold)
    found: dict[Key, dict[str, Any]] = {tuple(row[name] for name in names): row for row in rows}
    wrong = [] if len(found) == len(rows) else ["a window stands twice"]
    wrong += [f"missing: {key}" for key in wanted.keys() - found.keys()]
    wrong += [f"of no reading: {key}" for key in found.keys() - wanted.keys()]
    off = []
    for key in wanted.keys() & found.keys():
        here, there = found[key], wanted[key]
        wrong += [f"{name} of {key}" for name in EXACT if here[name] != there[name]]
        for name in ("sum", "mean", "stddev"):
            if not _is_close(here[name], there[name], there["magnitudes"]):
                wrong.append(f"{name} of {key}: {here[name]}, {there[name]}")
        off += [_rank_off(there["values"], here[name], q) for name, q in QUANTILES.items()]
    if off and (max(off) > RANK_OFF_MAX or sum(one <= RANK_OFF for one in off) < SHARE * len(off)):
        wrong.append(f"ranks are off by {max(off)}")
    return wrong


def _is_close(one: float | None, other: float | None, magnitudes: float) -> bool:
    if one is None or other is None:
        return one is other
    return abs(one - other) <= 1e-9 * magnitudes


def _rank_off(values: list[float], quantile: float, wanted: float) -> float:
    """How far the ranks of a value are from the one that it has to have."""
    below = sum(value < quantile for value in values) / len(values)
    upto = sum(value <= quantile for value in values) / len(values)
    return max(0.0, below - wanted, wanted - upto)
