"""The pipeline in a real Spark, on streams of a real platform."""

import json
import os
import signal
import subprocess
import urllib.request
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from enmasse.base.clock import SystemClock
from enmasse.base.errors import Conflict
from enmasse.pipeline.live import database
from enmasse.pipeline.paths import read
from pipeline_runs import check_tables, document, message, open_pipeline, rows, run_once
from pipeline_supervisor import MARKS, below
from platform_process import ENMASSE, Platform
from published_streams import Log

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]


@pytest.fixture
def stream(platform: Platform, request: Any) -> Log:
    """A stream of two partitions for each test."""
    name = request.node.name.partition("[")[0].replace("_", "-")[:40].strip("-")
    options = ("--retention-age", "1d", "--partitions", "2")
    platform.enmasse("create", "address", name, "--type", "topic", *options)
    return Log(platform.url(), name)


def test_messages_fill_tables_live_state_and_incidents(
    spark: SparkSession, stream: Log, tmp_path: Path
) -> None:
    hot = {"name": "hot", "metric": "temperature", "threshold": {"above": 48.5}, "cooldown": 0}
    file = document(tmp_path / "p", stream, {"maxRows": 200}, detectors=[hot])
    # a second apart: incidents of a device with the same start are one incident
    begin = int(SystemClock().now().timestamp()) - 3600
    sent = stream.publish(message(number, time=begin + number) for number in range(450))
    told = run_once(spark, file)
    assert [one["messages"] for one in told] == [200, 200, 50]
    check_tables(file, sent)
    sent += stream.publish([message(450, b"{"), message(451, device=None), message(452)])
    sent += stream.publish([message(453, time="2100-01-01T00:00:00Z"), message(454, time=1)])
    sent += stream.publish([message(455, b'[{"device":"x","temperature":1},{"device":"y"}]')])
    (told_last,) = run_once(spark, file)
    assert (told_last["messages"], told_last["readings"], told_last["quarantined"]) == (6, 3, 4)
    check_tables(file, sent)
    _pipeline, paths, db = open_pipeline(file)
    refused = rows(paths, "quarantine")
    reasons = sorted(reason.split(":")[0][:12] for reason in refused["reason"].to_pylist())
    assert reasons == ["JSON", "holds no rea", "names no dev", "time 1970-01"]
    clamped = rows(paths, "silver").filter(rows(paths, "silver")["clamped"])
    assert len(clamped) == 1
    with closing(db):
        latest = {row["device"]: row["value"] for row in db.rows(database.LATEST)}
        assert latest["x"] == 1.0
        assert {row["device"] for row in db.rows(database.DEVICES)} == {"d0", "d1", "d2", "x"}
        incidents = db.rows(database.ANOMALIES)
        # every 50th message has the value 49; the next message of its device ends the incident
        assert len(incidents) == 9
        assert all(row["ended_us"] for row in incidents[:-1])
        (progress,) = db.rows(database.PROGRESS)
        assert (progress["quarantined"], progress["clamped"]) == (4, 1)
        assert db.status()["sources"][0]["lag_messages"] == 0


def test_steps_change_records_and_a_lost_checkpoint_is_refused(
    spark: SparkSession, stream: Log, tmp_path: Path
) -> None:
    folder = tmp_path / "p"
    file = document(folder, stream, functions="functions.py")
    (folder / "functions.py").write_text(
        "from pyspark.sql import functions as F\n"
        "from enmasse.pipeline.functions import step\n"
        "@step\n"
        "def warmer(frame):\n"
        "    return frame.where('device != \"d0\"').withColumn(\n"
        "        'temperature', F.col('temperature') + 100)\n"
        "@step(source='s')\n"
        "def same(frame):\n"
        "    return frame\n"
    )
    stream.publish(message(number) for number in range(30))
    run_once(spark, file)
    _, paths = read(file)
    assert len(rows(paths, "bronze")) == 30
    silver = rows(paths, "silver")
    assert set(silver["device"].to_pylist()) == {"d1", "d2"}
    assert min(silver["value"].to_pylist()) == 101.0
    os.rename(paths.checkpoint("s"), tmp_path / "lost")
    with pytest.raises(Conflict, match="the checkpoint does not belong to the tables"):
        run_once(spark, file)
    assert len(rows(paths, "bronze")) == 30


def enmasse(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ENMASSE, "pipeline", *words], capture_output=True, text=True, timeout=600, check=False
    )


def test_an_enmasse_error_is_the_only_line_unless_debug_is_given(
    platform: Platform, tmp_path: Path
) -> None:
    file = tmp_path / "pipeline.yaml"
    assert enmasse("init", "-f", file, "--url", platform.url(), "--address", "no").returncode == 0
    ended = enmasse("run", "-f", file)
    *before, last = ended.stderr.splitlines()
    assert ended.returncode == 3
    assert last.startswith("enmasse: source readings: no: amqp:not-found: ")
    # only start-up lines of the JVM and our own log lines precede the error
    assert len(before) < 5 and not [line for line in before if line.startswith(("\t", "Caused"))]
    assert "\tat org.apache.spark" in (tmp_path / "tables" / "spark.log").read_text()
    debugged = enmasse("run", "-f", file, "--debug")
    assert debugged.returncode == 3 and debugged.stderr.splitlines()[-1] == last
    assert "Traceback (most recent call last)" in debugged.stderr


