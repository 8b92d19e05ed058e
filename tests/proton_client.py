"""Messages to and from a running platform, with qpid-proton."""

import base64
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from proton import UNDESCRIBED, Array, Data, Delivery, Message, Terminus, Timeout, symbol
from proton.handlers import MessagingHandler
from proton.reactor import Container, LinkOption
from proton.utils import BlockingConnection, BlockingReceiver

from platform_process import Platform

SPACE = """
apiVersion: enmasse.io/v1beta1
kind: AddressSpace
metadata: {name: default}
spec: {type: standard}
"""
"""The document of the space `default`."""

PASSWORD = "wonderland"
"""Of all users of tests."""

TIMEOUT_S = 20.0
QUIET_S = 0.3


def address(name: str, kind: str = "queue", **spec: Any) -> str:
    """The document of an address; its fields as they stand in YAML."""
    lines = [f"  {field}: {value}" for field, value in spec.items()]
    resource = name.lower().replace("_", "-")
    head = f"apiVersion: enmasse.io/v1beta1\nkind: Address\nmetadata: {{name: default.{resource}}}"
    return "\n".join([f"{head}\nspec:\n  address: {name}\n  type: {kind}", *lines, ""])


def user(name: str, *addresses: str) -> str:
    """The document of a user with `PASSWORD`, who may send to and receive from the addresses."""
    rights = f"[{{addresses: {json.dumps(addresses)}, operations: [send, recv]}}]"
    secret = base64.b64encode(PASSWORD.encode()).decode()
    return f"""
apiVersion: enmasse.io/v1beta1
kind: MessagingUser
metadata: {{name: default.{name}}}
spec:
  username: {name}
  authentication: {{type: password, password: {secret}}}
  authorization: {rights if addresses else []}
"""


def document(folder: Path, *addresses: str) -> Path:
    """A file for `enmasse up -f` that declares a space and its addresses."""
    path = folder / "addresses.yaml"
    path.write_text("---\n".join([SPACE, *addresses]))
    return path


@contextmanager
def connected(
    platform: Platform, container: str = "", **options: Any
) -> Iterator[BlockingConnection]:
    """A connection, with a container id where one is given."""
    reactor = Container()
    if container:
        reactor.container_id = container
    connection = BlockingConnection(platform.url(), timeout=TIMEOUT_S, container=reactor, **options)
    with closing(connection):
        yield connection


def exchange(platform: Platform, name: str, **options: Any) -> None:
    """Send a message to an address and take it from there."""
    with connected(platform, **options) as connection:
        connection.create_sender(name).send(Message(body="hello"))
        receiver = connection.create_receiver(name)
        assert receiver.receive(timeout=TIMEOUT_S).body == "hello"
        receiver.accept()


def outcomes(platform: Platform, to: str, *messages: Message, **options: Any) -> list[Any]:
    """Send messages as fast as credit comes; return the outcome of each."""
    with connected(platform, **options) as connection:
        link = connection.create_sender(to).link
        deliveries: list[Delivery] = []
        for message in messages:
            connection.wait(lambda: link.credit > 0)
            deliveries.append(link.send(message))
        connection.wait(lambda: all(delivery.settled for delivery in deliveries))
        return [delivery.remote_state for delivery in deliveries]


def send(platform: Platform, to: str, *messages: Message, **options: Any) -> None:
    """Send messages, each accepted."""
    told = outcomes(platform, to, *messages, **options)
    assert told == [Delivery.ACCEPTED] * len(messages), set(told)


def numbered(first: int, count: int, **fields: Any) -> list[Message]:
    """Messages whose bodies are numbers."""
    return [Message(body=number, **fields) for number in range(first, first + count)]


def take(receiver: BlockingReceiver, count: int) -> list[Any]:
    """Take so many messages, and no more; return their bodies."""
    bodies = []
    for _ in range(count):
        bodies.append(receiver.receive(timeout=TIMEOUT_S).body)
        receiver.accept()
    return bodies


