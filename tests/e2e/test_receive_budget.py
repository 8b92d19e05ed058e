"""Senders while the disk stalls. Needs root: `make check-all`."""

import asyncio
import time
from contextlib import closing
from pathlib import Path

import httpx2
import pytest
from proton import Message as ProtonMessage
from proton.utils import BlockingConnection

from e2e.disks import disk, need
from enmasse.client import connect
from enmasse.messaging import Data, Message
from platform_process import Platform, running
from prove.killing import stored

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SENDERS, MESSAGES = 60, 24
BODY = Data((bytes(64 << 10),))
BUDGET = 64 << 20


def metric(up: Platform, name: str) -> float:
    lines = httpx2.get(f"{up.url('http')}/metrics", timeout=60).text.splitlines()
    return next(float(line.split()[-1]) for line in lines if line.startswith(f"{name} "))


def pass_directly(up: Platform) -> None:
    """Pass a message that needs no disk."""
    with closing(BlockingConnection(up.url(), timeout=60)) as connection:
        receiver = connection.create_receiver("anycast", credit=1)
        connection.create_sender("anycast").link.send(ProtonMessage(body="needs no disk"))
        assert receiver.receive(timeout=60).body == "needs no disk"
        receiver.accept()


async def send_all(url: str, to: str, count: int) -> None:
    async with connect(url) as session, session.sender(to) as sender:
        await asyncio.gather(*(sender.send(Message(body=BODY)) for _ in range(count)))


async def stopped(up: Platform) -> None:
    """Wait until the platform has stopped reading some connections."""
    ends = time.monotonic() + 60
    while not await asyncio.to_thread(metric, up, "enmasse_connections_stopped"):
        assert time.monotonic() < ends, "no connection was stopped"


async def test_stalled_disk_blocks_only_senders_to_queues(tmp_path: Path) -> None:
    need("fsfreeze")
    data = tmp_path / "data"
    data.mkdir()
    with disk("ext4", 600, tmp_path, data / "journal") as made:
        (data / "journal" / "lost+found").rmdir()
        with running(data, "--receive-memory", "64MiB") as up:
            up.enmasse("create", "address", "orders", "--type", "queue")
            async with asyncio.TaskGroup() as group:
                with made.stalled():
                    for _ in range(SENDERS):
                        group.create_task(send_all(up.url(), "orders", MESSAGES))
                    await stopped(up)
                    held = await asyncio.to_thread(metric, up, "enmasse_received_bytes")
                    assert BUDGET / 4 < held <= BUDGET
                    await asyncio.to_thread(pass_directly, up)
                    assert await asyncio.to_thread(stored, up) == 0
            assert stored(up) == SENDERS * MESSAGES, "all are accepted after the stall"
            assert metric(up, "enmasse_connections_stopped") == 0
