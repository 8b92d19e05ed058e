"""Files of the journal that are damaged while the platform is stopped."""

import json
import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
from proton import Message, Timeout

from platform_process import Platform, running
from proton_client import address, connected, document, send

pytestmark = pytest.mark.timeout(180)

STORED, TAKEN = 200, 30


def remove(file: Path) -> None:
    """Remove a file."""
    file.unlink()


def truncate(file: Path) -> None:
    """Leave less of a file than was sent."""
    os.truncate(file, 60 << 10)


def stop(platform: Platform) -> None:
    """End it in order."""
    platform.process.send_signal(signal.SIGTERM)
    assert platform.process.wait(20) == 0


def take(platform: Platform, name: str, most: int) -> list[str]:
    """Accept so many messages of an address, or all if there are fewer; return their ids."""
    taken: list[str] = []
    with connected(platform) as connection:
        receiver = connection.create_receiver(name, credit=1)
        while len(taken) < most:
            try:
                taken.append(str(receiver.receive(timeout=2).id))
            except Timeout:
                break
            receiver.accept()
    return taken


@contextmanager
def filled(data: Path) -> Iterator[Platform]:
    """Run a platform with messages in two queues."""
    declared = document(data.parent, address("orders"), address("bills"))
    with running(data, "-f", str(declared)) as up:
        send(up, "bills", Message(id="bill", body="y"))
        send(up, "orders", *(Message(id=str(n), body="x" * 1024) for n in range(STORED)))
        yield up


def undeclare(journal: Path, name: str) -> None:
    """Damage both copies of the declaration of an address."""
    for file in ("0000000000.log", "0000000001.log"):
        with (journal / file).open("r+b") as content:
            content.seek(content.read(1 << 20).index(name.encode()))
            content.write(b"\xee" * len(name))


def unnamed(platform: Platform) -> list[float]:
    """The metrics of messages without a declared address: messages, and segments."""
    page = httpx2.get(f"{platform.url('http')}/metrics").text
    counts = re.findall(r"^enmasse_journal_unnamed_(messages|segments) (.*)$", page, re.M)
    return [float(dict(counts)[name]) for name in ("messages", "segments")]


def told(platform: Platform, name: str) -> str:
    """The message of the condition that says that messages are lost, once there is one."""
    platform.enmasse("wait", "address", name, "--for", "condition=MessagesIntact=False")
    listed = json.loads(platform.enmasse("get", "addresses", "--output", "json"))["items"]
    status = next(one["status"] for one in listed if one["spec"]["address"] == name)
    condition = next(one for one in status["conditions"] if one["type"] == "MessagesIntact")
    assert condition["reason"] == "MessagesLost"
    return str(condition["message"])


@pytest.mark.parametrize("damage", [remove, truncate])
def test_what_the_file_in_use_lost_after_a_clean_stop_is_named_by_address_and_count(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    data = tmp_path / "data"
    with filled(data) as up:
        assert len(take(up, "orders", TAKEN)) == TAKEN
        assert take(up, "bills", 1) == ["bill"]
        stop(up)
    damage(data / "journal" / "0000000001.log")
    with running(data) as up:
        lost = int(told(up, "orders").split()[0])
        left = take(up, "orders", STORED)
        if damage is remove:
            assert (lost, left) == (STORED - TAKEN, []), "accepted messages are not lost"
        else:
            # The end of the file had the removals: those messages come again.
            assert left == [str(n) for n in range(STORED - lost)]
            assert TAKEN < len(left) < STORED
        assert f"{lost} messages were lost to damage at rest" in up.enmasse("doctor", "orders")
        page = httpx2.get(f"{up.url('http')}/metrics?addresses=all").text
        counts = re.findall(r"^enmasse_address_damaged_messages_total{(.*)} (.*)$", page, re.M)
        assert [float(count) for labels, count in counts if 'address="orders"' in labels] == [lost]
        assert [float(count) for labels, count in counts if 'address="bills"' in labels] == [0]
        send(up, "orders", Message(id="new", body="new"))
        assert take(up, "orders", 1) == ["new"]


def test_messages_without_a_declared_address_are_shown_until_they_are_discarded(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    with filled(data) as up:
        # Without an orderly stop the records are read, not the index of the file.
        up.process.kill()
        up.process.wait(20)
    undeclare(data / "journal", "orders")
    for _ in range(2):
        with running(data) as up:
            wait = ("wait", "addressspace", "default", "--timeout", "20s")
            up.enmasse(*wait, "--for", "condition=MessagesIntact=False")
            assert unnamed(up) == [STORED, 1]
            found = up.enmasse("doctor", "orders")
            assert f"{STORED} stored messages belong to no declared address" in found
            assert "enmasse up --discard-unnamed" in found
            send(up, "orders", Message(id="new", body="new"))
            assert take(up, "orders", 1) == ["new"]
            stop(up)
    with running(data, "--discard-unnamed") as up:
        assert unnamed(up) == [0, 0]
        stop(up)
    with running(data) as up:
        assert unnamed(up) == [0, 0]
        space = json.loads(up.enmasse("get", "addressspaces", "--output", "json"))["items"][0]
        assert "MessagesIntact" not in {one["type"] for one in space["status"]["conditions"]}
        assert take(up, "bills", 1) == ["bill"]
