"""Topics of a real process: who gets a copy, who may keep one, and what a subscription is through
the end of the process."""

import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from proton import (
    UNDESCRIBED,
    Array,
    Data,
    Delivery,
    Described,
    LinkException,
    Message,
    Terminus,
    Timeout,
    symbol,
)
from proton.reactor import Container, DurableSubscription, Filter, LinkOption, Selector
from proton.utils import BlockingConnection, BlockingReceiver, LinkDetached

from running import Platform, Start, running

pytestmark = pytest.mark.timeout(180)

DECLARED = """
apiVersion: enmasse.io/v1beta1
kind: AddressSpace
metadata: {name: default}
spec: {type: standard}
"""


def address(name: str, kind: str = "topic", **spec: Any) -> str:
    """The document of an address."""
    lines = [f"  {field}: {value}" for field, value in spec.items()]
    head = f"apiVersion: enmasse.io/v1beta1\nkind: Address\nmetadata: {{name: default.{name}}}\n"
    return "\n".join([f"{head}spec:\n  address: {name}\n  type: {kind}", *lines])


ADDRESSES = (
    address("t"),
    address("dead", "deadletter"),
    address("news", deadletter="dead"),
    address("held"),
    address("one", "subscription", topic="held"),
    address("two", "subscription", topic="held", subscription="{maxConsumers: 2}"),
    address("full", limits="{messages: 2, onFull: reject}"),
    address("kept", "subscription", topic="full"),
)


def document(folder: Path) -> Path:
    path = folder / "addresses.yaml"
    path.write_text("---\n".join([DECLARED, *(f"{one}\n" for one in ADDRESSES)]))
    return path


@pytest.fixture(scope="module")
def topics(start_platform: Start, tmp_path_factory: pytest.TempPathFactory) -> Platform:
    """A platform with topics and declared subscriptions."""
    return start_platform("-f", document(tmp_path_factory.mktemp("documents")))


@contextmanager
def connected(platform: Platform, container: str = "") -> Iterator[BlockingConnection]:
    reactor = Container()
    if container:
        reactor.container_id = container
    connection = BlockingConnection(platform.url(), timeout=20, container=reactor)
    with closing(connection):
        yield connection


def publish(platform: Platform, to: str, *messages: Message) -> None:
    """Send messages, each accepted."""
    with connected(platform) as connection:
        sender = connection.create_sender(to)
        for message in messages:
            sender.send(message)


def numbered(first: int, count: int) -> list[Message]:
    return [Message(body=number) for number in range(first, first + count)]


def take(receiver: BlockingReceiver, count: int) -> list[Any]:
    """Take so many messages, and no more."""
    bodies = []
    for _ in range(count):
        bodies.append(receiver.receive(timeout=20).body)
        receiver.accept()
    return bodies


def nothing_more(receiver: BlockingReceiver) -> bool:
    try:
        receiver.receive(timeout=0.3)
    except Timeout:
        return True
    return False


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


class WithoutSource(LinkOption):  # type: ignore[misc]
    """A link that says by its name which durable subscription it is about."""

    def apply(self, receiver: Any) -> None:
        receiver.source.type = Terminus.UNSPECIFIED


def detach(receiver: BlockingReceiver) -> None:
    """Detach a link that may come back."""
    receiver.link.detach()
    # What is answered after it has been heard after it.
    receiver.connection.create_sender("news", name="after").close()


@pytest.mark.parametrize("count", [512, 2048])
def test_every_subscriber_gets_every_message_in_order(topics: Platform, count: int) -> None:
    with connected(topics) as connection:
        names = ("a", "b", "c")
        receivers = [connection.create_receiver("news", credit=count, name=name) for name in names]
        publish(topics, "news", *numbered(0, count))
        for receiver in receivers:
            assert take(receiver, count) == list(range(count))


@pytest.mark.parametrize("durable", [False, True])
def test_messages_of_a_megabyte_reach_subscribers(topics: Platform, durable: bool) -> None:
    body = "x" * 1024 * 1024
    messages = [Message(body=body, durable=durable) for _ in range(10)]
    with connected(topics) as connection, ThreadPoolExecutor(1) as beside:
        receivers = [connection.create_receiver("news", credit=20, name=name) for name in "ab"]
        # Who does not read while they are sent misses some of them.
        sent = beside.submit(publish, topics, "news", *messages)
        for receiver in receivers:
            assert take(receiver, len(messages)) == [body] * len(messages)
        sent.result()


