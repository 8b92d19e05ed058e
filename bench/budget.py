"""The receive budget: memory and other tenants' direct messages while one tenant's messages wait.

    .venv/bin/python bench/budget.py [--direct] [--producers 300] [--budget 512MiB] [--seconds 10]

The journal is on a file system of its own, which is frozen (`fsfreeze`): no write completes.
Producers of one space then send to a queue as fast as their sockets accept bytes, regardless of
credit and session windows, while the load tool sends direct messages in another space. Goals: the
resident memory grows by at most the budget and 256 MiB; direct messages keep 80 % of their rate.

With `--direct` nothing is frozen: the producers send to a direct address whose consumer takes one
message and settles nothing.

The stalled disk needs root, ext4 and loop devices. `cargo build --release -p enmasse-load` builds
the load tool.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import selectors
import socket
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import servers
from frames import NULL, RECEIVER, SENDER, SOURCE, ZERO, composite, frame, text, uint

from enmasse.base.settings import receive_bytes
from run import load

BODY = bytes(64 << 10)
DISK_MIB = 2_048
SLACK_BYTES = 256 << 20
RATE_MIN = 0.8
SETTLING_S = 8.0
"""Seconds that the producers send before the direct rate is measured."""


@contextlib.contextmanager
def disk(image: Path, mount: Path) -> Iterator[None]:
    """An empty file system in a file."""
    with image.open("wb") as file:
        file.truncate(DISK_MIB << 20)
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    mount.mkdir(parents=True)
    subprocess.run(["mount", "-o", "loop", image, mount], check=True)
    (mount / "lost+found").rmdir()
    try:
        yield
    finally:
        subprocess.run(["umount", mount], check=True)


@contextlib.contextmanager
def frozen(mount: Path) -> Iterator[None]:
    """Freeze the file system: no write completes until the context ends."""
    subprocess.run(["fsfreeze", "-f", mount], check=True)
    try:
        yield
    finally:
        subprocess.run(["fsfreeze", "-u", mount], check=True)


class Producer:
    """A peer that sends without end and ignores every frame it receives."""

    def __init__(self, number: int, host: str, port: int, space: str, address: str) -> None:
        """Connect, and queue the frames before the first transfer: open, begin, attach."""
        target = b"\x00\x53\x29" + composite(text(address))
        name = text(f"budget-{number}")
        self._waiting = b"AMQP\x00\x01\x00\x00" + b"".join(
            [
                frame(0x10, name, text(space)),
                frame(0x11, NULL, ZERO, uint(1 << 20), uint(1 << 20)),
                frame(0x12, name, ZERO, SENDER, NULL, NULL, SOURCE, target, NULL, NULL, ZERO),
            ]
        )
        self._sent = 0
        self.socket = socket.create_connection((host, port), timeout=30)
        self.socket.setblocking(False)

    def send_more(self) -> None:
        """Write some of what the socket accepts, and discard received bytes."""
        with contextlib.suppress(BlockingIOError):
            while self.socket.recv(1 << 16):
                pass
        with contextlib.suppress(BlockingIOError):
            for _ in range(8):
                if not self._waiting:
                    self._waiting = self._transfer()
                self._waiting = self._waiting[self.socket.send(self._waiting) :]

    def _transfer(self) -> bytes:
        tag = struct.pack(">BBI", 0xA0, 4, self._sent)
        fields = (ZERO, uint(self._sent), tag, ZERO, SENDER)
        self._sent += 1
        data = b"\x00\x53\x75" + struct.pack(">BI", 0xB0, len(BODY)) + BODY
        return frame(0x14, *fields, payload=data)


@contextlib.contextmanager
def stuck_consumer(url: str, space: str, address: str) -> Iterator[None]:
    """A consumer of `address` that grants a credit of 1 and settles nothing."""
    place = urlsplit(url)
    source = b"\x00\x53\x28" + composite(text(address))
    target = b"\x00\x53\x29\x45"
    name = text("stuck")
    with socket.create_connection((place.hostname, place.port), timeout=30) as peer:
        peer.sendall(
            b"AMQP\x00\x01\x00\x00"
            + frame(0x10, name, text(space))
            + frame(0x11, NULL, ZERO, uint(1 << 20), uint(1 << 20))
            + frame(0x12, name, ZERO, RECEIVER, NULL, NULL, source, target)
            + frame(0x13, NULL, uint(1 << 20), ZERO, uint(1 << 20), ZERO, ZERO, uint(1))
        )
        peer.recv(1 << 16)
        yield


class Producers(threading.Thread):
    """Several producers on one thread."""

    def __init__(self, url: str, count: int, space: str, address: str) -> None:
        """Connect them."""
        super().__init__(daemon=True)
        place = urlsplit(url)
        assert place.hostname is not None and place.port is not None
        self._all = [Producer(n, place.hostname, place.port, space, address) for n in range(count)]
        self._stopping = threading.Event()
        self.broken = 0

    def run(self) -> None:
        """Send until they are stopped."""
        with selectors.DefaultSelector() as ready:
            for one in self._all:
                ready.register(one.socket, selectors.EVENT_WRITE, one)
            while not self._stopping.is_set():
                for key, _ in ready.select(0.1):
                    try:
                        key.data.send_more()
                    except OSError:
                        ready.unregister(key.fileobj)
                        self.broken += 1

    def stop(self) -> None:
        """Close all connections."""
        self._stopping.set()
        self.join()
        for one in self._all:
            one.socket.close()


def resident(server: servers.Server) -> int:
    """The resident memory of the platform, in bytes."""
    return int(Path(f"/proc/{server.pids[0]}/statm").read_text().split()[1]) * 4096


class PeakMemory(threading.Thread):
    """Samples the resident memory until stopped."""

    def __init__(self, server: servers.Server) -> None:
        """Sample this platform."""
        super().__init__(daemon=True)
        self._server = server
        self._stopping = threading.Event()
        self.bytes = 0

    def run(self) -> None:
        """Sample ten times a second."""
        while not self._stopping.wait(0.1):
            self.bytes = max(self.bytes, resident(self._server))

    def stop(self) -> int:
        """Stop, and return the maximum."""
        self._stopping.set()
        self.join()
        return self.bytes


def rate(server: servers.Server, seconds: float) -> float:
    """Direct messages a second in the default space."""
    options = {"address": "anycast", "body": "100", "duration": str(seconds)}
    return float(load(server, options)["messages_per_s"])


def main() -> None:
    """Measure, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--direct", action="store_true", help="a stuck consumer, not a stuck disk")
    parser.add_argument("--producers", type=int, default=300)
    parser.add_argument("--budget", default="512MiB", help="the setting receive-memory")
    parser.add_argument("--seconds", type=float, default=10.0)
    arguments = parser.parse_args()
    os.environ["ENMASSE_RECEIVE_MEMORY"] = arguments.budget
    budget = receive_bytes(arguments.budget)
    with tempfile.TemporaryDirectory(prefix="enmasse-budget-") as name:
        folder = Path(name)
        mount = folder / "tenants" / "journal"
        with contextlib.ExitStack() as stack:
            if not arguments.direct:
                stack.enter_context(disk(folder / "disk.img", mount))
            node = stack.enter_context(servers.node(folder, "tenants"))
            alone = rate(node, arguments.seconds)
            idle = resident(node)
            address = "direct" if arguments.direct else "queue"
            stuck = (
                stuck_consumer(node.url, "noisy", address) if arguments.direct else frozen(mount)
            )
            with stuck:
                most, producers = (
                    PeakMemory(node),
                    Producers(node.url, arguments.producers, "noisy", address),
                )
                most.start()
                producers.start()
                time.sleep(SETTLING_S)
                beside = rate(node, arguments.seconds)
                grown = most.stop() - idle
                left = arguments.producers - producers.broken
                producers.stop()
    print(f"load of the machine: {os.getloadavg()[0]:.1f}; {left} producers stayed connected")
    reached = "reached" if grown <= budget + SLACK_BYTES else "short"
    print(f"memory: {idle >> 20} MiB idle, {grown >> 20} MiB more beside {budget >> 20}: {reached}")
    reached = "reached" if beside >= RATE_MIN * alone else "short"
    print(
        f"direct: {alone:,.0f} msg/s alone, {beside:,.0f} beside ({beside / alone:.2f}): {reached}"
    )


if __name__ == "__main__":
    main()
