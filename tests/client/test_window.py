"""How much a receiver asks for."""

from collections import deque

import pytest

from enmasse.client import connect_within
from enmasse.client.links import AHEAD_FIRST, AHEAD_SIZE, Window
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
def test_credit_comes_in_halves_and_has_an_end(
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
    """A server that sends as many messages as it may, and who takes them."""

    def __init__(self, size: int) -> None:
        self.window = Window(size, grant=self.more)
        self.may = 0
        self.waiting: deque[int] = deque()
        self.window.start()

    def more(self, count: int) -> None:
        """Let so many more come."""
        self.may += count

    def send(self, size: int) -> None:
        """Send messages of so many bytes, while that is allowed."""
        while self.may:
            self.may -= 1
            self.waiting.append(size)
            self.window.arrive(size)

    def take(self) -> None:
        """Take the message that has waited longest."""
        self.window.take(self.waiting.popleft())


def test_after_a_first_few_messages_large_ones_come_one_by_one_and_small_ones_all() -> None:
    large, small = Served(100), Served(100)
    assert (large.may, small.may) == (AHEAD_FIRST, AHEAD_FIRST)
    large.send(AHEAD_SIZE)
    small.send(1000)
    assert (len(large.waiting), len(small.waiting)) == (AHEAD_FIRST, 100)
    for _ in range(AHEAD_FIRST):
        assert not large.may
        large.take()
    assert large.may == 1


@pytest.mark.parametrize("size", [100, 100_000, 1_000_000, 10_000_000])
def test_whoever_takes_the_whole_window_before_any_is_done_with_gets_it(size: int) -> None:
    served = Served(100)
    for _ in range(100):
        served.send(size)
        served.take()
    served.send(size)
    assert not served.waiting
    for _ in range(50):
        served.window.finish_one()
    assert served.may


def test_messages_that_grow_are_fewer_once_that_is_known() -> None:
    served = Served(100)
    for _ in range(100):
        served.send(1000)
        served.take()
        served.window.finish_one()
    waiting = []
    for _ in range(400):
        served.send(AHEAD_SIZE // 4)
        served.take()
        served.window.finish_one()
        waiting.append(sum(served.waiting))
    assert max(waiting[200:]) <= 2 * AHEAD_SIZE


async def test_what_is_not_wanted_stays_for_others(node: Node) -> None:
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
