"""Spark Connect: reading, writing and `reconcile` work; `run` is refused with a remedy."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import batch_engine
from pipeline_runs import check_tables, document, message
from platform_process import ENMASSE, Platform
from published_streams import Log
from spark_cluster import home, spark_process

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
CLIENT = """
import sys
from pyspark.sql import SparkSession
master, url, source, target, folder = sys.argv[1:]
spark = SparkSession.builder.remote(master).getOrCreate()
to = {"url": url, "address": source}
columns = {"decode": "json", "columns": "offset, temperature double"}
assert spark.read.format("enmasse").options(**to, **columns).load().count() == 90
stream = spark.readStream.format("enmasse").options(**to, columns="body").load()
for round in range(2):
    writer = stream.writeStream.format("enmasse").option("url", url).option("address", target)
    query = writer.option("checkpointLocation", folder).trigger(availableNow=True).start()
    query.awaitTermination()
assert spark.read.format("enmasse").options(url=url, address=target).load().count() == 90
"""
"""A client that reads and writes streams as tables, on a server with the package."""


def enmasse(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [ENMASSE, "pipeline", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Connect server on loopback whose Python has the package."""
    folder = tmp_path_factory.mktemp("connect")
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.ui.enabled": "false",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    chosen = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    words = ["org.apache.spark.deploy.SparkSubmit", "--master", "local[2]", *chosen]
    environment = os.environ | {
        "SPARK_HOME": str(home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }
    said = folder / "server.log"
    words += ["--class", SERVER, "spark-internal"]
    with spark_process(said, r"Connect server started at: .*?:(\d+)", words, environment) as found:
        yield f"sc://127.0.0.1:{found[1]}"


@pytest.mark.timeout(120)
def test_run_refuses_a_spark_connect_url_as_master(tmp_path: Path) -> None:
    file = document(tmp_path / "p", Log("amqp://127.0.0.1:1", "x"))
    refused = enmasse("run", "-f", file, "--master", "sc://127.0.0.1:15002")
    assert refused.returncode == 1
    assert "name the cluster itself, spark://HOST:PORT (`reconcile` takes sc://)" in refused.stderr


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_streams_and_reconcile_work_through_a_spark_connect_server(
    platform: Platform, server: str, tmp_path: Path
) -> None:
    for name in ("source", "target"):
        platform.enmasse("create", "address", name, "--type", "topic", "--retention-age", "1d")
    log = Log(platform.url(), "source")
    sent = log.publish(message(number) for number in range(90))
    words = [server, log.url, "source", "target", str(tmp_path / "checkpoint")]
    subprocess.run([sys.executable, "-c", CLIENT, *words], check=True, timeout=600)
    file = document(tmp_path / "p", log)
    batch_engine.run(file, None)
    check_tables(file, sent, has_gold=False)
    words = ["reconcile", "--master", server, "--output", "json"]
    proved = enmasse(*words, "-f", file)
    assert proved.returncode == 0, proved.stderr
    (source,) = json.loads(proved.stdout)["sources"]
    assert (source["messages"], source["exact"]) == (sent, True)
    log.publish([message(90)])
    assert enmasse(*words, "-f", file).returncode == 1
