"""`python bench/spark_pipeline.py`: a whole pipeline as `enmasse pipeline run` runs it.

- visible: `--rate` readings a second for `--seconds`, trigger 1 s; the time from a reading's
  publication until its value is in the live table, and how far gold is behind silver. Its control
  is the time from publication to a plain receiver of the same stream, in the same run.
- start: from the command to the end of the first batch, and the same after kill -9 with a backlog
  of `--backlog` messages; its control is the start of a bare Spark that counts a range.
- memory: private memory of all processes of an idle pipeline after its start.
- slope: rows a CPU-second of `pipeline run --once` between `--messages` and three times as many,
  all tables, live state and gold included, and the same with the detectors of `pipeline init`.
  Every process of the command counts; batches have `--max-rows` rows at most.
- kills: kill -9 of all its processes, `--kills` times, with `--batches` batches before each, while
  readings arrive; then `enmasse pipeline reconcile` must find each message once.

`--only` selects measurements by name. The output includes the load of the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow
import yaml

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from enmasse.native import Outbox
from enmasse.pipeline import template
from enmasse.pipeline.connector import options as option_table
from enmasse.pipeline.connector import reading
from enmasse.pipeline.connector.ranges import Slice
from enmasse.pipeline.gold import progress
from platform_process import ENMASSE, Platform, running
from stream_documents import SPACE, stream

GOALS = {
    "p99": 4.0,
    "goldP99": 45.0,
    "first": 25.0,
    "again": 25.0,
    "memory": 1.2 * (1 << 30),
    "missing": 0,
    "double": 0,
    "inexact": 0,
}
"""Maximum of each: seconds, bytes, messages, exit code."""
LEAST = {"slope": 60_000, "detectorSlope": 40_000}
"""Minimum of each: rows a CPU-second."""
TICKS = os.sysconf("SC_CLK_TCK")
TICK_S, POLL_S = 0.1, 0.02
DEVICES = 10_000
PROBE = "probe"


class Publisher:
    """Publishes readings to a stream; the value of the device `probe` identifies each call."""

    def __init__(self, url: str, address: str) -> None:
        chosen = option_table.write({"url": url, "address": address})
        self._outbox = Outbox(chosen.outbox(None))
        self._device = 0

    def publish(self, count: int, probe: int) -> None:
        """Send `count` readings, and return when they are stored."""
        bodies = []
        for _ in range(count - 1):
            self._device = (self._device + 1) % DEVICES
            bodies.append(f'{{"device":"d{self._device}","value":{self._device % 90}}}')
        bodies.append(f'{{"device":"{PROBE}","value":{probe}}}')
        self._outbox.add(pyarrow.record_batch({"body": bodies}))
        while not self._outbox.send(0)[0]:
            pass


def document(folder: Path, url: str, address: str, max_rows: int = 200_000, **more: Any) -> Path:
    """A pipeline of one stream."""
    folder.mkdir()
    source = {"name": "s", "url": url, "address": address, "value": "value"}
    source |= {"maxRows": max_rows, "maxBytes": "256MiB"}
    spec: dict[str, Any] = {"sources": [source], "trigger": "1s"} | more
    whole = {"apiVersion": "enmasse.io/v1beta1", "kind": "Pipeline"}
    whole |= {"metadata": {"name": "bench"}, "spec": spec}
    file = folder / "pipeline.yaml"
    file.write_text(yaml.safe_dump(whole))
    return file


class Started:
    """`enmasse pipeline run` in a process group of its own."""

    def __init__(self, file: Path, *more: str) -> None:
        self.begun = time.monotonic()
        self.process = subprocess.Popen(
            _command("run", file, *more), stdout=subprocess.PIPE, text=True, start_new_session=True
        )

    def until(self, event: str) -> float:
        """Return the seconds from its start until it first logs an event."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if json.loads(line)["event"] == event:
                return time.monotonic() - self.begun
        raise SystemExit(f"the pipeline ended with {self.process.wait()}")

    def end(self, sign: int) -> None:
        """Send a signal, and wait; on SIGTERM the pipeline itself stops the JVM."""
        if sign == signal.SIGTERM:
            self.process.terminate()
        else:
            os.killpg(self.process.pid, sign)
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def memory(self) -> int:
        """Private memory of its processes, in bytes."""
        total = 0
        for folder, _ in self._processes():
            with suppress(OSError):
                lines = (folder / "smaps_rollup").read_text().splitlines()
                total += sum(int(line.split()[1]) << 10 for line in lines if "Private_" in line)
        return total

    def cpu_s(self) -> float:
        """Wait for its end; return the CPU time of its processes, as last seen of each."""
        seen: dict[str, int] = {}
        while self.process.poll() is None:
            for folder, fields in self._processes():
                seen[folder.name] = int(fields[11]) + int(fields[12])
            time.sleep(POLL_S)
        assert self.process.stdout is not None
        self.process.stdout.close()
        if self.process.returncode:
            raise SystemExit(f"the pipeline ended with {self.process.returncode}")
        return sum(seen.values()) / TICKS

    def _processes(self) -> Iterator[tuple[Path, list[str]]]:
        """Yield its processes: their folders in /proc, and the fields of `stat` after the name."""
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                fields = stat.read_text().rpartition(")")[2].split()
                # Workers of Spark have process groups of their own in the same session.
                if int(fields[3]) == self.process.pid:
                    yield stat.parent, fields


