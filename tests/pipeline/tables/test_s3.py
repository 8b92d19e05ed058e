"""A pipeline with its tables and checkpoints in a bucket of a real S3 server."""

import json
import random
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import httpx2
import pytest
from deltalake import DeltaTable

from enmasse.pipeline.connector.source import SAMPLE_ROWS, SAMPLES
from enmasse.pipeline.paths import Paths, read
from object_store import jars, requests, s3_server
from pipeline_runs import check_tables, document, message
from pipeline_supervisor import UNAVAILABLE, Supervisor
from platform_process import ENMASSE, Platform
from published_streams import Log

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]
BUCKET = "tables-of-tests"
WAVE, MANY = 150, 3000
LOCKED = 5
PARTITIONS = 2


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An empty bucket, configured by the environment, without the jars for Spark."""
    with s3_server(tmp_path, BUCKET) as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield f"s3://{BUCKET}"


@pytest.fixture
def with_jars(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ",".join(map(str, jars()))
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--jars {words} pyspark-shell")


def stream(platform: Platform, name: str, address: str) -> Log:
    options = ("--address", address, "--retention-age", "1d", "--partitions", str(PARTITIONS))
    platform.enmasse("create", "address", name, "--type", "topic", *options)
    return Log(platform.url(), address)


def run_command(file: Path, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a command of the pipeline and check its exit status."""
    done = subprocess.run(
        [ENMASSE, "pipeline", *words, "-f", file, "--output", "json"],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done


def json_of(file: Path, *words: str) -> Any:
    return json.loads(run_command(file, *words).stdout)


@pytest.mark.usefixtures("with_jars")
def test_a_run_with_tables_in_a_bucket_continues_after_a_kill(
    platform: Platform, bucket: str, tmp_path: Path
) -> None:
    log = stream(platform, "far", "far/a=5%+é")
    file = document(
        tmp_path / "p",
        log,
        {"maxRows": 60},
        tables={"path": f"{bucket}/a/tables", "compactEvery": 3},
        sinks=[{"name": "hot", "address": "nowhere", "where": "value > 48.5"}],
        trigger="100ms",
    )
    sent = log.publish(message(number) for number in range(WAVE))
    with closing(Supervisor(file)) as run:
        run.until(WAVE // 2)
        assert "in use by process" in run_command(file, "run", "--once", code=LOCKED).stderr
        run.kill("driver", random.Random(0))
        sent += log.publish(message(number) for number in range(sent, sent + WAVE))
        run.until(sent)
        run.stop()
    check_tables(file, sent, has_gold=False)
    _, paths = read(file)
    rejected = DeltaTable(paths.table("rejected")).to_pyarrow_table()
    assert len(rejected) == sent // 50
    # an unknown body is quarantined, until the document is corrected and a backfill reads it
    sent += log.publish([message(sent, b'{"device": "x", "celsius": 1}')])
    run_command(file, "run", "--once")
    status = json_of(file, "status")
    assert (status["tables"], status["sources"][0]["messages"]) == (f"{bucket}/a/tables", sent)
    assert status["sources"][0]["quarantined"] == 1
    exact = json_of(file, "reconcile")
    assert (exact["exact"], exact["sources"][0]["messages"], exact["gold"]["exact"]) == (
        *(True, sent, True),
    )
    file.write_text(file.read_text().replace("- temperature", "- temperature\n    - celsius"))
    # Spark and delta-rs write objects where they stay
    copies = [path for _, path, copied in requests(tmp_path) if copied]
    assert [path for path in copies if re.search("/(bronze|silver|quarantine|gold)/", path)] == []
    assert json_of(file, "backfill")["sources"][0]["quarantined"] == 0
    assert json_of(file, "reconcile")["exact"]


def delivered(platform: Platform, address: str) -> int:
    """The messages that the server has delivered to readers of a stream."""
    page = httpx2.get(f"{platform.url('http')}/metrics?addresses=all").text
    named = rf'^enmasse_address_delivered_total{{.*address="{address}".*}} (\d+)'
    found = re.search(named, page, re.MULTILINE)
    assert found is not None, page
    return int(found[1])


def data_files(paths: Paths) -> Iterator[str]:
    """The paths of all files of the tables, as in requests for them."""
    for name in ("bronze", "silver", "gold"):
        root = paths.table(name).partition("://")[2]
        for file in DeltaTable(paths.table(name)).file_uris():
            yield f"/{root}{file.partition(root)[2]}"


@pytest.mark.usefixtures("with_jars")
def test_each_message_is_read_once_and_each_file_put_once(
    platform: Platform, bucket: str, tmp_path: Path
) -> None:
    log = stream(platform, "plain", "plain")
    # s3a names the same bucket as s3
    tables = {"path": bucket.replace("s3:", "s3a:"), "compactEvery": 100}
    file = document(tmp_path / "p", log, {"maxRows": MANY}, tables=tables)
    sent, batches = 0, 2
    for _ in range(batches):
        sent += log.publish(message(number) for number in range(sent, sent + MANY))
        run_command(file, "run", "--once")
    # the planner reads samples of a batch, for the limit of its bytes; partitions round them up
    samples = batches * (SAMPLES + PARTITIONS) * SAMPLE_ROWS
    assert sent <= delivered(platform, "plain") <= sent + samples
    found = [(method, unquote(path), copied) for method, path, copied in requests(tmp_path)]
    wanted = Counter(data_files(read(file)[1]))
    assert (
        Counter(path for method, path, _ in found if method == "PUT" and path in wanted) == wanted
    )
    assert [path for _, path, copied in found if copied and path in wanted] == []
    exact = json_of(file, "reconcile")
    assert (exact["exact"], exact["sources"][0]["messages"]) == (True, sent)


def test_a_spark_without_jars_for_buckets_names_them(
    platform: Platform, bucket: str, tmp_path: Path
) -> None:
    file = document(tmp_path / "p", stream(platform, "none", "none"), tables={"path": bucket})
    refusal = run_command(file, "run", "--once", code=UNAVAILABLE).stderr
    assert f"tables at {bucket}: this Spark has no jars for buckets" in refusal
    assert "--packages org.apache.hadoop:hadoop-aws:3" in refusal
    assert ",org.apache.spark:spark-hadoop-cloud_2.13:" in refusal
