"""How much a receiver asks for."""

import pytest

from enmasse.client import connect_within
from enmasse.client.links import Window
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
        window.finish_one()
    assert asked == granted


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
