"""A pipeline on a cluster whose executors have nothing but Spark and a bare Python."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pipeline_runs import check_tables, document, message
from pipeline_supervisor import Supervisor
from platform_process import ENMASSE, Platform
from postgres_server import PostgresServer
from published_streams import Log
from spark_cluster import Cluster, cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]
WORKERS = 2
WAVE = 400


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster"), WORKERS) as running:
        yield running


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("package") / "package.tar.gz"
    subprocess.run([ENMASSE, "pipeline", "package", file], check=True, timeout=300)
    return file


def test_stream_is_read_exactly_once_after_an_executor_is_killed(
    standalone: Cluster,
    package: Path,
    platform: Platform,
    mortal_database: PostgresServer,
    tmp_path: Path,
) -> None:
    options = ("--retention-age", "1d", "--partitions", "2")
    platform.enmasse("create", "address", "far", "--type", "topic", *options)
    log = Log(platform.url(), "far")
    # executors also run a UDF of the document's functions
    functions = (
        "from pyspark.sql import functions as F, types as T\n"
        "from enmasse.pipeline.functions import step\n"
        "@F.udf(T.DoubleType())\n"
        "def warmer(value):\n"
        "    return value + 100\n"
        "@step\n"
        "def warm(frame):\n"
        "    return frame.withColumn('temperature', warmer('temperature'))\n"
    )
    file = document(
        tmp_path / "p",
        log,
        {"maxRows": 200, "options": {"rowsPerTask": "50"}},
        functions="functions.py",
        live=mortal_database.live_state(tmp_path / "secret"),
        trigger="100ms",
    )
    (tmp_path / "p" / "functions.py").write_text(functions)
    sent = log.publish(message(number) for number in range(WAVE))
    chosen: list[str | Path] = ["--master", standalone.master, "--package", package]
    with closing(Supervisor(file, *chosen)) as run:
        run.until(sent)
        executors, starts = standalone.executors(), run.starts
        assert len(executors) == WORKERS
        sent += log.publish(message(number) for number in range(sent, sent + WAVE))
        os.kill(executors[0], signal.SIGKILL)
        run.until(sent)
        sent += log.publish(message(number) for number in range(sent, sent + WAVE))
        run.until(sent)
        # the killed executor does not return, and the run continues without a restart
        assert executors[0] not in standalone.executors()
        assert run.starts == starts
        run.stop()
    check_tables(file, sent, has_gold=False)
    proved = subprocess.run(
        [ENMASSE, "pipeline", "reconcile", "-f", file, "--output", "json", *chosen],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert proved.returncode == 0, proved.stderr
    (source,) = json.loads(proved.stdout)["sources"]
    assert (source["messages"], source["exact"]) == (sent, True)
