"""A pipeline on a cluster whose executors have nothing but Spark and a bare Python."""

import asyncio
import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from enmasse.client import connect
from enmasse.messaging import Data, Message
from pipeline_runs import check_tables, document, message
from pipeline_supervisor import Supervisor
from platform_process import ENMASSE, Platform
from postgres_server import PostgresServer
from published_streams import Log, drained
from spark_cluster import Cluster, cluster
from stream_documents import address

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]
WORKERS = 2
WAVE = 400
ROWS, QUEUE_MAX, TAKEN = 1500, 100, 150
"""Rows of a batch; messages in the queue of its sink, and those taken before each kill. So most of
the rows wait for credit when the batch is interrupted."""
TAKEN_WITHIN_S = 200.0


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


Position = tuple[int, int]


def position(sent: Message) -> Position:
    assert isinstance(sent.body, Data)
    row = json.loads(sent.body.content)
    return row["partition"], row["offset"]


def taken(url: str, queue: str, count: int) -> list[Position]:
    """Receive and accept this many messages of a queue."""
    found: list[Position] = []

    async def receive() -> None:
        async with (
            asyncio.timeout(TAKEN_WITHIN_S),
            connect(url) as session,
            session.receiver(queue) as receiver,
        ):
            async for delivery in receiver:
                delivery.settle()
                found.append(position(delivery.message))
                if len(found) == count:
                    return

    asyncio.run(receive())
    return found


def test_sink_stores_each_row_once_after_kills_with_other_cores_and_executors(
    standalone: Cluster,
    package: Path,
    platform: Platform,
    mortal_database: PostgresServer,
    tmp_path: Path,
) -> None:
    queue = tmp_path / "queue.yaml"
    queue.write_text(address("bounded", type="queue", limits=f"{{messages: {QUEUE_MAX}}}"))
    platform.enmasse("apply", "-f", str(queue))
    platform.enmasse(
        *("create", "address", "many", "--type", "topic", "--retention-age", "1d"),
        *("--partitions", "2"),
    )
    log = Log(platform.url(), "many")
    file = document(
        tmp_path / "p",
        log,
        {"maxRows": ROWS, "options": {"rowsPerTask": "100"}},
        sinks=[{"name": "on", "address": "bounded"}],
        live=mortal_database.live_state(tmp_path / "secret"),
    )
    log.publish(message(number) for number in range(ROWS))
    run = [ENMASSE, "pipeline", "run", "--once", "-f", file]
    on_cluster = ["--master", standalone.master, "--package", package]
    found: list[Position] = []
    # four tasks at a time, then two executors with one each: other divisions of the rows
    for place in (["--master", "local[4,4]"], on_cluster):
        with subprocess.Popen([*run, *place], start_new_session=True) as process:
            found += taken(log.url, "bounded", TAKEN)
            assert process.poll() is None
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        while more := [position(one) for one in drained(log.url, "bounded")]:
            found += more
        assert TAKEN <= len(found) < ROWS
    with subprocess.Popen([*run, "--master", "local[1,4]"]) as process:
        found += taken(log.url, "bounded", ROWS - len(found))
        assert process.wait(200) == 0
    # a row that was stored twice takes the place of another one, or is left
    assert drained(log.url, "bounded") == []
    check_tables(file, ROWS, has_gold=False)
    assert Counter(found).total() == len(set(found)) == ROWS
