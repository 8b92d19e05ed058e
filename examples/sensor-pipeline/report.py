"""Compares the incidents of the pipeline with the labels of the series, and draws both."""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import series
from matplotlib import dates
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from series import Series

LIVE, PICTURE = Path("tables/live.db"), Path("sensors.png")
NEVER_US = 1 << 62
SHOWN_MAX = 400
"""Readings of the shuttle in the picture: an incident may be a single one of them."""
UNITS = {"flow": "l/s", "temperature": "°F"}
LINE, LABELLED, INCIDENT, ALERT = "#33506b", "#f4c95d", "#c0392b", "#c0392b"
POINT_AREA, ALERT_AREA = 22, 26
US_PER_DAY = 86_400_000_000
Incident = Mapping[str, Any]


@dataclass(frozen=True)
class Score:
    """How well the detectors found the labelled readings of a device."""

    device: str
    readings: int
    labelled: int
    found: int
    """Readings in incidents."""

    precision: float
    """Share of found readings that are labelled."""

    recall: float
    """Share of labelled readings that were found."""

    segments: int
    segments_found: int


def incidents(live: Path) -> list[dict[str, Any]]:
    """Return the rows of `anomalies`, with `alerts`: the number of alerts that were stored."""
    alerts = "SELECT count(*) FROM alerts WHERE incident = id AND outcome = 'accepted'"
    with closing(sqlite3.connect(live)) as database:
        database.row_factory = sqlite3.Row
        rows = database.execute(f"SELECT *, ({alerts}) AS alerts FROM anomalies ORDER BY number")
        return [dict(row) for row in rows]


def in_incident(one: Series, found: Sequence[Incident]) -> list[bool]:
    """Return for each reading of a series whether it lies in an incident."""
    spans = sorted(
        (row["began_us"], row["ended_us"] or NEVER_US)
        for row in found
        if row["device"] == one.device
    )
    inside, span, until_us = [], 0, 0
    for time_us in one.times_us:
        while span < len(spans) and spans[span][0] <= time_us:
            until_us = max(until_us, spans[span][1])
            span += 1
        inside.append(time_us < until_us)
    return inside


def score(one: Series, found: Sequence[Incident]) -> Score:
    """Compare incidents with the labels of a series, reading by reading."""
    labels, inside = one.labels or [], in_incident(one, found)
    right = sum(a and b for a, b in zip(labels, inside, strict=True))
    runs = series.segments(labels)
    return Score(
        device=one.device,
        readings=len(labels),
        labelled=sum(labels),
        found=sum(inside),
        precision=right / sum(inside) if any(inside) else 0.0,
        recall=right / sum(labels) if any(labels) else 0.0,
        segments=len(runs),
        segments_found=sum(any(inside[first:end]) for first, end in runs),
    )


def draw(
    every: Sequence[Series], found: Sequence[Incident], scores: Sequence[Score], file: Path
) -> None:
    """Write the picture as PNG."""
    panels = [(one, metric) for one in every for metric in one.values]
    figure = Figure(figsize=(13, 2.5 * len(panels) + 1), layout="constrained", dpi=110)
    FigureCanvasAgg(figure)
    all_axes = figure.subplots(len(panels), 1, squeeze=False)[:, 0]
    by_device = {one.device: one for one in scores}
    for axes, (one, metric) in zip(all_axes, panels, strict=True):
        _panel(axes, one, metric, found)
        title = f"{one.device}: {metric}"
        if len(one.times_us) > _shown(one):
            title += f", the first {_shown(one)} of {len(one.times_us):,} readings"
        if (scored := by_device.get(one.device)) is not None:
            title += f"; precision {scored.precision:.3f}, recall {scored.recall:.3f}"
        axes.set_title(title, loc="left", fontsize=10)
    handles: dict[str, Artist] = {}
    for axes in all_axes:
        for handle, name in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(name, handle)
    figure.legend(
        handles=list(handles.values()),
        labels=list(handles),
        loc="outside upper right",
        ncols=len(handles),
    )
    figure.savefig(file)


def _shown(one: Series) -> int:
    return SHOWN_MAX if one.device == "shuttle" else len(one.times_us)


def _panel(axes: Axes, one: Series, metric: str, found: Sequence[Incident]) -> None:
    count = _shown(one)
    times = [_time(time_us) for time_us in one.times_us[:count]]
    values = one.values[metric][:count]
    axes.plot(times, values, color=LINE, linewidth=0.8, label="reading")
    step = times[1] - times[0]
    for first, end in series.segments((one.labels or [])[:count]):
        # a reading represents the time around it
        begin, until = times[first] - step / 2, times[end - 1] + step / 2
        axes.axvspan(begin, until, color=LABELLED, alpha=0.6, linewidth=0, label="labelled")
    last_us = one.times_us[count - 1]
    mine = [
        row
        for row in found
        if (row["device"], row["metric"]) == (one.device, metric) and row["began_us"] <= last_us
    ]
    inside = [index for index, is_in in enumerate(in_incident(one, mine)[:count]) if is_in]
    axes.scatter(
        [times[index] for index in inside],
        [values[index] for index in inside],
        s=POINT_AREA,
        color=INCIDENT,
        zorder=3,
        label="in an incident",
    )
    alerts = [_time(row["began_us"]) for row in mine if row["alerts"]]
    # below the readings, at the edge of the panel
    axes.scatter(
        alerts,
        [0.03] * len(alerts),
        transform=axes.get_xaxis_transform(),
        marker="^",
        s=ALERT_AREA,
        facecolors="none",
        edgecolors=ALERT,
        label="alert stored",
    )
    axes.set_ylabel(UNITS.get(metric, ""))
    locator = dates.AutoDateLocator()
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))
    axes.margins(x=0.01, y=0.12)
    axes.spines[["top", "right"]].set_visible(False)


def _time(time_us: int) -> float:
    """A time as matplotlib counts it: days since 1970."""
    return time_us / US_PER_DAY


def main() -> None:
    """Report on the tables in this folder."""
    if not LIVE.exists():
        raise SystemExit(f"there is no {LIVE}: run `enmasse pipeline run --once` first")
    every, found = series.load(), incidents(LIVE)
    scores = [score(one, found) for one in every if one.labels]
    draw(every, found, scores, PICTURE)
    alerts = sum(row["alerts"] for row in found)
    print(f"{len(found):,} incidents, {alerts:,} alerts stored; picture: {PICTURE}")
    for one in scores:
        print(json.dumps(asdict(one)))


if __name__ == "__main__":
    main()
