"""Address spaces in one node: which one a connection belongs to. Contracts, section 4."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from proton import ConnectionException, Message, SSLDomain
from proton.utils import BlockingConnection

from running import Platform, Start

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


def test_the_same_name_in_two_spaces_never_meets(spaces: Platform) -> None:
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
        stranger.link.drain(0)  # answered once all that is there has been sent
        south.wait(lambda: stranger.link.credit == 0, timeout=30)
        assert not stranger.fetcher.has_message


@pytest.mark.parametrize("space", ["north", "south", "north.default"])
def test_T_EP_1_the_tls_server_name_names_the_space(spaces: Platform, space: str) -> None:
    domain = SSLDomain(SSLDomain.MODE_CLIENT)
    domain.set_trusted_ca_db(str(spaces.data / "tls" / "ca.crt"))
    domain.set_peer_authentication(SSLDomain.VERIFY_PEER_NAME)
    options = {"ssl_domain": domain, "virtual_host": space}
    with connected(spaces.url("amqps"), "alice", **options) as connection:
        assert connection.create_receiver("orders").link.remote_source.address == "orders"


def test_without_a_space_nobody_comes_in(spaces: Platform) -> None:
    with pytest.raises(ConnectionException), connected(spaces.url(), "alice"):
        raise AssertionError("alice came in without naming a space")
