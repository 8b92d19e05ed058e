"""The platform on disks that lose power, fill up and fail. Needs root: `make check-all`."""

import json
import subprocess
from contextlib import closing
from pathlib import Path

import httpx2
import pytest
from proton import Delivery, Message
from proton.utils import BlockingConnection, SendException

from e2e.disks import READS, SYNCS, disk, failing, need
from platform_process import ENMASSE, LISTENERS, Platform, running
from proton_client import exchange
from prove.judge import Verdict
from prove.killing import prove, stored
from prove.report import summary

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

OFF = [part for name in LISTENERS for part in (f"--{name}-port", "off")]

ONE_MIB = "x" * (1 << 20)


@pytest.mark.parametrize("kind", ["xfs", "ext4"])
def test_power_loss_loses_no_accepted_message(tmp_path: Path, kind: str) -> None:
    need("xfs_io")
    with disk(kind, 2048, tmp_path, tmp_path / "platform") as made:

        def lose_power(up: Platform) -> None:
            made.lose_power()
            up.kill()
            made.detach()
            made.attach()

        run = prove(tmp_path, 30, 1, death=lose_power)
    assert run.good, summary(run)
    assert run.kills
    assert run.counts[Verdict.OK] > 1_000, "the load delivered too few messages"


def fill(up: Platform, to: str) -> int:
    """Send messages of 1 MiB until one is refused; return how many were accepted."""
    with closing(BlockingConnection(up.url(), timeout=60)) as connection:
        sender = connection.create_sender(to)
        for number in range(10_000):
            try:
                sender.send(Message(id=f"{to}-{number}", body=ONE_MIB))
            except SendException as refusal:
                assert refusal.state == Delivery.REJECTED
                return number
    raise AssertionError("the disk does not fill up")


def take(up: Platform, name: str, count: int) -> list[str]:
    """Receive and accept messages; return their ids."""
    with closing(BlockingConnection(up.url(), timeout=60)) as connection:
        receiver = connection.create_receiver(name, credit=5)
        taken = []
        while len(taken) < count:
            taken.append(str(receiver.receive(timeout=20).id))
            receiver.accept()
        # A message sent after the outcomes on one connection is stored after them.
        connection.create_sender("marks").send(Message(body="done"))
    return taken


