"""Additional measurements of stored cases: syncs, the journal alone, depth and a restart."""

from __future__ import annotations

import re
import subprocess
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import servers
from cases import STORED, Report

TOOL = servers.TARGET / "enmasse-journal-bench"
FIRST_GROUP = 200
"""Records in a commit of the journal alone before the node's records per sync are known."""
SYNCS = re.compile(r"^enmasse_journal_syncs_total (\S+)$", re.MULTILINE)
QUEUE = "queue/0"

Measure = Callable[[servers.Server, dict[str, str]], Report]
"""Runs the load tool on a server with options."""


def syncs(server: servers.Server) -> float | None:
    """Number of journal syncs of the server; `None` if it does not report them."""
    if server.http is None:
        return None
    with urllib.request.urlopen(f"{server.http}/metrics", timeout=10) as answer:
        found = SYNCS.search(answer.read().decode())
    return float(found[1]) if found else None


def journal_alone(folder: Path, group: int, seconds: float = 1.0) -> float:
    """Records of 1 KiB a second in synced commits of `group`, in recycled segments."""
    command = [str(TOOL), "--folder", str(folder / "journal"), "--stored", "-"]
    command += ["--seconds", str(seconds), "--groups", str(group)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = [[cell.strip() for cell in line.split("|")] for line in done.stdout.splitlines()]
    [rate] = [row[3] for row in rows if len(row) > 3 and row[2] == "recycled"]
    return float(rate)


class Beside:
    """Adds the limit of the journal and the number of syncs to reports of stored messages."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._group = FIRST_GROUP

    def measure(self, server: servers.Server, limit: bool, load: Callable[[], Report]) -> Report:
        """Run a load; with `limit` measure the journal alone directly before and after it."""
        before = journal_alone(self._folder, self._group) if limit else 0.0
        first = syncs(server)
        report = load()
        last = syncs(server)
        if first is not None and last is not None:
            sent = int(report["totals"]["sent"])
            report["syncs"] = last - first
            report["messages_per_sync"] = sent / max(1.0, last - first)
        if limit:
            self._group = max(1, min(1000, round(report.get("messages_per_sync", FIRST_GROUP))))
            after = journal_alone(self._folder, self._group)
            report["journal_per_s"] = (before + after) / 2
        return report


def started(folder: Path, kind: str) -> Report:
    """Time until a node is ready, wall and CPU, and its memory then."""
    begun = time.monotonic()
    with servers.node(folder, kind) as server:
        return {
            "seconds": time.monotonic() - begun,
            "cpu_s": servers.cpu_s(server.pids),
            "resident_mib": servers.resident_kib(server.pids) / 1024,
            "cpu": {},
        }


def depth(folder: Path, measure: Measure, rounds: int) -> dict[str, list[Report]]:
    """Store a million messages, restart the node, drain them: the reports of each step."""
    options = {"address": QUEUE, "body": "1024", "durable": "true", "messages": str(STORED)}
    with servers.node(folder, "depth") as server:
        enqueue = measure(server, {**options, "senders": "1", "receivers": "0"})
    restarts = []
    for _ in range(rounds):
        # An empty node as the control: it separates the cost of the start from that of messages.
        empty = started(folder, "empty")
        restarts.append({**started(folder, "depth"), "empty": empty})
    with servers.node(folder, "depth") as server:
        drain = measure(server, {**options, "senders": "0", "receivers": "1"})
    return {"enqueue": [enqueue], "restart": restarts, "drain": [drain]}
