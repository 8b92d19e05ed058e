"""Queues of one space over the workers of a node.

    .venv/bin/python bench/homes.py [--seconds 5] [--rounds 5]

Four producers and four consumers use four queues of one space, which share a dead-letter address,
with durable messages of 1 KiB: on a node with one worker and on one with two, in turn. The goals:
of two workers, the busier one uses at most 60 % of the CPU of both; the CPU of the node for each
message is at most 1.15 times that of one worker.

Client and server share the machine. `cargo build --release -p enmasse-load` builds the load tool.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from collections import defaultdict
from pathlib import Path

import servers

from run import load

QUEUES = 4
LOAD = {
    "address": "queue/%d",
    "addresses": str(QUEUES),
    "senders": str(QUEUES),
    "receivers": str(QUEUES),
    "body": "1024",
    "durable": "true",
    "credit": "200",
}
BUSIER_MAX, CPU_MAX = 0.60, 1.15


def worker_cpu_s(pid: int) -> list[float]:
    """Seconds of CPU of each worker thread of a process so far."""
    found = []
    for task in sorted(Path(f"/proc/{pid}/task").iterdir(), key=lambda task: int(task.name)):
        name, _, fields = (task / "stat").read_text().partition("(")[2].rpartition(")")
        if name.startswith("enmasse-worker-"):
            ticks = fields.split()
            found.append((int(ticks[11]) + int(ticks[12])) / os.sysconf("SC_CLK_TCK"))
    return found


def measured(node: servers.Server, seconds: float) -> dict[str, float]:
    """One run: the rate, the CPU for each message, and the share of the busier worker."""
    [pid] = node.pids
    before, workers_before = servers.cpu_s([pid]), worker_cpu_s(pid)
    report = load(node, LOAD | {"duration": str(seconds)})
    used = [now - then for now, then in zip(worker_cpu_s(pid), workers_before, strict=True)]
    received = float(report["totals"]["received"])
    return {
        "rate": float(report["messages_per_s"]),
        "cpu_us": (servers.cpu_s([pid]) - before) / received * 1e6,
        "busier": max(used) / sum(used),
    }


def main() -> None:
    """Measure both nodes in turn, and print medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    found: defaultdict[tuple[int, str], list[float]] = defaultdict(list)
    with (
        tempfile.TemporaryDirectory(prefix="enmasse-homes-") as one,
        tempfile.TemporaryDirectory(prefix="enmasse-homes-") as two,
        servers.node(Path(one), "shared", workers=1) as alone,
        servers.node(Path(two), "shared", workers=2) as both,
    ):
        for _ in range(arguments.rounds):
            for workers, node in ((1, alone), (2, both)):
                for name, figure in measured(node, arguments.seconds).items():
                    found[workers, name].append(figure)
    medians = {key: statistics.median(figures) for key, figures in found.items()}
    print(f"load of the machine: {os.getloadavg()[0]:.1f}; medians of {arguments.rounds} rounds")
    print("| workers | messages/s | CPU of the node, µs a message | share of the busier worker |")
    print("| --- | --- | --- | --- |")
    for workers in (1, 2):
        rate, cpu_us, busier = (medians[workers, name] for name in ("rate", "cpu_us", "busier"))
        print(f"| {workers} | {rate:,.0f} | {cpu_us:.2f} | {busier:.2f} |")
    ratio = medians[2, "cpu_us"] / medians[1, "cpu_us"]
    print(f"busier worker: {medians[2, 'busier']:.2f} (goal {BUSIER_MAX:.2f})")
    print(f"CPU of two workers in that of one: {ratio:.2f} (goal {CPU_MAX:.2f})")


if __name__ == "__main__":
    main()
