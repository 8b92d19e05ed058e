"""The state of a pipeline, for `enmasse pipeline status` and for the console."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import structlog

if TYPE_CHECKING:
    from enmasse.pipeline.paths import Paths
    from enmasse.resources import Pipeline

log = structlog.get_logger(__name__)

INTERVAL_S = 10.0
"""Time between two reports; the platform forgets one after a minute."""


@contextmanager
def reporting(pipeline: "Pipeline", paths: "Paths", namespace: str | None) -> Iterator[None]:
    """Report to the platform of this command line while the body runs, if there is a namespace.

    A report that fails is logged once, and tried again: the pipeline runs without the platform.
    """
    if namespace is None:
        yield
        return
    from enmasse.base.clock import SystemClock
    from enmasse.cli.connect.client import Api

    def send() -> None:
        document = status_of(pipeline, paths, SystemClock().now().timestamp())
        with Api.find(None, None, None) as api:
            api.report_pipeline(namespace, pipeline.metadata.name, document)

    stop = threading.Event()
    thread = threading.Thread(target=repeat, args=(send, stop), name="reports", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(INTERVAL_S)


def repeat(send: Callable[[], None], stop: threading.Event, interval_s: float = INTERVAL_S) -> None:
    """Send a report at each interval until told to stop."""
    is_failing = False
    while True:
        try:
            send()
            is_failing = False
        # A report that fails must not end the pipeline.
        except Exception as error:
            if not is_failing:
                log.warning("state not reported to the platform", reason=str(error))
            is_failing = True
        if stop.wait(interval_s):
            return


def status_of(pipeline: "Pipeline", paths: "Paths", now_s: float) -> dict[str, Any]:
    """Return the state of a pipeline: lag, rows, devices, incidents and alerts."""
    from contextlib import closing

    from enmasse.pipeline.ingest import lag
    from enmasse.pipeline.live.database import Live
    from enmasse.pipeline.metrics import device_counts, source_metrics

    found: dict[str, Any] = {"sources": [], "devices": {}, "incidents": {}}
    found |= {"openIncidents": 0, "alerts": {"waiting": 0, "sent": 0, "rejected": 0}, "state": {}}
    found |= {"written": {}, "troubles": {"source": {}, "address": {}, "gold": {}}}
    if pipeline.spec.live.url or (paths.state / "live.db").exists():
        with closing(Live(paths.live_url, pipeline.spec, pipeline.metadata.name)) as live:
            found = live.status()
    runner = paths.lock_info() or {"pid": None, "metrics": None}
    is_running = runner["pid"] is not None
    lags = {source.name: lag.unread(source, paths) for source in pipeline.spec.sources}
    unread = {
        name: None if parts is None else sum(parts.values())
        for name, parts in lags.items()
        # the query of a queue reports its lag
        if parts is not None or not is_running
    }
    sources = source_metrics(found, now_s, unread)
    healthy = [one["source"] for one in sources if is_running and one["trouble"] is None]
    failures = found.pop("troubles")
    # These are separate for each source.
    refusing = failures["address"]
    found |= device_counts(found, healthy)
    found = {name: found[name] for name in found if name not in ("sources", "written")}
    found["refusingAddresses"] = refusing
    head = {"pipeline": pipeline.metadata.name, "running": is_running} | runner
    head |= {"tables": paths.tables, "sources": sources}
    return head | {"gold": _gold(pipeline, paths, failures["gold"], now_s)} | found


def _gold(
    pipeline: "Pipeline", paths: "Paths", failures: dict[str, Any], now_s: float
) -> dict[str, Any]:
    from enmasse.pipeline.gold.progress import progress

    tables = (paths.table("silver"), paths.table("gold"))
    behind = progress(pipeline.metadata.name, *tables)
    return {
        "versionsBehind": 0 if behind is None else behind.versions_behind,
        "lagSeconds": 0.0 if behind is None else behind.lag_s(now_s),
        "trouble": failures.get("gold"),
    }
