"""`python bench/spark_quota.py`: `enmasse pipeline run` on a standalone cluster with CPU quotas.

- scale: one executor of 0.4 core, two of 0.4 and four of 0.2. Rows a second, and rows a CPU-second
  of executors (JVM and Python workers), after a warm-up of `--warm-up` batches. Twice the cores
  should give 1.6 times the rows a second, with at most 10 % fewer rows a CPU-second.
- driver: CPU seconds of the driver (JVM and Python) for a batch of 10,000 rows and of `--large`,
  and those of its Python for 1,000,000 messages. The executors have no quota.
- sources: the time from the command until each of eight sources has had a batch, if all processes
  of the pipeline share half a core.

Quotas are those of control groups, which need root. Live state is in PostgreSQL. Each case has a
cluster, a pipeline and a database of its own; broker and database are not counted.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from spark_pipeline import TICKS, Publisher, Started, document

from platform_process import ENMASSE, Platform, running
from postgres_server import PostgresServer, postgres_server
from spark_cluster import WORKER, Cluster, cluster
from stream_documents import SPACE, stream

SCALES = ((1, 0.4), (2, 0.4), (4, 0.2))
"""Executors, and the cores of each."""
SPEEDUP_MIN, EFFICIENCY_MIN, PYTHON_MAX_S = 1.6, 0.9, 1.0
PERIOD_US = 100_000
CONTROL = Path("/sys/fs/cgroup")
SMALL = 10_000
ADDRESS = "scale"
SOURCES, SOURCES_CORES = 8, 0.5
POLL_S = 0.05
END_TIMEOUT_S = 60.0
"""How long the processes of a group may take to end."""


@contextmanager
def quota(name: str, cores: float) -> Iterator[Path]:
    """A control group that limits its processes to some cores; yield its list of processes."""
    is_second = (CONTROL / "cgroup.controllers").exists()
    group = (CONTROL if is_second else CONTROL / "cpu") / name
    group.mkdir()

    def limit(quota_us: int | None) -> None:
        if is_second:
            (group / "cpu.max").write_text(f"{quota_us or 'max'} {PERIOD_US}")
        else:
            (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(quota_us or -1))

    limit(round(cores * PERIOD_US))
    try:
        yield group / "cgroup.procs"
    finally:
        # executors outlive their worker, the longer the less time they have
        limit(None)
        deadline = time.monotonic() + END_TIMEOUT_S
        while (group / "cgroup.procs").read_text() and time.monotonic() < deadline:
            time.sleep(POLL_S)
        group.rmdir()


def workers_of(standalone: Cluster) -> list[int]:
    """The processes of the workers, whose children the executors will be."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().decode().split("\0")
        except OSError:
            continue
        if WORKER in words and any(word.startswith(str(standalone.folder)) for word in words):
            found.append(int(entry.parent.name))
    return sorted(found)


