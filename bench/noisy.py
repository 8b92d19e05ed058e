"""A noisy neighbour: what a tenant that sends ten times its limit does to the latency of another.

    .venv/bin/python bench/noisy.py [--seconds 10] [--rounds 3] [--connections 20]

A quiet client sends 1,000 messages a second through its space, alone and while a noisy one tries
to send ten times what the plan of its own space allows. The control is the bare forwarder with the
same two clients. The goal: the quiet one's p99 beside the noise is within twice the control's.

Client and server share the machine. `cargo build --release -p enmasse-client -p enmasse-forwarder`
leaves the load tool and the forwarder.
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
HEAD_S = 2.0
"""The noise begins so long before the quiet client, and outlasts it."""


def quiet(server: servers.Server, seconds: float) -> Report:
    """One run of the quiet client; raises `servers.Unavailable` with what the tool said."""
    options = {"address": "anycast", "rate": str(QUIET_RATE), "duration": str(seconds)}
    return load(server, options | host(server, "default"))


def host(server: servers.Server, space: str) -> dict[str, str]:
    """The option that names a space; the forwarder has none."""
    return {} if server.name == "forwarder" else {"hostname": space, "mechanism": "ANONYMOUS"}


def noise(server: servers.Server, seconds: float, connections: int) -> subprocess.Popen[str]:
    """Start the noisy client."""
    # The forwarder knows addresses and no spaces: there the noise has an address of its own.
    options = {
        "url": server.url,
        "address": "noise" if server.name == "forwarder" else "anycast",
        "senders": str(connections // 2),
        "receivers": str(connections - connections // 2),
        "rate": str(NOISY_RATE),
        "duration": str(seconds + 2 * HEAD_S),
        "warmup": "0",
        **server.options,
        **host(server, "noisy"),
    }
    command = [str(TOOL), *(word for pair in options.items() for word in (f"--{pair[0]}", pair[1]))]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def beside(server: servers.Server, seconds: float, connections: int) -> tuple[Report, float]:
    """One run beside the noise, and the messages a second that the noise came to."""
    noisy = noise(server, seconds, connections)
    try:
        time.sleep(HEAD_S)
        report = quiet(server, seconds)
        said, _ = noisy.communicate(timeout=60)
    finally:
        servers.stop(noisy)
    return report, float(json.loads(said)["messages_per_s"])


def main() -> None:
    """Measure, alternating, and print medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=20, help="of the noisy client")
    arguments = parser.parse_args()
    found: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    with (
        tempfile.TemporaryDirectory(prefix="enmasse-noisy-") as folder,
        servers.node(Path(folder), "neighbours") as node,
        servers.forwarder() as forwarder,
    ):
        for _ in range(arguments.rounds):
            for server in (node, forwarder):
                alone = quiet(server, arguments.seconds)
                noisy, rate = beside(server, arguments.seconds, arguments.connections)
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