def test_a_killed_jvm_is_one_line_and_exit_code_7(stream: Log, tmp_path: Path) -> None:
    """It dies between two batches, then within one."""
    for batches, waiting in ((1, 0), (2, 200)):
        stream.publish(message(number) for number in range(20 + waiting))
        file = document(tmp_path / f"p{batches}", stream, {"maxRows": 20}, goldTrigger="1s")
        words = [ENMASSE, "pipeline", "run", "-f", file, "--output", "json"]
        pipe = subprocess.PIPE
        with subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True) as process:
            assert process.stdout is not None and process.stderr is not None
            told = (json.loads(line)["event"] for line in process.stdout)
            for _ in range(batches):
                assert "batch" in told
            (jvm,) = below(process.pid, MARKS["jvm"])
            os.kill(jvm, signal.SIGKILL)
            assert process.wait(60) == 7
            lines = process.stderr.read().splitlines()
        # Java itself warns at its start
        said = [line for line in lines if not line.startswith("WARNING: ")]
        assert len(said) == 1 and said[0].startswith("enmasse: Spark's JVM died: "), lines


def test_a_run_that_is_stopped_while_spark_starts_ends_cleanly(stream: Log, tmp_path: Path) -> None:
    file = document(tmp_path / "p", stream)
    words = [ENMASSE, "pipeline", "run", "-f", file, "--output", "json"]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["event"] == "starting"
        stopped = json.loads(enmasse("stop", "-f", file, "--output", "json").stdout)
        assert stopped["stopped"]
        # the JVM, which inherits the pipes, has ended as well
        told, said = process.communicate(timeout=60)
    assert (process.returncode, json.loads(told)) == (0, {"event": "stopped"}), said
    assert "Traceback" not in said


def test_the_command_runs_reports_its_status_and_stops(stream: Log, tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yaml"
    made = enmasse("init", "-f", file, "--url", stream.url, "--address", stream.address)
    assert made.returncode == 0, made.stderr
    sent = stream.publish(message(number) for number in range(60))
    (source,) = json.loads(enmasse("status", "-f", file, "--output", "json").stdout)["sources"]
    assert (source["lagMessages"], source["batch"]) == (sent, -1)
    words = [ENMASSE, "pipeline", "run", "-f", file, "--output", "json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        messages = 0
        for line in process.stdout:
            messages += json.loads(line).get("messages", 0)
            if messages == sent:
                break
        status = json.loads(enmasse("status", "-f", file, "--output", "json").stdout)
        assert (status["running"], status["pid"]) == (True, process.pid)
        assert status["sources"][0]["readings"] == sent
        assert (status["devices"], status["online"]) == (3, 3)
        with urllib.request.urlopen(status["metrics"], timeout=30) as answer:
            figures = answer.read().decode()
        name = 'enmasse_pipeline_readings_total{pipeline="readings",source="readings"}'
        assert f"{name} {float(sent)}" in figures
        second = enmasse("run", "-f", file, "--once")
        assert second.returncode == 5
        assert f"in use by process {process.pid}" in second.stderr
        stopped = json.loads(enmasse("stop", "-f", file, "--output", "json").stdout)
        assert stopped == {"pipeline": "readings", "stopped": True, "pid": process.pid}
        assert process.wait(60) == 0
    assert json.loads(enmasse("stop", "-f", file, "--output", "json").stdout)["stopped"] is False
    # gold has its own trigger, and may lag behind silver
    check_tables(file, sent, has_gold=False)
    assert enmasse("run", "-f", file, "--once").returncode == 0
    check_tables(file, sent)
    proved = enmasse("reconcile", "-f", file, "--output", "json")
    assert proved.returncode == 0, proved.stderr
    (source,) = json.loads(proved.stdout)["sources"]
    assert (source["messages"], source["exact"]) == (sent, True)
    stream.publish([message(60)])
    status = json.loads(enmasse("status", "-f", file, "--output", "json").stdout)
    assert status["sources"][0]["lagMessages"] == 1
    assert (status["devices"], status["online"], status["unknown"]) == (3, 0, 3)
    bronze = DeltaTable(str(tmp_path / "tables" / "bronze"))
    lost = bronze.to_pyarrow_table(columns=["partition", "offset"]).to_pylist()[7]
    bronze.delete('"partition" = {partition} AND "offset" = {offset}'.format(**lost))
    refuted = enmasse("reconcile", "-f", file)
    assert refuted.returncode == 1
    assert "60 messages, bronze differs; 1 are not read yet:\n  partition" in refuted.stdout
    named = "missing in partition {partition}: offsets {offset}\n".format(**lost)
    assert named in refuted.stdout
