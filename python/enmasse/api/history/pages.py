"""GET on `query_range`: past values in the form of Prometheus."""

import asyncio
import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from enmasse.api.history.evaluation import (
    Point,
    Steps,
    Values,
    aggregated,
    evaluate,
    joined,
    points,
    ring_for,
)
from enmasse.api.history.history import History
from enmasse.api.history.prometheus import Period, Prometheus
from enmasse.api.history.query import Query, parse, refused, seconds
from enmasse.api.history.recorder import COLUMNS
from enmasse.api.history.rings import COARSE, FINE, Ring, Row
from enmasse.api.history.storage import Run, Series
from enmasse.api.platform import Platform
from enmasse.base.errors import Code, Unavailable

POINTS_MAX = 11_000
"""Maximum steps of an answer, as in Prometheus."""

SERIES_MAX = 1000
"""Maximum series that a query selects."""

READ_MAX = 2_000_000
"""Maximum points that a query reads: series times steps of their ring."""

ANSWERS_MAX = 64
"""Answers kept for others with the same query, until the next sample."""

_AGE = "oldest_message_s"


class Metric(NamedTuple):
    """A metric and its column."""

    kind: str
    column: str


METRICS: Mapping[str, Metric] = {
    "enmasse_address_stored_messages": Metric("address", "stored_messages"),
    "enmasse_address_stored_bytes": Metric("address", "stored_bytes"),
    "enmasse_address_oldest_message_age_seconds": Metric("address", _AGE),
    "enmasse_address_senders": Metric("address", "senders"),
    "enmasse_address_receivers": Metric("address", "receivers"),
    "enmasse_address_enqueued_messages_total": Metric("address", "enqueued_messages"),
    "enmasse_address_delivered_total": Metric("address", "delivered"),
    "enmasse_address_bytes_total": Metric("address", "bytes"),
    "enmasse_space_connections": Metric("space", "connections"),
    "enmasse_space_links": Metric("space", "links"),
    "enmasse_space_messages_in_total": Metric("space", "messages_in"),
    "enmasse_space_messages_out_total": Metric("space", "messages_out"),
    "enmasse_space_bytes_in_total": Metric("space", "bytes_in"),
    "enmasse_space_bytes_out_total": Metric("space", "bytes_out"),
    "enmasse_space_stored_messages": Metric("space", "stored_messages"),
    "enmasse_space_stored_bytes": Metric("space", "stored_bytes"),
}
"""The metrics, with the names of `/metrics`."""


class HistoryPages:
    """The path `query_range`."""

    def __init__(self, platform: Platform, prometheus: Prometheus | None = None) -> None:
        """With a `prometheus`, values come from there."""
        self._platform = platform
        self._prometheus = prometheus
        self._answers: OrderedDict[tuple[object, ...], list[dict[str, Any]]] = OrderedDict()

    async def query_range(self, request: Request) -> Response:
        """Answer a query over a period, of a namespace or of all."""
        history = self._platform.history()
        if history is None and self._prometheus is None:
            raise Unavailable(
                Code.STANDING_BY,
                "another process of the same database serves messaging and has the history; send"
                " the request to that process",
            )
        namespace = request.path_params.get("namespace")
        text = request.query_params.get("query", "")
        query, steps = parse(text), _steps(request.query_params)
        _metric(query)
        if self._prometheus is not None:
            found = await self._prometheus.query_range(query, namespace, Period(*steps))
            return _answered(found)
        assert history is not None
        key = (namespace, text, steps, history.runs[-1:] and history.runs[-1].end_s)
        if key not in self._answers:
            self._answers[key] = await self._answer(history, namespace, query, steps)
            while len(self._answers) > ANSWERS_MAX:
                self._answers.popitem(last=False)
        return _answered(self._answers[key])

    async def _answer(
        self, history: History, namespace: str | None, query: Query, steps: Steps
    ) -> list[dict[str, Any]]:
        metric = _metric(query)
        selected = [
            (one, labels)
            for one in history.series
            if one.kind == metric.kind
            and namespace in (None, (labels := labels_of(one, query.selector.metric))["namespace"])
            and query.selector.selects(labels)
        ]
        now_s = self._platform.clock.now().timestamp()
        ring = ring_for(steps.start_s, now_s, query.range_s)
        _check_size(selected, ring, steps, query)
        read = [one for one, _ in selected]
        from_s = int(steps.start_s) - max(query.range_s, 2 * ring.step_s)
        rows = await history.rows(read, ring, from_s, int(steps.end_s))
        coarse_from_s = from_s - COARSE.step_s
        coarse: list[list[Row]] = [[] for _ in read]
        if ring is not COARSE:
            coarse = await history.rows(read, COARSE, coarse_from_s, int(steps.end_s))
        work = _Work(query, metric, steps, ring, history.runs, from_s)
        return await asyncio.to_thread(
            work.result, [labels for _, labels in selected], rows, coarse
        )