def shared(
    connection: BlockingConnection, receivers: list[BlockingReceiver], count: int
) -> list[list[Any]]:
    """Take so many messages with the receivers of a connection; return the bodies of each."""
    bodies: list[list[Any]] = [[] for _ in receivers]
    for _ in range(count):
        connection.wait(lambda: any(receiver.fetcher.has_message for receiver in receivers))
        for receiver, own in zip(receivers, bodies, strict=True):
            if receiver.fetcher.has_message:
                own += take(receiver, 1)
                break
    return bodies


def nothing_more(receiver: BlockingReceiver, quiet_s: float = QUIET_S) -> bool:
    """Whether no message comes for some time."""
    try:
        receiver.receive(timeout=quiet_s)
    except Timeout:
        return True
    return False


def received(platform: Platform, name: str, count: int, **options: Any) -> list[Any]:
    """The bodies of so many messages of an address, taken, after which none follows."""
    with connected(platform, **options) as connection:
        receiver = connection.create_receiver(name, credit=min(count + 1, 500))
        bodies = take(receiver, count)
        assert nothing_more(receiver), f"{name} has more than {count} messages"
        return bodies


def heard(connection: BlockingConnection) -> None:
    """Wait until the platform has heard all that was said on a connection."""
    connection.create_sender(None, name="heard").close()


def fail(receiver: BlockingReceiver) -> None:
    """Say of the message received last that its delivery failed."""
    receiver.fetcher.unsettled[-1].local.failed = True
    receiver.release(delivered=True)


def stored(platform: Platform, name: str) -> int:
    """How many messages `enmasse get addresses` says that an address stores."""
    found = json.loads(platform.enmasse("get", "addresses", name, "--output", "json"))
    return int(found["status"]["statistics"]["stored"]["messages"])


class Shared(LinkOption):  # type: ignore[misc]
    """A subscription that other links may be at, too."""

    def __init__(self, *more: str, durable: bool = False) -> None:
        self._capabilities = ("topic", "shared", *more)
        self._durable = durable

    def apply(self, receiver: Any) -> None:
        names = Array(UNDESCRIBED, Data.SYMBOL, *map(symbol, self._capabilities))
        receiver.source.capabilities.put_object(names)
        if self._durable:
            receiver.source.durability = Terminus.DELIVERIES
            receiver.source.expiry_policy = Terminus.EXPIRE_NEVER


class Pumping(MessagingHandler):  # type: ignore[misc]
    """Sends numbered messages, and ends when all are accepted."""

    def __init__(self, platform: Platform, to: str, first: int, count: int) -> None:
        super().__init__()
        self._url, self._to = platform.url(), to
        self._next, self._end = first, first + count
        self._open = count

    def on_start(self, event: Any) -> None:
        self._connection = event.container.connect(self._url, reconnect=False)
        event.container.create_sender(self._connection, self._to)

    def on_sendable(self, event: Any) -> None:
        while event.sender.credit and self._next < self._end:
            event.sender.send(Message(body=self._next))
            self._next += 1

    def on_accepted(self, event: Any) -> None:
        self._open -= 1
        if not self._open:
            self._connection.close()


class Taking(MessagingHandler):  # type: ignore[misc]
    """Takes so many messages, and ends."""

    def __init__(self, platform: Platform, name: str, count: int) -> None:
        super().__init__(prefetch=1000)
        self.bodies: list[Any] = []
        self._url, self._name, self._count = platform.url(), name, count

    def on_start(self, event: Any) -> None:
        self._connection = event.container.connect(self._url, reconnect=False)
        event.container.create_receiver(self._connection, self._name)

    def on_message(self, event: Any) -> None:
        self.bodies.append(event.message.body)
        if len(self.bodies) == self._count:
            self.accept(event.delivery)
            self._connection.close()
