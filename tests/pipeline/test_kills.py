"""Queries whose driver is killed with all its processes, again and again: each message once."""

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable

from enmasse.pipeline import bronze, reading
from enmasse.pipeline import options as option_table
from enmasse.pipeline.queues import QueueReader
from enmasse.pipeline.ranges import Slice
from enmasse.pipeline.reconcile import reconcile
from publishing import Log, readings
from running import Platform

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
JOB = Path(__file__).with_name("job.py")
TYPED = {"decode": "json", "columns": "partition, offset, device string, value double"}
KILLS = 4
BATCHES = 12
"""Batches between kills, of 300 messages."""


def run_job(
    folder: Path, log: Log, once: str, to: str, more: Mapping[str, str]
) -> subprocess.Popen[str]:
    """The query of `job.py` in a process group of its own."""
    options = json.dumps(({} if to == "bronze" else TYPED) | dict(more))
    return subprocess.Popen(
        [sys.executable, JOB, folder, log.url, log.address, options, once, to],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | {"PYTHONPATH": str(JOB.parents[1])},
    )


def kill_after(job: subprocess.Popen[str], batches: int) -> None:
    """Kill a job with all its processes once it has finished so many batches."""
    assert job.stdout is not None
    try:
        for line in job.stdout:
            batches -= line.startswith("batch ")
            if batches <= 0:
                break
        assert batches <= 0, "the query ended by itself"
    finally:
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()
        job.stdout.close()


def killed_again_and_again(folder: Path, log: Log, to: str, seed: int, **more: str) -> int:
    """Run a query over it all, killed at moments that the seed says; return how many were sent."""
    chance = random.Random(seed)
    sent = 0
    for _ in range(KILLS):
        sent += log.publish(readings(sent, BATCHES * 300))
        kill_after(run_job(folder, log, "on", to, more), chance.randrange(1, BATCHES))
    last = run_job(folder, log, "once", to, more)
    assert last.communicate()[0].strip() == "done"
    return sent


def test_files_have_each_message_once(spark: SparkSession, log: Log, tmp_path: Path) -> None:
    sent = killed_again_and_again(tmp_path, log, "parquet", 1)
    rows = spark.read.parquet(str(tmp_path / "table")).select("partition", "offset", "value")
    found = rows.collect()
    doubled = [value for value, times in Counter(row.value for row in found).items() if times > 1]
    assert (len(found), doubled) == (sent, [])
    assert len({(row.partition, row.offset) for row in found}) == sent


def test_a_queue_is_read_once_and_is_empty(spark: SparkSession, queue: Log, tmp_path: Path) -> None:
    spool = str(tmp_path / "spool")
    sent = killed_again_and_again(tmp_path, queue, "parquet", 4, spool=spool)
    rows = spark.read.parquet(str(tmp_path / "table")).select("offset", "value").collect()
    assert sorted(row.value for row in rows) == [float(number) for number in range(sent)]
    assert len({row.offset for row in rows}) == sent
    # nobody else gets one of them
    given = {"url": queue.url, "address": queue.address, "spool": str(tmp_path / "other")}
    reader = QueueReader(option_table.read(given))
    start = reader.initialOffset()
    assert reader.latestOffset(start, ReadAllAvailable()) == start
    reader.stop()


def test_bronze_has_each_message_once(spark: SparkSession, log: Log, tmp_path: Path) -> None:
    sent = killed_again_and_again(tmp_path, log, "bronze", 2)
    source = {"url": log.url, "address": log.address}
    found = reconcile(spark, source, bronze.table(str(tmp_path / "bronze")))
    assert (found.differences, found.messages) == ([], sent)


def test_an_address_has_each_row_once(
    streams: Platform, numbers: Iterator[int], log: Log, tmp_path: Path
) -> None:
    target = Log(log.url, f"s{next(numbers)}")
    sent = killed_again_and_again(tmp_path, log, target.address, 3)
    options = option_table.read({"url": log.url, "address": target.address, "columns": "body"})
    found: Counter[int] = Counter()
    for number, part in reading.state(options).partitions.items():
        for batch in reading.batches(options, Slice(number, part.first, part.next, None)):
            found.update(int(body) for body in batch.column("body").to_pylist())
    assert (found.total(), len(found), max(found)) == (sent, sent, sent - 1)
