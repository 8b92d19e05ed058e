"""Restarts, full addresses and long runs, T-RS-1 to T-RS-11 of docs/acceptance.md."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest
from proton import Delivery, Message
from proton.reactor import Container

from platform_process import Platform, Start, running
from proton_client import (
    PASSWORD,
    SPACE,
    Pumping,
    Taking,
    address,
    connected,
    document,
    numbered,
    outcomes,
    received,
    send,
    take,
    user,
)

pytestmark = pytest.mark.timeout(300)

QUEUES = tuple(f"queue-{number}" for number in range(10))
ALICE: dict[str, Any] = {"user": "alice", "password": PASSWORD, "allowed_mechs": "PLAIN"}


@pytest.mark.parametrize("killed", [False, True], ids=["SIGTERM", "SIGKILL"])
def test_T_RS_1_and_2_spaces_users_addresses_and_messages_survive_a_restart(
    tmp_path: Path, killed: bool
) -> None:
    declared = document(tmp_path, *map(address, QUEUES), user("alice", "*"))
    with running(tmp_path / "data", "-f", str(declared)) as up:
        with connected(up, **ALICE) as connection:
            for name in QUEUES:
                sender = connection.create_sender(name)
                for message in numbered(0, 15, durable=True):
                    sender.send(message)
        if killed:
            up.kill()
    with running(tmp_path / "data") as up:
        up.enmasse("create", "address", "late", "--type", "queue")
        with connected(up, **ALICE) as connection:
            for name in QUEUES:
                receiver = connection.create_receiver(name, credit=20)
                assert take(receiver, 15) == list(range(15))
            connection.create_sender("late").send(Message(body="works"))
            assert take(connection.create_receiver("late", credit=1), 1) == ["works"]


HALF_MB = 500_000
FULL = f"{{bytes: {HALF_MB}, onFull: reject}}"


@pytest.mark.parametrize("relief", ["delete", "drain"])
def test_T_RS_4_full_queue_rejects_while_another_queue_works(tmp_path: Path, relief: str) -> None:
    addresses = (address("full", limits=FULL), address("other", limits=FULL))
    declared = document(tmp_path, *addresses)
    with running(tmp_path / "data", "-f", str(declared)) as up:
        told = outcomes(up, "full", *[Message(body="x" * 10_000)] * 100)
        accepted = told.count(Delivery.ACCEPTED)
        assert told == [Delivery.ACCEPTED] * accepted + [Delivery.REJECTED] * (100 - accepted)
        assert 45 <= accepted <= 50
        send(up, "other", *numbered(0, 10))
        if relief == "delete":
            up.enmasse("delete", "address", "full", "--force")
        else:
            assert len(received(up, "full", accepted)) == accepted
            send(up, "full", Message(body="room"))
        assert received(up, "other", 10) == list(range(10))


def soak(up: Platform, name: str, count: int) -> None:
    """One sender and two receivers of a queue."""
    with ThreadPoolExecutor(3) as threads:
        taking = [Taking(up, name, count // 2) for _ in range(2)]
        runs = [threads.submit(Container(one).run) for one in taking]
        runs.append(threads.submit(Container(Pumping(up, name, 0, count)).run))
        for run in runs:
            run.result(200)
    assert sorted(body for one in taking for body in one.bodies) == list(range(count))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_T_RS_5_ten_queues_and_ten_topics_lose_no_message_under_load(
    start_platform: Start, tmp_path_factory: pytest.TempPathFactory
) -> None:
    topics = [f"topic-{number}" for number in range(10)]
    addresses = (*map(address, QUEUES), *(address(name, "topic") for name in topics))
    up = start_platform("-f", document(tmp_path_factory.mktemp("documents"), *addresses))
    with ThreadPoolExecutor(10) as threads:
        list(threads.map(lambda name: soak(up, name, 1000), QUEUES))
    for name in QUEUES:
        assert received(up, name, 0) == []
    with connected(up) as connection:
        for name in topics:
            receiver = connection.create_receiver(name, credit=1000)
            send(up, name, *numbered(0, 1000))
            assert take(receiver, 1000) == list(range(1000))


def space_of(name: str) -> str:
    """The documents of a space with twenty queues, and their names in it."""
    addresses = [
        f"apiVersion: enmasse.io/v1beta1\nkind: Address\nmetadata: {{name: {name}.q{number}}}\n"
        f"spec: {{address: q{number}, type: queue}}\n"
        for number in range(20)
    ]
    return "---\n".join([SPACE.replace("default", name), *addresses])


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_T_RS_6_spaces_are_created_and_deleted_under_load(tmp_path: Path) -> None:
    with running(tmp_path / "data") as up:
        for turn in range(2):
            names = [f"space-{turn}-{number}" for number in range(5)]
            path = tmp_path / f"round-{turn}.yaml"
            path.write_text("---\n".join(map(space_of, names)))
            up.enmasse("apply", "-f", str(path), timeout_s=120)
            for name in names:
                with ThreadPoolExecutor(4) as threads:
                    list(threads.map(lambda queue, of=name: fill(up, of, queue), range(20)))
            for name in names:
                up.enmasse("delete", "addressspace", name, "--force", timeout_s=120)
        assert "space-" not in up.enmasse("get", "addressspaces")
        page = httpx2.get(f"{up.url('http')}/metrics").text
        assert (
            sum(map(float, re.findall(r"^enmasse_address_stored_messages{.*} (.*)", page, re.M)))
            == 0
        )


def fill(up: Platform, space: str, queue: int) -> None:
    """Send 1,024 messages to a queue of a space, and take all but one."""
    options = {"virtual_host": space}
    send(up, f"q{queue}", *numbered(0, 1024), **options)
    with connected(up, **options) as connection:
        receiver = connection.create_receiver(f"q{queue}", credit=100)
        assert take(receiver, 1023) == list(range(1023))


def test_T_RS_11_metrics_report_readiness_and_address_count(tmp_path: Path) -> None:
    with running(tmp_path / "data") as up:
        page = httpx2.get(f"{up.url('http')}/metrics").text
        assert "\nenmasse_ready 1.0\n" in page
        before = int(float(re.findall(r"^enmasse_addresses (.*)", page, re.M)[0]))
        up.enmasse("create", "address", "late", "--type", "queue")
        page = httpx2.get(f"{up.url('http')}/metrics").text
        assert f"\nenmasse_addresses {before + 1}.0\n" in page
        assert httpx2.get(f"{up.url('http')}/readyz").status_code == 200