def test_full_disk_rejects_messages_but_allows_reads_and_purges(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with disk("xfs", 600, tmp_path, data):
        with running(data / "platform") as up:
            for name in ("first", "second", "marks"):
                up.enmasse("create", "address", name, "--type", "queue")
            first = 100
            with closing(BlockingConnection(up.url(), timeout=60)) as connection:
                sender = connection.create_sender("first")
                for number in range(first):
                    sender.send(Message(id=f"first-{number}", body=ONE_MIB))
            second = fill(up, "second")
            assert stored(up) == first + second
            assert '"first"' in up.enmasse("get", "addresses", "--output", "json")
            up.enmasse("purge", "second")
            assert take(up, "first", first // 2) == [f"first-{n}" for n in range(first // 2)]
            again = fill(up, "second")
            assert again > 0, "the purge must free space"
            up.kill()
        with running(data / "platform") as up:
            assert take(up, "first", first // 2) == [f"first-{n}" for n in range(first // 2, first)]
            assert take(up, "second", again) == [f"second-{n}" for n in range(again)]
            up.enmasse("purge", "marks")
            assert stored(up) == 0


def fill_up(filler: Path) -> None:
    """Fill the free space of a disk, to the last block."""
    with filler.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            with pytest.raises(OSError, match="No space"):
                while True:
                    file.write(bytes(size))


def test_platform_starts_and_is_purged_on_a_full_disk(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with disk("ext4", 600, tmp_path, data):
        with running(data / "platform") as up:
            for name in ("first", "second", "marks"):
                up.enmasse("create", "address", name, "--type", "queue")
            with closing(BlockingConnection(up.url(), timeout=60)) as connection:
                sender = connection.create_sender("first")
                for number in range(20):
                    sender.send(Message(id=f"first-{number}", body=ONE_MIB))
            second = fill(up, "second")
            fill_up(data / "filler")
            up.kill()
        with running(data / "platform") as up:
            assert stored(up) == 20 + second
            assert take(up, "first", 20) == [f"first-{n}" for n in range(20)]
            up.enmasse("purge", "second")
            up.enmasse("purge", "marks")
            assert stored(up) == 0
            assert fill(up, "second") > 0, "the purge must free space"


def test_start_fails_on_a_disk_too_small_for_the_journal(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with disk("ext4", 60, tmp_path, data):
        done = subprocess.run(
            [ENMASSE, "up", "--output", "json", *OFF, "--data", data / "platform"],
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert (done.returncode, done.stdout) == (1, "")
    assert "the disk is full: a new journal needs 192 MiB" in done.stderr


MAPS = "/api/v1/namespaces/default/configmaps"


def names(client: httpx2.Client) -> list[str]:
    return [one["metadata"]["name"] for one in client.get(MAPS).json()["items"]]


def api(up: Platform) -> httpx2.Client:
    token = (up.data / "token").read_text().strip()
    headers = {"Authorization": f"Bearer {token}"}
    return httpx2.Client(base_url=up.url("http"), headers=headers, timeout=60)


def test_full_disk_refuses_resources_and_keeps_serving(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with disk("ext4", 600, tmp_path, data):
        with running(data / "platform") as up, api(up) as client:
            filler = data / "filler"
            with filler.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space"):
                while True:
                    file.write(bytes(1 << 16))
            made: list[str] = []
            for number in range(1_000):
                body = {"metadata": {"name": f"m-{number:04}"}, "data": {"a": "x" * (1 << 16)}}
                answer = client.post(MAPS, json=body)
                if answer.status_code != 201:
                    break
                made.append(body["metadata"]["name"])
            assert answer.status_code == 503
            status = answer.json()
            assert (status["kind"], status["details"]["code"]) == ("Status", "E6004")
            assert "full" in status["message"] and "check the disk" in status["message"]
            assert names(client) == made
            with closing(BlockingConnection(up.url(), timeout=60)) as connection:
                receiver = connection.create_receiver("anycast", credit=1)
                connection.create_sender("anycast").link.send(Message(body="needs no disk"))
                assert receiver.receive(timeout=20).body == "needs no disk"
                receiver.accept()
            assert client.get("/healthz").status_code == 200
            filler.unlink()
            assert client.post(MAPS, json=body).status_code == 201
            made.append(body["metadata"]["name"])
            up.enmasse("create", "address", "after", "--type", "queue")
            exchange(up, "after")
            up.kill()
        with running(data / "platform") as up, api(up) as client:
            assert names(client) == made
            exchange(up, "after")


def send_until_refused(up: Platform, to: str) -> tuple[list[str], list[str]]:
    """Send until two messages are rejected; return the accepted ids and the two errors."""
    accepted: list[str] = []
    refused: list[str] = []
    with closing(BlockingConnection(up.url(), timeout=60)) as connection:
        link = connection.create_sender(to).link
        while len(refused) < 2:
            name = f"{to}-{len(accepted) + len(refused)}"
            delivery = link.send(Message(id=name, body=name))
            connection.wait(lambda delivery=delivery: delivery.settled)
            if delivery.remote_state == Delivery.ACCEPTED:
                accepted.append(name)
                continue
            assert delivery.remote_state == Delivery.REJECTED
            assert delivery.remote.condition.name == "amqp:internal-error"
            refused.append(delivery.remote.condition.description)
    return accepted, refused


def test_failed_fsync_stops_the_journal_but_not_the_platform(tmp_path: Path) -> None:
    with running(tmp_path) as up:
        for name in ("orders", "before"):
            up.enmasse("create", "address", name, "--type", "queue")
        with closing(BlockingConnection(up.url(), timeout=60)) as connection:
            connection.create_sender("before").send(Message(id="before", body="before"))
        segments = sorted((tmp_path / "journal").glob("*.log"))
        with failing(SYNCS, "51+", up.process.pid, *segments):
            accepted, (unsure, refused) = send_until_refused(up, "orders")
        assert len(accepted) >= 40
        assert unsure.startswith("the message may or may not be stored")
        assert refused.startswith("the message cannot be stored")

        page = httpx2.get(f"{up.url('http')}/metrics").text
        assert "\nenmasse_journal_stopped 1.0\n" in page
        ready = httpx2.get(f"{up.url('http')}/readyz")
        assert ready.status_code == 200 and "sync failed" in ready.text
        up.enmasse("create", "address", "direct", "--type", "anycast")
        listed = json.loads(up.enmasse("get", "addresses", "--output", "json"))["items"]
        status = {one["spec"]["address"]: one["status"] for one in listed}
        assert status["direct"]["phase"] == "Active", "direct addresses need no disk"
        for name in ("orders", "before"):
            assert status[name]["phase"] == "Failed"
            assert "sync failed" in status[name]["messages"][0]
        with closing(BlockingConnection(up.url(), timeout=20)) as connection:
            receiver = connection.create_receiver("before", credit=1)
            assert receiver.receive(timeout=20).id == "before", "reads must still work"
            receiver.release(delivered=False)
        up.kill()
    with running(tmp_path) as up, closing(BlockingConnection(up.url(), timeout=20)) as connection:
        receiver = connection.create_receiver("orders", credit=100)
        got = []
        for _ in accepted:
            got.append(str(receiver.receive(timeout=20).id))
            receiver.accept()
        assert got == accepted
        connection.create_sender("orders").send(Message(id="after", body="after"))
        last = str(receiver.receive(timeout=20).id)
        if last == f"orders-{len(accepted)}":
            last = str(receiver.receive(timeout=20).id)
        assert last == "after", "of the rejected messages, only the first may be stored"


def test_failed_disk_reads_are_retried(tmp_path: Path) -> None:
    names = [f"m{number}" for number in range(20)]
    with running(tmp_path) as up:
        with closing(BlockingConnection(up.url(), timeout=60)) as connection:
            sender = connection.create_sender("queue")
            for name in names:
                sender.send(Message(id=name, body=name))
        up.kill()
    with running(tmp_path) as up, closing(BlockingConnection(up.url(), timeout=60)) as connection:
        segments = sorted((tmp_path / "journal").glob("*.log"))
        with failing(READS, "1..5", up.process.pid, *segments):
            receiver = connection.create_receiver("queue", credit=len(names))
            assert [str(receiver.receive(timeout=30).id) for _ in names] == names
