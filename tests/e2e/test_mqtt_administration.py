"""What operators see and end of MQTT: retained messages and sessions."""

import json
from pathlib import Path
from typing import Any

import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from proton import Message
from proton.utils import LinkDetached

from mqtt_bytes import wire_to
from mqtt_client import cut, device, device_at
from platform_process import Platform, Start, running
from proton_client import TIMEOUT_S, address, connected, document
from subscription_client import Service

pytestmark = pytest.mark.timeout(180)

ADDRESSES = (address("sensors", "topic"), address("alarms", "topic"))


@pytest.fixture(scope="module")
def served(start_platform: Start, tmp_path_factory: pytest.TempPathFactory) -> Platform:
    """A platform with topics."""
    return start_platform("-f", document(tmp_path_factory.mktemp("documents"), *ADDRESSES))


def listed(platform: Platform, *words: str) -> list[dict[str, Any]]:
    """The items of a listing command."""
    found: list[dict[str, Any]] = json.loads(platform.enmasse(*words, "--output", "json"))["items"]
    return found


def test_retained_messages_are_listed_and_deleted_by_filter(served: Platform) -> None:
    with device_at(served) as one:
        for topic in ("sensors/1/t", "sensors/2/t", "alarms/1"):
            one.publish(topic, f"of {topic}", retain=True)
        one.publish("alarms/2", "gone", retain=True)
        one.publish("alarms/2", "", retain=True)
    found = listed(served, "get", "retained")
    assert sorted(item["topic"] for item in found) == ["alarms/1", "sensors/1/t", "sensors/2/t"]
    assert found[0]["message"]["body"] == "of sensors/1/t"
    assert [one["topic"] for one in listed(served, "get", "retained", "+/2/#")] == ["sensors/2/t"]
    assert "alarms/1" in served.enmasse("retained", "list")
    assert served.enmasse("retained", "delete", "sensors/#") == "2 retained messages deleted\n"
    assert [item["topic"] for item in listed(served, "retained", "list")] == ["alarms/1"]
    with device_at(served) as one:
        one.subscribe("#", 1)
        assert one.take(1) == [("alarms/1", b"of alarms/1")]
        assert one.nothing_more()
    served.enmasse("retained", "delete", "#")


def session(platform: Platform, client_id: str) -> dict[str, Any]:
    """The session of a client."""
    found = [one for one in listed(platform, "get", "sessions") if one["clientId"] == client_id]
    assert len(found) == 1
    return found[0]


def test_sessions_are_listed_connected_or_not(served: Platform) -> None:
    with device_at(served, "here", kept_s=3600) as one:
        one.subscribe("sensors/+/t", 2)
        one.subscribe("alarms/#", 0)
        here = session(served, "here")
        assert here["connected"]
        connections = json.loads(served.enmasse("get", "connections", "--output", "json"))
        numbers = [str(one["id"]) for one in connections["items"] if one["container"] == "here"]
        assert numbers == [here["connection"]]
    away = session(served, "here")
    assert not away["connected"]
    assert away["expirySeconds"] == 3600
    assert away["subscriptions"] == here["subscriptions"]
    assert [(one["filter"], one["qos"]) for one in away["subscriptions"]] == [
        ("alarms/#", 0),
        ("sensors/+/t", 2),
    ]
    served.enmasse("session", "end", "here")
    assert "here" not in served.enmasse("session", "list")


def test_session_of_a_connected_client_ends(served: Platform) -> None:
    with device_at(served, "watcher") as watcher, device_at(served, "ending", kept_s=60) as one:
        watcher.subscribe("alarms/will", 1)
        one.subscribe("sensors/#", 1)
        served.enmasse("session", "end", "ending")
        assert one.end() == "Administrative action"
        one.client.loop_stop()
    with device_at(served, "ending", kept_s=60) as again:
        assert not again.session_present
    served.enmasse("session", "end", "ending")
    assert listed(served, "session", "list") == []


