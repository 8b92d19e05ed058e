"""Pipelines of a test: their documents, a run to the end of what is there, and what is judged."""

import json
import threading
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow
import yaml
from deltalake import DeltaTable
from pyspark.sql import SparkSession

import batch_engine
import gold_oracle
from enmasse.base.clock import SystemClock
from enmasse.messaging import Data, Message, Properties
from enmasse.pipeline.connector import sink
from enmasse.pipeline.live import database
from enmasse.pipeline.live.database import Live
from enmasse.pipeline.paths import Paths, read
from enmasse.pipeline.run import Run
from enmasse.resources import Pipeline
from published_streams import Log
from spark_session import session


def message(number: int, body: bytes | None = None, **fields: Any) -> Message:
    """A reading of one of three devices, each in one partition, measured when it arrives."""
    record = {"device": f"d{number % 3}", "temperature": float(number % 50)} | fields
    data = json.dumps(record).encode() if body is None else body
    return Message(
        body=Data([data]),
        properties=Properties(
            message_id=str(number), content_type="application/json", group_id=f"d{number % 3}"
        ),
    )


def document(folder: Path, log: Log, source: Any = None, **spec: Any) -> Path:
    """A pipeline of the stream, in a folder."""
    first = {"name": "s", "url": log.url, "address": log.address, "time": "time"}
    first |= {"metrics": ["temperature"], "value": "value", "metric": "metric"} | (source or {})
    whole = {
        "apiVersion": "enmasse.io/v1beta1",
        "kind": "Pipeline",
        "metadata": {"name": "p"},
        "spec": {"sources": [first]} | spec,
    }
    folder.mkdir(exist_ok=True)
    file = folder / "pipeline.yaml"
    file.write_text(yaml.safe_dump(whole))
    return file


def run_once(spark: SparkSession, file: Path) -> list[dict[str, Any]]:
    """Read what is there; return what was told of each batch."""
    pipeline, paths = read(file)
    told: list[dict[str, Any]] = []
    with (
        paths.locked(),
        closing(Live(paths.live_url, pipeline.spec, pipeline.metadata.name)) as db,
    ):
        run = Run(spark, pipeline, paths, db, SystemClock())
        try:
            run.start(told.append, once=True)
            run.watch(threading.Event())
        finally:
            run.stop()
    return told


def run_in_one_task(file: Path, *, dies: bool) -> None:
    """Read what is there with one task for each sink; die once the sinks of a batch have sent."""
    if dies:
        batch_engine.kill_at((sink, "commit_rejected"), 1, after=False)
    with session(file.parent / "spark", {"spark.sql.shuffle.partitions": "1"}) as spark:
        run_once(spark, file)


def rows(paths: Paths, name: str) -> pyarrow.Table:
    return DeltaTable(paths.table(name)).to_pyarrow_table()


def open_pipeline(file: Path) -> tuple[Pipeline, Paths, Live]:
    pipeline, paths = read(file)
    return pipeline, paths, Live(paths.live_url, pipeline.spec, pipeline.metadata.name)


def check_alerts(file: Path, url: str, address: str) -> list[str]:
    """Each incident is one alert at the address, a stream; return the incidents."""
    _, _, db = open_pipeline(file)
    with closing(db):
        ids = [row["id"] for row in db.rows(database.ANOMALIES)]
    assert Counter(alert["id"] for alert in Log(url, address).bodies()) == Counter(ids)
    return ids


def check_tables(file: Path, sent: int, *, has_gold: bool = True) -> None:
    """Every message is in bronze once, silver follows, and gold, if its query ran, is what silver
    says."""
    pipeline, paths, db = open_pipeline(file)
    bronze = rows(paths, "bronze")
    place = Counter(zip(bronze["partition"].to_pylist(), bronze["offset"].to_pylist(), strict=True))
    assert (len(bronze), len(place)) == (sent, sent)
    silver = rows(paths, "silver")
    if has_gold:
        wanted = gold_oracle.expected(silver, pipeline.spec.windows)
        assert gold_oracle.differences(rows(paths, "gold").to_pylist(), wanted) == []
    with closing(db):
        # One row a period: a run may cross its end.
        usage = db.rows(database.USAGE)
        (progress,) = db.rows(database.PROGRESS)
    assert (sum(row["messages"] for row in usage), progress["messages"]) == (sent, sent)
    readings = sum(row["readings"] for row in usage)
    assert (readings, progress["readings"]) == (len(silver), len(silver))
