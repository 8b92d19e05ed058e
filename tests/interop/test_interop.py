"""Every scenario with every foreign client; `README.md` beside this file is the contract."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

import token_issuer
from interop.clients import CLIENTS, STORE_PASSWORD, Client, place, prepared
from platform_process import Platform, Start

VERY_LARGE_BYTES = 64 * 1024 * 1024

pytestmark = pytest.mark.timeout(120)

DOCUMENTS = """
apiVersion: enmasse.io/v1beta1
kind: AddressSpace
metadata: {name: default}
spec: {type: standard}
---
apiVersion: enmasse.io/v1beta1
kind: Address
metadata: {name: default.anycast}
spec: {address: anycast, type: anycast}
---
apiVersion: enmasse.io/v1beta1
kind: Address
metadata: {name: default.secret}
spec: {address: secret, type: anycast}
---
apiVersion: enmasse.io/v1beta1
kind: MessagingUser
metadata: {name: default.alice}
spec:
  username: alice
  authentication: {type: password, password: d29uZGVybGFuZA==}
  authorization:
    - {addresses: [anycast], operations: [send, recv]}
"""
Certificates = Callable[[str], dict[str, str]]
ALICE = {"user": "alice", "password": "wonderland"}

NEIGHBOUR = """
apiVersion: enmasse.io/v1beta1
kind: AddressSpace
metadata: {name: neighbour}
spec: {type: standard}
"""


client = prepared(CLIENTS.values())
naming_client = prepared(c for c in CLIENTS.values() if c.virtual_host)
websocket_client = prepared(c for c in CLIENTS.values() if c.websocket)


@pytest.fixture(scope="module")
def closed(start_platform: Start, tmp_path_factory: pytest.TempPathFactory) -> Platform:
    """A platform whose space has a user, so that it refuses other clients."""
    documents = tmp_path_factory.mktemp("documents") / "closed.yaml"
    documents.write_text(DOCUMENTS)
    return start_platform("-f", documents)


@pytest.fixture(scope="module")
def spaces(start_platform: Start, tmp_path_factory: pytest.TempPathFactory) -> Platform:
    """A platform with two spaces, so that a connection has to name its space."""
    documents = tmp_path_factory.mktemp("documents") / "spaces.yaml"
    documents.write_text(f"{DOCUMENTS}---{NEIGHBOUR}")
    return start_platform("-f", documents)


@pytest.fixture(scope="module")
def certificates(closed: Platform, tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Make client certificates for names, signed by the platform's own CA."""
    folder = tmp_path_factory.mktemp("certificates")

    def make(name: str) -> dict[str, str]:
        return client_certificate(closed.data / "tls", folder, name)

    return make


def client_certificate(tls: Path, folder: Path, name: str) -> dict[str, str]:
    """Certificate, key and Java's key store as options of the clients."""
    key, certificate = token_issuer.client_certificate(tls, name)
    encryption = serialization.BestAvailableEncryption(STORE_PASSWORD.encode())
    store = folder / f"{name}.keystore"
    store.write_bytes(
        pkcs12.serialize_key_and_certificates(name.encode(), key, certificate, None, encryption)
    )
    return token_issuer.written(folder, name, key, certificate) | {"keystore": str(store)}


def check_exchange(client: Client, address: str = "anycast", **options: Any) -> None:
    """Exchange messages and check that they arrive intact, in order, once, and are accepted."""
    count = options.setdefault("count", 20)
    settled = options.setdefault("settled", False)
    answer = client.call("exchange", address=address, size=options.pop("size", 100), **options)
    assert answer == {
        "received": count,
        "in_order": True,
        "intact": True,
        "outcomes": {} if settled else {"accepted": count},
    }


@pytest.mark.parametrize("settled", [True, False], ids=["settled", "unsettled"])
def test_messages_arrive_intact_and_in_order(
    client: Client, platform: Platform, settled: bool
) -> None:
    check_exchange(client, settled=settled, count=500, **place(platform))


@pytest.mark.parametrize("settled", [True, False], ids=["settled", "unsettled"])
def test_large_message_arrives_intact(client: Client, platform: Platform, settled: bool) -> None:
    check_exchange(client, settled=settled, count=1, size=10 * 1024 * 1024, **place(platform))


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_very_large_message_arrives_intact(client: Client, platform: Platform) -> None:
    check_exchange(client, count=1, size=VERY_LARGE_BYTES, **place(platform))


def test_the_producer_gets_the_outcome_of_the_consumer(client: Client, platform: Platform) -> None:
    answer = client.call("outcomes", address="anycast", **place(platform))
    if client.name == "java":  # JMS reports every outcome except accepted by an exception
        first, *others = answer["exceptions"]
        assert first == "accepted"
        for text, words in zip(others, ("error", "released", "failure"), strict=True):
            assert words in text
        return
    assert answer == {
        "outcomes": ["accepted", "rejected", "released", "modified"],
        "error": {"condition": "test:spoiled", "description": "past its date"},
        "modified": {"delivery_failed": True, "undeliverable_here": True},
    }


def test_drain_returns_unused_credit(client: Client, platform: Platform) -> None:
    answer = client.call("drain", address="anycast", count=3, **place(platform))
    # fe2o3-amqp does not report the end of a drain; the link's further use is visible.
    shown = {"afterwards": "accepted"} if client.name == "rust" else {"drained": True}
    assert answer == {"received": 3, **shown}


