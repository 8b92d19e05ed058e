"""Latency of one tenant while another one attaches 50,000 links at once, and drops them.

    .venv/bin/python bench/attach_burst.py [--connections 50] [--links 1000] [--seconds 10]

The load tool sends 1,000 messages a second in one space. In another space, `--connections`
connections send `--links` attaches each in one burst; all of them break off in the middle of the
measurement. Goal: the first space's p99 stays below 20 ms.
`cargo build --release -p enmasse-load` builds the load tool.
"""

from __future__ import annotations

import argparse
import os
import socket
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import servers
from frames import NULL, RECEIVER, SENDER, SOURCE, ZERO, composite, frame, text, uint

from run import load

P99_MAX_MS = 20.0
ATTACH = b"\x00\x53\x12"


def burst(connection: int, links: int) -> bytes:
    """The bytes of a connection with this many links, half of them receivers."""
    name = text(f"burst-{connection}")
    target = b"\x00\x53\x29" + composite(text("direct"))
    source = b"\x00\x53\x28" + composite(text("direct"))
    frames = [
        b"AMQP\x00\x01\x00\x00",
        frame(0x10, name, text("noisy")),
        frame(0x11, NULL, ZERO, uint(1 << 20), uint(1 << 20), uint(links)),
    ]
    for link in range(links):
        head = (text(f"l{link}"), uint(link))
        if link % 2:
            frames.append(frame(0x12, *head, RECEIVER, NULL, NULL, source, b"\x00\x53\x29\x45"))
        else:
            frames.append(frame(0x12, *head, SENDER, NULL, NULL, SOURCE, target, NULL, NULL, ZERO))
    return b"".join(frames)


class Peer(threading.Thread):
    """A connection that sends its burst, and reads and counts what is answered."""

    def __init__(self, url: str, connection: int, links: int) -> None:
        """Connect."""
        super().__init__(daemon=True)
        place = urlsplit(url)
        self._bytes = burst(connection, links)
        self._socket = socket.create_connection((place.hostname, place.port), timeout=30)
        self.attached = 0

    def run(self) -> None:
        """Send, then read until the connection ends."""
        try:
            self._socket.sendall(self._bytes)
            while received := self._socket.recv(1 << 16):
                self.attached += received.count(ATTACH)
        except OSError:
            return

    def break_off(self) -> None:
        """End the connection without a close frame."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


def latency(server: servers.Server, seconds: float) -> tuple[float, float]:
    """The p99 and the maximum of direct messages in the default space, milliseconds."""
    options = {"address": "anycast", "body": "100", "rate": "1000", "duration": str(seconds)}
    found = load(server, options)["latency"]
    return found["p99_us"] / 1e3, found["max_us"] / 1e3


def main() -> None:
    """Measure, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connections", type=int, default=50)
    parser.add_argument("--links", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=10.0)
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="enmasse-attach-") as name,
        servers.node(Path(name), "tenants") as node,
    ):
        alone = latency(node, arguments.seconds)
        count = range(arguments.connections)
        peers = [Peer(node.url, number, arguments.links) for number in count]

        def attach_and_drop() -> None:
            time.sleep(arguments.seconds / 4)
            for peer in peers:
                peer.start()
            time.sleep(arguments.seconds / 2)
            for peer in peers:
                peer.break_off()

        crowd = threading.Thread(target=attach_and_drop)
        crowd.start()
        beside = latency(node, arguments.seconds)
        crowd.join()
        attached = sum(peer.attached for peer in peers)
    print(f"load of the machine: {os.getloadavg()[0]:.1f}; {attached:,} links were attached")
    reached = "reached" if beside[0] <= P99_MAX_MS else "short"
    print(f"p99: {alone[0]:.2f} ms alone, {beside[0]:.2f} ms beside: {reached}")
    print(f"maximum: {alone[1]:.1f} ms alone, {beside[1]:.1f} ms beside")


if __name__ == "__main__":
    main()
