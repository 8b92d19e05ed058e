"""Notifications to the service manager: the protocol of sd_notify(3), a datagram.

`NOTIFY_SOCKET` names the socket of the manager; without it nothing is sent. A datagram that cannot
be sent is dropped: a slow manager must not block the process.
"""

import contextlib
import os
import socket
from collections.abc import MutableMapping

from enmasse.base.clock import Clock

SOCKET, WATCHDOG_US, WATCHDOG_PID = "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"


class ServiceManager:
    """The manager that started this process, if any."""

    def __init__(self, address: str | None, watchdog_s: float | None = None) -> None:
        """Notify the socket at `address`; `watchdog_s` is its watchdog time-out."""
        self._address = address
        self._watchdog_s = watchdog_s

    @classmethod
    def of(cls, environment: MutableMapping[str, str]) -> "ServiceManager":
        """Return the manager in an environment and remove its variable, so that child processes do
        not inherit it.
        """
        address = environment.pop(SOCKET, None)
        microseconds = environment.pop(WATCHDOG_US, "")
        is_ours = environment.pop(WATCHDOG_PID, str(os.getpid())) == str(os.getpid())
        has_watchdog = microseconds.isdecimal() and int(microseconds) > 0 and is_ours
        return cls(address, int(microseconds) / 1e6 if has_watchdog else None)

    def ready(self, status: str) -> None:
        """Send READY with a status."""
        self._send("READY=1", f"STATUS={status}")

    def status(self, status: str) -> None:
        """Send a one-line status."""
        self._send(f"STATUS={status}")

    def stopping(self) -> None:
        """Send STOPPING."""
        self._send("STOPPING=1", "STATUS=stopping")

    async def keep_alive(self, clock: Clock) -> None:
        """Send WATCHDOG twice per time-out, until cancelled."""
        while self._watchdog_s is not None:
            self._send("WATCHDOG=1")
            await clock.sleep(self._watchdog_s / 2)

    def _send(self, *lines: str) -> None:
        if self._address is None:
            return
        # A leading @ denotes the abstract namespace, whose names begin with a zero byte.
        address = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as peer,
        ):
            peer.setblocking(False)
            peer.connect(address)
            peer.send("\n".join(lines).encode())
