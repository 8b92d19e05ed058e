"""Requests and replies: requesters with reply addresses of their own, and one service.

The service receives from an anycast address and answers over the anonymous terminus. The service
and the requesters are separate processes, with qpid-proton; each requester has `--window`
outstanding requests. `bench/baseline.py` starts them; as a script it is one side of the load.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proton import Message
from proton.handlers import MessagingHandler
from proton.reactor import AtMostOnce, Container

ADDRESS = "anycast"
BODY = b"x" * 100
WARM_S = 1.0
TIMEOUT_S = 120


@dataclass(frozen=True)
class Result:
    """Result of one run."""

    replies_per_s: float
    server_us: float
    """Microseconds of CPU of the server for a request and its reply."""


class _Service(MessagingHandler):  # type: ignore[misc]
    """Answers every request with itself."""

    def __init__(self, url: str) -> None:
        super().__init__(prefetch=1000)
        self._url = url

    def on_start(self, event: Any) -> None:
        connection = event.container.connect(self._url, reconnect=False)
        event.container.create_receiver(connection, ADDRESS, options=AtMostOnce())
        self._answers = event.container.create_sender(connection, None, options=AtMostOnce())

    def on_message(self, event: Any) -> None:
        request = event.message
        reply = Message(address=request.reply_to, correlation_id=request.id, body=request.body)
        self._answers.send(reply)


class _Requesters(MessagingHandler):  # type: ignore[misc]
    """Each requester sends its next request when it receives a reply."""

    def __init__(self, url: str, count: int, links: int, window: int, seconds: float) -> None:
        super().__init__(prefetch=100)
        self._url = url
        self._count = count
        self._links = links
        self._window = window
        self._seconds = seconds
        self._senders: dict[Any, Any] = {}
        self._connections: list[Any] = []
        self._ready = 0
        self._replies = 0
        self._began = 0.0
        self.replies_per_s = 0.0

    def on_start(self, event: Any) -> None:
        for number in range(self._count):
            if number % self._links == 0:
                # A connection of its own: by default the container shares one.
                connection = event.container.connect(self._url, reconnect=False)
                self._connections.append(connection)
                # A unique name: the same name on another connection would steal the link.
                sender = event.container.create_sender(
                    connection, ADDRESS, name=f"requests-{number}", options=AtMostOnce()
                )
            receiver = event.container.create_receiver(
                connection, None, name=f"replies-{number}", dynamic=True, options=AtMostOnce()
            )
            self._senders[receiver] = sender

    def on_link_opened(self, event: Any) -> None:
        if event.link in self._senders:
            self._ready += 1
            if self._ready == self._count:
                event.container.schedule(WARM_S, self)
                for receiver in self._senders:
                    for _ in range(self._window):
                        self._send_request(receiver)

    def on_timer_task(self, event: Any) -> None:
        now = time.monotonic()
        if not self._began:
            self._began, self._replies = now, 0
            event.container.schedule(self._seconds, self)
            return
        self.replies_per_s = self._replies / (now - self._began)
        for connection in self._connections:
            connection.close()

    def on_message(self, event: Any) -> None:
        self._replies += 1
        if not self.replies_per_s:
            self._send_request(event.link)

    def _send_request(self, receiver: Any) -> None:
        self._senders[receiver].send(
            Message(id=1, reply_to=receiver.remote_source.address, body=BODY)
        )


def _cpu_s(pids: list[int]) -> float:
    """Seconds of CPU that processes have used."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def measure(url: str, pids: list[int], requesters: int, window: int, seconds: float) -> Result:
    """One run against a server at `url`; its processes are `pids`."""
    command = [sys.executable, str(Path(__file__)), "--url", url]
    service = subprocess.Popen([*command, "--serve"])
    try:
        # Includes start and end, which are the same on both sides of a ratio.
        before = _cpu_s(pids)
        asking = subprocess.run(
            [
                *command,
                *map(str, ("--count", requesters, "--window", window, "--seconds", seconds)),
            ],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=True,
        )
        used = _cpu_s(pids) - before
    finally:
        service.terminate()
        service.wait()
    rate = float(asking.stdout)
    return Result(rate, 1e6 * used / (rate * (seconds + WARM_S)))


def main() -> None:
    """One side of a load."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--serve", action="store_true", help="answer, until stopped")
    parser.add_argument("--count", type=int, default=1, help="requesters")
    parser.add_argument("--links", type=int, default=10, help="requesters of one connection")
    parser.add_argument("--window", type=int, default=1, help="outstanding requests of a requester")
    parser.add_argument("--seconds", type=float, default=3.0)
    given = parser.parse_args()
    if given.serve:
        Container(_Service(given.url)).run()
        return
    asking = _Requesters(given.url, given.count, given.links, given.window, given.seconds)
    Container(asking).run()
    print(asking.replies_per_s)


if __name__ == "__main__":
    main()