@contextmanager
def started(file: Path, sign: int = signal.SIGTERM) -> Iterator[Started]:
    """Run a pipeline, and end it with a signal."""
    one = Started(file)
    try:
        yield one
    finally:
        if one.process.poll() is None:
            one.end(sign)


def visible(platform: Platform, folder: Path, rate: int, seconds: float) -> dict[str, float]:
    """Measure the time until readings are in the live table."""
    url = platform.url()
    file = document(folder, url, "visible")
    publisher = Publisher(url, "visible")
    publisher.publish(100, 0)
    sent: list[float] = [0.0]
    seen: dict[int, float] = {}
    received: dict[int, float] = {}
    behind: list[float] = []
    done = threading.Event()
    with started(file) as run:
        run.until("batch")
        threads = [
            threading.Thread(target=_watch_gold, args=(folder / "tables", behind, done)),
            threading.Thread(
                target=_poll_live_table, args=(folder / "tables" / "live.db", seen, done)
            ),
            threading.Thread(target=_receive_probes, args=(url, received, done)),
        ]
        for thread in threads:
            thread.start()
        begun = time.monotonic()
        for number in range(1, int(seconds / TICK_S) + 1):
            publisher.publish(int(rate * TICK_S), number)
            sent.append(time.monotonic())
            time.sleep(max(0.0, begun + number * TICK_S - time.monotonic()))
        while max(seen, default=0) < len(sent) - 1:
            time.sleep(POLL_S)
        done.set()
        for thread in threads:
            thread.join()
    count = int(rate * TICK_S) * (len(sent) - 1)
    return {
        "rate": count / (sent[-1] - begun),
        "p50": statistics.median(_delays(sent, seen)),
        "p99": _p99(_delays(sent, seen)),
        "receiverP99": _p99(_delays(sent, received)),
        "goldP99": _p99(behind),
    }


def _watch_gold(tables: Path, behind: list[float], done: threading.Event) -> None:
    """Note every second how many seconds gold is behind silver."""
    while not done.wait(1.0):
        found = progress.progress("bench", str(tables / "silver"), str(tables / "gold"))
        behind.append(0.0 if found is None else found.lag_s(time.time()))


def _poll_live_table(database: Path, seen: dict[int, float], done: threading.Event) -> None:
    asked = "SELECT value FROM device_latest WHERE device = ?"
    with closing(sqlite3.connect(database)) as live:
        while not done.is_set():
            row = live.execute(asked, (PROBE,)).fetchone()
            if row is not None:
                seen.setdefault(int(row[0]), time.monotonic())
            done.wait(POLL_S)


