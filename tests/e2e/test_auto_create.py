"""Addresses that links create on a running platform."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from proton import Delivery, Message
from proton.reactor import LinkOption
from proton.utils import LinkDetached

from mqtt_client import device_at
from platform_process import Platform, Start
from proton_client import PASSWORD, TIMEOUT_S, address, connected, outcomes, send, take, user

pytestmark = pytest.mark.timeout(180)

SPACE = """
apiVersion: enmasse.io/v1beta1
kind: AddressSpace
metadata: {name: default}
spec:
  type: standard
  autoCreate:
  - {pattern: 'jobs/*', type: queue}
  - {pattern: 'brief/*', expireAfter: 1s}
  - {pattern: 'any/#'}
"""

SECRET = """
apiVersion: enmasse.io/v1beta1
kind: AddressSpace
metadata: {name: closed}
spec: {type: standard, autoCreate: [{pattern: '#'}]}
"""


class Capability(LinkOption):
    """A capability that a link requests of its node."""

    def __init__(self, name: str) -> None:
        self.name = name

    def apply(self, link: Any) -> None:
        node = link.target if link.is_sender else link.source
        node.capabilities.put_symbol(self.name)


@pytest.fixture(scope="module")
def creating(start_platform: Start, tmp_path_factory: pytest.TempPathFactory) -> Platform:
    path = tmp_path_factory.mktemp("documents") / "space.yaml"
    alice = user("alice", "orders", "bills").replace("name: default.alice", "name: closed.alice")
    bob = user("bob", "orders", "bills").replace("name: default.bob", "name: closed.bob")
    bob = bob.replace("[send, recv]", "[send, recv, create]")
    path.write_text(
        "---\n".join(
            [
                SPACE,
                SECRET,
                address("any/declared").replace("default.any/declared", "default.declared"),
                alice,
                bob,
            ]
        )
    )
    return start_platform("-f", path)


def declared(platform: Platform) -> dict[str, Any]:
    items = json.loads(platform.enmasse("get", "addresses", "-A", "-o", "json"))["items"]
    return {one["spec"]["address"]: one for one in items}


def trail(platform: Platform) -> list[dict[str, Any]]:
    items = json.loads(platform.enmasse("audit", "--output", "json"))["items"]
    return [one for one in items if one.get("agent") == "autoCreate"]


def test_first_link_creates_a_queue(creating: Platform) -> None:
    with connected(creating) as connection:
        sender = connection.create_sender("jobs/1")
        for number in range(3):
            sender.send(Message(body=number))
        assert take(connection.create_receiver("jobs/1"), 3) == [0, 1, 2]
    made = declared(creating)["jobs/1"]
    assert made["spec"]["type"] == "queue"
    assert made["metadata"]["labels"] == {"enmasse.io/owner": "auto-create"}
    (record,) = [one for one in trail(creating) if one["name"] == made["metadata"]["name"]]
    assert (record["who"], record["verb"], record["status"]) == ("system:anonymous", "create", 201)


def test_capability_selects_the_type_of_a_created_address(creating: Platform) -> None:
    with connected(creating, container="c") as connection:
        news = connection.create_receiver("any/news", options=Capability("topic"), credit=1)
        connection.create_sender("any/news").send(Message(body="news"))
        assert news.receive(timeout=TIMEOUT_S).body == "news"
        with pytest.raises(LinkDetached, match="no topic is created under the name 'jobs/2'"):
            connection.create_receiver("jobs/2", options=Capability("topic"))
        assert declared(creating)["any/news"]["spec"]["type"] == "topic"
        assert "jobs/2" not in declared(creating)


def test_declared_address_takes_precedence_and_anonymous_sends_create_none(
    creating: Platform,
) -> None:
    with connected(creating) as connection:
        connection.create_sender("any/declared").send(Message(body="there"))
        with pytest.raises(LinkDetached, match="declare it first"):
            connection.create_sender("elsewhere")
    (outcome,) = outcomes(creating, "", Message(address="any/thing", body="x"))
    assert outcome == Delivery.REJECTED
    assert "any/thing" not in declared(creating)


def test_only_a_user_with_the_right_to_create_creates_an_address(creating: Platform) -> None:
    login = {"password": PASSWORD, "allow_insecure_mechs": True}
    with connected(creating, user="alice@closed", **login) as connection:
        with pytest.raises(LinkDetached, match='"alice" may not create the address "orders"'):
            connection.create_sender("orders")
    with connected(creating, user="bob@closed", **login) as connection:
        connection.create_sender("orders").send(Message(body="for alice"))
    with connected(creating, user="alice@closed", **login) as connection:
        assert take(connection.create_receiver("orders"), 1) == ["for alice"]
    made = declared(creating)["orders"]
    assert made["metadata"]["annotations"]["enmasse.io/created-by"] == "bob"
    assert "bob" in [one["who"] for one in trail(creating)]


def gone(platform: Platform, name: str) -> bool:
    """Whether an address is deleted within the timeout."""
    until = time.monotonic() + TIMEOUT_S
    while time.monotonic() < until:
        if name not in declared(platform):
            return True
    return False


def test_unused_created_address_expires_and_a_link_recreates_it(
    creating: Platform, tmp_path: Path
) -> None:
    with connected(creating) as connection:
        connection.create_sender("brief/1").send(Message(body="stays while it waits"))
        connection.create_sender("brief/kept")
        kept = declared(creating)["brief/kept"]
        kept["metadata"] |= {"labels": {}}
        (tmp_path / "kept.json").write_text(json.dumps(kept))
        creating.enmasse("apply", "-f", str(tmp_path / "kept.json"))
    with connected(creating) as connection:
        assert take(connection.create_receiver("brief/1"), 1) == ["stays while it waits"]
    assert gone(creating, "brief/1")
    assert "brief/kept" in declared(creating), "an address without the label stays"
    deleted = [one for one in trail(creating) if one["verb"] == "delete"]
    assert [one["who"] for one in deleted] == ["system:enmasse"]
    with connected(creating) as connection:
        connection.create_sender("brief/1").send(Message(body="again"))
        assert take(connection.create_receiver("brief/1"), 1) == ["again"]


def test_describe_shows_that_an_address_is_auto_created(creating: Platform) -> None:
    with connected(creating) as connection:
        connection.create_sender("any/described")
    said = creating.enmasse("describe", "address", "any/described")
    assert "auto-create" in said
    assert "Auto Create" in creating.enmasse("describe", "addressspace", "default")


def test_mqtt_publication_creates_its_address(creating: Platform) -> None:
    with device_at(creating) as one:
        sent = [one.send("jobs/mqtt", str(number), qos) for number, qos in enumerate((0, 1, 2))]
        assert [one.answer(message) for message in sent[1:]] == ["Success"] * 2
    assert declared(creating)["jobs/mqtt"]["spec"]["type"] == "queue"
    with connected(creating) as connection:
        receiver = connection.create_receiver("jobs/mqtt", credit=3)
        messages = [receiver.receive(timeout=TIMEOUT_S) for _ in range(3)]
        assert [bytes(message.body) for message in messages] == [b"0", b"1", b"2"]


def test_mqtt_filter_creates_its_address(creating: Platform) -> None:
    with device_at(creating) as one:
        assert one.subscribe("jobs/filter", 1) == "Granted QoS 1"
        send(creating, "jobs/filter", Message(body=b"x", inferred=True, durable=True))
        assert one.take(1) == [("jobs/filter", b"x")]
        assert one.subscribe("jobs/+/wild", 1) == "Topic filter invalid"


def test_mqtt_client_without_the_right_creates_nothing(creating: Platform) -> None:
    login = {"user": "alice@closed.default", "password": PASSWORD}
    with device_at(creating, **login) as one:
        assert one.publish("bills", "x") == "Topic name invalid"
        assert one.subscribe("bills", 1) == "Topic filter invalid"
    with device_at(creating, user="bob@closed.default", password=PASSWORD) as one:
        assert one.publish("bills", "x") == "Success"
