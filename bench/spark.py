"""`python bench/spark.py`: rows per second, and per second of processor time, in and out of Spark.

Starts `enmasse up` with two streams of two partitions, writes rows to the first (the sink), then
reads them into nothing and into Parquet (the source). Processor time is that of the JVM and its
Python workers, not of the node. Each case runs `--runs` times, interleaved; the median counts.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from running import running
from spark_session import session
from stream_documents import SPACE, stream

TICKS = os.sysconf("SC_CLK_TCK")
COLUMNS = "address, partition, offset, enqueued_time, message_id, subject, group_id, body"
FLOORS = {"source to noop": 350_000, "source to Parquet": 140_000}
"""Rows per second of processor time."""
SINK_FLOOR = 100_000
"""Rows per second, all of them on disk."""


def processor_s(without: int) -> float:
    """Processor time of this process and what it started, the JVM and its workers, but one."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        process = int(stat.parent.name)
        parents[process] = int(fields[1])
        # user and system time, that of ended children too
        ticks[process] = sum(map(int, fields[11:15]))

    def ours(process: int | None) -> bool:
        while process is not None and process not in (os.getpid(), without):
            process = parents.get(process)
        return process == os.getpid()

    return sum(count for process, count in ticks.items() if ours(process)) / TICKS


def measured(work: Callable[[], object], without: int) -> tuple[float, float]:
    """Seconds on the clock, and of processor time."""
    wall, cpu = time.monotonic(), processor_s(without)
    work()
    return time.monotonic() - wall, processor_s(without) - cpu


def rows(spark: SparkSession, count: int) -> DataFrame:
    """Rows with 100 bytes of body each."""
    body = "concat(lpad(cast(id as string), 12, '0'), repeat('x', 88)) as body"
    frame = spark.range(0, count, 1, 2)
    return frame.selectExpr("cast(id as string) as message_id", "'s' as subject", body)


def cases(spark: SparkSession, url: str, folder: Path, count: int) -> dict[str, Callable[[], None]]:
    """What is measured, by name."""
    number = iter(range(1_000_000))

    def sink() -> None:
        writer = rows(spark, count).write.format("enmasse").mode("append")
        writer = writer.option("url", url).option("address", "written")
        writer.option("producer", "bench").option("batch", str(next(number))).save()

    def read(format: str) -> None:
        reader = spark.readStream.format("enmasse").option("url", url).option("address", "read")
        frame = reader.option("columns", COLUMNS).load()
        place = folder / f"run-{next(number)}"
        writer = frame.writeStream.format(format).option("checkpointLocation", str(place / "c"))
        if format == "parquet":
            writer = writer.option("path", str(place / "t")).option("compression", "zstd")
        writer.trigger(availableNow=True).start().awaitTermination()
        shutil.rmtree(place)

    return {
        "sink": sink,
        "source to noop": lambda: read("noop"),
        "source to Parquet": lambda: read("parquet"),
    }


def main() -> None:
    """Run the cases in turns and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    results: dict[str, list[tuple[float, float]]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        document = folder / "streams.yaml"
        document.write_text("---\n".join([SPACE, stream("read"), stream("written")]))
        with (
            running(folder / "data", "-f", str(document)) as platform,
            session(folder / "spark") as spark,
        ):
            fill = rows(spark, arguments.rows).write.format("enmasse").mode("append")
            fill.option("url", platform.url()).option("address", "read").save()
            todo = cases(spark, platform.url(), folder, arguments.rows)
            # the first round warms the JVM up and does not count
            for run in range(arguments.runs + 1):
                for case, work in todo.items():
                    taken = measured(work, platform.process.pid)
                    if run:
                        results[case].append(taken)
    report = {}
    for case, runs in results.items():
        wall, cpu = (arguments.rows / statistics.median(each) for each in zip(*runs, strict=True))
        report[case] = {"rowsPerSecond": wall, "rowsPerCpuSecond": cpu}
        print(f"{case:20} {wall:12,.0f} rows/s {cpu:12,.0f} rows/cpu-s")
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1))
    short = [case for case, floor in FLOORS.items() if report[case]["rowsPerCpuSecond"] < floor]
    short += ["sink"] if report["sink"]["rowsPerSecond"] < SINK_FLOOR else []
    sys.exit(f"below the floor: {', '.join(short)}" if short else 0)


if __name__ == "__main__":
    main()
