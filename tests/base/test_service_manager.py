"""Notifications to a service manager: datagrams of sd_notify(3)."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from doubles import TestClock
from enmasse.base.service_manager import ServiceManager


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[socket.socket, str]]:
    """The socket of a service manager, and the matching value of `NOTIFY_SOCKET`."""
    is_path = request.param == "path"
    name = str(tmp_path / "notify") if is_path else f"enmasse-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(name if is_path else f"\0{name}")
        listener.settimeout(10)
        yield listener, name if is_path else f"@{name}"


def test_service_manager_receives_ready_status_and_stopping(
    manager: tuple[socket.socket, str],
) -> None:
    listener, address = manager
    environment = {"NOTIFY_SOCKET": address, "PATH": "/bin"}
    told = ServiceManager.of(environment)
    assert environment == {"PATH": "/bin"}, "child processes must not notify the manager"
    told.ready("leading")
    told.status("standing by")
    told.stopping()
    assert listener.recv(100) == b"READY=1\nSTATUS=leading"
    assert listener.recv(100) == b"STATUS=standing by"
    assert listener.recv(100) == b"STOPPING=1\nSTATUS=stopping"


def test_absent_or_blocked_service_manager_is_no_error(
    manager: tuple[socket.socket, str], tmp_path: Path
) -> None:
    ServiceManager.of({}).ready("leading")
    ServiceManager(str(tmp_path / "gone")).ready("leading")
    _, address = manager
    for _ in range(10_000):  # more than fits the queue of a socket
        ServiceManager(address).status("leading")


class Counting(TestClock):
    """A clock that ends the third sleep."""

    def __init__(self) -> None:
        super().__init__()
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        if len(self.slept) == 3:
            raise TimeoutError


async def test_watchdog_is_notified_twice_per_interval(
    manager: tuple[socket.socket, str],
) -> None:
    listener, address = manager
    listener.setblocking(False)
    clock = Counting()
    environment = {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "60000000"}
    with pytest.raises(TimeoutError):
        await ServiceManager.of(environment).keep_alive(clock)
    assert clock.slept == [30.0] * 3
    assert [listener.recv(100) for _ in clock.slept] == [b"WATCHDOG=1"] * 3
    with pytest.raises(BlockingIOError):
        listener.recv(100)


@pytest.mark.parametrize(
    "watchdog",
    [{}, {"WATCHDOG_USEC": "no"}, {"WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"}],
    ids=["none", "unreadable", "of another process"],
)
async def test_no_keep_alive_is_sent_without_a_watchdog(
    manager: tuple[socket.socket, str], watchdog: dict[str, str]
) -> None:
    listener, address = manager
    listener.setblocking(False)
    await ServiceManager.of({"NOTIFY_SOCKET": address, **watchdog}).keep_alive(TestClock())
    with pytest.raises(BlockingIOError):
        listener.recv(100)
