"""`make bench-baseline AGAINST=DIR`: the ratio of this checkout to another one, interleaved.

`DIR` is a checkout in which `make setup` has run. Both nodes run at the same time, one of them
under load. Each round measures every case on both, and the order of the two alternates, so that
drift of the machine hits both alike. A ratio below 1 means that this checkout is slower.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import servers
from request_reply import measure as measure_replies

TIMEOUT_S = 180
REST_S = 1.0
"""Pause between two loads, so that the statistics of the first do not count for the second."""
RATIO_MIN = 0.97
"""Ratio of medians below which a case counts as slower."""


@dataclass(frozen=True)
class Case:
    """One load: the kind of node that serves it, and the options of the load tool."""

    name: str
    kind: str
    options: dict[str, str]
    ratio_min: float = RATIO_MIN
    requesters: int = 0
    """Number of requesters; a positive number runs request and reply instead of the load tool."""

    window: int = 1
    """Outstanding requests of one requester."""


CASES = (
    Case(
        "direct, 100 B, 1x1, pre-settled",
        "node",
        {"body": "100", "senders": "1", "receivers": "1", "presettled": "true"},
    ),
    Case(
        "direct, 100 B, 1x1",
        "node",
        {"body": "100", "senders": "1", "receivers": "1", "presettled": "false"},
    ),
    Case(
        "durable, 1 KiB, 1x1",
        "stored",
        {"body": "1024", "senders": "1", "receivers": "1", "durable": "true"},
    ),
    Case("request and reply, 1x1", "node", {}, 0.90, requesters=1, window=20),
    Case("request and reply, 1,000 requesters", "node", {}, 0.90, requesters=1000),
)


def rate(server: servers.Server, case: Case, address: str, seconds: float) -> float:
    """Messages or replies per second; raises `servers.Unavailable` with the error of the tool."""
    if case.requesters:
        result = measure_replies(server.url, server.pids, case.requesters, case.window, seconds)
        print(f"  {result.server_us:.1f} us of the node a request", file=sys.stderr, flush=True)
        return result.replies_per_s
    options = {**case.options, "url": server.url, "address": address, "duration": str(seconds)}
    command = [str(servers.TARGET / "enmasse-load")]
    for name, value in options.items():
        command += [f"--{name}", value]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    if done.returncode != 0:
        raise servers.Unavailable(done.stderr.strip())
    return float(json.loads(done.stdout)["messages_per_s"])


def measure(
    cases: list[Case], checkouts: tuple[Path, Path], runs: int, seconds: float
) -> dict[str, tuple[list[float], list[float]]]:
    """Rates of each case on both checkouts, one value per round."""
    rates: dict[str, tuple[list[float], list[float]]] = {case.name: ([], []) for case in cases}
    for kind in dict.fromkeys(case.kind for case in cases):
        with nodes(kind, checkouts) as running:
            chosen = [case for case in cases if case.kind == kind]
            # A queue serves one run: a backlog of an earlier one would be measured again.
            queues = itertools.cycle(range(servers.QUEUES))
            for turn, case in itertools.product(range(runs), chosen):
                order = (0, 1) if turn % 2 == 0 else (1, 0)
                address = f"queue/{next(queues)}" if kind == "stored" else "anycast"
                for which in order:
                    time.sleep(REST_S)
                    rates[case.name][which].append(rate(running[which], case, address, seconds))
                print(f"  {case.name}: {turn + 1} of {runs}", file=sys.stderr, flush=True)
    return rates


@contextlib.contextmanager
def nodes(kind: str, checkouts: tuple[Path, Path]) -> Iterator[list[servers.Server]]:
    """One node of each checkout, in folders of their own."""
    with tempfile.TemporaryDirectory(prefix="enmasse-bench-") as name, contextlib.ExitStack() as up:
        running = []
        for which, checkout in enumerate(checkouts):
            folder = Path(name) / str(which)
            folder.mkdir()
            running.append(up.enter_context(servers.node(folder, kind, checkout)))
        yield running


def main() -> int:
    """Measure, print a table, and return 1 if a case is slower than the baseline allows."""
    parser = argparse.ArgumentParser(prog="make bench-baseline", description=__doc__)
    parser.add_argument("--against", type=Path, required=True, help="the other checkout")
    parser.add_argument("--runs", type=int, default=7, help="rounds of each case")
    parser.add_argument("--seconds", type=float, default=3.0, help="measured time of one run")
    parser.add_argument("--only", default="", help="cases whose name contains this text")
    given = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    cases = [case for case in CASES if given.only in case.name]
    rates = measure(cases, (servers.ROOT, given.against.resolve()), given.runs, given.seconds)
    print("| case | this checkout, msg/s | baseline, msg/s | ratio |\n| --- | --- | --- | --- |")
    slower = False
    for name, (ours, theirs) in rates.items():
        this, baseline = statistics.median(ours), statistics.median(theirs)
        least = next(case.ratio_min for case in cases if case.name == name)
        slower = slower or this / baseline < least
        print(f"| {name} | {this:,.0f} | {baseline:,.0f} | {this / baseline:.3f} |")
    return int(slower)


if __name__ == "__main__":
    sys.exit(main())
