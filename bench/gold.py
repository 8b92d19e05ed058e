"""`python bench/gold.py`: the cost of gold at `--rate` readings a second of `--devices` devices.

The script writes silver itself, `--trigger` seconds of readings at a time, and the gold query
processes each as one batch; longer windows are merged every five minutes of that time. It prints
processor seconds for a million readings (JVM and Python, after the warm-up), the duration of a
batch, and the bytes an hour that gold writes. Values are random walks rounded to `--digits`;
`--digits 17` leaves nothing to compress.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy
import pyarrow
from deltalake import DeltaTable
from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from enmasse.pipeline.gold.loop import LONG_S
from enmasse.pipeline.gold.query import GoldQuery
from enmasse.pipeline.tables import delta, log
from enmasse.pipeline.tables.files import Table
from spark_session import session

# A batch does not end with a minute: each minute is written three times.
BEGIN = datetime(2026, 1, 31, 12, 0, 10, tzinfo=UTC)
WINDOWS = (60_000, 3_600_000)
HOUR_S = 3600


class Readings:
    """Readings of devices in turn, in the form of silver."""

    def __init__(self, rate: int, devices: int, digits: int) -> None:
        self._rate = rate
        self._digits = digits
        self._names = pyarrow.array([f"d{number}" for number in range(devices)])
        self._values = numpy.full(devices, 20.0)
        self._dice = numpy.random.default_rng(1)
        self._next = 0

    def batch(self, count: int) -> pyarrow.Table:
        """Return the next `count` readings."""
        number = numpy.arange(self._next, self._next + count)
        device = number % len(self._names)
        # Each round has one reading of each device, which continues its random walk.
        steps = self._dice.normal(0, 0.1, count)
        values = numpy.empty(count)
        for first in range(0, count, len(self._names)):
            part = slice(first, first + len(self._names))
            self._values[device[part]] += steps[part]
            values[part] = self._values[device[part]]
        us = number * 1_000_000 // self._rate + int(BEGIN.timestamp() * 1e6)
        time = pyarrow.array(us).cast(pyarrow.timestamp("us", "UTC"))
        self._next += count
        constant = {"source": "s", "metric": "temperature", "unit": "Cel"}
        return pyarrow.table(
            {
                **{name: pyarrow.repeat(text, count) for name, text in constant.items()},
                "device": self._names.take(pyarrow.array(device)),
                "value": numpy.round(values, self._digits),
                "partition": numpy.zeros(count, numpy.int32),
                "offset": number,
                "index": numpy.zeros(count, numpy.int32),
                "event_time": time,
                "date": time.cast(pyarrow.date32()),
            }
        )


def cpu_s(jvm: int) -> float:
    """Processor seconds of this process and of a JVM."""
    fields = Path(f"/proc/{jvm}/stat").read_text().rpartition(")")[2].split()
    own = resource.getrusage(resource.RUSAGE_SELF)
    ticks = os.sysconf("SC_CLK_TCK")
    return (int(fields[11]) + int(fields[12])) / ticks + own.ru_utime + own.ru_stime


def jvm_of(spark: SparkSession) -> int:
    """The process of Spark."""
    context: Any = spark.sparkContext
    return int(context._jvm.java.lang.ProcessHandle.current().pid())


def written(gold: str, since: int) -> int:
    """Bytes of the files that gold has written since a version."""
    root = Path(gold)
    commits = log.commits(gold, since, DeltaTable(gold).version(), "start")
    return sum((root / file.path).stat().st_size for one in commits for file in one.added)


def main() -> None:
    """Run the batches, and print the cost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=20_000)
    parser.add_argument("--devices", type=int, default=10_000)
    parser.add_argument("--trigger", type=int, default=30)
    parser.add_argument("--minutes", type=int, default=10)
    parser.add_argument("--digits", type=int, default=2)
    parser.add_argument("--warm-up", type=int, default=2, help="steps that are not counted")
    asked = parser.parse_args()
    readings = Readings(asked.rate, asked.devices, asked.digits)
    with tempfile.TemporaryDirectory() as name, session(Path(name) / "spark") as spark:
        silver, gold = Table(f"{name}/silver", ("date",)), f"{name}/gold"
        query, jvm = GoldQuery(spark, "bench", silver.path, gold, WINDOWS), jvm_of(spark)
        count, spent_s, long_s, bytes_written, took_s = 0, 0.0, 0.0, 0, list[float]()
        for step in range(asked.minutes * 60 // asked.trigger):
            if step == asked.warm_up:
                count, spent_s, long_s, bytes_written, took_s = 0, 0.0, 0.0, 0, []
            delta.append_arrow(readings.batch(asked.rate * asked.trigger), silver, "q", step)
            since = DeltaTable(gold).version() if DeltaTable.is_deltatable(gold) else -1
            begun_s, cpu = time.monotonic(), cpu_s(jvm)
            query.step()
            took_s.append(time.monotonic() - begun_s)
            spent_s += cpu_s(jvm) - cpu
            if (step + 1) * asked.trigger % LONG_S == 0:
                cpu = cpu_s(jvm)
                query.merge_long()
                long_s += cpu_s(jvm) - cpu
            bytes_written += written(gold, since)
            count += asked.rate * asked.trigger
            until = BEGIN + timedelta(seconds=(step + 1) * asked.trigger)
            print(f"{until:%H:%M:%S}: {took_s[-1]:.1f} s, {bytes_written:,} bytes", flush=True)
    millions, simulated_s = count / 1e6, count / asked.rate
    print(f"load {os.getloadavg()[0]:.1f}")
    print(f"cpu-s for a million readings: {spent_s / millions:.2f}, long {long_s / millions:.2f}")
    print(f"a step: median {numpy.median(took_s):.1f} s, most {max(took_s):.1f} s")
    print(f"bytes an hour: {bytes_written / simulated_s * HOUR_S / 1e9:.2f} GB")


if __name__ == "__main__":
    main()
