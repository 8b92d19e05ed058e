"""What stored cases need beside a load: counted syncs, the journal alone, depth and a restart."""

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
"""Records in a commit of the journal alone before it is known how many a sync of the node has."""
SYNCS = re.compile(r"^enmasse_journal_syncs_total (\S+)$", re.MULTILINE)
QUEUE = "queue/0"

Measure = Callable[[servers.Server, dict[str, str]], Report]
"""Runs the load tool on a server with options."""


def syncs(server: servers.Server) -> float | None:
    """How often the server has synced its journal; `None` if it does not say."""
    if server.http is None:
        return None
    with urllib.request.urlopen(f"{server.http}/metrics", timeout=10) as answer:
        found = SYNCS.search(answer.read().decode())
    return float(found[1]) if found else None


def journal_alone(folder: Path, group: int, seconds: float = 1.0) -> float:
    """Records of 1 KiB a second in synced commits of `group`, in segments that are used again."""
    command = [str(TOOL), "--folder", str(folder / "journal"), "--stored", "-"]
    command += ["--seconds", str(seconds), "--groups", str(group)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = [[cell.strip() for cell in line.split("|")] for line in done.stdout.splitlines()]
    [rate] = [row[3] for row in rows if len(row) > 3 and row[2] == "recycled"]
    return float(rate)


class Beside:
    """Puts the journal's own limit and the number of syncs beside loads of stored messages."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._group = FIRST_GROUP

    def measure(self, server: servers.Server, limit: bool, load: Callable[[], Report]) -> Report:
        """A load, with the journal alone directly before and after it if `limit`."""
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
    """How long a node takes until it is ready, on the wall and of CPU, and its memory then."""
    begun = time.monotonic()
    with servers.node(folder, kind) as server:
        return {
            "seconds": time.monotonic() - begun,
            "cpu_s": servers.cpu_s(server.pids),
            "resident_mib": servers.resident_kib(server.pids) / 1024,
            "cpu": {},
        }


def depth(folder: Path, measure: Measure, rounds: int) -> dict[str, list[Report]]:
    """A million messages stored, the node started again, all taken: the reports of each step."""
    options = {"address": QUEUE, "body": "1024", "durable": "true", "messages": str(STORED)}
    with servers.node(folder, "depth") as server:
        enqueue = measure(server, {**options, "senders": "1", "receivers": "0"})
    restarts = []
    for _ in range(rounds):
        # an empty one beside it: what is the start, and what the messages
        empty = started(folder, "empty")
        restarts.append({**started(folder, "depth"), "empty": empty})
    with servers.node(folder, "depth") as server:
        drain = measure(server, {**options, "senders": "0", "receivers": "1"})
    return {"enqueue": [enqueue], "restart": restarts, "drain": [drain]}
