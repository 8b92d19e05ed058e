"""`python bench/spark.py`: rows per second, and per second of processor time, in and out of Spark.

Starts `enmasse up`, fills streams of two partitions, and runs each case `--runs` times with its
control, interleaved; the medians count. Processor time is that of the JVM and its Python workers,
not of the node. `--only` takes cases whose names begin so; `python bench/spark_pipeline.py` has
those of a whole pipeline: how soon a row is visible, how long a start takes, how much memory.
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
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from enmasse.pipeline import tables
from enmasse.pipeline.tables import Table
from running import running
from spark_session import session
from stream_documents import SPACE, stream

TICKS = os.sysconf("SC_CLK_TCK")
COLUMNS = "address, partition, offset, enqueued_time, message_id, subject, group_id, body"
BATCH_ROWS = "200000"
DEVICES = 10_000
READING = "device string, temperature double, ts timestamp"


@dataclass(frozen=True)
class Goal:
    """What a case has to reach."""

    per_cpu_second: float = 0.0
    """Rows per second of processor time."""
    per_second: float = 0.0
    """Rows per second on the clock."""
    control: str | None = None
    """The case that it is compared with, in the same run, by processor time."""
    ratio: float = 0.0


# Spark's Kafka source with headers as the same columns: 338,000 rows a second of processor time
# into nothing, 164,000 into Parquet; its jars lag behind Spark, so the figures stand for it here
GOALS = {
    "sink": Goal(per_second=100_000),
    "source to noop": Goal(per_cpu_second=1.2 * 338_000, control="files to noop"),
    "source to Parquet": Goal(per_cpu_second=1.2 * 164_000, control="files to Parquet"),
    "source to Delta": Goal(control="source to Parquet", ratio=0.5),
    "minutes, decoded": Goal(per_second=200_000, control="minutes, from_json", ratio=1.6),
}


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


def telemetry(spark: SparkSession, count: int) -> DataFrame:
    """Readings of many devices in JSON, a thousand a second."""
    reading = (
        f"struct(concat('device-', id % {DEVICES}) as device, id % 977 / 10 as temperature,"
        " timestamp_millis(1767225600000 + id) as ts)"
    )
    frame = spark.range(0, count, 1, 2)
    return frame.selectExpr("cast(id as string) as message_id", f"to_json({reading}) as body")


def minutes(readings: DataFrame) -> DataFrame:
    """Statistics of each minute, and the last value of each device out of them."""
    value = F.col("temperature")
    found = readings.groupBy("device", F.window("ts", "1 minute").alias("window")).agg(
        F.count(value).alias("count"),
        F.min(value).alias("min"),
        F.max(value).alias("max"),
        F.sum(value).alias("sum"),
        F.max_by(value, "ts").alias("last"),
    )
    last = F.max_by("last", "window").alias("last")
    return found.groupBy("device").agg(last, F.sum("count").alias("readings"))


class Cases:
    """What is measured."""

    def __init__(self, spark: SparkSession, url: str, folder: Path, count: int) -> None:
        self._spark = spark
        self._url = url
        self._folder = folder
        self._count = count
        self._number = iter(range(1_000_000))

    def fill(self) -> None:
        """Fill the streams that are read, and the files of the controls."""
        for address, frame in (("read", rows), ("telemetry", telemetry)):
            made = frame(self._spark, self._count).write.format("enmasse").mode("append")
            made.option("url", self._url).option("address", address).save()
        read = self._spark.read.format("enmasse").option("url", self._url)
        read = read.option("address", "read").option("columns", COLUMNS)
        read.load().write.parquet(str(self._folder / "files"))

    def by_name(self) -> dict[str, Callable[[], None]]:
        """Return them by their names; a control stands beside its case."""
        return {
            "sink": self._sink,
            "source to noop": lambda: self._into(self._stream("read", columns=COLUMNS), "noop"),
            "files to noop": lambda: self._into(self._files(), "noop"),
            "source to Parquet": lambda: self._into(
                self._stream("read", columns=COLUMNS), "parquet"
            ),
            "files to Parquet": lambda: self._into(self._files(), "parquet"),
            "source to Delta": self._delta,
            "minutes, decoded": lambda: self._minutes(
                self._stream("telemetry", decode="json", columns=READING)
            ),
            "minutes, from_json": lambda: self._minutes(
                self._stream("telemetry", columns="body")
                .select(F.from_json(F.col("body").cast("string"), READING).alias("r"))
                .select("r.*")
            ),
        }

    def _sink(self) -> None:
        writer = rows(self._spark, self._count).write.format("enmasse").mode("append")
        writer = writer.option("url", self._url).option("address", "written")
        writer.option("producer", "bench").option("batch", str(next(self._number))).save()

    def _stream(self, address: str, **chosen: str) -> DataFrame:
        reader = self._spark.readStream.format("enmasse").option("url", self._url)
        return reader.options(address=address, maxRowsPerTrigger=BATCH_ROWS, **chosen).load()

    def _files(self) -> DataFrame:
        folder = str(self._folder / "files")
        return self._spark.readStream.schema(self._spark.read.parquet(folder).schema).parquet(
            folder
        )

    def _place(self) -> Path:
        return self._folder / f"run-{next(self._number)}"

    def _into(self, frame: DataFrame, format: str) -> None:
        place = self._place()
        writer = frame.writeStream.format(format).option("checkpointLocation", str(place / "c"))
        if format == "parquet":
            writer = writer.option("path", str(place / "t")).option("compression", "zstd")
        writer.trigger(availableNow=True).start().awaitTermination()
        shutil.rmtree(place)

    def _batches(self, frame: DataFrame, put: Callable[[DataFrame, int], object]) -> None:
        place = self._place()
        writer = frame.writeStream.foreachBatch(put)
        writer = writer.option("checkpointLocation", str(place / "c"))
        writer.trigger(availableNow=True).start().awaitTermination()
        shutil.rmtree(place)

    def _delta(self) -> None:
        folder = self._place()
        table = Table(str(folder))
        frame = self._stream("read", columns=COLUMNS)
        self._batches(frame, lambda batch, number: tables.append(batch, table, "bench", number))
        shutil.rmtree(folder)

    def _minutes(self, readings: DataFrame) -> None:
        def put(batch: DataFrame, _: int) -> None:
            minutes(batch).write.format("noop").mode("overwrite").save()

        self._batches(readings, put)


def short_of(report: dict[str, dict[str, float]]) -> list[str]:
    """Return what is below its goal, and by how much."""
    found = []
    for case, goal in GOALS.items():
        if case not in report:
            continue
        has = report[case]
        if has["rowsPerCpuSecond"] < goal.per_cpu_second:
            found.append(f"{case}: {has['rowsPerCpuSecond'] / goal.per_cpu_second:.2f} of its goal")
        if has["rowsPerSecond"] < goal.per_second:
            found.append(f"{case}: {has['rowsPerSecond']:,.0f} rows/s of {goal.per_second:,.0f}")
        if has.get("ratio", goal.ratio) < goal.ratio:
            found.append(f"{case}: {has['ratio']:.2f} of {goal.control}, {goal.ratio} is wanted")
    return found


def medians(
    results: dict[str, list[tuple[float, float]]], count: int
) -> dict[str, dict[str, float]]:
    """Return rates by case, and what they are of those of their controls."""
    report: dict[str, dict[str, float]] = {}
    for case, runs in results.items():
        wall, cpu = (count / statistics.median(each) for each in zip(*runs, strict=True))
        report[case] = {"rowsPerSecond": wall, "rowsPerCpuSecond": cpu}
    for case, goal in GOALS.items():
        if case in report and goal.control in report:
            control = report[goal.control]
            report[case]["ratio"] = report[case]["rowsPerCpuSecond"] / control["rowsPerCpuSecond"]
    return report


def main() -> None:
    """Run the cases in turns and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", default="", help="cases whose names begin so, and controls")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    results: dict[str, list[tuple[float, float]]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        document = folder / "streams.yaml"
        names = ("read", "telemetry", "written")
        document.write_text("---\n".join([SPACE, *map(stream, names)]))
        with (
            running(folder / "data", "-f", str(document)) as platform,
            session(folder / "spark") as spark,
        ):
            cases = Cases(spark, platform.url(), folder, arguments.rows)
            cases.fill()
            chosen = {case for case in cases.by_name() if case.startswith(arguments.only)}
            chosen |= {goal.control for case, goal in GOALS.items() if case in chosen} - {None}
            # the first round warms the JVM up and does not count
            for run in range(arguments.runs + 1):
                for case, work in cases.by_name().items():
                    if case in chosen:
                        taken = measured(work, platform.process.pid)
                        if run:
                            results[case].append(taken)
    report = medians(results, arguments.rows)
    for case, has in report.items():
        ratio = f"{has['ratio']:6.2f} of {GOALS[case].control}" if "ratio" in has else ""
        rate = f"{has['rowsPerSecond']:12,.0f} rows/s {has['rowsPerCpuSecond']:12,.0f} rows/cpu-s"
        print(f"{case:20} {rate} {ratio}")
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1))
    short = short_of(report)
    sys.exit("below the goal: " + "; ".join(short) if short else 0)


if __name__ == "__main__":
    main()
