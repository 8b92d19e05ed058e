"""The limits of the default free plan, with connected clients."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from proton import Message
from proton.utils import BlockingConnection, ConnectionClosed, LinkDetached

from platform_process import Platform, Start

pytestmark = pytest.mark.timeout(180)

CONNECTIONS, LINKS = 10, 50
MESSAGE_BYTES = 256 << 10
MESSAGES_A_SECOND = 50
ADDRESSES = 10

DOCUMENTS = """
apiVersion: enmasse.io/v1beta1
kind: AddressSpace
metadata: {name: default}
spec: {type: standard, plan: standard-free}
---
apiVersion: enmasse.io/v1beta1
kind: Address
metadata: {name: default.orders}
spec: {type: queue, address: orders, plan: standard-free-queue}
"""

MORE = """
apiVersion: enmasse.io/v1beta1
kind: Address
metadata: {{name: default.more{number}}}
spec: {{type: anycast, address: more{number}, plan: standard-free-anycast}}
"""


@pytest.fixture(scope="module")
def free(start_platform: Start, tmp_path_factory: pytest.TempPathFactory) -> Platform:
    """A platform whose only space has the free plan."""
    documents = tmp_path_factory.mktemp("documents") / "free.yaml"
    documents.write_text(DOCUMENTS)
    return start_platform("-f", documents)


@pytest.fixture
def connection(free: Platform) -> Iterator[BlockingConnection]:
    """A connection to the platform."""
    with closing(BlockingConnection(free.url(), timeout=60)) as connection:
        yield connection


def test_eleventh_connection_is_refused(free: Platform) -> None:
    with ExitStack() as stack:
        opened = [
            stack.enter_context(closing(BlockingConnection(free.url(), timeout=60)))
            for _ in range(CONNECTIONS)
        ]
        for one in opened:
            one.create_sender("orders").close()
        with pytest.raises(ConnectionClosed) as refused:
            BlockingConnection(free.url(), timeout=60).create_sender("orders")
        assert refused.value.condition == "amqp:resource-limit-exceeded"


def test_the_fifty_first_link_is_refused(connection: BlockingConnection) -> None:
    for number in range(LINKS):
        connection.create_sender("orders", name=f"link {number}")
    with pytest.raises(LinkDetached) as refused:
        connection.create_sender("orders", name="one too many")
    assert refused.value.condition == "amqp:resource-limit-exceeded"


def test_message_above_the_size_limit_detaches_the_link(connection: BlockingConnection) -> None:
    sender = connection.create_sender("orders")
    assert sender.link.remote_max_message_size == MESSAGE_BYTES
    with pytest.raises(LinkDetached) as refused:
        sender.send(Message(body=b"x" * (MESSAGE_BYTES + 1)))
    assert refused.value.condition == "amqp:link:message-size-exceeded"


def test_sender_above_fifty_messages_a_second_runs_out_of_credit(
    connection: BlockingConnection,
) -> None:
    sender = connection.create_sender("orders")
    at_once = 0
    while sender.link.credit > 0 or at_once == 0:
        sender.send(Message(body="x"))
        at_once += 1
        assert at_once < 1000 * MESSAGES_A_SECOND, "the rate does not bound the sender"
    # No message is refused; credit returns by itself.
    sender.send(Message(body="x"), timeout=60)


def test_eleventh_address_exceeds_the_quota(free: Platform, tmp_path: Path) -> None:
    def apply(first: int, last: int) -> int:
        file = tmp_path / "more.yaml"
        file.write_text("---".join(MORE.format(number=n) for n in range(first, last + 1)))
        return free.say("apply", "-f", str(file))

    assert apply(2, ADDRESSES) == 0
    assert apply(ADDRESSES + 1, ADDRESSES + 1) == 6
    free.enmasse("delete", "address", "more2", "--force")
    assert apply(ADDRESSES + 1, ADDRESSES + 1) == 0
