"""A pipeline from end to end, on the Spark and the platform that all pipeline tests share."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from enmasse.base.clock import SystemClock
from enmasse.pipeline.ingest import batches, report
from enmasse.pipeline.ingest.store import Store
from enmasse.pipeline.live import database
from pipeline_runs import check_tables, document, message, open_pipeline, run_once
from platform_process import Platform
from published_streams import Log, drained

pytestmark = pytest.mark.timeout(400)


def test_tables_alerts_and_forwarded_rows_are_exact(
    spark: SparkSession, streams: Platform, numbers: Iterator[int], log: Log, tmp_path: Path
) -> None:
    target = Log(log.url, f"s{next(numbers)}")
    hot = {"name": "hot", "metric": "temperature", "threshold": {"above": 48.5}, "cooldown": 0}
    hot["alertAddress"] = "q0"
    on = {"name": "warm", "address": target.address, "where": "value >= 45"}
    source = {"maxRows": 60, "time": "when"}
    file = document(tmp_path / "p", log, source, detectors=[hot], sinks=[on], trigger="1s")
    # a second apart: incidents of a device with the same start are one incident
    begin = int(SystemClock().now().timestamp()) - 3600
    sent = log.publish(
        message(number, when=begin + number, temperature=float(number % 50))
        for number in range(120)
    )
    run_once(spark, file)
    check_tables(file, sent)
    run_once(spark, file)
    pipeline, paths, db = open_pipeline(file)
    with closing(db):
        incidents = db.rows(database.ANOMALIES)
        assert db.status()["alerts"] == {"waiting": 0, "sent": 2, "rejected": 0}
    alerts = drained(log.url, "q0")
    assert [one.properties.correlation_id for one in alerts] == [one["id"] for one in incidents]
    store = Store(pipeline, paths)
    (chosen,) = pipeline.spec.sources
    options = batches.options(chosen, paths)
    found = report.source(spark, "s", options, store, "earliest", "latest", None)
    assert (found["messages"], found["exact"]) == (sent, True)
    assert sum(part["bronze"]["count"] for part in found["parts"]) == sent
    said = {"pipeline": "p", "sources": [found], "gold": report.gold(spark, store)}
    assert report.text(said).startswith("s: 120 messages, each is in bronze once\ngold: ")
    # the forwarded rows are a stream, which another pipeline reads
    forwarded = document(tmp_path / "q", target, {"metric": "metric", "metrics": []})
    run_once(spark, forwarded)
    check_tables(forwarded, 10)
    log.publish([message(120)])
    later = report.source(spark, "s", options, store, "earliest", "latest", None)
    (differing,) = [part for part in later["parts"] if not part["exact"]]
    text = report.text(said | {"sources": [later]})
    assert f"partition {differing['partition']}, {differing['hour']}: " in text
    assert json.loads(json.dumps(later)) == later
