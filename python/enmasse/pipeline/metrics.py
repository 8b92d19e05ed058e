"""Metrics of a pipeline, for `enmasse pipeline status` and, in the Prometheus text format, for
`/metrics` of the process that runs it.

Names are stable. Counters come from live state, so they continue after a restart.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
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
US_PER_S = 1e6
Lags = Callable[[], Mapping[str, Mapping[int, int] | None]]
"""Unread messages by source and partition; None if they are unknown."""
GoldProgress = Callable[[], Progress | None]

_PER_SOURCE = (
    (CounterMetricFamily, "messages", "Messages read.", "messages"),
    (CounterMetricFamily, "readings", "Readings in silver.", "readings"),
    (CounterMetricFamily, "quarantined", "Rows in quarantine.", "quarantined"),
    (CounterMetricFamily, "late", "Readings later than the shortest window.", "late"),
    (CounterMetricFamily, "skipped", "Readings that detectors skipped.", "skipped"),
    (CounterMetricFamily, "clamped", "Readings whose clock was ahead.", "clamped"),
    (CounterMetricFamily, "batches", "Batches committed.", "batches"),
    (GaugeMetricFamily, "lag_seconds", "Age of the newest message read.", "lagSeconds"),
    (GaugeMetricFamily, "batch_seconds", "Duration of the last batch.", "batchSeconds"),
)
_COUNTERS = ("messages", "readings", "quarantined", "late", "skipped", "clamped")
_NO_PROGRESS: dict[str, Any] = dict.fromkeys(_COUNTERS, 0) | {
    "batch_id": -1,
    "known_to_us": 0,
    "lag_messages": None,
    "batch_ms": None,
}


def source_metrics(
    live: Mapping[str, Any], now_s: float, unread: Mapping[str, int | None]
) -> list[dict[str, Any]]:
    """Return the metrics of each source from the status of live state.

    `unread` has the unread messages at servers, None where that is unknown; live state has what
    the last batch of other sources reported. A source without a batch has no progress.
    """
    troubles = live["troubles"]["source"]
    known = {one["source"] for one in live["sources"]}
    idle = [
        _NO_PROGRESS | {"source": name}
        for name in dict.fromkeys([*troubles, *unread])
        if name not in known
    ]
    found = []
    for one in [*live["sources"], *idle]:
        lag = unread.get(one["source"], one["lag_messages"])
        known_to_us = one["known_to_us"]
        has_time = one["batch_id"] >= 0 and known_to_us > 0
        lag_s = None if lag is None or not has_time else max(0.0, now_s - known_to_us / US_PER_S)
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


def device_counts(live: Mapping[str, Any], healthy: Collection[str]) -> dict[str, int]:
    """Return the numbers of devices: known, online, and of unknown state.

    Only a source that is read now says whether its devices are online.
    """
    found = {"devices": 0, "online": 0, "unknown": 0}
    for source, (devices, online) in live["devices"].items():
        found["devices"] += devices
        if source in healthy:
            found["online"] += online
        else:
            found["unknown"] += devices
    return found


class _PipelineCollector(Collector):
    def __init__(
        self, pipeline: str, live: Live, lags: Lags, gold: GoldProgress, clock: Clock
    ) -> None:
        self._pipeline = pipeline
        self._live = live
        self._lags = lags
        self._gold = gold
        self._clock = clock

    def collect(self) -> Iterator[Metric]:
        status, lags = self._live.status(), self._lags()
        unread = {
            source: None if parts is None else sum(parts.values()) for source, parts in lags.items()
        }
        sources = source_metrics(status, self._clock.now().timestamp(), unread)
        yield from self._of_sources(sources)
        lag = self._gauge("lag_messages", "Unread messages.", "source", "partition")
        for source, partitions in lags.items():
            if partitions is None:
                continue
            for partition, count in partitions.items():
                lag.add_metric([self._pipeline, source, str(partition)], count)
        yield lag
        yield from self._of_gold(status)
        yield self._by_label("state_rows", "Rows of live state.", "table", status["state"])
        incidents = self._counter("incidents", "Incidents found.", "detector")
        for detector, count in status["incidents"].items():
            incidents.add_metric([self._pipeline, detector], count)
        yield incidents
        devices = device_counts(
            status, [one["source"] for one in sources if one["trouble"] is None]
        )
        alerts = "Alerts and commands by outcome."
        yield self._by_label("alerts", alerts, "outcome", status["alerts"])
        for name, text, value in (
            (
                "refusing_addresses",
                "Addresses that do not accept alerts.",
                len(status["troubles"]["address"]),
            ),
            ("devices", "Known devices.", devices["devices"]),
            ("devices_online", "Devices that are online.", devices["online"]),
            ("devices_unknown", "Devices of sources that fail.", devices["unknown"]),
            ("open_incidents", "Incidents that have not ended.", status["openIncidents"]),
        ):
            yield self._single(name, text, value)

    def _of_gold(self, status: Mapping[str, Any]) -> Iterator[Metric]:
        progress = self._gold()
        lag_s = 0.0 if progress is None else progress.lag_s(self._clock.now().timestamp())
        text = "Age of the oldest commit of silver not in gold."
        yield self._single("gold_lag_seconds", text, lag_s)
        yield self._single(
            "gold_troubled", "1: the gold query fails.", len(status["troubles"]["gold"])
        )

    def _of_sources(self, sources: list[dict[str, Any]]) -> Iterator[Metric]:
        for kind, name, text, key in _PER_SOURCE:
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
        written = self._counter("rows_written", "Rows written.", "source", "target")
        for one in sources:
            troubled.add_metric([self._pipeline, one["source"]], one["trouble"] is not None)
            for target, rows in one["written"].items():
                written.add_metric([self._pipeline, one["source"], target], rows)
        yield from (troubled, written)

    def _single(self, name: str, text: str, value: float) -> Metric:
        gauge = self._gauge(name, text)
        gauge.add_metric([self._pipeline], value)
        return gauge

    def _by_label(self, name: str, text: str, label: str, values: Mapping[str, int]) -> Metric:
        gauge = self._gauge(name, text, label)
        for value, count in values.items():
            gauge.add_metric([self._pipeline, value], count)
        return gauge

    def _gauge(self, name: str, text: str, *labels: str) -> GaugeMetricFamily:
        return GaugeMetricFamily(f"enmasse_pipeline_{name}", text, labels=["pipeline", *labels])

    def _counter(self, name: str, text: str, *labels: str) -> CounterMetricFamily:
        return CounterMetricFamily(f"enmasse_pipeline_{name}", text, labels=["pipeline", *labels])


def registry(
    pipeline: str, live: Live, lags: Lags, gold: GoldProgress, clock: Clock
) -> CollectorRegistry:
    """Return a registry that collects the metrics on demand."""
    found = CollectorRegistry()
    found.register(_PipelineCollector(pipeline, live, lags, gold, clock))
    return found


@contextmanager
def serve(registry: CollectorRegistry, port: int | None) -> Iterator[str | None]:
    """Serve `/metrics` on loopback and yield its URL; 0 is a free port, None serves nothing.

    Raises Unavailable if the port is taken.
    """
    if port is None:
        yield None
        return
    try:
        server, thread = start_http_server(port, HOST, registry)
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
