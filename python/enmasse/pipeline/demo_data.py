"""Real series for the demo, from files inside the packages `river` and `vega_datasets`.

Water flow: hourly, litres a second, March to May 2022 (Tecnojest s.r.l.). Its labels are the four
segments that its description names: three times of low values and a short peak. Shuttle: sensors of
a space shuttle, labelled a reading (UCI Statlog, ODDS); it has no times, so readings are a second
apart. Seattle, San Francisco: hourly normals of temperature, 2010, without labels.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

US_A_S = 1_000_000
NS_A_US = 1000
SHUTTLE_BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
WATER_SEGMENTS = ((93, 111), (210, 224), (328, 330), (872, 888))
"""Readings of water flow that are anomalous: the first, and the one behind the last."""
SHUTTLE_METRICS = ("f1", "f7")


@dataclass(frozen=True)
class Series:
    """Readings of one device, in the order of their times."""

    device: str
    times_us: list[int]
    """Microseconds since 1970 (UTC)."""

    values: dict[str, list[float]]
    """By metric, one for each time."""

    labels: list[bool] | None = None
    """Which are anomalous, where that is known."""


def load() -> list[Series]:
    """Return all series; raises ImportError if a package is missing."""
    return [_water_flow(), _shuttle(), *_temperatures()]


def records(series: Series) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the time of each reading, and the body of its message."""
    for place, time_us in enumerate(series.times_us):
        time = datetime.fromtimestamp(time_us / US_A_S, UTC).isoformat()
        values = {metric: values[place] for metric, values in series.values.items()}
        yield time_us, {"device": series.device, "time": time} | values


def segments(labels: list[bool]) -> list[tuple[int, int]]:
    """Return the runs of labels that are set: the first, and the one behind the last."""
    pairs = zip([False, *labels], [*labels, False], strict=True)
    edges = [place for place, (before, after) in enumerate(pairs) if before != after]
    return list(zip(edges[::2], edges[1::2], strict=True))


def _us(time: datetime) -> int:
    return round(time.timestamp() * US_A_S)


def _water_flow() -> Series:
    from river.datasets import WaterFlow

    rows = [(_us(found["Time"]), value) for found, value in WaterFlow()]  # type: ignore[no-untyped-call]
    labels = [any(a <= place < b for a, b in WATER_SEGMENTS) for place in range(len(rows))]
    times_us, values = (list(column) for column in zip(*rows, strict=True))
    return Series("water-flow", times_us, {"flow": values}, labels)


def _shuttle() -> Series:
    from river.datasets import Shuttle

    rows = list(Shuttle())
    begin = _us(SHUTTLE_BEGIN)
    return Series(
        "shuttle",
        [begin + place * US_A_S for place in range(len(rows))],
        {metric: [float(found[metric]) for found, _ in rows] for metric in SHUTTLE_METRICS},
        [bool(label) for _, label in rows],
    )


def _temperatures() -> Iterator[Series]:
    from vega_datasets import data

    for device, name in (("seattle", "seattle_temps"), ("san-francisco", "sf_temps")):
        frame = getattr(data, name)().drop_duplicates("date").sort_values("date")
        times_us = [time.value // NS_A_US for time in frame["date"]]
        yield Series(device, times_us, {"temperature": frame["temp"].astype(float).to_list()})
