"""Temporary destinations and transacted sessions with foreign clients; see `README.md`."""

import pytest

from interop.clients import CLIENTS, Client, place, prepared
from platform_process import Platform, Start
from proton_client import address, document

pytestmark = pytest.mark.timeout(180)

ADDRESSES = (
    address("orders"),
    address("small", limits="{messageSize: 100}"),
    address("direct", "anycast"),
)


@pytest.fixture(scope="module")
def platform(start_platform: Start, tmp_path_factory: pytest.TempPathFactory) -> Platform:
    """A platform with a queue, one for small messages and a direct address."""
    return start_platform("-f", document(tmp_path_factory.mktemp("documents"), *ADDRESSES))


client = prepared(CLIENTS[name] for name in ("python", "javascript", "java"))
jms = prepared([CLIENTS["java"]])
"""The client that speaks JMS."""


def test_temporary_queue_accepts_messages_before_its_receiver_attaches(
    client: Client, platform: Platform
) -> None:
    answer = client.call("temporary", count=20, **place(platform))
    expected = 2 * [f"message {number}" for number in range(20)]
    topic = ["somebody listens"] if client.name == "java" else []
    assert answer["received"] == expected + topic
    assert answer.get("outcomes", 40 * ["accepted"]) == 40 * ["accepted"]


def test_jms_queue_requestor_receives_its_replies(jms: Client, platform: Platform) -> None:
    answer = jms.call("requestor", address="orders", count=5, **place(platform))
    assert answer == {"replies": [f"PING {number}" for number in range(5)]}


def test_transacted_reply_is_delivered_on_commit(jms: Client, platform: Platform) -> None:
    answer = jms.call("transacted_reply", address="orders", **place(platform))
    assert answer == {"unseen": [True, True, True], "reply": "PING", "gone": True}


def test_commit_with_a_refused_message_fails_with_its_condition(
    jms: Client, platform: Platform
) -> None:
    names = "direct,nowhere,small"
    answer = jms.call("refused_commit", address="orders", names=names, size=1000, **place(platform))
    assert answer.pop("stored") is False
    conditions = {
        "direct": "amqp:not-implemented",
        "nowhere": "amqp:not-found",
        "small": "amqp:link:message-size-exceeded",
    }
    for name, condition in conditions.items():
        assert "amqp:transaction:rollback" in answer[name], answer
        assert condition in answer[name], answer


def test_transacted_spring_listener_replies_to_each_request(
    jms: Client, platform: Platform
) -> None:
    answer = jms.call("spring", address="orders", count=20, **place(platform))
    assert sorted(answer["replies"]) == sorted(f"PING {number}" for number in range(20))
    assert answer["gone"] is True