def test_request_and_reply(client: Client, platform: Platform) -> None:
    answer = client.call("request", address="anycast", count=5, **place(platform))
    assert answer == {"replies": [f"PING {number}" for number in range(5)], "correlated": True}


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_jms_client_uses_every_kind_of_subscription(platform: Platform) -> None:
    client = CLIENTS["java"]
    client.prepare()
    answer = client.call("subscriptions", address="topic", **place(platform))
    in_use, stolen, unknown = answer.pop("in_use")
    assert "in use" in in_use and "no subscription" in unknown
    # The error depends on which call of the client reports the theft.
    assert "amqp:link:stolen" in stolen or "closed" in stolen
    assert answer.pop("delayed_ms") >= 500
    assert answer == {
        "own": [1, 2],
        "durable": [[0, 1, 2], list(range(3, 12)), []],
        "anew": [4],
        "no_local": [[2], [2]],
        "shared": [10, 10, 20],
        "shared_global": [10, 10, 20],
        "shared_volatile": [10, 10, 20],
    }


def test_multicast_copies_to_every_receiver(client: Client, platform: Platform) -> None:
    answer = client.call("multicast", address="multicast", count=50, **place(platform))
    assert answer == {"received": [50, 50, 50]}


def test_anonymous_terminus_returns_an_outcome_for_each_message(
    client: Client, platform: Platform
) -> None:
    answer = client.call("anonymous", address="anycast", unknown="nowhere", **place(platform))
    assert answer["known"] == "accepted"
    assert "amqp:not-found" in answer["condition"]
    assert answer.get("unknown", "rejected") == "rejected"
    assert answer.get("relay", True)


def test_messaging_commands_exit_3_for_an_undeclared_address(
    client: Client, platform: Platform
) -> None:
    answer = client.call("refused", address="nowhere", **place(platform))
    assert answer == {"sender": "amqp:not-found", "receiver": "amqp:not-found"}


def test_attach_without_a_right_is_refused_as_unauthorized(
    client: Client, closed: Platform
) -> None:
    answer = client.call("refused", address="secret", mechanism="PLAIN", **ALICE, **place(closed))
    unauthorized = "amqp:unauthorized-access"
    assert answer == {"sender": unauthorized, "receiver": unauthorized}


def offered(client: Client, *mechanisms: str) -> list[str]:
    return [mechanism for mechanism in mechanisms if mechanism in client.mechanisms]


def test_space_without_users_accepts_any_credentials(client: Client, platform: Platform) -> None:
    for mechanism in offered(client, "NONE", "ANONYMOUS", "PLAIN"):
        check_exchange(client, mechanism=mechanism, user="any", password="thing", **place(platform))


def test_user_authenticates_with_every_mechanism(client: Client, closed: Platform) -> None:
    for mechanism in offered(client, "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        check_exchange(client, mechanism=mechanism, **ALICE, **place(closed))


def test_a_wrong_password_is_refused_by_every_mechanism(client: Client, closed: Platform) -> None:
    wrong = {"user": "alice", "password": "looking-glass"}
    for mechanism in offered(client, "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        answer = client.call(
            "exchange",
            address="anycast",
            count=1,
            size=1,
            mechanism=mechanism,
            **wrong,
            **place(closed),
        )
        assert set(answer) == {"refused"}, mechanism


def test_space_with_users_refuses_anonymous_clients(client: Client, closed: Platform) -> None:
    for mechanism in offered(client, "NONE", "ANONYMOUS"):
        answer = client.call(
            "exchange", address="anycast", count=1, size=1, mechanism=mechanism, **place(closed)
        )
        assert set(answer) == {"refused"}, mechanism


def test_messages_are_exchanged_over_tls(client: Client, platform: Platform) -> None:
    check_exchange(client, **place(platform, "amqps"))
    check_exchange(client, count=1, size=1024 * 1024, **place(platform, "amqps"))


def test_user_authenticates_over_tls_with_every_mechanism(client: Client, closed: Platform) -> None:
    for mechanism in offered(client, "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        check_exchange(client, mechanism=mechanism, **ALICE, **place(closed, "amqps"))


@pytest.mark.parametrize("stranger", ["nobody", "mallory"])
def test_external_without_the_certificate_of_a_user_is_refused(
    client: Client, closed: Platform, certificates: Certificates, stranger: str
) -> None:
    """Without a certificate EXTERNAL is not offered; mallory's is valid, but names no user."""
    papers = {} if stranger == "nobody" else certificates(stranger)
    answer = client.call(
        "exchange",
        address="anycast",
        count=1,
        size=1,
        mechanism="EXTERNAL",
        **papers,
        **place(closed, "amqps"),
    )
    assert set(answer) == {"refused"}


def test_sasl_hostname_selects_the_address_space(naming_client: Client, spaces: Platform) -> None:
    options: dict[str, Any] = {"mechanism": "PLAIN", **ALICE, **place(spaces)}
    check_exchange(naming_client, virtual_host="default", **options)
    answer = naming_client.call("refused", address="anycast", virtual_host="neighbour", **options)
    assert answer == {"sender": "amqp:not-found", "receiver": "amqp:not-found"}, "empty space"


def test_client_certificate_authenticates_its_user(
    client: Client, closed: Platform, certificates: Certificates
) -> None:
    check_exchange(client, mechanism="EXTERNAL", **certificates("alice"), **place(closed, "amqps"))


@pytest.mark.parametrize("listener", ["ws", "wss"])
def test_messages_are_exchanged_over_websockets(
    websocket_client: Client, platform: Platform, listener: str
) -> None:
    check_exchange(websocket_client, **place(platform, listener))
    check_exchange(websocket_client, count=1, size=1024 * 1024, **place(platform, listener))