def ticks(root: int) -> dict[int, int]:
    """The CPU time of a process and of those below it."""
    fields: dict[int, list[str]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields[int(stat.parent.name)] = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
    found, todo = dict[int, int](), [root]
    while todo:
        pid = todo.pop()
        if pid in fields:
            # ended children count for their parent
            found[pid] = sum(map(int, fields[pid][11:15]))
            todo += [child for child, one in fields.items() if int(one[1]) == pid]
    return found


@dataclass(frozen=True)
class Mark:
    """The state at the end of a batch."""

    seconds: float
    rows: int
    executors_s: float
    driver_s: float
    python_s: float
    """Of the driver's Python; the others include its children."""


def marks(run: Started, standalone: Cluster) -> list[Mark]:
    """Return the state at the end of each batch of a run."""
    found, rows, seen = list[Mark](), 0, dict[int, int]()
    done = threading.Event()

    def watch() -> None:
        while not done.wait(POLL_S):
            for executor in standalone.executors():
                seen.update(ticks(executor))

    watcher = threading.Thread(target=watch)
    watcher.start()
    assert run.process.stdout is not None
    for line in run.process.stdout:
        event = json.loads(line)
        if event["event"] == "batch":
            rows += event["messages"]
            driver = ticks(run.process.pid)
            counted = (sum(seen.values()), sum(driver.values()), driver[run.process.pid])
            spent = [one / TICKS for one in counted]
            found.append(Mark(time.monotonic() - run.begun, rows, *spent))
    done.set()
    watcher.join()
    if run.process.wait():
        raise SystemExit(f"the pipeline ended with {run.process.returncode}")
    return found


@dataclass(frozen=True)
class Bench:
    """What all cases share."""

    platform: Platform
    database: PostgresServer
    package: Path
    folder: Path

    def run(self, name: str, executors: int, cores: float | None, max_rows: int) -> list[Mark]:
        """Run a pipeline over all messages; return its batches."""
        folder = self.folder / name
        with ExitStack() as stack:
            (self.folder / f"{name}-cluster").mkdir()
            # a group is removed after its processes have ended
            names = [f"enmasse-{os.getpid()}-{number}" for number in range(executors)]
            groups = [stack.enter_context(quota(one, cores)) for one in names if cores is not None]
            standalone = stack.enter_context(cluster(self.folder / f"{name}-cluster", executors))
            if groups:
                for group, pid in zip(groups, workers_of(standalone), strict=True):
                    group.write_text(str(pid))
            live = self.database.live_state(self.folder / f"{name}-secret")
            file = document(folder, self.platform.url(), ADDRESS, max_rows, live=live)
            words = ("--once", "--master", standalone.master, "--package", str(self.package))
            return marks(Started(file, *words), standalone)


def scale(bench: Bench, asked: argparse.Namespace) -> list[str]:
    """Measure the executors of `SCALES`; return what misses its mark."""
    rates, short = dict[tuple[int, float], tuple[float, float]](), list[str]()
    for executors, cores in SCALES:
        found = bench.run(f"scale{executors}x{cores}", executors, cores, asked.max_rows)
        first, last = found[asked.warm_up - 1], found[-1]
        rows = last.rows - first.rows
        rate = rows / (last.seconds - first.seconds)
        each = rows / (last.executors_s - first.executors_s)
        rates[executors, cores] = rate, each
        print(f"{executors} x {cores} core: {rate:,.0f} rows/s, {each:,.0f} rows/cpu-s", flush=True)
    base_rate, base_each = rates[SCALES[0]]
    for (executors, cores), (rate, each) in list(rates.items())[1:]:
        ratio, kept = rate / base_rate, each / base_each
        print(f"{executors} x {cores}: {ratio:.2f} times the rows/s, {kept:.2f} rows/cpu-s")
        short += [f"{executors} x {cores}"] * (ratio < SPEEDUP_MIN or kept < EFFICIENCY_MIN)
    return short


def driver(bench: Bench, asked: argparse.Namespace) -> list[str]:
    """Measure the driver for small and large batches; return what misses its mark."""
    costs = dict[int, float]()
    for size in (SMALL, asked.large):
        found = bench.run(f"driver{size}", 2, None, size)
        pairs = itertools.pairwise(found)
        # the first half of the batches warms up
        each = [two.driver_s - one.driver_s for one, two in pairs][len(found) // 2 - 1 :]
        costs[size] = statistics.median(each)
        print(f"driver, batches of {size:,}: {costs[size]:.2f} cpu-s each ({len(each)} batches)")
    python_s = (found[-1].python_s - found[0].python_s) / (found[-1].rows - found[0].rows) * 1e6
    print(f"the driver's Python: {python_s:.2f} cpu-s for 1,000,000 messages")
    return ["driver's Python"] * (python_s > PYTHON_MAX_S)


def sources(bench: Bench, asked: argparse.Namespace) -> list[str]:
    """Start a pipeline of many sources; return it if it does not read all of them."""
    del asked
    file = document(bench.folder / "sources", bench.platform.url(), ADDRESS)
    whole = yaml.safe_load(file.read_text())
    (source,) = whole["spec"]["sources"]
    names = [f"source{number}" for number in range(SOURCES)]
    whole["spec"]["sources"] = [source | {"name": name, "address": name} for name in names]
    file.write_text(yaml.safe_dump(whole))
    with quota(f"enmasse-{os.getpid()}-sources", SOURCES_CORES) as group:
        run = Started(file)
        group.write_text(str(run.process.pid))
        waiting, seconds = set(names), 0.0
        assert run.process.stdout is not None
        while waiting and (line := run.process.stdout.readline()):
            if (event := json.loads(line))["event"] == "batch":
                waiting.discard(event["source"])
                seconds = time.monotonic() - run.begun
        run.end(signal.SIGTERM)
    print(
        f"{SOURCES} sources in {SOURCES_CORES} core: the last one's first batch at {seconds:.0f} s"
    )
    return sorted(waiting)


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--max-rows", type=int, default=100_000)
    parser.add_argument("--warm-up", type=int, default=4)
    parser.add_argument("--large", type=int, default=250_000)
    cases: dict[str, Any] = {"scale": scale, "driver": driver, "sources": sources}
    parser.add_argument("--only", nargs="+", choices=cases, default=list(cases))
    asked = parser.parse_args()
    if asked.messages < asked.max_rows * (asked.warm_up + 1) or asked.messages < 3 * asked.large:
        parser.error("--messages: at least one batch after --warm-up, and three of --large")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        names = [ADDRESS, *(f"source{number}" for number in range(SOURCES))]
        (folder / "streams.yaml").write_text("---\n".join([SPACE, *map(stream, names)]))
        words: Sequence[str] = ("-f", str(folder / "streams.yaml"))
        platform = stack.enter_context(running(folder / "data", *words))
        for name in names[1:]:
            Publisher(platform.url(), name).publish(SMALL, 0)
        publisher = Publisher(platform.url(), ADDRESS)
        for sent in range(0, asked.messages, 50_000):
            publisher.publish(min(50_000, asked.messages - sent), 0)
        package = folder / "package.tar.gz"
        subprocess.run([ENMASSE, "pipeline", "package", package], check=True)
        bench = Bench(platform, stack.enter_context(postgres_server()), package, folder)
        short = [miss for name in asked.only for miss in cases[name](bench, asked)]
    print(f"load {os.getloadavg()[1]:.1f}")
    sys.exit(f"beyond the goal: {', '.join(short)}" if short else 0)


if __name__ == "__main__":
    main()
