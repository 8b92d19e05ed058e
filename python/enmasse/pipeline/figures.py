"""Figures of a pipeline, for `enmasse pipeline status` and, in the text format of Prometheus, for
`/metrics` of the process that runs it.

Names are stable. Counters are those of live state: they go on where they were after a restart.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from enmasse.base.clock import Clock
from enmasse.base.errors import Code, Unavailable
from enmasse.pipeline.gold.progress import Progress
from enmasse.pipeline.live.database import Live

HOST = "127.0.0.1"
US_A_S = 1e6
Lags = Callable[[], Mapping[str, Mapping[int, int]]]
"""Messages that wait, by source and partition."""
Behind = Callable[[], Progress | None]
"""How far gold is."""

_OF_SOURCES = (
    (CounterMetricFamily, "messages", "Messages read.", "messages"),
    (CounterMetricFamily, "readings", "Readings that are in silver.", "readings"),
    (CounterMetricFamily, "quarantined", "Records that are no readings.", "quarantined"),
    (CounterMetricFamily, "late", "Readings later than the shortest window.", "late"),
    (CounterMetricFamily, "skipped", "Readings that detectors skip.", "skipped"),
    (CounterMetricFamily, "clamped", "Readings whose clock was ahead.", "clamped"),
    (CounterMetricFamily, "batches", "Batches that are in.", "batches"),
    (GaugeMetricFamily, "lag_seconds", "How old is what has been read.", "lagSeconds"),
    (GaugeMetricFamily, "batch_seconds", "How long the last batch took.", "batchSeconds"),
)


_NOTHING: dict[str, Any] = dict.fromkeys(
    ("messages", "readings", "quarantined", "late", "skipped", "clamped"), 0
)
_NOTHING |= {"batch_id": -1, "known_to_us": 0, "lag_messages": None, "batch_ms": None}


def of_sources(live: Mapping[str, Any], now_s: float) -> list[dict[str, Any]]:
    """Return the figures of each source, out of what live state says at a time.

    A source in trouble may have none yet.
    """
    troubles = live["troubles"]["source"]
    begun = {one["source"] for one in live["sources"]}
    idle = [_NOTHING | {"source": name} for name in troubles if name not in begun]
    found = []
    for one in [*live["sources"], *idle]:
        lag, known_to_us = one["lag_messages"], one["known_to_us"]
        known = one["batch_id"] >= 0 and known_to_us > 0
        lag_s = None if lag is None or not known else max(0.0, now_s - known_to_us / US_A_S)
        found.append(
            {
                "source": one["source"],
                "batch": one["batch_id"],
                **{name: one[name] for name in ("messages", "readings", "quarantined", "late")},
                **{name: one[name] for name in ("skipped", "clamped")},
                "lagMessages": lag,
                "lagSeconds": 0.0 if lag == 0 else lag_s,
                "batchMs": one["batch_ms"],
                "written": live["written"].get(one["source"], {}),
                "trouble": troubles.get(one["source"]),
            }
        )
    return found


class _Figures(Collector):
    def __init__(self, pipeline: str, live: Live, lags: Lags, behind: Behind, clock: Clock) -> None:
        self._pipeline = pipeline
        self._live = live
        self._lags = lags
        self._behind = behind
        self._clock = clock

    def collect(self) -> Iterator[Metric]:
        found = self._live.status()
        sources = of_sources(found, self._clock.now().timestamp())
        yield from self._of_sources(sources)
        lag = self._gauge("lag_messages", "Messages that wait to be read.", "source", "partition")
        for source, parts in self._lags().items():
            for part, count in parts.items():
                lag.add_metric([self._pipeline, source, str(part)], count)
        yield lag
        yield from self._of_gold(found)
        state = self._gauge("state_rows", "Rows of live state.", "table")
        for table, count in found["state"].items():
            state.add_metric([self._pipeline, table], count)
        yield state
        incidents = self._counter("incidents", "Incidents that were found.", "detector")
        for detector, count in found["incidents"].items():
            incidents.add_metric([self._pipeline, detector], count)
        yield incidents
        alerts = self._gauge("alerts", "Alerts and commands by what became of them.", "outcome")
        for outcome, count in found["alerts"].items():
            alerts.add_metric([self._pipeline, outcome], count)
        yield alerts
        refusing = self._gauge("refusing_addresses", "Addresses that take no alerts now.")
        refusing.add_metric([self._pipeline], len(found["troubles"]["address"]))
        yield refusing
        for name, text, key in (
            ("devices", "Devices that were heard.", "devices"),
            ("devices_online", "Devices that are heard.", "online"),
            ("open_incidents", "Incidents that last.", "openIncidents"),
        ):
            gauge = self._gauge(name, text)
            gauge.add_metric([self._pipeline], found[key])
            yield gauge

    def _of_gold(self, found: Mapping[str, Any]) -> Iterator[Metric]:
        behind = self._behind()
        lag_s = 0.0 if behind is None else behind.lag_s(self._clock.now().timestamp())
        lag = self._gauge("gold_lag_seconds", "Age of the oldest commit of silver not in gold.")
        lag.add_metric([self._pipeline], lag_s)
        troubled = self._gauge("gold_troubled", "1: the gold query fails.")
        troubled.add_metric([self._pipeline], len(found["troubles"]["gold"]))
        yield from (lag, troubled)

    def _of_sources(self, sources: list[dict[str, Any]]) -> Iterator[Metric]:
        for kind, name, text, key in _OF_SOURCES:
            family = kind(f"enmasse_pipeline_{name}", text, labels=["pipeline", "source"])
            for one in sources:
                batch_ms = one["batchMs"]
                derived = {"batches": one["batch"] + 1}
                derived["batchSeconds"] = None if batch_ms is None else batch_ms / 1000
                value = derived[key] if key in derived else one[key]
                if value is not None:
                    family.add_metric([self._pipeline, one["source"]], value)
            yield family
        troubled = self._gauge("source_troubled", "1: an error has ended the source.", "source")
        written = self._counter("rows_written", "Rows out.", "source", "target")
        for one in sources:
            troubled.add_metric([self._pipeline, one["source"]], one["trouble"] is not None)
            for target, rows in one["written"].items():
                written.add_metric([self._pipeline, one["source"], target], rows)
        yield from (troubled, written)

    def _gauge(self, name: str, text: str, *labels: str) -> GaugeMetricFamily:
        return GaugeMetricFamily(f"enmasse_pipeline_{name}", text, labels=["pipeline", *labels])

    def _counter(self, name: str, text: str, *labels: str) -> CounterMetricFamily:
        return CounterMetricFamily(f"enmasse_pipeline_{name}", text, labels=["pipeline", *labels])


def registry(
    pipeline: str, live: Live, lags: Lags, behind: Behind, clock: Clock
) -> CollectorRegistry:
    """Return what makes the figures when it is asked for them."""
    found = CollectorRegistry()
    found.register(_Figures(pipeline, live, lags, behind, clock))
    return found


@contextmanager
def served(of: CollectorRegistry, port: int | None) -> Iterator[str | None]:
    """Serve `/metrics` on loopback and yield its URL; 0 is a free port, None serves nothing.

    Raises Unavailable if the port is taken.
    """
    if port is None:
        yield None
        return
    try:
        server, thread = start_http_server(port, HOST, of)
    except OSError as error:
        raise Unavailable(
            Code.PORT_TAKEN,
            f"cannot serve /metrics on {HOST}:{port}: {error.strerror}; name another"
            " --metrics-port, or `off`",
        ) from None
    try:
        yield f"http://{HOST}:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
