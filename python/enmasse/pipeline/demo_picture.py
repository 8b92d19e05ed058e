"""The picture of the demo: series, what is labelled, incidents and alerts."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib import dates
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from enmasse.pipeline import demo_data
from enmasse.pipeline.demo import Outcome, found_in
from enmasse.pipeline.demo_data import Series

SHOWN_MAX = 400
"""Readings of the shuttle that are shown: incidents are as short as one of them."""
UNITS = {"flow": "l/s", "temperature": "°F"}
LINE, LABELLED, INCIDENT, ALERT = "#33506b", "#f4c95d", "#c0392b", "#c0392b"
POINT_AREA, ALERT_AREA = 22, 26
US_A_DAY = 86_400_000_000


def draw(series: Sequence[Series], outcome: Outcome, file: Path) -> None:
    """Write the picture as PNG."""
    panels = [(one, metric) for one in series for metric in one.values]
    figure = Figure(figsize=(13, 2.5 * len(panels) + 1), layout="constrained", dpi=110)
    FigureCanvasAgg(figure)
    all_axes = figure.subplots(len(panels), 1, squeeze=False)[:, 0]
    judged = {one.device: one for one in outcome.judgements}
    for axes, (one, metric) in zip(all_axes, panels, strict=True):
        _panel(axes, one, metric, outcome)
        title = f"{one.device}: {metric}"
        if len(one.times_us) > _shown(one):
            title += f", the first {_shown(one)} of {len(one.times_us):,} readings"
        if (found := judged.get(one.device)) is not None:
            title += f"; precision {found.precision:.3f}, recall {found.recall:.3f}"
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


def _panel(axes: Axes, one: Series, metric: str, outcome: Outcome) -> None:
    count = _shown(one)
    times = [_time(time_us) for time_us in one.times_us[:count]]
    values = one.values[metric][:count]
    axes.plot(times, values, color=LINE, linewidth=0.8, label="reading")
    step = times[1] - times[0]
    for first, end in demo_data.segments((one.labels or [])[:count]):
        # a reading stands for the time around it
        begin, until = times[first] - step / 2, times[end - 1] + step / 2
        axes.axvspan(begin, until, color=LABELLED, alpha=0.6, linewidth=0, label="labelled")
    last_us = one.times_us[count - 1]
    mine = [
        row
        for row in outcome.incidents
        if (row["device"], row["metric"]) == (one.device, metric) and row["began_us"] <= last_us
    ]
    inside = _inside(one, mine, count)
    axes.scatter(
        [times[place] for place in inside],
        [values[place] for place in inside],
        s=POINT_AREA,
        color=INCIDENT,
        zorder=3,
        label="in an incident",
    )
    told = {alert["id"] for alert in outcome.alerts}
    alerts = [_time(row["began_us"]) for row in mine if row["id"] in told]
    # below the readings, at the edge of the panel
    axes.scatter(
        alerts,
        [0.03] * len(alerts),
        transform=axes.get_xaxis_transform(),
        marker="^",
        s=ALERT_AREA,
        facecolors="none",
        edgecolors=ALERT,
        label="alert received",
    )
    axes.set_ylabel(UNITS.get(metric, ""))
    locator = dates.AutoDateLocator()  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    axes.margins(x=0.01, y=0.12)
    axes.spines[["top", "right"]].set_visible(False)


def _inside(one: Series, incidents: Sequence[dict[str, Any]], count: int) -> list[int]:
    found = found_in(one, incidents)
    return [place for place in range(count) if found[place]]


def _time(time_us: int) -> float:
    """A time as matplotlib counts it: days since 1970."""
    return time_us / US_A_DAY
