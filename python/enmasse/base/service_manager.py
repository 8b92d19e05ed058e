"""What a process tells its service manager: the protocol of sd_notify(3), which is a datagram.

The manager names a socket in `NOTIFY_SOCKET`; where there is none, nothing is told to anybody. What
cannot be sent is lost: a manager that does not read must not stop the process.
"""

import contextlib
import os
import socket
from collections.abc import MutableMapping

from enmasse.base.clock import Clock

SOCKET, WATCHDOG_US, WATCHDOG_PID = "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"


class ServiceManager:
    """The manager that has started this process, if one has."""

    def __init__(self, address: str | None, watchdog_s: float | None = None) -> None:
        """Tell the socket at `address`; `watchdog_s` is the longest silence that it accepts."""
        self._address = address
        self._watchdog_s = watchdog_s

    @classmethod
    def of(cls, environment: MutableMapping[str, str]) -> "ServiceManager":
        """Return the manager that an environment names, and take it out: it is for this process
        alone, and not for those that it may start."""
        address = environment.pop(SOCKET, None)
        microseconds = environment.pop(WATCHDOG_US, "")
        is_ours = environment.pop(WATCHDOG_PID, str(os.getpid())) == str(os.getpid())
        has_watchdog = microseconds.isdecimal() and int(microseconds) > 0 and is_ours
        return cls(address, int(microseconds) / 1e6 if has_watchdog else None)

    def ready(self, status: str) -> None:
        """Say that the process serves, and how."""
        self._tell("READY=1", f"STATUS={status}")

    def status(self, status: str) -> None:
        """Say in one line what the process does."""
        self._tell(f"STATUS={status}")

    def stopping(self) -> None:
        """Say that the process is about to end."""
        self._tell("STOPPING=1", "STATUS=stopping")

    async def keep_alive(self, clock: Clock) -> None:
        """Say until cancelled that the process lives, twice in the time that the manager waits."""
        while self._watchdog_s is not None:
            self._tell("WATCHDOG=1")
            await clock.sleep(self._watchdog_s / 2)

    def _tell(self, *lines: str) -> None:
        if self._address is None:
            return
        # A leading @ stands for the abstract namespace, which begins with a zero byte.
        address = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as peer,
        ):
            peer.setblocking(False)
            peer.connect(address)
            peer.send("\n".join(lines).encode())
