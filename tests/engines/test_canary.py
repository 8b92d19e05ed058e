"""A message through the real node now and then, by a way that nobody else has."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from doubles import TestClock, address, space
from enmasse.base.errors import Code, Exhausted
from enmasse.client import connect_within
from enmasse.engines import CanaryFigures, canary
from enmasse.engines.canary import INTERVAL_S, SPACE_NAME, TIMEOUT_S, Canary, health_space
from enmasse.engines.native import NativeEngine
from enmasse.messaging import Message, Value
from enmasse.native import Node
from enmasse.plan import Plan, compile

pytestmark = pytest.mark.anyio

GOLDEN = Path(__file__).parents[2] / "vectors" / "plans" / "internal.json"


@pytest.fixture(params=[False, True], ids=["memory", "disk"])
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Node]:
    node = Node(workers=2, journal=tmp_path / "journal" if request.param else None)
    yield node
    node.stop(1.0)


def plan() -> Plan:
    uids = [space().with_metadata(uid="s"), address().with_metadata(uid="a")]
    return compile(uids, 1).plan


async def test_a_message_comes_back_and_no_figures_tell_of_it(node: Node) -> None:
    engine = NativeEngine(node, TestClock())
    canary = Canary(node, TestClock())
    proof = await engine.apply(plan())
    assert (proof.active, proof.failed) == ({"a"}, {})
    async with connect_within(node, SPACE_NAME, "canary") as session, session.sender("direct"):
        await canary.fly()
        assert await engine.connections() == []
        assert (await engine.observe()).connections == 0
    assert canary.figures == CanaryFigures(sent=1, failed=0)
    assert [one.uid for one in (await engine.observe()).addresses] == ["a"]
    assert await engine.usage() == []
    assert engine.trouble() is None


async def test_one_that_is_not_carried_is_told_until_one_is(node: Node) -> None:
    engine = NativeEngine(node, TestClock())
    await engine._canary.fly()
    trouble = engine.trouble()
    assert trouble is not None and "the canary message was not delivered" in trouble
    assert (await engine.observe()).canary == CanaryFigures(1, 1, trouble)
    await engine.apply(plan())
    await engine._canary.fly()
    assert engine.trouble() is None
    assert (await engine.observe()).canary == CanaryFigures(2, 1)


async def test_a_node_whose_connections_are_all_taken_is_not_at_fault(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise Exhausted(Code.LIMIT_REACHED, "no room for connections")

    await NativeEngine(node, TestClock()).apply(plan())
    monkeypatch.setattr(canary, "connect_within", full)
    flying = Canary(node, TestClock())
    await flying.fly()
    assert flying.figures == CanaryFigures(1, 0)


@pytest.mark.parametrize("node", [True], ids=["disk"], indirect=True)
async def test_what_an_earlier_flight_left_behind_does_not_stand_for_this_one(node: Node) -> None:
    await NativeEngine(node, TestClock()).apply(plan())
    async with connect_within(node, SPACE_NAME, "canary") as session:
        async with session.sender("stored") as sender:
            for _ in range(3):
                await sender.send(Message(body=Value("PING")))
    canary = Canary(node, TestClock())
    await canary.fly()
    assert canary.figures == CanaryFigures(1, 0)
    async with connect_within(node, SPACE_NAME, "canary") as session:
        async with session.receiver("stored", count=1) as receiver:
            await receiver.drain()
            assert [delivery async for delivery in receiver] == []


async def test_the_next_one_goes_after_the_stated_time(node: Node) -> None:
    class Ended(Exception):
        pass

    class Stopping(TestClock):
        async def sleep(self, seconds: float) -> None:
            await super().sleep(seconds)
            if self.elapsed_s > 2 * INTERVAL_S:
                raise Ended

    engine, clock = NativeEngine(node, TestClock()), Stopping()
    await engine.apply(plan())
    canary = Canary(node, clock)
    with pytest.raises(Ended):
        await canary.run()
    assert canary.figures == CanaryFigures(sent=3, failed=0)


async def test_one_that_hangs_is_told_while_it_does(node: Node) -> None:
    class Hanging(Canary):
        async def _problem(self) -> str | None:
            clock.advance(2 * TIMEOUT_S)
            assert self.figures.problem is None
            clock.advance(1)
            problem = self.figures.problem
            assert problem is not None and "did not return within 10 s" in problem
            return None

    clock = TestClock()
    canary = Hanging(node, clock)
    await canary.fly()
    assert canary.figures == CanaryFigures(1, 0)


def test_the_space_is_that_of_the_vectors() -> None:
    told = Plan(version=6, spaces=(health_space(has_journal=False),))
    assert json.loads(told.json_text()) == json.loads(GOLDEN.read_text())
