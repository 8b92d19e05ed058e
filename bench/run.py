"""`make bench`: the node against the bare forwarder, Artemis and RabbitMQ, interleaved, as ratios.

Each case runs on one server after the other, `--runs` times over; the median counts. A ratio counts
only if in this run the tool drove the forwarder at `FORWARDER_RATE_MIN`: a slow tool flatters.
Prints a table, and with `--json FILE` writes every report.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import servers
from cases import CASES, FORWARDER_RATE_MIN, JOURNAL, Case, Report
from stored import Beside, depth
from streams import streams

TOOL = servers.TARGET / "enmasse-load"
TIMEOUT_S = 180
KINDS = ("node", "stored", "queues", "fresh", "secure", "many")
"""Nodes in the order in which they are started."""
STEPS = {"depth": depth, "streams": streams}
"""Servers that run a sequence of steps; the steps start them."""
REST_S = 1.0
"""Pause between two loads."""
RUN = itertools.count(1)
"""Numbers the runs."""

Results = dict[tuple[str, str], list[Report]]
"""Reports by case and server."""


def measure(case: Case, server: servers.Server, seconds: float) -> Report:
    """One run of a case; raises `servers.Unavailable` with the output of the tool."""
    options = dict(case.options)
    # A queue of its own: leftovers of an earlier run would be counted, or delay this one.
    run = next(RUN)
    named = f"{server.address}-{run}" if server.address else case.address
    if server.stored and "durable" in options:
        named = server.stored
    options["address"] = named.replace("{run}", str(run % servers.QUEUES))
    options["duration"] = str(case.seconds or seconds)
    return load(server, options)


def load(server: servers.Server, options: dict[str, str]) -> Report:
    """One run of the load tool."""
    options = {**options, **server.options, "url": server.url}
    options["pids"] = ",".join(map(str, server.pids))
    command = [str(TOOL)]
    for name, value in options.items():
        command += [f"--{name}", value]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    if done.returncode != 0:
        raise servers.Unavailable(done.stderr.strip())
    report: Report = json.loads(done.stdout)
    return report


def run_cases(
    cases: list[Case],
    running: list[servers.Server],
    beside: Beside,
    arguments: argparse.Namespace,
    into: Results,
) -> None:
    """Interleave: every round measures every case on every server."""
    seen: set[str] = set()
    for case in cases:
        # Latency percentiles of one load come from the same runs.
        options = json.dumps([case.options, case.address, case.server], sort_keys=True)
        if options in seen:
            continue
        seen.add(options)
        same = [
            c
            for c in cases
            if json.dumps([c.options, c.address, c.server], sort_keys=True) == options
        ]
        rounds = 1 if arguments.quick else (case.runs or arguments.runs)
        for turn in range(rounds):
            for server in running:
                if server.name == "forwarder" and (case.absolute or case.against):
                    continue
                if server.name not in ("EnMasse", "forwarder") and not case.rivals:
                    continue
                warm(case, server)
                print(
                    f"  {case.name} on {server.name}, {turn + 1} of {rounds}",
                    file=sys.stderr,
                    flush=True,
                )
                # The statistics of a server still cover the load before.
                time.sleep(REST_S)
                try:
                    report = measured(case, server, beside, arguments.seconds)
                except (servers.Unavailable, subprocess.TimeoutExpired) as error:
                    print(f"  {case.name} on {server.name}: {error}", file=sys.stderr)
                    continue
                for other in same:
                    into[(other.name, server.name)].append(report)


def measured(case: Case, server: servers.Server, beside: Beside, seconds: float) -> Report:
    """One run; a stored case also measures its journal limit."""
    limit = case.against == JOURNAL and server.name == "EnMasse"
    return beside.measure(server, limit, lambda: measure(case, server, seconds))


def warm(case: Case, server: servers.Server) -> None:
    """Run a load once on a server that is slow at first."""
    if server.cold_s > 0:
        seconds, server.cold_s = server.cold_s, 0
        with contextlib.suppress(servers.Unavailable, subprocess.TimeoutExpired):
            measure(replace(case, seconds=None), server, seconds)


def run_steps(kind: str, cases: list[Case], folder: Path, rounds: int, into: Results) -> None:
    """Run the steps of one server; each case belongs to one step."""
    print(f"  steps of {kind}", file=sys.stderr, flush=True)
    reports = STEPS[kind](folder, load, rounds)
    for case in cases:
        into[(case.name, "EnMasse")] += reports[case.step or ""]


def median(results: Results, case: Case, server: str) -> float | None:
    """The median figure of a case on a server; `None` if it never ran."""
    reports = results.get((case.name, server))
    return statistics.median(case.figure(report) for report in reports) if reports else None


def _cpu(results: Results, case: Case, server: str, what: str) -> float | None:
    values = [report["cpu"].get(what) for report in results.get((case.name, server), [])]
    numbers = [float(value) for value in values if value is not None]
    return statistics.median(numbers) if numbers else None


def _limit(results: Results, case: Case) -> float | None:
    """The number that a case is compared with."""
    if case.against == JOURNAL:
        reports = results.get((case.name, "EnMasse"), [])
        return statistics.median(float(report["journal_per_s"]) for report in reports)
    other = next((c for c in CASES if c.name == case.against), case)
    return median(results, other, "EnMasse" if case.against else "forwarder")


def row(results: Results, case: Case) -> list[str]:
    """One line of the table."""
    ours = median(results, case, "EnMasse")
    if ours is None:
        return [case.name, "not run", "", "", "", "", "", ""]
    limit = _limit(results, case)
    figure = ours if case.absolute else ours / limit if limit else None
    met = figure is not None and (
        figure <= case.reach if case.lower_is_better else figure >= case.reach
    )
    server_us = _cpu(results, case, "EnMasse", "server_us_per_message")
    if case.server_us_max is not None and server_us is not None:
        met = met and server_us <= case.server_us_max
    wanted = f"{case.reach:,} {case.unit}" if case.absolute else f"{case.reach:.2f}"
    if case.server_us_max is not None:
        wanted += f", {case.server_us_max} us"
    notes = [
        f"{name} {statistics.median(map(of, results[(case.name, 'EnMasse')])):.2f}"
        for name, of in case.extra.items()
    ]
    for rival in ("Artemis", "RabbitMQ"):
        theirs = median(results, case, rival)
        if theirs:
            notes.append(f"{rival} {theirs:,.0f}")
    tool_us = _cpu(results, case, "EnMasse", "tool_us_per_message")
    return [
        case.name,
        f"{ours:,.0f} {case.unit}" if ours >= 100 else f"{ours:.2f} {case.unit}",
        (f"{limit:,.0f}" if limit >= 100 else f"{limit:.2f}") if limit else "",
        f"{figure:.2f}" if figure is not None and not case.absolute else "",
        f"{server_us:.3f}" if server_us is not None else "",
        f"{tool_us:.3f}" if tool_us is not None else "",
        ("reached: " if met else "short of: ") + wanted,
        "; ".join(notes),
    ]


def table(results: Results, cases: list[Case]) -> str:
    """The results as a Markdown table."""
    head = [
        "case",
        "EnMasse",
        "limit",
        "ratio",
        "server us/msg",
        "tool us/msg",
        "goal",
        "beside it",
    ]
    lines = [head, ["---"] * len(head), *(row(results, case) for case in cases)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def verdict(results: Results) -> str:
    """Whether the ratios of this run count."""
    driven = median(results, CASES[0], "forwarder")
    if driven is None:
        return "The bare forwarder was not run: no ratio counts."
    if driven < FORWARDER_RATE_MIN:
        return (
            f"The tool drove the bare forwarder at {driven:,.0f} msg/s, under "
            f"{FORWARDER_RATE_MIN:,}: the ratios of this run do not count."
        )
    return (
        f"The tool drove the bare forwarder at {driven:,.0f} msg/s (100 B, presettled): "
        "the ratios count."
    )


def main() -> int:
    """Run the selected cases and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=5, help="rounds of each case (latency: 9)")
    parser.add_argument(
        "--seconds", type=float, default=3.0, help="measured time of one run (latency: 10)"
    )
    parser.add_argument("--quick", action="store_true", help="one round of each case")
    parser.add_argument("--no-rivals", action="store_true", help="leave Artemis and RabbitMQ out")
    parser.add_argument("--only", default="", help="cases whose name holds this text")
    parser.add_argument("--json", type=Path, help="write every report to this file")
    arguments = parser.parse_args()
    cases = [case for case in CASES if arguments.only in case.name]
    # SIGTERM must also stop the servers.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    results: Results = defaultdict(list)
    servers.CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="enmasse-bench-") as name:
        folder = Path(name)
        beside = Beside(folder)
        with contextlib.ExitStack() as stack:
            rivals: list[servers.Server] = []
            wanted = any(case.rivals for case in cases) and not arguments.no_rivals
            for start in (servers.artemis, servers.rabbitmq) if wanted else ():
                try:
                    rivals.append(stack.enter_context(start(folder)))
                except servers.Unavailable as why:
                    print(f"excluded: {why}", file=sys.stderr)
            for kind in KINDS:
                if chosen := [case for case in cases if case.server == kind]:
                    with contextlib.ExitStack() as own:
                        running = [own.enter_context(servers.node(folder, kind))]
                        if kind == "node":
                            running.append(own.enter_context(servers.forwarder()))
                        run_cases(chosen, running + rivals, beside, arguments, results)
        for kind in STEPS:
            if chosen := [case for case in cases if case.server == kind]:
                run_steps(kind, chosen, folder, 1 if arguments.quick else arguments.runs, results)
    print(table(results, cases))
    print("\n" + verdict(results))
    if arguments.json:
        arguments.json.write_text(
            json.dumps({f"{c} | {s}": r for (c, s), r in results.items()}, indent=1)
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
