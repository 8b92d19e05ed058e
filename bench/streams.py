"""The steps of streams: fill, restart the node, read from the start."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import servers
from cases import LARGE, READERS, SMALL, Report
from stored import Measure, syncs

DIRECT_S = "3"
"""Seconds of the direct load during a step."""
PIECE_BYTES = 256 * 1024
"""Bytes of one read when the page cache is measured."""
BODIES = {"small": "100", "large": "65536"}
COUNTS = {"small": SMALL, "large": LARGE}
ADDRESSES = dict(zip(BODIES, servers.STREAMS, strict=True))


def _files(data: Path) -> Iterator[Path]:
    return (path for path in data.rglob("*") if path.is_file() and "journal" in path.parts)


def drop_page_cache(data: Path) -> None:
    """Drop the journal from the page cache, so that reads go to the disk."""
    for path in _files(data):
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def page_cache_mib_per_s(data: Path) -> float:
    """Rate of reading the journal from the page cache; the second of two passes counts."""
    room = bytearray(PIECE_BYTES)
    rate = 0.0
    for _ in range(2):
        begun, count = time.monotonic(), 0
        for path in _files(data):
            with path.open("rb", buffering=0) as file:
                while got := file.readinto(room):
                    count += got
        rate = count / 2**20 / (time.monotonic() - begun)
    return rate


def _enqueue(server: servers.Server, size: str, measure: Measure) -> Report:
    first = syncs(server)
    options = {"address": ADDRESSES[size], "body": BODIES[size], "messages": str(COUNTS[size])}
    report = measure(server, {**options, "senders": "1", "receivers": "0"})
    last = syncs(server)
    if first is not None and last is not None:
        report["messages_per_sync"] = COUNTS[size] / max(1.0, last - first)
    return report


def _replay(server: servers.Server, size: str, readers: int, measure: Measure) -> Report:
    """All messages from the first, to each of the readers, from the disk."""
    options = {"address": ADDRESSES[size], "body": BODIES[size], "messages": str(COUNTS[size])}
    options |= {"offset": "first", "presettled": "true"}
    before = servers.disk_bytes(server.pids)
    report = measure(server, {**options, "senders": "0", "receivers": str(readers)})
    report["disk_bytes"] = servers.disk_bytes(server.pids) - before
    return report


def _direct(server: servers.Server, size: str, measure: Measure) -> Report:
    options = {"address": "anycast", "body": BODIES[size], "presettled": "true"}
    options |= {"senders": "1", "receivers": "1", "duration": DIRECT_S}
    return measure(server, options)


def streams(folder: Path, measure: Measure, rounds: int) -> dict[str, list[Report]]:
    """Fill two streams, read them with a cold page cache, and run direct loads meanwhile."""
    data = folder / "streams"
    reports: dict[str, list[Report]] = {}
    with servers.node(folder, "streams") as server:
        for size in BODIES:
            reports[f"enqueue {size}"] = [_enqueue(server, size, measure)]
    for _ in range(rounds):
        for size, readers in (("small", 1), ("large", 1), ("small", READERS)):
            cached = page_cache_mib_per_s(data)
            drop_page_cache(data)
            with servers.node(folder, "streams") as server:
                report = _replay(server, size, readers, measure)
                report["page_cache_mib_per_s"] = cached
                reports.setdefault(f"replay {size}" if readers == 1 else "readers", []).append(
                    report
                )
                if readers == 1:
                    reports.setdefault(f"direct {size}", []).append(_direct(server, size, measure))
    return reports
