"""Metrics of a pipeline, for `enmasse pipeline status` and, in the Prometheus text format, for
`/metrics` of the process that runs it.

Names are stable. Counters come from live state, so they continue after a restart.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from operator import itemgetter
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

_SOURCE = ("source",)
_COUNTER, _GAUGE = CounterMetricFamily, GaugeMetricFamily
_METRICS: dict[str, tuple[Any, tuple[str, ...], str]] = {
    "messages": (_COUNTER, _SOURCE, "Messages read."),
    "readings": (_COUNTER, _SOURCE, "Readings in silver."),
    "quarantined": (_COUNTER, _SOURCE, "Rows in quarantine."),
    "late": (_COUNTER, _SOURCE, "Readings later than the shortest window."),
    "skipped": (_COUNTER, _SOURCE, "Readings that detectors skipped."),
    "clamped": (_COUNTER, _SOURCE, "Readings whose clock was ahead."),
    "batches": (_COUNTER, _SOURCE, "Batches committed."),
    "lag_seconds": (_GAUGE, _SOURCE, "Age of the newest message read."),
    "batch_seconds": (_GAUGE, _SOURCE, "Duration of the last batch."),
    "source_troubled": (_GAUGE, _SOURCE, "1: an error has ended the source."),
    "rows_written": (_COUNTER, ("source", "target"), "Rows written."),
    "lag_messages": (_GAUGE, ("source", "partition"), "Unread messages."),
    "gold_lag_seconds": (_GAUGE, (), "Age of the oldest commit of silver not in gold."),
    "gold_troubled": (_GAUGE, (), "1: the gold query fails."),
    "state_rows": (_GAUGE, ("table",), "Rows of live state."),
    "incidents": (_COUNTER, ("detector",), "Incidents found."),
    "open_incidents": (_GAUGE, (), "Incidents that have not ended."),
    "alerts": (_GAUGE, ("outcome",), "Alerts and commands by outcome."),
    "refusing_addresses": (_GAUGE, (), "Addresses that do not accept alerts."),
    "devices": (_GAUGE, (), "Known devices."),
    "devices_online": (_GAUGE, (), "Devices that are online."),
    "devices_unknown": (_GAUGE, (), "Devices of sources that fail."),
}
"""Metrics by name: their kind, their labels after `pipeline`, and their description."""
_COUNTERS = ("messages", "readings", "quarantined", "late", "skipped", "clamped")
_NO_PROGRESS: dict[str, Any] = dict.fromkeys(_COUNTERS, 0) | {
    **{"batch_id": -1, "known_to_us": 0, "lag_messages": None, "batch_ms": None}
}
Samples = dict[tuple[str, ...], float | None]
"""Values of a metric by those of its labels; None if unknown."""


def source_metrics(
    live: Mapping[str, Any], now_s: float, unread: Mapping[str, int | None]
) -> list[dict[str, Any]]:
    """Return the metrics of each source from the status of live state.

    `unread` has the unread messages at servers, None where that is unknown; live state has what
    the last batch of other sources reported. A source without a batch has no progress.
    """
    failures = live["troubles"]["source"]
    known = {one["source"] for one in live["sources"]}
    idle = [
        _NO_PROGRESS | {"source": name}
        for name in dict.fromkeys([*failures, *unread])
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
                **{name: one[name] for name in _COUNTERS},
                "lagMessages": lag,
                "lagSeconds": 0.0 if lag == 0 else lag_s,
                "batchMs": one["batch_ms"],
                "written": live["written"].get(one["source"], {}),
                "trouble": failures.get(one["source"]),
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


@dataclass(frozen=True)
class PipelineCollector(Collector):
    """Collects the metrics of a pipeline on demand."""

    pipeline: str
    live: Live
    lags: Lags
    gold: Callable[[], Progress | None]
    clock: Clock

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        lags, gold, now_s = self.lags(), self.gold(), self.clock.now().timestamp()
        gold_lag_s = 0.0 if gold is None else gold.lag_s(now_s)
        for name, samples in _samples(self.live.status(), lags, gold_lag_s, now_s).items():
            kind, labels, text = _METRICS[name]
            family = kind(f"enmasse_pipeline_{name}", text, labels=["pipeline", *labels])
            for values, value in samples.items():
                if value is not None:
                    family.add_metric([self.pipeline, *values], value)
            yield family


def _samples(
    status: Mapping[str, Any],
    lags: Mapping[str, Mapping[int, int] | None],
    gold_lag_s: float,
    now_s: float,
) -> dict[str, Samples]:
    """The values of all metrics by name."""
    known = {source: parts for source, parts in lags.items() if parts is not None}
    unread = {source: sum(known[source].values()) if source in known else None for source in lags}
    sources = source_metrics(status, now_s, unread)
    healthy = [one["source"] for one in sources if one["trouble"] is None]
    devices, failures = device_counts(status, healthy), status["troubles"]

    def each(value: Callable[[dict[str, Any]], float | None]) -> Samples:
        return {(one["source"],): value(one) for one in sources}

    return {name: each(itemgetter(name)) for name in _COUNTERS} | {
        "batches": each(lambda one: one["batch"] + 1),
        "lag_seconds": each(itemgetter("lagSeconds")),
        "batch_seconds": each(
            lambda one: None if one["batchMs"] is None else one["batchMs"] / 1000
        ),
        "source_troubled": each(lambda one: one["trouble"] is not None),
        "rows_written": {
            (one["source"], target): rows
            for one in sources
            for target, rows in one["written"].items()
        },
        "lag_messages": {
            (source, str(number)): count
            for source, parts in known.items()
            for number, count in parts.items()
        },
        "gold_lag_seconds": {(): gold_lag_s},
        "gold_troubled": {(): len(failures["gold"])},
        "state_rows": _labelled(status["state"]),
        "incidents": _labelled(status["incidents"]),
        "open_incidents": {(): status["openIncidents"]},
        "alerts": _labelled(status["alerts"]),
        "refusing_addresses": {(): len(failures["address"])},
        "devices": {(): devices["devices"]},
        "devices_online": {(): devices["online"]},
        "devices_unknown": {(): devices["unknown"]},
    }


def _labelled(counts: Mapping[str, int]) -> Samples:
    return {(name,): count for name, count in counts.items()}


@contextmanager
def serve(collector: PipelineCollector, port: int | None) -> Iterator[str | None]:
    """Serve `/metrics` on loopback and yield its URL; 0 is a free port, None serves nothing.

    Raises Unavailable if the port is taken.
    """
    if port is None:
        yield None
        return
    registry = CollectorRegistry()
    registry.register(collector)
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
