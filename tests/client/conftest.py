"""A node in this process, and sessions with it."""

from collections.abc import Callable, Iterator

import pytest

from doubles import address, space
from enmasse.client import Connection, connect, connect_within
from enmasse.native import Node
from enmasse.plan import compile


@pytest.fixture
def node() -> Iterator[Node]:
    """A node with an open space: `orders` is anycast, `news` is multicast."""
    node = Node(workers=1)
    resources = [
        space().with_metadata(uid="s"),
        address("default.orders").with_metadata(uid="a-orders"),
        address("default.news", type_="multicast").with_metadata(uid="a-news"),
    ]
    node.apply(compile(resources, 1).plan)
    yield node
    node.stop(1.0)


@pytest.fixture(params=["within", "tcp"])
def session(request: pytest.FixtureRequest, node: Node) -> Callable[[], Connection]:
    """Make a session with the node: within the process, and over a socket."""
    if request.param == "within":
        return lambda: connect_within(node, "default")
    port = node.listen("amqp", "127.0.0.1", 0)
    return lambda: connect(f"amqp://127.0.0.1:{port}")
