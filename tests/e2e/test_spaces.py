"""Address spaces in one node, and how a connection selects one. Contracts, section 4."""

import json
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from proton import ConnectionException, Message, SSLDomain
from proton.utils import BlockingConnection

from platform_process import Platform, Start

# Connections wait up to 30 s, and starting takes seconds of CPU.
pytestmark = pytest.mark.timeout(120)

DOCUMENTS = "\n---\n".join(
    [
        f"""
apiVersion: enmasse.io/v1beta1
kind: AddressSpace
metadata: {{name: {space}}}
spec: {{type: standard}}
---
apiVersion: enmasse.io/v1beta1
kind: Address
metadata: {{name: {space}.orders}}
spec: {{address: orders, type: anycast}}
---
apiVersion: enmasse.io/v1beta1
kind: MessagingUser
metadata: {{name: {space}.alice}}
spec:
  username: alice
  authentication: {{type: password, password: d29uZGVybGFuZA==}}
  authorization: [{{addresses: ["*"], operations: [send, recv]}}]
"""
        for space in ("north", "south")
    ]
)


@pytest.fixture(scope="module")
def spaces(start_platform: Start, tmp_path_factory: pytest.TempPathFactory) -> Platform:
    documents = tmp_path_factory.mktemp("documents") / "spaces.yaml"
    documents.write_text(DOCUMENTS)
    return start_platform("-f", documents)


@contextmanager
def connected(url: str, user: str, **options: Any) -> Iterator[BlockingConnection]:
    connection = BlockingConnection(
        url, timeout=30, user=user, password="wonderland", allowed_mechs="PLAIN", **options
    )
    with closing(connection):
        yield connection


def test_same_address_in_two_spaces_is_isolated(spaces: Platform) -> None:
    with (
        connected(spaces.url(), "alice@south") as south,
        connected(spaces.url(), "alice@north") as north,
    ):
        stranger = south.create_receiver("orders", credit=10)
        consumer = north.create_receiver("orders", credit=10)
        delivery = north.create_sender("orders").link.send(Message(body="for the north"))
        assert consumer.receive(30).body == "for the north"
        consumer.accept()
        north.wait(lambda: delivery.settled, timeout=30)
        stranger.link.drain(0)  # completes once all available messages are sent
        south.wait(lambda: stranger.link.credit == 0, timeout=30)
        assert not stranger.fetcher.has_message


@pytest.mark.parametrize("space", ["north", "south", "north.default"])
def test_T_EP_1_tls_server_name_selects_the_space(spaces: Platform, space: str) -> None:
    domain = SSLDomain(SSLDomain.MODE_CLIENT)
    domain.set_trusted_ca_db(str(spaces.data / "tls" / "ca.crt"))
    domain.set_peer_authentication(SSLDomain.VERIFY_PEER_NAME)
    options = {"ssl_domain": domain, "virtual_host": space}
    with connected(spaces.url("amqps"), "alice", **options) as connection:
        assert connection.create_receiver("orders").link.remote_source.address == "orders"


def test_login_without_a_space_is_refused_if_several_exist(spaces: Platform) -> None:
    with pytest.raises(ConnectionException), connected(spaces.url(), "alice"):
        raise AssertionError("alice logged in without naming a space")


@pytest.fixture(scope="module")
def with_default(start_platform: Start, tmp_path_factory: pytest.TempPathFactory) -> Platform:
    """First `north` alone, then `south`: clients that name no space still enter `north`."""
    documents = tmp_path_factory.mktemp("documents")
    north, south = DOCUMENTS.split("kind: AddressSpace")[1:]
    head = "apiVersion: enmasse.io/v1beta1\nkind: AddressSpace"
    (documents / "north.yaml").write_text(head + north.rpartition("\n---\n")[0])
    (documents / "south.yaml").write_text(head + south)
    platform = start_platform("-f", documents / "north.yaml", "--host-names", "mq.example.com")
    platform.enmasse("apply", "-f", str(documents / "south.yaml"))
    return platform


def unverified_tls() -> SSLDomain:
    domain = SSLDomain(SSLDomain.MODE_CLIENT)
    domain.set_peer_authentication(SSLDomain.ANONYMOUS_PEER)
    return domain


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "mq.example.com", socket.gethostname()])
def test_clients_without_a_space_enter_the_default_despite_a_second_space(
    with_default: Platform, host: str
) -> None:
    options = {"ssl_domain": unverified_tls(), "virtual_host": host}
    plain = {"virtual_host": host}
    for url, more in ((with_default.url(), plain), (with_default.url("amqps"), options)):
        with connected(url, "alice", **more) as connection:
            assert connection.create_receiver("orders").link.remote_source.address == "orders"
            there = json.loads(with_default.enmasse("get", "connections", "-o", "json"))
            assert {one["space"] for one in there["items"]} == {"north.default"}


@pytest.mark.parametrize(
    ("scheme", "user", "host"),
    [
        ("amqps", "alice", "nroth"),  # TLS server name, and the host names of SASL and open
        ("amqps", "alice@north", "nroth.default"),
        ("amqp", "alice", "nroth"),  # the host names of SASL and open
        ("amqp", "alice@nroth", None),
        ("amqp", "alice@mq.exmaple.com", None),
    ],
)
def test_mistyped_space_name_is_refused(
    with_default: Platform, scheme: str, user: str, host: str | None
) -> None:
    options = {"virtual_host": host} if host else {}
    if scheme == "amqps":
        options["ssl_domain"] = unverified_tls()
    with (
        pytest.raises(ConnectionException),
        connected(with_default.url(scheme), user, **options),
    ):
        raise AssertionError("the client logged in")


def test_commands_without_a_space_use_the_default_space(with_default: Platform) -> None:
    with_default.enmasse("create", "address", "parcels", "--type", "queue")
    names = with_default.enmasse("get", "addresses", "-o", "name")
    assert "north.parcels" in names
    told = with_default.enmasse("create", "addressspace", "lab")
    assert "lab.default" in told and "use north.default" in told
    with_default.enmasse("create", "address", "parcels", "--type", "queue", "--space", "south")
    assert "south.parcels" in with_default.enmasse("get", "addresses", "-o", "name")
