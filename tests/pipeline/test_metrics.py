"""Metrics of a pipeline at `/metrics`."""

import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from doubles import TestClock
from enmasse.base.errors import Conflict, Unavailable
from enmasse.pipeline import metrics
from enmasse.pipeline.failures import Failure
from enmasse.pipeline.gold.progress import Progress
from enmasse.pipeline.live.database import Live
from enmasse.pipeline.metrics import PipelineCollector
from enmasse.resources.pipeline import PipelineSpec
from silver_readings import Batch, measured, put_in, us

HOT = {"name": "hot", "metric": "m", "threshold": {"above": 30}, "alertAddress": "alerts"}


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Live]:
    source = {"name": "s", "url": "amqp://h", "address": "x", "value": "value"}
    spec = PipelineSpec.model_validate({"sources": [source], "detectors": [HOT]}, by_alias=True)
    live = Live(f"sqlite:///{tmp_path / 'live.db'}", spec)
    live.claim("s", "q")
    yield live
    live.close()


def scraped(url: str) -> dict[tuple[str, ...], float]:
    """Each sample by its name and the values of its labels, in the order of their names."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        text = answer.read().decode()
    return {
        (
            sample.name.removeprefix("enmasse_pipeline_"),
            *(value for _, value in sorted(sample.labels.items())),
        ): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_show_live_state_and_lag(db: Live) -> None:
    clock = TestClock()
    rows = measured({"value": 40.0}, {"came": 90, "device": "b"}, {"clamped": True, "device": "c"})
    old = measured({"value": 40.0, "seconds": -5, "came": 0}, first=3)
    day = {"space": "sp", "address": "x", "date": "2026-01-31", "bytes": 9}
    usage = day | {"messages": 4, "readings": 3, "quarantined": 2}
    came_s = clock.now().timestamp() - us(0) / 1e6 - 3
    written = {"bronze": 4, "silver": 3, "sinks/hot": 1}
    put_in(db, Batch("s", "q", 6, rows, [usage], us(came_s), written))
    # a repeated batch writes nothing
    assert not put_in(db, Batch("s", "q", 6, rows, [usage], us(came_s), written))
    assert put_in(db, Batch("s", "q", 7, old, [], us(came_s)))
    db.record_progress("s", "q", 12, 250)
    of = PipelineCollector("p", db, lambda: {"s": {0: 5, 1: 7}}, lambda: None, clock)
    with metrics.serve(of, 0) as url:
        assert url is not None and url.endswith("/metrics")
        found = scraped(url)
    assert {name: found[name, "p", "s"] for name in (
        "messages_total", "readings_total", "quarantined_total", "late_total", "clamped_total",
        "batches_total", "batch_seconds", "skipped_total",
    )} == {
        "messages_total": 4, "readings_total": 4, "skipped_total": 1,
        "quarantined_total": 2, "late_total": 1,
        "clamped_total": 1, "batches_total": 8, "batch_seconds": 0.25,
    }  # fmt: skip
    assert found["lag_seconds", "p", "s"] == pytest.approx(3, abs=0.01)
    assert [found["lag_messages", part, "p", "s"] for part in "01"] == [5, 7]
    assert found["incidents_total", "hot", "p"] == found["open_incidents", "p"] == 1
    assert (found["alerts", "waiting", "p"], found["alerts", "sent", "p"]) == (1, 0)
    assert (found["devices", "p"], found["state_rows", "p", "detector_states"]) == (3, 1)
    assert [found["rows_written_total", "p", "s", to] for to in written] == [4, 3, 1]
    # last values, devices, sessions, the state of a detector, and a day of usage
    assert found["rows_written_total", "p", "s", "live"] == 3 + 3 + 3 + 1 + 1 + 3
    assert (found["source_troubled", "p", "s"], found["refusing_addresses", "p"]) == (0, 0)
    with pytest.raises(OSError):
        scraped(url)


def test_failures_of_sources_and_addresses_are_metrics(db: Live) -> None:
    clock = TestClock()
    failure = Failure(Conflict("E4000", "it was made anew"), clock.now(), 2)
    db.record_failures("source", {"s": failure, "new": failure})
    db.record_failures("address", {"alerts": failure})
    db.record_failures("gold", {"gold": failure})
    behind = Progress(7, 4, int(clock.now().timestamp() * 1000) - 2500)
    with metrics.serve(PipelineCollector("p", db, dict, lambda: behind, clock), 0) as url:
        assert url is not None
        found = scraped(url)
    assert found["source_troubled", "p", "s"] == found["source_troubled", "p", "new"] == 1
    assert found["refusing_addresses", "p"] == 1
    assert (found["gold_lag_seconds", "p"], found["gold_troubled", "p"]) == (2.5, 1)
    failures = {
        one["source"]: one["trouble"] for one in metrics.source_metrics(db.status(), 0.0, {})
    }
    assert failures["s"] == failures["new"]
    assert (failures["s"]["error"], failures["s"]["tries"]) == ("it was made anew", 2)
    db.record_failures("source", {})
    assert [one["trouble"] for one in metrics.source_metrics(db.status(), 0.0, {})] == [None]
    assert db.status()["troubles"]["address"]["alerts"]["tries"] == 2


def test_a_failing_source_has_the_lag_of_its_server_and_devices_of_unknown_state(
    db: Live,
) -> None:
    clock = TestClock()
    came_s = clock.now().timestamp() - us(0) / 1e6 - 3
    put_in(db, Batch("s", "q", 0, measured({}, {"device": "b"}), [], us(came_s)))
    db.record_progress("s", "q", 0, 250)
    lags: dict[str, dict[int, int] | None] = {}
    with metrics.serve(PipelineCollector("p", db, lambda: lags, lambda: None, clock), 0) as url:
        assert url is not None
        found = scraped(url)
        assert found["lag_seconds", "p", "s"] == 0
        assert (found["devices_online", "p"], found["devices_unknown", "p"]) == (2, 0)
        failure = Failure(Conflict("E4000", "it was created again"), clock.now())
        db.record_failures("source", {"s": failure})
        lags["s"] = {0: 7}
        found = scraped(url)
        assert found["lag_messages", "0", "p", "s"] == 7 and found["lag_seconds", "p", "s"] > 0
        assert (found["devices_online", "p"], found["devices_unknown", "p"]) == (0, 2)
        # neither does its server answer
        lags["s"] = None
        assert not {name for name, *_ in scraped(url)} & {"lag_seconds", "lag_messages"}


def test_unknown_values_are_absent(db: Live) -> None:
    with metrics.serve(PipelineCollector("p", db, dict, lambda: None, TestClock()), 0) as url:
        assert url is not None
        found = scraped(url)
    assert found["messages_total", "p", "s"] == 0
    assert not {name for name, *_ in found} & {"lag_seconds", "batch_seconds", "lag_messages"}


def test_metrics_port_in_use_is_an_error_and_no_port_disables_metrics(db: Live) -> None:
    of = PipelineCollector("p", db, dict, lambda: None, TestClock())
    with metrics.serve(of, None) as url:
        assert url is None
    with socket.socket() as taken:
        taken.bind((metrics.HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(Unavailable, match="--metrics-port"), metrics.serve(of, port):
            pass
