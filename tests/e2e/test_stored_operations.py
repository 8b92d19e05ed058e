"""Stored messages on the command line: operations, counts, deletion with their address."""

import json
import re
import subprocess
from contextlib import closing
from typing import Any

import httpx2
import pytest
from proton import Message
from proton.utils import BlockingConnection

from platform_process import ENMASSE, Platform

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(autouse=True)
def orders(platform: Platform) -> None:
    """A queue `orders` with ten messages, and its dead letter."""
    for name in ("orders", "other"):
        subprocess.run(
            [ENMASSE, "delete", "address", name, "--force"],
            env=platform.environment,
            capture_output=True,
            check=False,
        )
    platform.enmasse("create", "address", "orders", "--type", "queue", "--deadletter", "deadletter")
    platform.enmasse("create", "address", "other", "--type", "queue")
    with closing(BlockingConnection(platform.url(), timeout=20)) as connection:
        sender = connection.create_sender("orders")
        for number in range(10):
            sender.send(Message(body=f"m{number}", properties={"n": number}))


def operate(platform: Platform, *words: str) -> Any:
    return json.loads(platform.enmasse(*words, "--output", "json"))


def count(platform: Platform, name: str) -> int:
    """The number of stored messages that `enmasse get addresses` shows."""
    found = json.loads(platform.enmasse("get", "addresses", name, "--output", "json"))
    return int(found["status"]["statistics"]["stored"]["messages"])


def metric(platform: Platform, name: str, address: str, label: str = "") -> float:
    text = httpx2.get(f"{platform.url('http')}/metrics").text
    found = re.search(
        rf'^enmasse_address_{name}{{.*address="{address}".*{label}.*}} (\S+)$', text, re.M
    )
    assert found, name
    return float(found[1])


def test_peek_move_copy_and_purge_change_message_counts(platform: Platform) -> None:
    assert "m3" in platform.enmasse("peek", "orders", "--limit", "4")
    platform.enmasse("move", "orders", "other", "--selector", "n < 4", "--dry-run")
    assert (count(platform, "orders"), count(platform, "other")) == (10, 0)
    platform.enmasse("move", "orders", "other", "--selector", "n < 4")
    platform.enmasse("copy", "orders", "other", "--limit", "2")
    assert (count(platform, "orders"), count(platform, "other")) == (6, 6)
    platform.enmasse("purge", "orders")
    assert (count(platform, "orders"), count(platform, "other")) == (0, 6)


def test_redrive_returns_dead_letters_to_their_queue(platform: Platform) -> None:
    with closing(BlockingConnection(platform.url(), timeout=20)) as connection:
        receiver = connection.create_receiver("orders", credit=3)
        for _ in range(3):
            receiver.receive(timeout=10)
            receiver.reject()
    assert count(platform, "deadletter") == 3
    assert metric(platform, "dead_lettered_messages_total", "orders", "rejected") == 3
    platform.enmasse("redrive", "deadletter")
    assert (count(platform, "orders"), count(platform, "deadletter")) == (10, 0)


def test_get_addresses_and_metrics_agree_on_counts(platform: Platform) -> None:
    table = platform.enmasse("get", "addresses", "orders")
    headings, row = (line.split() for line in table.splitlines())
    assert row[headings.index("STORED")] == "10"
    assert re.fullmatch(r"\d+s", row[headings.index("OLDEST")])
    assert metric(platform, "stored_messages", "orders") == 10
    assert metric(platform, "enqueued_messages_total", "orders") == 10
    assert metric(platform, "oldest_message_age_seconds", "orders") > 0


def test_delete_of_a_queue_with_messages_needs_force(platform: Platform) -> None:
    refused = subprocess.run(
        [ENMASSE, "delete", "address", "orders"],
        env=platform.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode != 0
    assert "orders holds 10 messages; add --force" in refused.stderr
    assert count(platform, "orders") == 10
