"""MQTT of the node beside Mosquitto and NATS, and what the load tool can do against a bare echo.

Every round runs every case on every server; the median counts. A row counts only if the tool alone,
against the echo, did at least twice the figure: otherwise it measures the tool. `--cases` selects
by a part of the name, `--node DIR` takes the node of another checkout. NATS is the Go module
`github.com/nats-io/nats-server/v2`, found as `nats-server` on the path or by `--nats`.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from servers import QUEUES, ROOT, TARGET, Server, Unavailable, await_port, free_port, stop

TOOL = TARGET / "enmasse-mqtt-load"
ECHO = TARGET / "enmasse-mqtt-echo"
AMQP_TOOL = TARGET / "enmasse-load"
TIMEOUT_S = 180
REST_S = 1.0
"""Pause between two loads."""
ALL = ("EnMasse", "Mosquitto", "NATS", "echo")
OWN = ("EnMasse",)
RUN = itertools.count(1)
"""Numbers the runs: each has a topic of its own."""

Report = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """One row: the options of the tool, its figure, and the factor to reach over each rival."""

    name: str
    options: dict[str, str]
    figure: Callable[[Report], float]
    unit: str
    reach: dict[str, float]
    servers: tuple[str, ...] = ALL
    lower_is_better: bool = False
    topic: str = "bench/{run}"
    tool: Path = TOOL


def rate(report: Report) -> float:
    """Messages that arrived a second."""
    return float(report["messages_per_s"])


def acknowledged(report: Report) -> float:
    """Publications acknowledged a second."""
    return float(report["acknowledged_per_s"])


def latency(quantile: str) -> Callable[[Report], float]:
    """Milliseconds from due to received."""
    return lambda report: float(report["latency"][quantile]) / 1000


def connections(report: Report) -> float:
    """Connections opened a second."""
    return float(report["connections_per_s"])


def memory(report: Report) -> float:
    """KiB of the server for a connection."""
    return float(report["kib_per_connection_held"])


FAN_OUT = {"subscribers": "100", "ahead": "50"}
AT_1000 = {"qos": "1", "rate": "1000"}
IDLE = {
    "mode": "idle",
    "connections": "10000",
    "topic": "idle/%d",
    "topics": "10000",
    "duration": "3",
}
MATCHING = {"subscribers": "10", "filter": "bench/+", "ahead": "100"}

CASES = [
    Case("QoS 0, 1 to 1", {}, rate, "/s", {"NATS": 1.5, "Mosquitto": 10}),
    Case("QoS 0, 1 to 100", FAN_OUT, rate, "/s", {"NATS": 2}),
    Case("QoS 0, 100 to 1", {"publishers": "100"}, rate, "/s", {"NATS": 2}),
    Case("QoS 1, 1 to 1", {"qos": "1"}, rate, "/s", {"NATS": 5, "Mosquitto": 5}),
    Case("QoS 1, 1 to 100", {"qos": "1", **FAN_OUT}, rate, "/s", {"Mosquitto": 3}),
    Case(
        "QoS 1 into a queue, 100 publishers",
        {"qos": "1", "publishers": "100", "subscribers": "0", "body": "1024"},
        acknowledged,
        "/s",
        {"AMQP": 0.6},
        OWN,
        topic="queue/{queue}",
    ),
    Case(
        "AMQP into a queue, 100 producers",
        {"senders": "100", "receivers": "0", "durable": "true", "body": "1024", "credit": "200"},
        lambda report: float(report["settled_per_s"]),
        "/s",
        {},
        ("AMQP",),
        topic="queue/{queue}",
        tool=AMQP_TOOL,
    ),
    Case(
        "QoS 1 at 1,000/s, p50",
        AT_1000,
        latency("p50_us"),
        "ms",
        {"Mosquitto": 1},
        lower_is_better=True,
    ),
    Case(
        "QoS 1 at 1,000/s, p99",
        AT_1000,
        latency("p99_us"),
        "ms",
        {"Mosquitto": 1},
        lower_is_better=True,
    ),
    Case(
        "QoS 1, 1 to 1, persistent session", {"qos": "1", "persistent": "true"}, rate, "/s", {}, OWN
    ),
    Case(
        "10,000 idle connections",
        IDLE,
        memory,
        "KiB each",
        {},
        ALL[:3],
        lower_is_better=True,
    ),
    Case("10,000 idle connections over TLS", IDLE, memory, "KiB each", {}, ("TLS",)),
    Case("new connections", {"mode": "connect"}, connections, "/s", {"Mosquitto": 1}),
    Case("ten matches among 10 filters", MATCHING, rate, "/s", {}, OWN),
    Case(
        "ten matches among 100,010 filters",
        {**MATCHING, "wildcards": "100000"},
        rate,
        "/s",
        {},
        OWN,
    ),
]
"""The table of the issue; figures of 100 B unless they say otherwise."""


def _documents() -> str:
    base = "apiVersion: enmasse.io/v1beta1\n"
    documents = [
        f"{base}kind: AddressSpace\nmetadata: {{name: default}}\nspec: {{type: standard}}\n",
        f"{base}kind: Address\nmetadata: {{name: default.all}}\n"
        "spec: {address: '#', type: topic, protocols: [mqtt]}\n",
    ]
    documents += [
        f"{base}kind: Address\nmetadata: {{name: default.queue-{number}}}\n"
        f"spec: {{address: queue/{number}, type: queue}}\n"
        for number in range(QUEUES)
    ]
    return "---\n".join(documents)


@contextlib.contextmanager
def node(folder: Path, checkout: Path) -> Iterator[list[Server]]:
    """`enmasse up` with the whole name space open to MQTT; TLS and AMQP as further servers."""
    manifest = folder / "mqtt.yaml"
    manifest.write_text(_documents())
    command = [str(checkout / ".venv/bin/enmasse"), "up", "--output", "json", "-f", str(manifest)]
    command += ["--data", str(folder / "data")]
    for name in ("amqp", "mqtt", "mqtts", "http"):
        command += [f"--{name}-port", "0"]
    for name in ("amqps", "ws", "wss", "https"):
        command += [f"--{name}-port", "off"]
    with (folder / "node.log").open("w") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise Unavailable(f"enmasse up ended: {(folder / 'node.log').read_text()[-500:]}")
        ports = json.loads(line)["endpoints"]
        authority = str(folder / "data" / "tls" / "ca.crt")
        yield [
            Server("EnMasse", f"mqtt://127.0.0.1:{ports['mqtt']['port']}", [process.pid]),
            Server(
                "TLS",
                f"mqtts://localhost:{ports['mqtts']['port']}",
                [process.pid],
                {"ca": authority},
            ),
            Server("AMQP", f"amqp://127.0.0.1:{ports['amqp']['port']}", [process.pid]),
        ]
    finally:
        stop(process)


@contextlib.contextmanager
def echo(_folder: Path) -> Iterator[list[Server]]:
    """The bare echo: the limit of the tool."""
    process = subprocess.Popen([str(ECHO)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().split()[-1]
        yield [Server("echo", f"mqtt://{address}", [process.pid])]
    finally:
        stop(process)


@contextlib.contextmanager
def mosquitto(folder: Path) -> Iterator[list[Server]]:
    """Mosquitto without persistence and without its limits of messages."""
    program = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")
    if program is None:
        raise Unavailable("Mosquitto is not installed: apt-get install mosquitto")
    port = free_port()
    (folder / "mosquitto.conf").write_text(
        f"listener {port} 127.0.0.1\nallow_anonymous true\npersistence false\n"
        "max_inflight_messages 0\nmax_queued_messages 0\nset_tcp_nodelay true\n"
    )
    with _rival(
        [program, "-c", str(folder / "mosquitto.conf")], folder, port, "Mosquitto"
    ) as server:
        yield [server]


@contextlib.contextmanager
def nats(folder: Path, program: str) -> Iterator[list[Server]]:
    """NATS with MQTT, whose QoS 1 goes through a file stream that it does not sync."""
    found = shutil.which(program)
    if found is None:
        raise Unavailable(
            "nats-server is not installed: go install github.com/nats-io/nats-server/v2"
        )
    port = free_port()
    (folder / "nats.conf").write_text(
        f"host: 127.0.0.1\nport: {free_port()}\nserver_name: bench\n"
        f"jetstream {{store_dir: {folder / 'nats'}}}\n"
        f"mqtt {{host: 127.0.0.1, port: {port}, max_ack_pending: 65535}}\n"
    )
    with _rival([found, "-c", str(folder / "nats.conf")], folder, port, "NATS") as server:
        yield [server]


@contextlib.contextmanager
def _rival(command: list[str], folder: Path, port: int, name: str) -> Iterator[Server]:
    with (folder / f"{name}.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, text=True)
    try:
        await_port(port, process, name)
        yield Server(name, f"mqtt://127.0.0.1:{port}", [process.pid])
    finally:
        stop(process)


def measure(case: Case, server: Server, seconds: float) -> Report:
    """One run of a case; raises Unavailable with the output of the tool."""
    run = next(RUN)
    topic = case.topic.format(run=run, queue=run % QUEUES)
    name = "address" if case.tool == AMQP_TOOL else "topic"
    options = {name: topic, "duration": str(seconds), **case.options, **server.options}
    options["url"] = server.url
    options["pids"] = ",".join(map(str, server.pids))
    command = [str(case.tool)]
    for option, value in options.items():
        command += [f"--{option}", value]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    if done.returncode != 0:
        raise Unavailable(done.stderr.strip())
    report: Report = json.loads(done.stdout)
    return report


@dataclass
class Results:
    """Reports by case and server, and failures."""

    reports: dict[tuple[str, str], list[Report]] = field(default_factory=lambda: defaultdict(list))
    failures: dict[tuple[str, str], str] = field(default_factory=dict)

    def figure(self, case: Case, server: str) -> float | None:
        """The median of a case on a server."""
        found = self.reports.get((case.name, server))
        return statistics.median(map(case.figure, found)) if found else None


def rounds(cases: list[Case], running: list[Server], arguments: argparse.Namespace) -> Results:
    """Every round runs every case on every server."""
    results = Results()
    for _, case, server in itertools.product(range(arguments.runs), cases, running):
        if server.name not in case.servers or (case.name, server.name) in results.failures:
            continue
        try:
            report = measure(case, server, arguments.seconds)
        except (Unavailable, subprocess.TimeoutExpired) as error:
            results.failures[case.name, server.name] = str(error)
            continue
        results.reports[case.name, server.name].append(report)
        totals = report.get("totals", {})
        lost = f", {totals['missing']} missing" if totals.get("missing") else ""
        sys.stderr.write(
            f"{case.name}: {server.name} {case.figure(report):,.2f} {case.unit}{lost}\n"
        )
        time.sleep(REST_S)
    return results


def verdict(case: Case, results: Results, cases: list[Case]) -> str:
    """Whether each factor was reached, and whether the tool was fast enough."""
    own = results.figure(case, "EnMasse")
    parts = []
    for rival, factor in case.reach.items():
        other = next((one for one in cases if rival in one.servers and rival == "AMQP"), case)
        theirs = results.figure(other, rival)
        if own and theirs:
            ratio = theirs / own if case.lower_is_better else own / theirs
            parts.append(
                f"{ratio:.2f}x {rival} ({'reaches' if ratio >= factor else 'below'} {factor:g}x)"
            )
    limit = results.figure(case, "echo")
    if own and limit and not case.lower_is_better and limit < 2 * own:
        parts.append(f"the tool does {limit / own:.1f}x against the echo: the row does not count")
    return "; ".join(parts)


def table(cases: list[Case], results: Results) -> str:
    """The results in Markdown."""
    names = ("EnMasse", "TLS", "AMQP", "Mosquitto", "NATS", "echo")
    lines = ["| case | " + " | ".join(names) + " | |", "|---" * (len(names) + 2) + "|"]
    for case in cases:
        cells = []
        for name in names:
            figure = results.figure(case, name)
            failed = "failed" if (case.name, name) in results.failures else ""
            digits = 0 if figure and figure >= 100 else 2
            cells.append(failed if figure is None else f"{figure:,.{digits}f}")
        lines.append(
            f"| {case.name}, {case.unit} | "
            + " | ".join(cells)
            + f" | {verdict(case, results, cases)} |"
        )
    lines += [f"\n{case} on {server}: {why}" for (case, server), why in results.failures.items()]
    return "\n".join(lines)


def main() -> int:
    """Run the cases and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--cases", default="", help="a part of the names")
    parser.add_argument("--servers", default="", help="names, separated by commas (default: all)")
    parser.add_argument("--node", type=Path, default=ROOT, help="checkout of the node")
    parser.add_argument("--nats", default="nats-server", help="program of NATS")
    parser.add_argument("--json", type=Path, help="file for every report")
    arguments = parser.parse_args()
    cases = [case for case in CASES if arguments.cases in case.name]
    wanted = [name for name in arguments.servers.split(",") if name]
    starts: dict[str, Callable[[Path], contextlib.AbstractContextManager[list[Server]]]] = {
        "EnMasse": lambda folder: node(folder, arguments.node),
        "Mosquitto": mosquitto,
        "NATS": lambda folder: nats(folder, arguments.nats),
        "echo": echo,
    }
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        running: list[Server] = []
        for name, start in starts.items():
            if wanted and name not in wanted:
                continue
            try:
                running += stack.enter_context(start(Path(folder)))
            except Unavailable as error:
                sys.stderr.write(f"without {name}: {error}\n")
        results = rounds(cases, running, arguments)
    sys.stdout.write(table(cases, results) + "\n")
    if arguments.json:
        reports = [
            {"case": case, "server": server, "reports": found}
            for (case, server), found in results.reports.items()
        ]
        arguments.json.write_text(json.dumps(reports, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
