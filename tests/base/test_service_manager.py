"""What a service manager is told: datagrams of sd_notify(3)."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from doubles import TestClock
from enmasse.base.service_manager import ServiceManager


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[socket.socket, str]]:
    """A socket as a manager has it, and what `NOTIFY_SOCKET` says of it."""
    is_path = request.param == "path"
    name = str(tmp_path / "notify") if is_path else f"enmasse-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(name if is_path else f"\0{name}")
        listener.settimeout(10)
        yield listener, name if is_path else f"@{name}"


def test_what_it_is_told(manager: tuple[socket.socket, str]) -> None:
    listener, address = manager
    environment = {"NOTIFY_SOCKET": address, "PATH": "/bin"}
    told = ServiceManager.of(environment)
    assert environment == {"PATH": "/bin"}, "children of this process are other services"
    told.ready("leading")
    told.status("standing by")
    told.stopping()
    assert listener.recv(100) == b"READY=1\nSTATUS=leading"
    assert listener.recv(100) == b"STATUS=standing by"
    assert listener.recv(100) == b"STOPPING=1\nSTATUS=stopping"


def test_a_manager_that_is_absent_or_does_not_read_is_no_error(
    manager: tuple[socket.socket, str], tmp_path: Path
) -> None:
    ServiceManager.of({}).ready("leading")
    ServiceManager(str(tmp_path / "gone")).ready("leading")
    _, address = manager
    for _ in range(10_000):  # more than a socket's queue takes
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


async def test_the_watchdog_hears_of_it_twice_in_its_time(
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
async def test_without_a_watchdog_nothing_is_told(
    manager: tuple[socket.socket, str], watchdog: dict[str, str]
) -> None:
    listener, address = manager
    listener.setblocking(False)
    await ServiceManager.of({"NOTIFY_SOCKET": address, **watchdog}).keep_alive(TestClock())
    with pytest.raises(BlockingIOError):
        listener.recv(100)