SELECTORS = {
    "n = 1": [1],
    "n > 3": [4],
    "n < 1 + 1": [0, 1],
    "n * 2 = 6": [3],
    "n > 0 AND n < 3": [1, 2],
    "n BETWEEN 1 AND 2": [1, 2],
    "colour = 'red'": [0, 2, 4],
    "even": [0, 2, 4],
    "extra IS NOT NULL": [2],
    "colour LIKE 'bl%'": [1, 3],
    "colour IN ('blue', 'green')": [1, 3],
    "JMSXGroupID = 'g2'": [2],
}


@pytest.mark.parametrize("selector", SELECTORS)
def test_a_selector_takes_its_messages_and_another_subscriber_gets_them_all(
    topics: Platform, selector: str
) -> None:
    messages = [
        Message(
            body=n,
            group_id=f"g{n}",
            properties={"n": n, "even": n % 2 == 0, "colour": "blue" if n % 2 else "red"}
            | ({"extra": "x"} if n == 2 else {}),
        )
        for n in range(5)
    ]
    with connected(topics) as connection:
        some = connection.create_receiver("news", credit=10, options=Selector(selector))
        every = connection.create_receiver("news", credit=10, name="every")
        publish(topics, "news", *messages)
        assert take(every, 5) == [0, 1, 2, 3, 4]
        assert take(some, len(SELECTORS[selector])) == SELECTORS[selector]
        assert nothing_more(some)


def test_wildcards_get_what_is_sent_below_a_topic(topics: Platform) -> None:
    with connected(topics) as connection:
        below = connection.create_receiver("t/#", credit=100)
        children = connection.create_receiver("t/world/+", credit=100)
        for name in ("t/foo", "t/bar", "t/baz/foobar"):
            publish(topics, name, *(Message(address=name, body=name) for _ in range(4)))
        for name in ("t/world/one", "t/world/two", "t/world/three/four"):
            publish(topics, name, *(Message(address=name, body=name) for _ in range(2)))
        got = Counter(take(below, 12 + 6))
        assert got["t/foo"] == got["t/bar"] == got["t/baz/foobar"] == 4
        assert Counter(take(children, 4)) == {"t/world/one": 2, "t/world/two": 2}
        assert nothing_more(children)


@pytest.mark.parametrize("killed", [False, True])
def test_a_durable_subscription_keeps_what_comes_while_it_is_away(
    tmp_path: Path, killed: bool
) -> None:
    path = document(tmp_path)
    with running(tmp_path / "data", "-f", str(path)) as platform:
        with connected(platform, "durable") as connection:
            receiver = connection.create_receiver(
                "news", credit=10, name="sub", options=DurableSubscription()
            )
            publish(platform, "news", *numbered(0, 3))
            assert take(receiver, 3) == [0, 1, 2]
            detach(receiver)
            publish(platform, "news", *numbered(3, 9))
            if not killed:
                receiver = connection.create_receiver(
                    "news", credit=20, name="sub", options=DurableSubscription()
                )
                assert take(receiver, 9) == list(range(3, 12))
                assert nothing_more(receiver)
                return
        platform.kill()
    with running(tmp_path / "data", "-f", str(path)) as platform:
        with connected(platform, "durable") as connection:
            receiver = connection.create_receiver(
                "news", credit=20, name="sub", options=DurableSubscription()
            )
            assert take(receiver, 9) == list(range(3, 12))
            assert nothing_more(receiver)


def test_a_subscription_that_is_in_use_is_refused_to_others(topics: Platform) -> None:
    with connected(topics, "held") as first, connected(topics, "held") as second:
        receiver = first.create_receiver("news", name="sub", options=DurableSubscription())
        with pytest.raises((LinkDetached, LinkException), match="in use"):
            second.create_receiver("news", name="sub", options=DurableSubscription())
        receiver.close()
        second.create_receiver("news", name="sub", options=DurableSubscription()).close()


def test_a_subscription_is_ended_by_its_name_alone(topics: Platform) -> None:
    with connected(topics, "ending") as connection:
        durable = DurableSubscription()
        receiver = connection.create_receiver("news", name="sub", options=durable)
        detach(receiver)
        publish(topics, "news", *numbered(0, 2))
        with suppress(LinkException):
            # The client compares the address with none, and closes.
            connection.create_receiver(None, name="sub", options=WithoutSource()).close()
        receiver = connection.create_receiver("news", credit=10, name="sub", options=durable)
        assert nothing_more(receiver)
        receiver.close()