def _receive_probes(url: str, received: dict[int, float], done: threading.Event) -> None:
    """The control: a reader of the stream that polls at the same interval."""
    chosen = {"url": url, "address": "visible", "decode": "json"}
    options = option_table.read(chosen | {"columns": "device string, value double"})
    nexts = {number: part.next for number, part in reading.state(options).partitions.items()}
    while not done.is_set():
        for number, part in reading.state(options).partitions.items():
            for batch in reading.batches(options, Slice(number, nexts[number], part.next, None)):
                rows = zip(batch["device"].to_pylist(), batch["value"].to_pylist(), strict=True)
                for device, value in rows:
                    if device == PROBE:
                        received.setdefault(int(value), time.monotonic())
            nexts[number] = part.next
        done.wait(POLL_S)


def _delays(sent: Sequence[float], seen: dict[int, float]) -> list[float]:
    """Time until each probe, or a later one, was seen."""
    found, soonest = [], float("inf")
    for number in range(len(sent) - 1, 0, -1):
        soonest = min(soonest, seen.get(number, float("inf")))
        if soonest < float("inf"):
            found.append(max(0.0, soonest - sent[number]))
    return found


def _p99(delays: Sequence[float]) -> float:
    return sorted(delays)[int(len(delays) * 0.99)] if delays else float("nan")


def kills(platform: Platform, folder: Path, rate: int, times: int, least: int) -> dict[str, float]:
    """Kill a pipeline repeatedly while readings arrive; count missing and duplicate messages."""
    url = platform.url()
    file = document(folder, url, "kills")
    publisher = Publisher(url, "kills")
    publisher.publish(100, 0)
    done = threading.Event()
    feed = threading.Thread(target=_feed, args=(publisher, rate, done))
    feed.start()
    try:
        for _ in range(times):
            with started(file, signal.SIGKILL) as run:
                for _ in range(least):
                    run.until("batch")
    finally:
        done.set()
        feed.join()
    subprocess.run(_command("run", file, "--once"), check=True, stdout=subprocess.DEVNULL)
    found = subprocess.run(_command("reconcile", file), stdout=subprocess.PIPE, text=True)
    (source,) = json.loads(found.stdout)["sources"]
    hours = source["parts"]
    return {
        "killed": times,
        "messages": source["messages"],
        "missing": sum(hour["stream"]["count"] - hour["bronze"]["offsets"] for hour in hours),
        "double": sum(hour["bronze"]["count"] - hour["bronze"]["offsets"] for hour in hours),
        "inexact": found.returncode,
    }


def _feed(publisher: Publisher, rate: int, done: threading.Event) -> None:
    while not done.is_set():
        begun = time.monotonic()
        publisher.publish(int(rate * TICK_S), 0)
        done.wait(max(0.0, begun + TICK_S - time.monotonic()))


def _command(what: str, file: Path, *more: str) -> list[str | Path]:
    return [ENMASSE, "pipeline", what, "-f", file, "--output", "json", *more]


BARE = (
    "from pyspark.sql import SparkSession\n"
    "spark = SparkSession.builder.master('local[*]').config('spark.ui.enabled', 'false')"
    ".getOrCreate()\n"
    "spark.range(1000).count()\n"
    "print('counted', flush=True)\n"
)


