"""The credit that a receiver grants."""

from collections import deque

import pytest

from enmasse.client import connect_within
from enmasse.client.links import INITIAL_CREDIT, PREFETCH_BYTES_MAX, Window
from enmasse.messaging import Accepted, Message
from enmasse.native import Node


@pytest.mark.parametrize(
    ("size", "left", "finished", "granted"),
    [
        (10, None, 4, [10]),
        (10, None, 5, [10, 5]),
        (10, None, 11, [10, 5, 5]),
        (1, None, 3, [1, 1, 1, 1]),
        (10, 3, 3, [3]),
        (10, 12, 12, [10, 2]),
        (4, 5, 5, [4, 1]),
        (10, 0, 0, []),
    ],
)
def test_credit_is_granted_in_halves_up_to_the_total(
    size: int, left: int | None, finished: int, granted: list[int]
) -> None:
    asked: list[int] = []
    window = Window(size, left, grant=asked.append)
    window.start()
    for _ in range(finished):
        window.arrive(100)
        window.take(100)
        window.finish_one()
    assert asked == granted


class Served:
    """A server that sends as credit allows, and a consumer of its messages."""

    def __init__(self, size: int) -> None:
        self.window = Window(size, grant=self.more)
        self.may = 0
        self.waiting: deque[int] = deque()
        self.window.start()

    def more(self, count: int) -> None:
        """Add credit."""
        self.may += count

    def send(self, size: int) -> None:
        """Send messages of `size` bytes while there is credit."""
        while self.may:
            self.may -= 1
            self.waiting.append(size)
            self.window.arrive(size)

    def take(self) -> None:
        """Take the oldest message."""
        self.window.take(self.waiting.popleft())


def test_window_limits_large_messages_after_the_first_few() -> None:
    large, small = Served(100), Served(100)
    assert (large.may, small.may) == (INITIAL_CREDIT, INITIAL_CREDIT)
    large.send(PREFETCH_BYTES_MAX)
    small.send(1000)
    assert (len(large.waiting), len(small.waiting)) == (INITIAL_CREDIT, 100)
    for _ in range(INITIAL_CREDIT):
        assert not large.may
        large.take()
    assert large.may == 1


@pytest.mark.parametrize("size", [100, 100_000, 1_000_000, 10_000_000])
def test_consumer_that_settles_late_gets_the_whole_window(size: int) -> None:
    served = Served(100)
    for _ in range(100):
        served.send(size)
        served.take()
    served.send(size)
    assert not served.waiting
    for _ in range(50):
        served.window.finish_one()
    assert served.may


def test_window_shrinks_as_messages_grow() -> None:
    served = Served(100)
    for _ in range(100):
        served.send(1000)
        served.take()
        served.window.finish_one()
    waiting = []
    for _ in range(400):
        served.send(PREFETCH_BYTES_MAX // 4)
        served.take()
        served.window.finish_one()
        waiting.append(sum(served.waiting))
    assert max(waiting[200:]) <= 2 * PREFETCH_BYTES_MAX


async def test_receiver_with_a_count_leaves_other_messages_for_others(node: Node) -> None:
    async with connect_within(node, "default") as here, here.sender("orders") as sender:
        async with here.receiver("orders", count=3) as first:
            posted = [await sender.post(Message.of(number)) for number in range(5)]
            for number in range(3):
                delivery = await anext(aiter(first))
                assert delivery.message.content == number
                delivery.settle()
            async with here.receiver("orders") as second:
                await first.close()
                for number in (3, 4):
                    delivery = await anext(aiter(second))
                    assert delivery.message.content == number
                    delivery.settle()
        assert [await outcome for outcome in posted] == [Accepted()] * 5
