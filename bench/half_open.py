"""Half-open handshakes on every listener: how many, how long, how much memory.

    .venv/bin/python bench/half_open.py [--count 3000] [--only amqps,https] [--rest 60]

For each listener the script times one connection that sends only the beginning of its handshake,
then opens `--count` of them at once. Goals: a half-open connection is closed after 10 s and a
second; a listener holds at most 1,024, which use at most 1,024 times 32 KiB; and one minute later
resident memory is within a fifth of its start. The HTTPS listener holds fewer connections that have
sent their whole first record, because OpenSSL allocates more for each.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import selectors
import socket
import ssl
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ENMASSE = Path(__file__).parent.parent / ".venv/bin/enmasse"
LISTENERS = ("amqp", "amqps", "ws", "wss", "https")
LONGEST_S = 11.0
HELD_MAX = 1_024
OTHER_FILES = 8
"""Descriptors that an idle platform opens and closes for itself."""

BYTES_MAX = HELD_MAX * (32 << 10)
GROWTH_MAX = 0.2
GIVE_UP_S = 90.0


class Result(NamedTuple):
    """Result of one listener."""

    listener: str
    alone_s: float
    held: int
    bytes: int
    all_s: float
    growth: float

    @property
    def is_reached(self) -> bool:
        """Whether all goals are met."""
        in_number = self.held <= HELD_MAX + OTHER_FILES
        bounded = in_number and self.bytes <= BYTES_MAX
        return self.alone_s <= LONGEST_S and bounded and self.growth <= GROWTH_MAX


def beginning(listener: str) -> bytes:
    """The bytes of a half-open peer: the beginning that costs the server most."""
    if listener == "amqp":
        return b"AMQP"
    if listener == "ws":
        return b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nX-Filler: " + b"x" * 512
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    hello = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    try:
        hello.do_handshake()
    except ssl.SSLWantReadError:
        return outgoing.read()
    raise AssertionError("a handshake needs an answer")


def resident(pid: int) -> int:
    """Resident memory in bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()


def descriptors(pid: int) -> int:
    """Open descriptors."""
    return len(os.listdir(f"/proc/{pid}/fd"))


class HalfOpenPeers:
    """Peers that send the beginning of a handshake and then nothing."""

    def __init__(self, port: int, count: int, first_bytes: bytes) -> None:
        """Connect."""
        self._ready = selectors.DefaultSelector()
        self.left = count
        self._began = time.monotonic()
        for _ in range(count):
            one = socket.create_connection(("127.0.0.1", port), timeout=30)
            one.sendall(first_bytes)
            one.setblocking(False)
            self._ready.register(one, selectors.EVENT_READ)

    def poll(self, seconds: float) -> None:
        """Count the connections that the server closes within this time."""
        for key, _ in self._ready.select(seconds):
            one = key.fileobj
            assert isinstance(one, socket.socket)
            try:
                gone = not one.recv(1 << 14)
            except BlockingIOError:
                gone = False
            except OSError:
                gone = True
            if gone:
                self._ready.unregister(one)
                one.close()
                self.left -= 1

    def elapsed_s(self) -> float:
        """Seconds since the first one connected."""
        return time.monotonic() - self._began

    def close(self) -> None:
        """Close the remaining connections."""
        for key in list(self._ready.get_map().values()):
            assert isinstance(key.fileobj, socket.socket)
            key.fileobj.close()
        self._ready.close()


def measure(pid: int, listener: str, port: int, count: int, rest_s: float) -> Result:
    """Measure one listener."""
    first_bytes = beginning(listener)
    alone = HalfOpenPeers(port, 1, first_bytes)
    while alone.left and alone.elapsed_s() < GIVE_UP_S:
        alone.poll(0.1)
    alone_s = alone.elapsed_s()
    alone.close()
    before, before_files = resident(pid), descriptors(pid)
    crowd = HalfOpenPeers(port, count, first_bytes)
    held, most = 0, before
    while crowd.left and crowd.elapsed_s() < GIVE_UP_S:
        crowd.poll(0.05)
        held = max(held, descriptors(pid) - before_files)
        most = max(most, resident(pid))
    all_s = crowd.elapsed_s()
    crowd.close()
    time.sleep(rest_s)
    growth = resident(pid) / before - 1
    return Result(listener, alone_s, held, most - before, all_s, growth)


def run(count: int, only: Sequence[str], rest_s: float) -> list[Result]:
    """Start a platform and measure its listeners, one after the other."""
    with tempfile.TemporaryDirectory(prefix="enmasse-half-open-") as folder:
        ports = [part for name in (*LISTENERS, "http") for part in (f"--{name}-port", "0")]
        command = [str(ENMASSE), "up", "--output", "json", "--data", f"{folder}/data", *ports]
        with (Path(folder) / "log").open("w") as log:
            platform = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            assert platform.stdout is not None
            endpoints = json.loads(platform.stdout.readline())["endpoints"]
            return [
                measure(platform.pid, name, endpoints[name]["port"], count, rest_s) for name in only
            ]
        finally:
            platform.terminate()
            platform.wait(30)


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=3_000)
    parser.add_argument("--only", default=",".join(LISTENERS))
    parser.add_argument("--rest", type=float, default=60.0, help="seconds until memory is compared")
    arguments = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    found = run(arguments.count, arguments.only.split(","), arguments.rest)
    print(f"load of the machine: {os.getloadavg()[0]:.1f}; {arguments.count} at once")
    print("| listener | one is closed after | held | taken | each | all gone | after | |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for one in found:
        reached = "reached" if one.is_reached else "short"
        each = f"{one.bytes / 1024 / max(one.held, 1):.1f} KiB"
        memory = f"{one.bytes >> 20} MiB | {each} | {one.all_s:.1f} s | {one.growth:+.0%}"
        print(f"| {one.listener} | {one.alone_s:.1f} s | {one.held:,} | {memory} | {reached} |")


if __name__ == "__main__":
    main()