def bare() -> float:
    """The control: seconds until a Spark that does nothing else has counted a range."""
    begun = time.monotonic()
    subprocess.run([sys.executable, "-c", BARE], check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - begun


def starts(platform: Platform, folder: Path, backlog: int) -> dict[str, float]:
    """Measure a first start and one with a backlog, and the memory between."""
    url = platform.url()
    file = document(folder, url, "starts")
    publisher = Publisher(url, "starts")
    publisher.publish(100, 0)
    with started(file, signal.SIGKILL) as run:
        first = run.until("batch")
        # The next trigger finds nothing, so the memory of the batch is released.
        time.sleep(2.0)
        memory = run.memory()
    for sent in range(0, backlog, 50_000):
        publisher.publish(min(50_000, backlog - sent), 0)
    with started(file) as run:
        again = run.until("batch")
    return {"first": first, "again": again, "memory": memory, "bareSpark": bare()}


def slope(platform: Platform, folder: Path, messages: int, max_rows: int) -> dict[str, float]:
    """Measure the CPU time of a run of messages, and of three times as many."""
    folder.mkdir()
    url = platform.url()
    found = template.document(url, "slope").replace("temperature", "value")
    detectors = yaml.safe_load(found)["spec"]["detectors"]
    costs: dict[str, float] = {}
    for count in (messages, 3 * messages):
        publisher = Publisher(url, f"slope{count // messages}")
        for sent in range(0, count, 50_000):
            publisher.publish(min(50_000, count - sent), 0)
        for name, more in (("slope", {}), ("detectorSlope", {"detectors": detectors})):
            address = f"slope{count // messages}"
            file = document(folder / f"{name}{count}", url, address, max_rows, **more)
            spent_s = Started(file, "--once").cpu_s()
            costs[name] = spent_s - costs.get(name, 0.0)
    return {name: 2 * messages / spent_s for name, spent_s in costs.items()}


CASES = ("visible", "start", "slope", "kills")
ADDRESSES = ("visible", "starts", "slope1", "slope3", "kills")


def one_run(folder: Path, arguments: argparse.Namespace) -> dict[str, float]:
    """Run the selected measurements on a platform of their own."""
    declared = folder / "streams.yaml"
    declared.write_text("---\n".join([SPACE, *map(stream, ADDRESSES)]))
    found: dict[str, float] = {}
    with running(folder / "data", "-f", str(declared)) as platform:
        if "visible" in arguments.only:
            found |= visible(platform, folder / "v", arguments.rate, arguments.seconds)
        if "start" in arguments.only:
            found |= starts(platform, folder / "s", arguments.backlog)
        if "slope" in arguments.only:
            found |= slope(platform, folder / "c", arguments.messages, arguments.max_rows)
        if "kills" in arguments.only:
            times, least = arguments.kills, arguments.batches
            found |= kills(platform, folder / "k", arguments.rate, times, least)
    return found | {"load": os.getloadavg()[1]}


def print_report(report: dict[str, float]) -> None:
    """Print the medians."""
    if "p99" in report:
        p50, p99 = report["p50"], report["p99"]
        print(f"visible at {report['rate']:,.0f}/s: p50 {p50:.2f} s, p99 {p99:.2f} s")
        print(f"  a plain receiver: p99 {report['receiverP99']:.3f} s")
        print(f"  gold behind silver: p99 {report['goldP99']:.1f} s")
    if "first" in report:
        print(f"start: {report['first']:.1f} s, with a backlog {report['again']:.1f} s")
        print(f"  a bare Spark: {report['bareSpark']:.1f} s")
        print(f"memory: {report['memory'] / (1 << 20):,.0f} MiB")
    if "slope" in report:
        print(f"slope: {report['slope']:,.0f} rows/cpu-s", end=", ")
        print(f"with detectors {report['detectorSlope']:,.0f}")
    if "killed" in report:
        missing, double = report["missing"], report["double"]
        print(f"killed {report['killed']:.0f} times, {report['messages']:,.0f} messages:", end=" ")
        print(f"{missing:.0f} missing, {double:.0f} double")
    print(f"load: {report['load']:.1f}")


def main() -> None:
    """Measure, and print the medians."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rate", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--backlog", type=int, default=1_000_000)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--max-rows", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--batches", type=int, default=30)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=CASES, default=CASES)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    runs: list[dict[str, float]] = []
    for _ in range(arguments.runs):
        with tempfile.TemporaryDirectory() as name:
            runs.append(one_run(Path(name), arguments))
    report = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
    print_report(report)
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1))
    short = [name for name, most in GOALS.items() if report.get(name, most) > most]
    short += [name for name, least in LEAST.items() if report.get(name, least) < least]
    sys.exit(f"beyond the goal: {', '.join(short)}" if short else 0)


if __name__ == "__main__":
    main()
