"""MQTT with foreign clients; `README.md` beside this file is the contract."""

from itertools import product
from typing import Any

import pytest
from proton import Message

from interop.clients import MQTT_CLIENTS, Client, place, prepared
from platform_process import Platform, Start
from proton_client import PASSWORD, TIMEOUT_S, address, connected, document, send, user

pytestmark = pytest.mark.timeout(120)

QOS = (0, 1, 2)

client = prepared(MQTT_CLIENTS.values())
websocket_client = prepared(c for c in MQTT_CLIENTS.values() if c.websocket)


@pytest.fixture(scope="module")
def closed(start_platform: Start, tmp_path_factory: pytest.TempPathFactory) -> Platform:
    """A platform whose space has a user, so that it refuses other clients."""
    folder = tmp_path_factory.mktemp("documents")
    return start_platform("-f", document(folder, address("readings"), user("alice", "readings")))


def over(platform: Platform, version: int = 5, listener: str = "mqtt") -> dict[str, Any]:
    """The options that lead a client to a listener, in a version of the protocol."""
    return {"version": version, **place(platform, listener)}


@pytest.fixture(params=[3, 5], ids=["3.1.1", "5.0"])
def version(request: pytest.FixtureRequest) -> int:
    """Both versions that all these clients speak."""
    chosen: int = request.param
    return chosen


@pytest.mark.parametrize(("publish_qos", "qos"), list(product(QOS, QOS)))
def test_messages_arrive_in_order_with_the_lower_qos(
    client: Client, platform: Platform, version: int, publish_qos: int, qos: int
) -> None:
    answer = client.call(
        "exchange", topic=f"{client.name}/{version}/{publish_qos}{qos}", qos=qos,
        publish_qos=publish_qos, count=50, size=100, **over(platform, version),
    )  # fmt: skip
    assert answer == {"received": 50, "in_order": True, "qos": [min(publish_qos, qos)]}


@pytest.mark.parametrize("qos", [1, 2])
def test_session_gets_more_messages_than_its_receive_maximum(
    platform: Platform, version: int, qos: int
) -> None:
    # That of mosquitto_sub is 20.
    answer = MQTT_CLIENTS["mosquitto"].call(
        "exchange", topic=f"window/{version}/{qos}", client_id=f"window{version}{qos}", qos=qos,
        publish_qos=qos, count=100, size=100, **over(platform, version),
    )  # fmt: skip
    assert answer == {"received": 100, "in_order": True, "qos": [qos]}


@pytest.mark.parametrize(("publishes", "receives"), [(3, 5), (5, 3)])
def test_both_versions_share_a_topic(
    client: Client, platform: Platform, publishes: int, receives: int
) -> None:
    answer = client.call(
        "exchange", topic=f"{client.name}/mixed", qos=1, publish_qos=1, count=20, size=100,
        publish_version=publishes, **over(platform, receives),
    )  # fmt: skip
    assert answer == {"received": 20, "in_order": True, "qos": [1]}


def test_message_of_1_mib_arrives_intact(client: Client, platform: Platform) -> None:
    answer = client.call(
        "exchange", topic=f"{client.name}/large", qos=1, publish_qos=1, count=1, size=1 << 20,
        **over(platform),
    )  # fmt: skip
    assert answer == {"received": 1, "in_order": True, "qos": [1]}


def test_retained_message_greets_a_subscriber_until_it_is_cleared(
    client: Client, platform: Platform, version: int
) -> None:
    answer = client.call(
        "retained", topic=f"{client.name}/{version}/kept", **over(platform, version)
    )
    assert answer == {"kept": "first", "retained": [True, False], "after_clearing": "second"}


def test_will_is_published(client: Client, platform: Platform) -> None:
    answer = client.call("will", topic=f"{client.name}/will", **over(platform))
    assert answer == {"will": "gone"}


def test_members_of_a_group_share_the_messages(client: Client, platform: Platform) -> None:
    answer = client.call(
        "shared", topic=f"{client.name}/shared", group="g", count=20, **over(platform)
    )
    assert answer == {"received": 20, "distinct": 20, "each": True}


def test_session_is_resumed_with_its_messages(
    client: Client, platform: Platform, version: int
) -> None:
    answer = client.call(
        "resume", topic=f"{client.name}/{version}/resumed", client_id=f"{client.name}{version}",
        count=20, **over(platform, version),
    )  # fmt: skip
    assert answer == {"received": list(range(20))}


def test_properties_arrive(client: Client, platform: Platform) -> None:
    answer = client.call("properties", topic=f"{client.name}/properties", **over(platform))
    # mosquitto_sub writes the names of user properties as keys, so it shows one of a name.
    user = {} if client.name == "mosquitto" else {"user": [["a", "1"], ["a", "2"]]}
    correlation = b"12".hex() if client.name == "mosquitto" else "0102"
    assert answer == {
        "content_type": "text/plain",
        "response_topic": "answers",
        "correlation": correlation,
        "expires": True,
        "format": 1,
        **user,
    }


def test_response_topic_leads_back_to_the_requester(platform: Platform) -> None:
    mosquitto = MQTT_CLIENTS["mosquitto"]
    assert mosquitto.call("request", topic="questions", **over(platform)) == {"answer": "21.5"}


def test_wrong_password_and_an_unknown_client_are_refused(
    client: Client, closed: Platform, version: int
) -> None:
    for login in ({}, {"user": "alice", "password": "wrong"}):
        assert client.call("refused", **login, **over(closed, version))["refused"]
    login = {"user": "alice", "password": PASSWORD}
    sent = client.call(
        "publish", topic="readings", bodies=["a", "b"], qos=1, **login, **over(closed, version)
    )
    taken = client.call(
        "consume", topic="readings", qos=1, count=2, **login, **over(closed, version)
    )
    assert (sent, taken) == ({"published": 2}, {"received": ["a", "b"]})


@pytest.mark.parametrize("qos", QOS)
def test_queue_passes_messages_between_amqp_and_mqtt(
    client: Client, platform: Platform, qos: int
) -> None:
    bodies = [f"{client.name} {number}" for number in range(20)]
    client.call("publish", topic="queue", bodies=bodies, qos=qos, **over(platform))
    with connected(platform) as connection:
        receiver = connection.create_receiver("queue", credit=20)
        found = []
        for _ in bodies:
            message = receiver.receive(timeout=TIMEOUT_S)
            # The body is a view of the message: it ends with it.
            found.append(bytes(message.body).decode())
            receiver.accept()
    assert found == bodies
    send(platform, "queue", *(Message(body=body, durable=True) for body in bodies))
    answer = client.call("consume", topic="queue", qos=qos, count=20, **over(platform))
    assert answer == {"received": bodies}


@pytest.mark.parametrize("listener", ["ws", "wss"])
def test_web_socket_carries_mqtt(
    websocket_client: Client, platform: Platform, listener: str
) -> None:
    answer = websocket_client.call(
        "exchange", topic=f"web/{listener}", qos=1, publish_qos=1, count=20, size=1000,
        **over(platform, listener=listener),
    )  # fmt: skip
    assert answer == {"received": 20, "in_order": True, "qos": [1]}