def _metric(query: Query) -> Metric:
    """Return the metric of a query.

    Raises: Invalid if it is not recorded.
    """
    metric = METRICS.get(query.selector.metric)
    if metric is None:
        known = ", ".join(METRICS)
        raise refused(f"metric {query.selector.metric!r} is not recorded; metrics: {known}")
    return metric


def _answered(result: list[dict[str, Any]]) -> Response:
    return JSONResponse({"status": "success", "data": {"resultType": "matrix", "result": result}})


class _Work(NamedTuple):
    """The evaluation of a query, which runs in a thread."""

    query: Query
    metric: Metric
    steps: Steps
    ring: Ring
    runs: Sequence[Run]
    from_s: int

    def result(
        self,
        labels: Sequence[Mapping[str, str]],
        rows: Sequence[Sequence[Row]],
        coarse: Sequence[Sequence[Row]],
    ) -> list[dict[str, Any]]:
        """Return the result in the form of Prometheus."""
        evaluated = [
            (of, self._values(fine, before))
            for of, fine, before in zip(labels, rows, coarse, strict=True)
        ]
        found = aggregated(self.query, [(of, values) for of, values in evaluated if values])
        return [
            {
                "metric": dict(of),
                "values": [[_number(at), _text(values[at])] for at in sorted(values)],
            }
            for of, values in sorted(found.items())
        ]

    def _values(self, fine: Sequence[Row], coarse: Sequence[Row]) -> Values:
        column = COLUMNS[self.metric.kind].index(self.metric.column)
        period = (float(self.from_s), self.steps.end_s)
        found = points(fine, column, self.ring, self.runs, period)
        ring = self.ring
        if coarse:
            found = joined(found, points(coarse, column, COARSE, self.runs, period))
            ring = COARSE if not fine else ring
        if self.metric.column == _AGE:
            found = [Point(at, at - value if value else 0.0) for at, value in found]
        return evaluate(self.query, found, self.steps, ring)


def labels_of(one: Series, metric: str) -> dict[str, str]:
    """Return the labels of a series."""
    labels = {
        "__name__": metric,
        "space": one.space,
        "namespace": one.space.partition(".")[2],
    }
    return labels | ({"address": one.name} if one.kind == "address" else {})


def _check_size(selected: Sequence[object], ring: Ring, steps: Steps, query: Query) -> None:
    if len(selected) > SERIES_MAX:
        raise refused(
            f"selects {len(selected)} series; the maximum is {SERIES_MAX}. Add matchers, or use"
            " the metrics of spaces"
        )
    per_series = (steps.end_s - steps.start_s + query.range_s) / ring.step_s
    if len(selected) * per_series > READ_MAX:
        raise refused("reads too many points; select fewer series or a shorter period")


def _steps(parameters: QueryParams) -> Steps:
    """Parse the times of a query.

    Raises: Invalid if one is malformed, or there are too many steps.
    """
    start_s, end_s = (_time(parameters.get(name, ""), name) for name in ("start", "end"))
    step_s = _step(parameters.get("step", ""))
    if end_s < start_s:
        raise refused("end must not be before start")
    if (end_s - start_s) / step_s > POINTS_MAX:
        raise refused(f"has more than {POINTS_MAX} steps; use a larger step")
    return Steps(start_s, end_s, step_s)


def _time(text: str, name: str) -> float:
    try:
        moment = float(text)
    except ValueError:
        try:
            found = datetime.fromisoformat(text)
        except ValueError:
            found = None
        if found is None or found.tzinfo is None:
            raise refused(f"{name} must be seconds since 1970 or RFC 3339") from None
        return found.timestamp()
    if not (math.isfinite(moment) and 0 <= moment < 1e12):
        raise refused(f"{name} must be seconds since 1970 or RFC 3339")
    return moment


def _step(text: str) -> float:
    try:
        step_s = float(text)
    except ValueError:
        step_s = seconds(text)
    if not (math.isfinite(step_s) and step_s >= 1):
        raise refused(f"step must be at least 1 second; the finest resolution is {FINE.step_s} s")
    return step_s


def _number(value: float) -> float | int:
    return int(value) if value == int(value) else value


def _text(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
