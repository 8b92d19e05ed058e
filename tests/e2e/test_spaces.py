"""Address spaces in one node: which one a connection belongs to. Contracts, section 4."""

import pytest
from proton import ConnectionException, Message
from proton.utils import BlockingConnection

from running import Platform, Start

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


def connect(platform: Platform, user: str, **options: str) -> BlockingConnection:
    return BlockingConnection(
        platform.url(),
        timeout=10,
        user=user,
        password="wonderland",
        allowed_mechs="PLAIN",
        **options,
    )


def test_the_same_name_in_two_spaces_never_meets(spaces: Platform) -> None:
    south = connect(spaces, "alice@south").create_receiver("orders", credit=10)
    north = connect(spaces, "alice@north")
    consumer = north.create_receiver("orders", credit=10)
    delivery = north.create_sender("orders").link.send(Message(body="for the north"))
    assert consumer.receive(10).body == "for the north"
    consumer.accept()
    north.wait(lambda: delivery.settled, timeout=10)
    assert not south.fetcher.has_message


def test_the_sasl_hostname_names_the_space(spaces: Platform) -> None:
    for space in ("north", "south", "north.default"):
        connection = connect(spaces, "alice", virtual_host=space)
        connection.create_receiver("orders")
        connection.close()


def test_without_a_space_nobody_comes_in(spaces: Platform) -> None:
    with pytest.raises(ConnectionException):
        connect(spaces, "alice")
