"""Latency of MQTT clients beside others at their limits.

    .venv/bin/python bench/mqtt_neighbours.py [--seconds 8] [--rounds 3]

One publisher and one subscriber exchange 1,000 messages a second with QoS 1, alone and beside each
neighbour in turn: 10,000 clients that connect at once, a subscriber that does not read among ten
that do, payloads of 1 MiB, 100,000 filters, topics of 1,000 levels. The table has medians of p50
and p99, and the growth of the node's memory at its peak.

Client and server share the machine: a part of each p99 is the neighbour's own load tool.
`cargo build --release -p enmasse-load` builds the tool.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from mqtt import TIMEOUT_S, TOOL, node
from servers import ROOT, Server

LOAD = {"qos": "1", "rate": "1000", "topic": "steady"}
REST_S = 1.0
LEVELS = 1000
HEAD_START_S = 1.0
"""A neighbour begins before the measurement."""

NEIGHBOURS: dict[str, dict[str, str]] = {
    "alone": {},
    "10,000 clients connect at once": {
        "mode": "idle",
        "connections": "10000",
        "parallel": "10000",
        "topic": "idle/%d",
        "topics": "10000",
    },
    "a subscriber that does not read, among ten": {
        "topic": "flood/x",
        "subscribers": "10",
        "rate": "2000",
        "body": "1000",
    },
    "payloads of 1 MiB, 20 a second": {
        "topic": "large",
        "qos": "1",
        "rate": "20",
        "body": str(1 << 20),
    },
    "a subscriber with 100,000 filters": {
        "topic": "many/x",
        "rate": "1000",
        "wildcards": "100000",
    },
    "topics of 1,000 levels": {
        "topic": "/".join(["deep", *("x" for _ in range(LEVELS - 1))]),
        "rate": "1000",
    },
}


def command(server: Server, options: dict[str, str], seconds: float) -> list[str]:
    """The load tool with these options."""
    given = {"duration": str(seconds), "url": server.url, "pids": str(server.pids[0]), **options}
    return [str(TOOL), *(part for name, value in given.items() for part in (f"--{name}", value))]


@contextlib.contextmanager
def silent(server: Server, topic: str) -> Iterator[None]:
    """A subscriber of MQTT 3.1.1 that reads nothing."""
    host, _, port = server.url.removeprefix("mqtt://").partition(":")
    name, filter_ = b"silent", topic.encode()
    head = b"\0\x04MQTT\x04\x02\0\0" + len(name).to_bytes(2) + name
    subscribe = b"\0\x01" + len(filter_).to_bytes(2) + filter_ + b"\0"
    with socket.create_connection((host, int(port))) as connection:
        for first, body in ((0x10, head), (0x82, subscribe)):
            connection.sendall(bytes((first, len(body))) + body)
        yield


@contextlib.contextmanager
def neighbour(server: Server, options: dict[str, str], seconds: float) -> Iterator[None]:
    """The neighbour at work."""
    if not options:
        yield
        return
    with contextlib.ExitStack() as stack:
        if options["topic"].startswith("flood"):
            stack.enter_context(silent(server, options["topic"]))
        beside = subprocess.Popen(command(server, options, seconds), stdout=subprocess.DEVNULL)
        try:
            time.sleep(HEAD_START_S)
            yield
        finally:
            beside.wait(TIMEOUT_S)
    if beside.returncode:
        raise SystemExit(f"the neighbour ended with exit code {beside.returncode}")


def peak_mib(server: Server) -> float:
    """The most memory that the node has had since the last reset."""
    status = Path(f"/proc/{server.pids[0]}/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1024


def measured(server: Server, options: dict[str, str], seconds: float) -> tuple[float, float, float]:
    """p50 and p99 in milliseconds, and MiB of memory at the peak beyond those before."""
    Path(f"/proc/{server.pids[0]}/clear_refs").write_text("5")  # resets the peak (proc(5))
    before = peak_mib(server)
    with neighbour(server, options, seconds + HEAD_START_S):
        steady = command(server, LOAD, seconds)
        done = subprocess.run(steady, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
    latency = json.loads(done.stdout)["latency"]
    return latency["p50_us"] / 1000, latency["p99_us"] / 1000, peak_mib(server) - before


def main() -> None:
    """Measure all neighbours in every round, and print medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="a part of the names")
    arguments = parser.parse_args()
    found: defaultdict[str, list[tuple[float, float, float]]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="enmasse-neighbours-") as folder:
        with node(Path(folder), ROOT) as [server, *_]:
            for _ in range(arguments.rounds):
                for name, options in NEIGHBOURS.items():
                    if arguments.only in name:
                        run = measured(server, options, arguments.seconds)
                        sys.stderr.write(f"{name}: p50 {run[0]:.2f} ms, p99 {run[1]:.2f} ms\n")
                        found[name].append(run)
                        time.sleep(REST_S)
    print(f"load of the machine: {os.getloadavg()[0]:.1f}; medians of {arguments.rounds} rounds")
    print("| beside | p50, ms | p99, ms | memory at the peak, MiB more |")
    print("| --- | --- | --- | --- |")
    for name, runs in found.items():
        p50, p99, mib = (statistics.median(values) for values in zip(*runs, strict=True))
        print(f"| {name} | {p50:.2f} | {p99:.2f} | {mib:.0f} |")


if __name__ == "__main__":
    main()
