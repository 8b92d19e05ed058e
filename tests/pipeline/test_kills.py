"""Queries read each message once while their driver and its processes are killed repeatedly.

One process runs all queries and is killed for all of them, because starting Spark takes longest.
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable

from enmasse.pipeline.connector import options as option_table
from enmasse.pipeline.connector import reading
from enmasse.pipeline.connector.queues import QueueReader
from enmasse.pipeline.connector.ranges import Slice
from enmasse.pipeline.ingest import bronze
from enmasse.pipeline.ingest.reconcile import reconcile
from platform_process import Platform
from published_streams import Log, readings

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
JOB = Path(__file__).with_name("job.py")
STARTS_MAX = 6
TYPED = {"decode": "json", "columns": "partition, offset, device string, value double"}
SEED = 1
KILLS = 4
BATCHES = 8
"""Batches of each query between kills, of 300 messages."""


@dataclass(frozen=True)
class KilledQueries:
    """Three queries that were killed several times and have read every message."""

    folder: Path
    stream: Log
    queue: Log
    target: Log
    sent: int
    """Messages of the stream, and of the queue."""


def run_job(
    folder: Path, url: str, once: str, queries: dict[str, dict[str, Any]]
) -> subprocess.Popen[str]:
    """The queries of `job.py` in a process group of its own."""
    paths = [str(JOB.parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.Popen(
        [sys.executable, JOB, folder, url, once, json.dumps(queries)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
    )


def run_queries(
    folder: Path, url: str, queries: dict[str, dict[str, Any]], batches: int = 0
) -> set[str]:
    """Run the queries to the end, or kill all their processes after this many batches.

    Returns the queries that finished a batch. A job is started again when one of its processes
    dies by itself, as on a very busy machine.
    """
    seen = set()
    for _ in range(STARTS_MAX):
        job = run_job(folder, url, "on" if batches else "once", queries)
        assert job.stdout is not None
        try:
            for line in job.stdout:
                if line == "done\n":
                    return seen
                seen.add(line.split()[1])
                batches -= 1
                if batches == 0:
                    return seen
            assert job.wait() == os.EX_TEMPFAIL
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(job.pid, signal.SIGKILL)
            job.wait()
            job.stdout.close()
    raise AssertionError("a process of Spark dies at each start")


@pytest.fixture(scope="module")
def killed(
    streams: Platform, numbers: Iterator[int], tmp_path_factory: pytest.TempPathFactory
) -> KilledQueries:
    """Run the queries over waves of messages, with kills at seeded moments."""
    folder, url = tmp_path_factory.mktemp("killed"), streams.url()
    stream, target = (Log(url, f"s{next(numbers)}") for _ in range(2))
    queue = Log(url, "killed")
    queries: dict[str, dict[str, Any]] = {
        "delta": {"address": stream.address, "to": "delta", "options": {}},
        "sink": {"address": stream.address, "to": target.address, "options": TYPED},
        "queue": {
            "address": queue.address,
            "to": "files",
            "options": TYPED | {"spool": str(folder / "spool")},
        },
    }
    chance, sent, seen = random.Random(SEED), 0, set()
    for _ in range(KILLS):
        wave = readings(sent, BATCHES * 300)
        sent += stream.publish(wave)
        queue.publish(wave)
        seen |= run_queries(folder, url, queries, chance.randrange(1, BATCHES * len(queries)))
    # every query was active when it was killed
    assert len(seen) == len(queries)
    run_queries(folder, url, queries)
    return KilledQueries(folder, stream, queue, target, sent)


def test_killed_queue_query_reads_each_message_once_and_empties_the_queue(
    spark: SparkSession, killed: KilledQueries, tmp_path: Path
) -> None:
    table = str(killed.folder / "queue" / "table")
    rows = spark.read.parquet(table).select("offset", "value").collect()
    assert sorted(row.value for row in rows) == [float(number) for number in range(killed.sent)]
    assert len({row.offset for row in rows}) == killed.sent
    # another reader receives none of the messages
    queue = killed.queue
    given = {"url": queue.url, "address": queue.address, "spool": str(tmp_path / "other")}
    reader = QueueReader(option_table.read(given))
    start = reader.initialOffset()
    assert reader.latestOffset(start, ReadAllAvailable()) == start
    reader.stop()


def test_killed_bronze_query_stores_each_message_once(
    spark: SparkSession, killed: KilledQueries
) -> None:
    source = {"url": killed.stream.url, "address": killed.stream.address}
    table = bronze.table(str(killed.folder / "delta" / "bronze"))
    found = reconcile(spark, source, table)
    assert (found["exact"], found["messages"]) == (True, killed.sent)


def test_killed_sink_query_sends_each_row_once(killed: KilledQueries) -> None:
    target = {"url": killed.target.url, "address": killed.target.address, "columns": "body"}
    options = option_table.read(target)
    found: Counter[int] = Counter()
    for number, part in reading.state(options).partitions.items():
        for batch in reading.batches(options, Slice(number, part.first, part.next, None)):
            found.update(int(body) for body in batch.column("body").to_pylist())
    assert (found.total(), len(found), max(found)) == (killed.sent, killed.sent, killed.sent - 1)