@pytest.mark.parametrize("durable", [False, True])
def test_a_shared_subscription_gives_each_message_to_one_of_its_links(
    topics: Platform, durable: bool
) -> None:
    link = "shared|global" if durable else "shared|global-volatile"
    options = Shared("global", durable=durable)
    with connected(topics, "a") as first, connected(topics, "b") as second:
        receivers = [
            connection.create_receiver("news", credit=50, name=f"{link}{number}", options=options)
            for number, connection in enumerate((first, second), 1)
        ]
        publish(topics, "news", *numbered(0, 20))
        got = [take(receiver, 10) for receiver in receivers]
        assert sorted(got[0] + got[1]) == list(range(20))
        for receiver in receivers:
            receiver.close()


def test_a_declared_subscription_has_as_many_consumers_as_it_says(topics: Platform) -> None:
    with connected(topics) as connection:
        connection.create_receiver("held::one", name="first")
        with pytest.raises((LinkDetached, LinkException), match="consumer limit"):
            connection.create_receiver("held::one", name="second")
        receivers = [
            connection.create_receiver("held::two", credit=20, name=name) for name in ("a", "b")
        ]
        with pytest.raises((LinkDetached, LinkException), match="consumer limit"):
            connection.create_receiver("held::two", name="c")
        publish(topics, "held", *numbered(0, 20))
        got = [take(receiver, 10) for receiver in receivers]
        assert sorted(got[0] + got[1]) == list(range(20))


def test_a_declared_subscription_keeps_messages_and_refuses_senders(tmp_path: Path) -> None:
    path = document(tmp_path)
    with running(tmp_path / "data", "-f", str(path)) as platform:
        publish(platform, "held", *numbered(0, 5))
        platform.kill()
    with running(tmp_path / "data", "-f", str(path)) as platform:
        with connected(platform) as connection:
            assert take(connection.create_receiver("held::one", credit=10), 5) == [0, 1, 2, 3, 4]
            with pytest.raises((LinkDetached, LinkException), match="send to"):
                connection.create_sender("held::two")


def test_what_one_subscription_has_no_room_for_none_gets(topics: Platform) -> None:
    with connected(topics) as connection:
        live = connection.create_receiver("full", credit=10)
        sender = connection.create_sender("full")
        delivered = [sender.send(message, error_states=[]) for message in numbered(0, 3)]
        states = [delivery.remote_state for delivery in delivered]
        assert states == [Delivery.ACCEPTED, Delivery.ACCEPTED, Delivery.REJECTED]
        assert take(live, 2) == [0, 1]
        assert nothing_more(live)


def test_a_fresh_platform_has_a_topic_and_a_subscription(platform: Platform) -> None:
    with connected(platform) as connection:
        live = connection.create_receiver("topic", credit=10)
        publish(platform, "topic", Message(body="hello"))
        assert take(live, 1) == ["hello"]
        assert take(connection.create_receiver("topic::subscription", credit=10), 1) == ["hello"]


def test_operations_on_a_subscription_see_its_messages_and_no_others(tmp_path: Path) -> None:
    with running(tmp_path / "data", "-f", str(document(tmp_path))) as platform:
        publish(platform, "held", *numbered(0, 3))
        assert stored(platform, "held::one") == stored(platform, "held::two") == 3
        assert platform.enmasse("peek", "held::one").count("queue") == 0
        platform.enmasse("purge", "held::one")
        assert (stored(platform, "held::one"), stored(platform, "held::two")) == (0, 3)
        platform.enmasse("move", "held::two", "news", "--dry-run")
        with connected(platform) as connection:
            assert nothing_more(connection.create_receiver("held::one", credit=10))
            live = connection.create_receiver("news", credit=10)
            platform.enmasse("move", "held::two", "news")
            assert take(live, 3) == [0, 1, 2]
        assert stored(platform, "held::two") == 0


def stored(platform: Platform, name: str) -> int:
    """How many messages `enmasse get addresses` says that an address stores."""
    (found,) = json.loads(platform.enmasse("get", "addresses", name, "--output", "json"))["items"]
    return int(found["status"]["statistics"]["stored"]["messages"])


@pytest.mark.parametrize("durable", [False, True])
def test_a_receiver_that_wants_nothing_of_its_own_connection(
    topics: Platform, durable: bool
) -> None:
    name = "apache.org:no-local-filter:list"
    local = Filter({symbol("no-local"): Described(symbol(name), [])})
    options = [local, DurableSubscription()] if durable else [local]
    with connected(topics, "own") as own:
        receiver = own.create_receiver("t", name=f"mine-{durable}", credit=10, options=options)
        in_force = receiver.link.remote_source.filter
        in_force.rewind()
        in_force.next()
        assert symbol("no-local") in in_force.get_object()
        own.create_sender("t").send(Message(body="own"))
        publish(topics, "t", Message(body="other's"))
        assert receiver.receive(timeout=20).body == "other's"
        receiver.accept()
        receiver.close()
