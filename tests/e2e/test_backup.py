"""A backup of a platform under load, restored into a fresh folder."""

import base64
import json
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from proton import Message
from proton.utils import BlockingConnection

from platform_process import ENMASSE, Platform, running
from proton_client import fail

pytestmark = pytest.mark.timeout(240)

DOCUMENTS = """
apiVersion: enmasse.io/v1beta1
kind: AddressSpace
metadata: {name: default}
spec: {type: standard}
---
apiVersion: enmasse.io/v1beta1
kind: AddressSpace
metadata: {name: closed}
spec: {type: standard, authenticationService: {type: standard}}
---
apiVersion: enmasse.io/v1beta1
kind: Address
metadata: {name: closed.inbox}
spec: {address: inbox, type: queue}
---
apiVersion: user.enmasse.io/v1beta1
kind: MessagingUser
metadata: {name: closed.alice}
spec:
  username: alice
  authentication: {type: password, password: PASSWORD}
  authorization: [{addresses: ["*"], operations: [send, recv]}]
---
apiVersion: enmasse.io/v1beta1
kind: Address
metadata: {name: default.dead}
spec: {address: dead, type: deadletter}
---
apiVersion: enmasse.io/v1beta1
kind: Address
metadata: {name: default.orders}
spec: {address: orders, type: queue, deadletter: dead}
---
apiVersion: enmasse.io/v1beta1
kind: Address
metadata: {name: default.busy}
spec: {address: busy, type: queue}
---
apiVersion: enmasse.io/v1beta1
kind: Address
metadata: {name: default.log}
spec: {address: log, type: topic, retention: {bytes: 1GiB}}
---
apiVersion: v1
kind: Secret
metadata: {name: own}
stringData: {word: open-sesame}
""".replace("PASSWORD", base64.b64encode(b"pencil").decode())


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    path = tmp_path / "documents.yaml"
    path.write_text(DOCUMENTS)
    return path


@contextmanager
def connected(platform: Platform, **options: Any) -> Iterator[BlockingConnection]:
    with closing(BlockingConnection(platform.url(), timeout=30, **options)) as connection:
        yield connection


def restore(file: Path, data: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ENMASSE, "restore", file, "--data", data, "--output", "json", *words],
        capture_output=True,
        text=True,
        timeout=120,
    )


def fill(platform: Platform) -> None:
    """Send messages of every kind that a queue stores."""
    with connected(platform, virtual_host="default") as connection:
        sender = connection.create_sender("orders")
        for number in range(20):
            sender.send(Message(body=number, id=f"m{number}", priority=4, durable=True))
        sender.send(Message(body="urgent", priority=9))
        sender.send(Message(body="mortal", ttl=3600.0))
        later = Message(body="later")
        later.annotations = {"x-opt-delivery-delay": 3_600_000}
        sender.send(later)
        stream = connection.create_sender("log")
        for number in range(10):
            stream.send(Message(body=f"l{number}"))
        big = connection.create_sender("busy")
        big.send(Message(body=b"x" * 3_000_000, id="big"))
    with connected(platform, virtual_host="default") as connection:
        receiver = connection.create_receiver("orders", credit=1)
        receiver.receive(timeout=20)
        fail(receiver)
    with connected(platform, user="alice@closed", password="pencil") as connection:
        connection.create_sender("inbox").send(Message(body="for alice"))


def peeked(platform: Platform, address: str) -> list[dict[str, Any]]:
    text = platform.enmasse("peek", address, "--limit", "1000", "--output", "json")
    items: list[dict[str, Any]] = json.loads(text)["items"]
    return items


