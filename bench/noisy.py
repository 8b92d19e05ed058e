"""A noisy neighbour: the latency of a tenant while another sends ten times its limit.

    .venv/bin/python bench/noisy.py [--seconds 10] [--rounds 3] [--connections 20]
    .venv/bin/python bench/noisy.py --stored [--workers 1] [--mebibytes 5 16 60]

A quiet client sends 1,000 messages a second through its space, alone and while a noisy client tries
to send ten times the limit of its own space's plan. The control is the bare forwarder with the same
two clients. The goal: the quiet client's p99 under noise is within twice that of the control.

With `--stored` the quiet client sends 100 durable messages of 1 KiB a second, and the noisy one
durable messages of 5, 16 and 60 MiB in turn as fast as it can, both to queues. With `--workers 1`
the two share a worker. The goal: the quiet client's p99 under noise is within five times its p99
alone. The forwarder stores nothing and is no control.

Client and server share the machine. `cargo build --release -p enmasse-load -p enmasse-forwarder`
builds the load tool and the forwarder.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import servers
from cases import Report

from run import TOOL, load

QUIET_RATE, NOISY_RATE = 1_000, 10 * servers.NOISY_LIMIT
RATIO_MAX = 2.0
DIRECT_QUIET = {"address": "anycast", "rate": str(QUIET_RATE)}
STORED_QUIET = {"address": "queue", "body": "1024", "durable": "true", "rate": "100"}
STORED_NOISE = {"address": "queue", "durable": "true", "credit": "2"}
STORED_MEBIBYTES = (5, 16, 60)
"""Message sizes of the noise: one commit of the journal, chunks of a segment, most of a segment."""
STORED_RATIO_MAX = 5.0
HEAD_S = 2.0
"""The noise starts this many seconds before the quiet client, and ends after it."""


def quiet(server: servers.Server, seconds: float, options: dict[str, str]) -> Report:
    """One run of the quiet client; raises `servers.Unavailable` with the output of the tool."""
    return load(server, options | {"duration": str(seconds)} | host(server, "default"))


def host(server: servers.Server, space: str) -> dict[str, str]:
    """The option that names a space; the forwarder has none."""
    return {} if server.name == "forwarder" else {"hostname": space, "mechanism": "ANONYMOUS"}


def direct_noise(server: servers.Server, connections: int) -> dict[str, str]:
    """The options of the noisy client of direct addresses."""
    return {
        # The forwarder knows addresses but no spaces: the noise uses an address of its own.
        "address": "noise" if server.name == "forwarder" else "anycast",
        "senders": str(connections // 2),
        "receivers": str(connections - connections // 2),
        "rate": str(NOISY_RATE),
    }


def noise(server: servers.Server, seconds: float, options: dict[str, str]) -> subprocess.Popen[str]:
    """Start the noisy client."""
    options = {
        "url": server.url,
        **options,
        "duration": str(seconds + 2 * HEAD_S),
        "warmup": "0",
        **server.options,
        **host(server, "noisy"),
    }
    command = [str(TOOL), *(word for pair in options.items() for word in (f"--{pair[0]}", pair[1]))]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def beside(
    server: servers.Server, seconds: float, calm: dict[str, str], loud: dict[str, str]
) -> tuple[Report, float]:
    """One run under noise; returns its report and the rate of the noise in messages a second."""
    noisy = noise(server, seconds, loud)
    try:
        time.sleep(HEAD_S)
        report = quiet(server, seconds, calm)
        tool_output, _ = noisy.communicate(timeout=60)
    finally:
        servers.stop(noisy)
    return report, float(json.loads(tool_output)["messages_per_s"])


def stored(seconds: float, rounds: int, workers: int, mebibytes: list[int]) -> None:
    """Measure durable messages, alone and under each size of noise, and print medians."""
    found: defaultdict[tuple[int, str], list[float]] = defaultdict(list)
    with (
        tempfile.TemporaryDirectory(prefix="enmasse-noisy-") as folder,
        servers.node(Path(folder), "tenants", workers=workers) as node,
    ):
        for _ in range(rounds):
            for size in mebibytes:
                alone = quiet(node, seconds, STORED_QUIET)
                loud = STORED_NOISE | {"body": str(size << 20)}
                noisy, rate = beside(node, seconds, STORED_QUIET, loud)
                for name, report in (("alone", alone), ("beside", noisy)):
                    for quantile in ("p50_us", "p99_us"):
                        found[size, f"{name} {quantile}"].append(float(report["latency"][quantile]))
                found[size, "noise"].append(rate)
    shared = f"{workers} workers" if workers else "a worker for each core"
    print(f"load of the machine: {os.getloadavg()[0]:.1f}; {shared}; medians of {rounds} rounds")
    columns = ("alone p50_us", "beside p50_us", "alone p99_us", "beside p99_us", "noise")
    print(f"| noise, MiB | {' | '.join(columns)} | ratio of p99 |")
    print("| --- " * (len(columns) + 2) + "|")
    ratios = []
    for size in mebibytes:
        figures = {name: statistics.median(found[size, name]) for name in columns}
        ratios.append(figures["beside p99_us"] / figures["alone p99_us"])
        cells = " | ".join(f"{figure:,.1f}" for figure in figures.values())
        print(f"| {size} | {cells} | {ratios[-1]:.1f} |")
    reached = "reached" if max(ratios) <= STORED_RATIO_MAX else "short"
    print(f"{reached} of {STORED_RATIO_MAX:g} at p99: {max(ratios):.1f}")


def main() -> None:
    """Measure, alternating, and print medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=20, help="noisy connections")
    parser.add_argument("--stored", action="store_true", help="durable messages, through queues")
    parser.add_argument("--workers", type=int, default=0, help="with --stored: workers of the node")
    parser.add_argument("--mebibytes", type=int, nargs="+", default=list(STORED_MEBIBYTES))
    arguments = parser.parse_args()
    if arguments.stored:
        return stored(arguments.seconds, arguments.rounds, arguments.workers, arguments.mebibytes)
    found: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    with (
        tempfile.TemporaryDirectory(prefix="enmasse-noisy-") as folder,
        servers.node(Path(folder), "neighbours") as node,
        servers.forwarder() as forwarder,
    ):
        for _ in range(arguments.rounds):
            for server in (node, forwarder):
                alone = quiet(server, arguments.seconds, DIRECT_QUIET)
                loud = direct_noise(server, arguments.connections)
                noisy, rate = beside(server, arguments.seconds, DIRECT_QUIET, loud)
                for name, report in (("alone", alone), ("beside", noisy)):
                    for quantile in ("p50_us", "p99_us"):
                        figure = float(report["latency"][quantile])
                        found[server.name, f"{name} {quantile}"].append(figure)
                found[server.name, "noise"].append(rate)
    print(f"load of the machine: {os.getloadavg()[0]:.1f}; medians of {arguments.rounds} rounds")
    print("| | node | forwarder | ratio |\n| --- | --- | --- | --- |")
    for name in ("alone p50_us", "alone p99_us", "beside p50_us", "beside p99_us", "noise"):
        ours, theirs = (statistics.median(found[one, name]) for one in ("EnMasse", "forwarder"))
        print(f"| {name} | {ours:,.0f} | {theirs:,.0f} | {ours / theirs:.2f} |")
    ours, theirs = (
        statistics.median(found[one, "beside p99_us"]) for one in ("EnMasse", "forwarder")
    )
    print("reached" if ours <= RATIO_MAX * theirs else "short", f"of {RATIO_MAX:g} at p99")


if __name__ == "__main__":
    main()
