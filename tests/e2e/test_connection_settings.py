"""Settings of every connection, and addresses with spaces in their names."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from proton import Message
from proton.utils import BlockingConnection, BlockingReceiver, BlockingSender

from platform_process import Platform, Start

pytestmark = pytest.mark.timeout(120)

FRAME, CREDIT, IDLE_S = 4096, 7, 20.0


@pytest.fixture(scope="module")
def up(start_platform: Start) -> Platform:
    settings = ("--max-frame-size", str(FRAME), "--link-credit", str(CREDIT))
    return start_platform(*settings, "--idle-timeout-s", str(IDLE_S))


@pytest.fixture
def connection(up: Platform) -> Iterator[BlockingConnection]:
    with closing(BlockingConnection(up.url(), timeout=30)) as made:
        yield made


def test_open_announces_max_frame_size_and_idle_timeout(connection: BlockingConnection) -> None:
    transport = connection.conn.transport
    assert transport.remote_max_frame_size == FRAME
    # The announced idle timeout may be half of the effective one (2.4.5).
    assert transport.remote_idle_timeout in (IDLE_S, IDLE_S / 2)


def credit_of(connection: BlockingConnection, address: str | None) -> int:
    sender: BlockingSender = connection.create_sender(address)
    connection.wait(lambda: sender.link.credit > 0, msg="credit")
    return int(sender.link.credit)


def test_sender_gets_the_configured_link_credit(connection: BlockingConnection) -> None:
    assert credit_of(connection, "queue") == CREDIT
    assert credit_of(connection, None) == CREDIT, "the anonymous terminus too"


def test_messages_larger_than_a_frame_pass(connection: BlockingConnection) -> None:
    body = "x" * (10 * FRAME)
    connection.create_sender("queue").send(Message(body=body))
    receiver: BlockingReceiver = connection.create_receiver("queue", credit=1)
    assert receiver.receive().body == body
    receiver.accept()


@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_an_address_may_contain_spaces(
    up: Platform, connection: BlockingConnection, kind: str
) -> None:
    name = f"my {kind} of/today"
    up.enmasse("create", "address", name, "--type", kind)
    receiver = connection.create_receiver(name, credit=1)
    connection.create_sender(name).send(Message(body=kind))
    assert receiver.receive().body == kind
    receiver.accept()
    assert name in up.enmasse("get", "addresses")
