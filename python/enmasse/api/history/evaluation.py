"""Evaluates queries over rows of the rings, with the arithmetic of Prometheus. Pure.

Rows are expanded to points at the step of their ring: a value holds until the next row, the end of
its run, or an end row. `rate` and `increase` extrapolate as Prometheus does.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from enmasse.api.history.query import Query
from enmasse.api.history.rings import FINE, RINGS, Ring, Row
from enmasse.api.history.storage import Run

LOOKBACK_S = 300
"""How long an instant value is shown after its point, at least; longer for a coarse ring."""


class Point(NamedTuple):
    """One value of a metric."""

    time_s: float
    value: float


class Steps(NamedTuple):
    """The times of an answer."""

    start_s: float
    end_s: float
    step_s: float

    def times(self) -> list[float]:
        """Return each time."""
        count = int((self.end_s - self.start_s) / self.step_s + 1e-9) + 1
        return [self.start_s + number * self.step_s for number in range(count)]


Labels = tuple[tuple[str, str], ...]
Values = dict[float, float]
"""Values by time."""


def ring_for(start_s: float, now_s: float, range_s: int) -> Ring:
    """Return the finest ring that reaches back to a time."""
    needed_s = now_s - start_s + range_s
    return next((ring for ring in RINGS if ring.kept_s >= needed_s), RINGS[-1])


def points(
    rows: Sequence[Row], column: int, ring: Ring, runs: Iterable[Run], steps: tuple[float, float]
) -> list[Point]:
    """Expand rows to the points of a ring between two times.

    `column` is that of the metric in the values.
    """
    from_s, to_s = steps
    found: list[Point] = []
    times = [row.time_s for row in rows]
    for run in runs:
        # The first row of a run need not be at a step of the ring.
        first = max(run.start_s, int(from_s) - int(from_s) % ring.step_s)
        # The run is written every minute: its last row may hold a little longer.
        last = min(run.end_s + FINE.step_s, int(to_s))
        if last < first:
            continue
        ticks = [first, *range(first - first % ring.step_s + ring.step_s, last + 1, ring.step_s)]
        for tick in ticks:
            at = bisect_right(times, tick) - 1
            row = rows[at] if at >= 0 else None
            if row is None or row.values is None or row.time_s < run.start_s:
                continue
            found.append(Point(tick, row.values[column]))
    return found


def evaluate(query: Query, series: Sequence[Point], steps: Steps, ring: Ring) -> Values:
    """Return the values of one series at the steps."""
    if query.function is None:
        return _instant(series, steps, max(LOOKBACK_S, 2 * ring.step_s))
    # A window must have two points.
    range_s = max(query.range_s, 2 * ring.step_s)
    times = [point.time_s for point in series]
    found: Values = {}
    for time_s in steps.times():
        window = series[bisect_right(times, time_s - range_s) : bisect_right(times, time_s)]
        if len(window) >= 2:
            increase = extrapolated(window, time_s - range_s, time_s)
            found[time_s] = increase / range_s if query.function == "rate" else increase
    return found


def extrapolated(window: Sequence[Point], start_s: float, end_s: float) -> float:
    """Return the increase of a counter in a window, by the rule of Prometheus
    (`extrapolatedRate`): to the ends of the window if the points come close to them.
    """
    increase, previous = 0.0, window[0].value
    for point in window[1:]:
        # A counter that falls has restarted at zero.
        increase += point.value if point.value < previous else point.value - previous
        previous = point.value
    covered_s = window[-1].time_s - window[0].time_s
    mean_s = covered_s / (len(window) - 1)
    to_start_s, to_end_s = window[0].time_s - start_s, end_s - window[-1].time_s
    threshold_s = mean_s * 1.1
    if to_start_s >= threshold_s:
        to_start_s = mean_s / 2
    if increase > 0 and window[0].value >= 0:
        # A counter is not below zero before the window.
        to_start_s = min(to_start_s, covered_s * (window[0].value / increase))
    if to_end_s >= threshold_s:
        to_end_s = mean_s / 2
    return increase * (covered_s + to_start_s + to_end_s) / covered_s


def aggregated(
    query: Query, series: Iterable[tuple[Mapping[str, str], Values]]
) -> dict[Labels, Values]:
    """Return the values of a query by labels."""
    groups: defaultdict[Labels, list[Values]] = defaultdict(list)
    for labels, values in series:
        kept = {
            name: text
            for name, text in labels.items()
            if (name in query.by if query.aggregate else name != "__name__" or not query.function)
        }
        groups[tuple(sorted(kept.items()))].append(values)
    if query.aggregate is None:
        return {labels: values for labels, (values, *_) in groups.items()}
    return {labels: _combined(query.aggregate, members) for labels, members in groups.items()}


def _combined(aggregate: str, members: Sequence[Values]) -> Values:
    by_time: defaultdict[float, list[float]] = defaultdict(list)
    for values in members:
        for time_s, value in values.items():
            by_time[time_s].append(value)
    if aggregate == "max":
        return {time_s: max(values) for time_s, values in by_time.items()}
    if aggregate == "sum":
        return {time_s: sum(values) for time_s, values in by_time.items()}
    return {time_s: sum(values) / len(values) for time_s, values in by_time.items()}


def _instant(series: Sequence[Point], steps: Steps, lookback_s: int) -> Values:
    times = [point.time_s for point in series]
    found: Values = {}
    for time_s in steps.times():
        at = bisect_right(times, time_s) - 1
        if at >= 0 and times[at] > time_s - lookback_s:
            found[time_s] = series[at].value
    return found


def joined(fine: Sequence[Point], coarse: Sequence[Point]) -> list[Point]:
    """Return the points of a fine ring, and before its first one those of a coarser ring."""
    if not fine:
        return list(coarse)
    end = bisect_left([point.time_s for point in coarse], fine[0].time_s)
    return [*coarse[:end], *fine]