def test_backup_contains_every_message_accepted_before_it(tmp_path: Path, documents: Path) -> None:
    file = tmp_path / "b.tar.gz"
    acknowledged: list[int] = []
    going, stop = threading.Event(), threading.Event()
    with running(tmp_path / "old", "-f", str(documents)) as old:
        fill(old)

        def keep_sending() -> None:
            with connected(old, virtual_host="default") as connection:
                sender = connection.create_sender("busy")
                while not stop.is_set():
                    sender.send(Message(body=len(acknowledged)))
                    acknowledged.append(len(acknowledged))
                    if len(acknowledged) == 50:
                        going.set()

        thread = threading.Thread(target=keep_sending)
        thread.start()
        assert going.wait(60)
        before = len(acknowledged)
        told = json.loads(old.enmasse("backup", str(file), "--output", "json"))
        stop.set()
        thread.join()
        seen = peeked(old, "orders")
        metadata = json.loads(old.enmasse("get", "addresses", "orders", "-o", "json"))
        old.kill()
    assert file.stat().st_mode & 0o777 == 0o600
    authorities = [f"enmasse-infra/{space}.default.ca" for space in ("closed", "default")]
    assert told["leftOut"] == ["default/own", *authorities]

    done = restore(file, tmp_path / "new")
    assert done.returncode == 0, done.stderr
    counted = {
        one["address"]: one["stored"] for one in json.loads(done.stdout)["messages"].values()
    }
    with running(tmp_path / "new") as new:
        assert peeked(new, "orders") == seen
        found = json.loads(new.enmasse("get", "addresses", "orders", "-o", "json"))
        assert found["metadata"]["uid"] == metadata["metadata"]["uid"]
        assert found["status"]["isReady"]
        with connected(new, virtual_host="default") as connection:
            receiver = connection.create_receiver("orders", credit=1)
            bodies = []
            for _ in range(22):
                message = receiver.receive(timeout=30)
                bodies.append((message.body, message.delivery_count))
                receiver.accept()
            assert bodies[0] == ("urgent", 1)
            assert [body for body, _ in bodies[1:]] == [*range(20), "mortal"]
            receiver.close()
            busy = connection.create_receiver("busy", credit=100)
            first = busy.receive(timeout=30)
            assert (first.id, len(first.body)) == ("big", 3_000_000)
            busy.accept()
            numbers = []
            for _ in range(counted["busy"] - 1):
                numbers.append(busy.receive(timeout=30).body)
                busy.accept()
            assert numbers == list(range(len(numbers))) and len(numbers) >= before
        words = ("receive", "log", "--space", "default", "--offset", "first", "--count", "10")
        lines = new.enmasse(*words).splitlines()
        assert lines == [f"l{number}" for number in range(10)]
        options = {"user": "alice@closed", "password": "pencil"}
        with connected(new, **options) as connection:
            assert connection.create_receiver("inbox").receive(timeout=30).body == "for alice"


def unpacked(file: Path) -> str:
    """The resources of a backup, as text."""
    with tarfile.open(file) as archive:
        found = archive.extractfile("resources.jsonl")
        assert found is not None
        return found.read().decode()


def test_backup_includes_secrets_only_with_its_option(tmp_path: Path, documents: Path) -> None:
    plain, whole = tmp_path / "plain", tmp_path / "whole"
    with running(tmp_path / "old", "-f", str(documents)) as old:
        old.enmasse("backup", str(plain))
        old.enmasse("backup", str(whole), "--secrets")
        again = subprocess.run(
            [ENMASSE, "backup", plain], env=old.environment, capture_output=True, text=True
        )
        assert again.returncode == 5 and "--overwrite" in again.stderr
        old.enmasse("backup", str(plain), "--overwrite")
        token = (old.data / "token").read_text()
        authority = old.authority()
        ca = (old.data / "tls" / "ca.crt").read_bytes()
        busy = restore(whole, old.data, "--overwrite")
        assert busy.returncode == 1 or "in use by process" in busy.stderr
    assert restore(plain, tmp_path / "a").returncode == 0
    assert restore(whole, tmp_path / "b").returncode == 0
    assert not (tmp_path / "a" / "tls" / "ca.crt").exists()
    assert (tmp_path / "b" / "token").read_text() == token
    assert (tmp_path / "b" / "tls" / "ca.crt").read_bytes() == ca
    with running(tmp_path / "b") as new:
        assert (new.data / "tls" / "ca.crt").read_bytes() == ca
        assert new.authority() == authority
    keys = {file: "default.default.ca" in unpacked(file) for file in (plain, whole)}
    assert keys == {plain: False, whole: True}


@pytest.mark.slow
def test_restore_refuses_to_overwrite_and_refuses_a_damaged_backup(
    tmp_path: Path, documents: Path
) -> None:
    file = tmp_path / "b"
    with running(tmp_path / "old", "-f", str(documents)) as old:
        old.enmasse("backup", str(file))
    with running(tmp_path / "new") as new:
        new.enmasse("create", "address", "mine", "--type", "queue")
    refused = restore(file, tmp_path / "new")
    assert refused.returncode == 5 and "--overwrite" in refused.stderr
    file.write_bytes(file.read_bytes()[:-50])
    damaged = restore(file, tmp_path / "new", "--overwrite")
    assert damaged.returncode == 1 and "not a complete backup" in damaged.stderr
    with running(tmp_path / "new") as new:
        assert "mine" in new.enmasse("get", "addresses")


@pytest.mark.slow
def test_restore_with_overwrite_replaces_all_data(tmp_path: Path, documents: Path) -> None:
    file = tmp_path / "b"
    with running(tmp_path / "old", "-f", str(documents)) as old:
        old.enmasse("send", "orders", "--space", "default", "--body", "kept")
        old.enmasse("backup", str(file))
    with running(tmp_path / "new") as new:
        new.enmasse("create", "address", "mine", "--type", "queue")
        new.enmasse("send", "mine", "--body", "gone")
    done = restore(file, tmp_path / "new", "--overwrite")
    assert done.returncode == 0, done.stderr
    with running(tmp_path / "new") as new:
        names = new.enmasse("get", "addresses", "-o", "json")
        assert "default.mine" not in names and "default.orders" in names
        assert [item["message"]["body"] for item in peeked(new, "orders")] == ["kept"]
