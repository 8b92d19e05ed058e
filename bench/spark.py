"""`python bench/spark.py`: rows per second, and per second of processor time, in and out of Spark.

Starts `enmasse up` and a Kafka, fills streams of two partitions, and runs each case `--runs` times
with its control, interleaved; the medians count. Processor time is that of the JVM and its Python
workers without the servers, from the second batch of a query: `python bench/spark_pipeline.py`
measures starts. `--only` selects cases by prefix, `--no-kafka` omits the control that Maven has to
fetch.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from kafka import jars, kafka

from enmasse.pipeline.tables import delta
from enmasse.pipeline.tables.files import Table
from platform_process import running
from spark_session import session
from stream_documents import SPACE, stream

TICKS = os.sysconf("SC_CLK_TCK")
SAMPLE_S, POLL_S = 0.5, 0.02
"""Interval at which processes are sampled, and a query polled for its first batch."""
COLUMNS = "address, partition, offset, enqueued_time, message_id, subject, group_id, body"
BATCH_ROWS = "200000"
MINUTES_BATCHES = 4
"""Batches of as many readings as other cases have rows. The fixed cost of a batch is a quarter of a
small one."""
HEADERS = ("message_id", "subject", "group_id")
CONNECTOR = "kafka-connector"
DEVICES = 10_000
READING = "device string, temperature double, ts timestamp"


@dataclass(frozen=True)
class Goal:
    """The goal of a case."""

    control: str | None = None
    """The case it is compared with, in the same run, by processor time."""
    ratio: float = 0.0
    per_second: float = 0.0
    """Rows per second of wall time."""


GOALS = {
    "sink": Goal(per_second=100_000),
    "source to noop": Goal("Kafka to noop", 1.2),
    "source to Parquet": Goal("Kafka to Parquet", 1.2),
    "source to Delta": Goal("source to Parquet", 0.5),
    "minutes, decoded": Goal("minutes, from_json", 1.6, per_second=200_000),
}


@dataclass(frozen=True)
class Cost:
    """The cost of some rows."""

    rows: int
    wall_s: float
    cpu_s: float
    others_s: float
    """Processor time of all other processes of the machine, servers of the case included."""


class CpuSampler:
    """Processor time of this process and its descendants, the JVM and its workers, without servers.

    The time of a worker of Spark is lost when it ends, because no process waits for it. A thread
    therefore samples all of them, and the last sample of each counts.
    """

    def __init__(self, without: Collection[int]) -> None:
        """Exclude these processes and their descendants."""
        self._without = without
        self._known: dict[tuple[int, str], tuple[bool, int]] = {}
        self._own_s = 0.0
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._sampler = threading.Thread(target=self._sample_until_closed, daemon=True)
        self._sampler.start()

    def close(self) -> None:
        """Stop sampling."""
        self._ended.set()
        self._sampler.join()

    def seconds(self) -> float:
        """Return the time until now, without that of sampling."""
        with self._lock:
            self._sample()
            return sum(ticks for ours, ticks in self._known.values() if ours) / TICKS - self._own_s

    def _sample_until_closed(self) -> None:
        while not self._ended.wait(SAMPLE_S):
            with self._lock:
                self._sample()

    def _sample(self) -> None:
        begun = time.thread_time()
        found: dict[int, tuple[int, str, int]] = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            # parent, start time, and user and system time
            found[int(stat.parent.name)] = (
                int(fields[1]),
                fields[19],
                sum(map(int, fields[11:13])),
            )
        for process, (_, born, ticks) in found.items():
            ours = self._known.get((process, born), (False, 0))[0] or self._is_ours(process, found)
            self._known[process, born] = (ours, ticks)
        self._own_s += time.thread_time() - begun

    def _is_ours(self, process: int, found: Mapping[int, tuple[int, str, int]]) -> bool:
        while process in found and process not in (os.getpid(), *self._without):
            process = found[process][0]
        return process == os.getpid()


class Meter:
    """Measures the cost of work."""

    def __init__(self, processors: CpuSampler) -> None:
        """Count the time of these processes."""
        self._processors = processors

    def batch(self, count: int, work: Callable[[], object]) -> Cost:
        """Return the cost of work on `count` rows."""
        begun = self._now()
        work()
        return self._since(begun, count)

    def stream(self, query: StreamingQuery, count: int) -> Cost:
        """Return the cost of a query after its first batch; it ends after `count` rows."""
        while query.lastProgress is None and query.isActive:
            time.sleep(POLL_S)
        begun = self._now()
        done = sum(progress.numInputRows for progress in query.recentProgress)
        query.awaitTermination()
        return self._since(begun, count - done)

    def _now(self) -> tuple[float, float, float]:
        return time.monotonic(), self._processors.seconds(), busy_s()

    def _since(self, begun: tuple[float, float, float], count: int) -> Cost:
        wall_s, cpu_s, all_s = (now - then for now, then in zip(self._now(), begun, strict=True))
        return Cost(count, wall_s, cpu_s, all_s - cpu_s)


def busy_s() -> float:
    """Processor time that the machine was not idle."""
    words = Path("/proc/stat").read_text().split(maxsplit=9)
    # user, nice, system; the interrupts follow idle and disk wait
    return sum(map(int, (*words[1:4], *words[6:8]))) / TICKS


def rows(spark: SparkSession, count: int) -> DataFrame:
    """Rows with 100 bytes of body each."""
    body = "concat(lpad(cast(id as string), 12, '0'), repeat('x', 88)) as body"
    group = f"concat('device-', id % {DEVICES}) as group_id"
    frame = spark.range(0, count, 1, 2)
    return frame.selectExpr("cast(id as string) as message_id", "'s' as subject", group, body)


def telemetry(spark: SparkSession, count: int) -> DataFrame:
    """Readings of many devices in JSON, a thousand a second."""
    reading = (
        f"struct(concat('device-', id % {DEVICES}) as device, id % 977 / 10 as temperature,"
        " timestamp_millis(1767225600000 + id) as ts)"
    )
    frame = spark.range(0, count, 1, 2)
    return frame.selectExpr("cast(id as string) as message_id", f"to_json({reading}) as body")


def minutes(readings: DataFrame) -> DataFrame:
    """Statistics of each minute, and from them the last value of each device."""
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
    """The measured cases."""

    def __init__(
        self,
        spark: SparkSession,
        url: str,
        kafka: str | None,
        folder: Path,
        count: int,
        meter: Meter,
    ) -> None:
        self._spark = spark
        self._url = url
        self._kafka = kafka
        self._folder = folder
        self._count = count
        self._meter = meter
        self._number = iter(range(1_000_000))

    def fill(self) -> None:
        """Fill the streams to read."""
        for address, made in (
            ("read", rows(self._spark, self._count)),
            ("telemetry", telemetry(self._spark, MINUTES_BATCHES * self._count)),
        ):
            writer = made.write.format("enmasse").mode("append")
            writer.options(url=self._url, address=address, order="input").save()
        if self._kafka is not None:
            made = rows(self._spark, self._count)
            header = "struct('{0}' as key, cast({0} as binary) as value)"
            headers = ", ".join(header.format(name) for name in HEADERS)
            made = made.selectExpr(
                "group_id as key", "body as value", f"array({headers}) as headers"
            )
            writer = made.write.format("kafka").option("topic", "read")
            writer.option("kafka.bootstrap.servers", self._kafka).save()

    def by_name(self) -> dict[str, Callable[[], Cost]]:
        """Return the cases by name; a control is next to its case."""
        cases = {
            "sink": self._sink,
            "source to noop": lambda: self._into(self._envelopes(), "noop"),
            "Kafka to noop": lambda: self._into(self._records(), "noop"),
            "source to Parquet": lambda: self._into(self._envelopes(), "parquet"),
            "Kafka to Parquet": lambda: self._into(self._records(), "parquet"),
            "source to Delta": self._delta,
            "minutes, decoded": lambda: self._minutes(
                self._telemetry(decode="json", columns=READING)
            ),
            "minutes, from_json": lambda: self._minutes(
                self._telemetry(columns="body")
                .select(F.from_json(F.col("body").cast("string"), READING).alias("r"))
                .select("r.*")
            ),
        }
        return {
            name: case
            for name, case in cases.items()
            if self._kafka is not None or not name.startswith("Kafka")
        }

    def _sink(self) -> Cost:
        writer = rows(self._spark, self._count).write.format("enmasse").mode("append")
        writer = writer.options(url=self._url, address="written")
        writer = writer.options(producer="bench", batch=next(self._number))
        return self._meter.batch(self._count, writer.save)

    def _stream(self, address: str, **chosen: str) -> DataFrame:
        reader = self._spark.readStream.format("enmasse").option("url", self._url)
        reader = reader.options(address=address, maxRowsPerTrigger=BATCH_ROWS)
        return reader.options(**chosen).load()

    def _telemetry(self, **chosen: str) -> DataFrame:
        return self._stream("telemetry", maxRowsPerTrigger=str(self._count), **chosen)

    def _envelopes(self) -> DataFrame:
        return self._stream("read", columns=COLUMNS)

    def _records(self) -> DataFrame:
        """The same eight columns out of Kafka."""
        reader = self._spark.readStream.format("kafka").option("subscribe", "read")
        reader = reader.option("kafka.bootstrap.servers", self._kafka)
        reader = reader.options(includeHeaders="true", startingOffsets="earliest")
        found = reader.option("maxOffsetsPerTrigger", BATCH_ROWS).load()
        found = found.withColumn("headers", F.map_from_entries("headers"))
        text = [f"cast(headers['{name}'] as string) as {name}" for name in HEADERS]
        envelope = ("topic as address", "partition", "offset", "timestamp as enqueued_time")
        return found.selectExpr(*envelope, *text, "value as body")

    def _new_folder(self) -> Path:
        return self._folder / f"run-{next(self._number)}"

    def _into(self, frame: DataFrame, format: str) -> Cost:
        place = self._new_folder()
        writer = frame.writeStream.format(format)
        if format == "parquet":
            writer = writer.option("path", str(place / "t")).option("compression", "zstd")
        return self._run(writer, place, self._count)

    def _batches(
        self, frame: DataFrame, count: int, put: Callable[[DataFrame, int], object]
    ) -> Cost:
        return self._run(frame.writeStream.foreachBatch(put), self._new_folder(), count)

    def _run(self, writer: DataStreamWriter, place: Path, count: int) -> Cost:
        writer = writer.option("checkpointLocation", str(place / "c")).trigger(availableNow=True)
        taken = self._meter.stream(writer.start(), count)
        shutil.rmtree(place)
        return taken

    def _delta(self) -> Cost:
        folder = self._new_folder()
        table = Table(str(folder))
        taken = self._batches(
            self._envelopes(),
            self._count,
            lambda batch, number: delta.append(batch, table, "bench", number),
        )
        shutil.rmtree(folder)
        return taken

    def _minutes(self, readings: DataFrame) -> Cost:
        def put(batch: DataFrame, _: int) -> None:
            minutes(batch).write.format("noop").mode("overwrite").save()

        return self._batches(readings, MINUTES_BATCHES * self._count, put)


def below_goal(report: dict[str, dict[str, float]]) -> list[str]:
    """Return the cases below their goals, and by how much."""
    found = []
    for case, goal in GOALS.items():
        if case not in report:
            continue
        has = report[case]
        if has["rowsPerSecond"] < goal.per_second:
            found.append(f"{case}: {has['rowsPerSecond']:,.0f} rows/s of {goal.per_second:,.0f}")
        if has.get("ratio", goal.ratio) < goal.ratio:
            found.append(f"{case}: {has['ratio']:.2f} of {goal.control}, {goal.ratio} is wanted")
    return found


def medians(results: dict[str, list[Cost]]) -> dict[str, dict[str, float]]:
    """Return rates by case, their ratios to the controls, and the load of other processes."""
    report: dict[str, dict[str, float]] = {}
    for case, runs in results.items():
        report[case] = {
            "rowsPerSecond": statistics.median(run.rows / run.wall_s for run in runs),
            "rowsPerCpuSecond": statistics.median(run.rows / run.cpu_s for run in runs),
            "othersPercent": statistics.median(100 * run.others_s / run.wall_s for run in runs),
        }
    for case, goal in GOALS.items():
        if case in report and goal.control in report:
            control = report[goal.control]
            report[case]["ratio"] = report[case]["rowsPerCpuSecond"] / control["rowsPerCpuSecond"]
    return report


def print_report(report: dict[str, dict[str, float]]) -> None:
    """Print a line for each case."""
    for case, has in report.items():
        ratio = f"{has['ratio']:6.2f} of {GOALS[case].control}" if "ratio" in has else ""
        rate = f"{has['rowsPerSecond']:12,.0f} rows/s {has['rowsPerCpuSecond']:12,.0f} rows/cpu-s"
        print(f"{case:20} {rate} others {has['othersPercent']:4.0f} % of a core {ratio}")


def chosen_of(cases: Collection[str], only: str) -> set[str]:
    """Return the cases with this prefix, and their controls."""
    chosen = {case for case in cases if case.startswith(only)}
    return chosen | {
        goal.control
        for case, goal in GOALS.items()
        if case in chosen and goal.control is not None and goal.control in cases
    }


def rounds(cases: dict[str, Callable[[], Cost]], runs: int) -> dict[str, list[Cost]]:
    """Run the cases in turns; the first round warms the JVM up and does not count."""
    results: dict[str, list[Cost]] = defaultdict(list)
    for run in range(runs + 1):
        for case, work in cases.items():
            taken = work()
            if run:
                results[case].append(taken)
    return results


def main() -> None:
    """Run the cases in turns and print the medians."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000, help="more than two batches")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", default="", help="prefix of the cases to run; adds controls")
    parser.add_argument("--no-kafka", action="store_true")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, ExitStack() as life:
        folder = Path(name)
        document = folder / "streams.yaml"
        names = ("read", "telemetry", "written")
        document.write_text("---\n".join([SPACE, *map(stream, names)]))
        platform = life.enter_context(running(folder / "data", "-f", str(document)))
        broker = None if arguments.no_kafka else life.enter_context(kafka(folder / "kafka"))
        more = {} if broker is None else {"spark.jars": ",".join(map(str, jars(CONNECTOR)))}
        spark = life.enter_context(session(folder / "spark", more))
        servers = {platform.process.pid, *([broker.process] if broker else [])}
        processors = life.enter_context(closing(CpuSampler(servers)))
        address = broker.address if broker else None
        meter = Meter(processors)
        cases = Cases(spark, platform.url(), address, folder, arguments.rows, meter)
        cases.fill()
        by_name = cases.by_name()
        chosen = chosen_of(by_name, arguments.only)
        results = rounds(
            {name: by_name[name] for name in by_name if name in chosen}, arguments.runs
        )
    report = medians(results)
    print_report(report)
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1))
    short = below_goal(report)
    sys.exit("below the goal: " + "; ".join(short) if short else 0)


if __name__ == "__main__":
    main()