def test_ended_session_loses_its_messages_and_publishes_its_will(served: Platform) -> None:
    with device_at(served, "watcher") as watcher:
        watcher.subscribe("alarms/will", 1)
        will = Properties(PacketTypes.WILLMESSAGE)
        will.WillDelayInterval = 3600
        one = device("ending", kept_s=3600)
        one.client.will_set("alarms/will", "ended", 1, properties=will)
        one.connect(served)
        one.subscribe("sensors/#", 1)
        cut(one)
        watcher.publish("sensors/1", "waiting")
        found = session(served, "ending")
        assert found["will"] == {
            "topic": "alarms/will",
            "qos": 1,
            "retain": False,
            "delaySeconds": 3600,
            "bytes": 5,
        }
        served.enmasse("session", "end", "ending")
        assert watcher.take(1) == [("alarms/will", b"ended")]
    assert listed(served, "session", "list") == []
    with device_at(served, "ending") as again:
        assert not again.session_present
        assert again.nothing_more()


def test_ended_session_stays_ended_after_a_crash(tmp_path: Path) -> None:
    path = document(tmp_path, *ADDRESSES)
    with running(tmp_path / "data", "-f", str(path)) as platform:
        with device_at(platform, "ending", kept_s=3600) as one:
            one.subscribe("sensors/#", 1)
        platform.enmasse("session", "end", "ending")
        platform.kill()
    with running(tmp_path / "data") as platform:
        assert listed(platform, "session", "list") == []


def of_amqp(platform: Platform, kind: str) -> list[dict[str, Any]]:
    """The sessions of AMQP clients of a kind."""
    return [one for one in listed(platform, "get", "sessions") if one["kind"] == kind]


def test_subscriptions_of_amqp_clients_are_listed_and_ended(served: Platform) -> None:
    with connected(served, "gateway") as connection:
        subscriptions = Service(connection)
        subscriptions.subscribe("feed", sensors_all=1)
        [away] = of_amqp(served, "subscription")
        assert (away["clientId"], away["connected"]) == ("feed", False)
        assert [one["filter"] for one in away["subscriptions"]] == ["sensors/#"]
        receiver = connection.create_receiver("feed")
        [here] = of_amqp(served, "subscription")
        connections = json.loads(served.enmasse("get", "connections", "--output", "json"))["items"]
        assert here["connection"] in [str(one["id"]) for one in connections]
        assert "feed" in served.enmasse("session", "list")
        served.enmasse("session", "end", "feed", "--kind", "subscription")
        with pytest.raises(LinkDetached, match="administrator"):
            receiver.receive(timeout=TIMEOUT_S)
        assert of_amqp(served, "subscription") == []
        with pytest.raises(LinkDetached, match="not-found"):
            connection.create_receiver("feed")
        subscriptions.subscribe("feed", alarms_all=1)
        served.enmasse("session", "end", "feed", "--kind", "subscription")
        assert subscriptions.list("feed") == {}


def test_wills_of_amqp_clients_are_listed_and_published_when_ended(served: Platform) -> None:
    with device_at(served, "watcher") as watcher, connected(served, "pump") as connection:
        watcher.subscribe("alarms/#", 1)
        will = Message(address="alarms/pump", subject="will", body=b"stopped", durable=True)
        connection.create_sender("$lwt", name="lwt").send(will)
        [found] = of_amqp(served, "will")
        assert (found["clientId"], found["link"], found["connected"]) == ("pump", "lwt", True)
        assert found["will"]["topic"] == "alarms/pump"
        served.enmasse("session", "end", "pump", "--kind", "will", "--link", "lwt")
        assert watcher.take(1) == [("alarms/pump", b"stopped")]
        assert of_amqp(served, "will") == []


def test_links_of_mqtt_clients_have_figures(served: Platform) -> None:
    with device_at(served, "reader") as reader, wire_to(served) as slow:
        slow.connect("slow")
        slow.subscribe("alarms/#", 1)
        reader.subscribe("alarms/#", 1)
        for number in range(3):
            reader.publish("alarms/1", str(number))
        reader.take(3)
        assert [slow.message().payload for _ in range(3)] == [b"0", b"1", b"2"]
        connections = json.loads(served.enmasse("get", "connections", "--output", "json"))["items"]
        numbers = {one["container"]: str(one["id"]) for one in connections}
        figures = {}
        for name in ("reader", "slow"):
            shown = served.enmasse("connection", "show", numbers[name], "--output", "json")
            [link] = json.loads(shown)["links"]
            assert link["name"] == "alarms/#"
            figures[name] = link
        assert [figures[name]["deliveries"] for name in ("reader", "slow")] == [3, 3]
        assert figures["slow"]["unsettled"] == 3
