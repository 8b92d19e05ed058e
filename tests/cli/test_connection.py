"""`enmasse connection`: connections of a namespace, with the rights of a tenant."""

import json

import pytest

from cli_platform import Obeying
from enmasse.engines import Connection, LinkOutcomes, LinkStatistics


@pytest.fixture(autouse=True)
def connected(shop: Obeying) -> None:
    uid = shop.address("orders").metadata.uid or ""
    shop.engine.open = [
        Connection(7, "default.default", "alice", "c", "10.0.0.1:5", "amqps", 1, 5, 50, 2, 20),
        Connection(8, "other.other", "bob", "d", "10.0.0.2:5", "amqp", 0, 0, 0, 0, 0),
    ]
    shop.engine.attached = [
        LinkStatistics(
            *(7, "l", "sender", (uid,)), credit=9, deliveries=5, outcomes=LinkOutcomes(3, 0, 1, 0)
        )
    ]
    shop.engine.traced_frames = ["open\n", "begin\nattach\n"]
    made = shop.enmasse("token", "create", "ci", "--grant", "tenant-edit=default")
    shop.token.write_text(made.stdout.strip())


def said(shop: Obeying, *words: str) -> str:
    answer = shop.enmasse("connection", *words)
    assert answer.exit_code == 0, answer.output
    return str(answer.stdout)


def test_only_connections_of_the_namespace_are_listed(shop: Obeying) -> None:
    (one,) = json.loads(said(shop, "list", "-o", "json"))["items"]
    assert (one["id"], one["user"]) == ("7", "alice")
    assert "alice" in said(shop, "list", "--address", "orders")
    assert "alice" not in said(shop, "list", "--address", "dead")
    assert shop.enmasse("connection", "list", "--namespace", "other").exit_code != 0


def test_links_are_shown(shop: Obeying) -> None:
    row = said(shop, "show", "7").splitlines()[-1].split()
    assert row == ["l", "sender", "orders", "9", "0", "5", "3", "0", "1", "0"]


def test_a_trace_is_printed(shop: Obeying) -> None:
    assert said(shop, "trace", "7", "--frames", "2").splitlines() == [
        "None <- open",
        "None <- begin",
        "None <- attach",
    ]


def test_a_connection_is_closed(shop: Obeying) -> None:
    assert "closed" in said(shop, "close", "7")
    assert [one.id for one in shop.engine.open] == [8]
    # That of another namespace does not exist for this one.
    assert shop.enmasse("connection", "close", "8").exit_code != 0
    assert [one.id for one in shop.engine.open] == [8]
