"""Real sensor series from files inside the packages `river` and `vega_datasets`.

Water flow: hourly, litres a second, March to May 2022 (Tecnojest s.r.l.). Its labels are the four
segments that its description names: three periods of low values and a short peak. Shuttle: sensors
of a space shuttle with a label for each reading (UCI Statlog, ODDS); it has no times, so readings
are one second apart. Seattle, San Francisco: hourly temperature normals, 2010, without labels.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

US_PER_S = 1_000_000
NS_PER_US = 1000
SHUTTLE_START = datetime(2024, 1, 1, tzinfo=UTC)
WATER_SEGMENTS = ((93, 111), (210, 224), (328, 330), (872, 888))
"""Anomalous readings of water flow: index of the first, and of the one after the last."""
SHUTTLE_METRICS = ("f1", "f7")


@dataclass(frozen=True)
class Series:
    """Readings of one device, ordered by time."""

    device: str
    times_us: list[int]
    """Microseconds since 1970 (UTC)."""

    values: dict[str, list[float]]
    """One value for each time, by metric."""

    labels: list[bool] | None = None
    """Whether each reading is anomalous; None for series without labels."""


def load() -> list[Series]:
    """Return all series; raises ImportError if a package is missing."""
    return [_water_flow(), _shuttle(), *_temperatures()]


def records(series: Series) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the time and the message body of each reading."""
    for index, time_us in enumerate(series.times_us):
        time = datetime.fromtimestamp(time_us / US_PER_S, UTC).isoformat()
        values = {metric: values[index] for metric, values in series.values.items()}
        yield time_us, {"device": series.device, "time": time} | values


def segments(labels: list[bool]) -> list[tuple[int, int]]:
    """Return the runs of set labels: index of the first, and of the one after the last."""
    pairs = zip([False, *labels], [*labels, False], strict=True)
    edges = [index for index, (before, after) in enumerate(pairs) if before != after]
    return list(zip(edges[::2], edges[1::2], strict=True))


def _us(time: datetime) -> int:
    return round(time.timestamp() * US_PER_S)


def _water_flow() -> Series:
    from river.datasets import WaterFlow

    rows = [(_us(found["Time"]), value) for found, value in WaterFlow()]
    labels = [any(a <= index < b for a, b in WATER_SEGMENTS) for index in range(len(rows))]
    times_us, values = (list(column) for column in zip(*rows, strict=True))
    return Series("water-flow", times_us, {"flow": values}, labels)


def _shuttle() -> Series:
    from river.datasets import Shuttle

    rows = list(Shuttle())
    start = _us(SHUTTLE_START)
    return Series(
        "shuttle",
        [start + index * US_PER_S for index in range(len(rows))],
        {metric: [float(found[metric]) for found, _ in rows] for metric in SHUTTLE_METRICS},
        [bool(label) for _, label in rows],
    )


def _temperatures() -> Iterator[Series]:
    from vega_datasets import data

    for device, name in (("seattle", "seattle_temps"), ("san-francisco", "sf_temps")):
        frame = getattr(data, name)().drop_duplicates("date").sort_values("date")
        times_us = [time.value // NS_PER_US for time in frame["date"]]
        yield Series(device, times_us, {"temperature": frame["temp"].astype(float).to_list()})
