"""The canary: a periodic message through the real node, in an internal address space."""

import json
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from doubles import TestClock, address, space
from enmasse.base.errors import Code, Exhausted
from enmasse.client import connect_within
from enmasse.engines import CanaryStatistics, canary
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


async def test_canary_message_returns_and_appears_in_no_statistics(node: Node) -> None:
    engine = NativeEngine(node, TestClock())
    canary = Canary(node, TestClock())
    proof = await engine.apply(plan())
    assert (proof.active, proof.failed) == ({"a"}, {})
    async with connect_within(node, SPACE_NAME, "canary") as session, session.sender("direct"):
        await canary.send_once()
        assert await engine.connections() == []
        # the canary's own connection may still be closing; each call waits for the workers
        with anyio.fail_after(10):
            while (await engine.observe()).connections:
                pass
    assert canary.statistics == CanaryStatistics(sent=1, failed=0)
    assert [one.uid for one in (await engine.observe()).addresses] == ["a"]
    assert await engine.usage() == []
    assert engine.problem() is None


async def test_undelivered_canary_is_a_problem_until_one_is_delivered(node: Node) -> None:
    engine = NativeEngine(node, TestClock())
    await engine._canary.send_once()
    problem = engine.problem()
    assert problem is not None and "the canary message was not delivered" in problem
    assert (await engine.observe()).canary == CanaryStatistics(1, 1, problem)
    await engine.apply(plan())
    await engine._canary.send_once()
    assert engine.problem() is None
    assert (await engine.observe()).canary == CanaryStatistics(2, 1)


async def test_exhausted_connection_limit_is_no_canary_failure(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise Exhausted(Code.LIMIT_REACHED, "no room for connections")

    await NativeEngine(node, TestClock()).apply(plan())
    monkeypatch.setattr(canary, "connect_within", full)
    flying = Canary(node, TestClock())
    await flying.send_once()
    assert flying.statistics == CanaryStatistics(1, 0)


@pytest.mark.parametrize("node", [True], ids=["disk"], indirect=True)
async def test_canary_ignores_and_drains_leftover_messages(node: Node) -> None:
    await NativeEngine(node, TestClock()).apply(plan())
    async with connect_within(node, SPACE_NAME, "canary") as session:
        async with session.sender("stored") as sender:
            for _ in range(3):
                await sender.send(Message(body=Value("PING")))
    canary = Canary(node, TestClock())
    await canary.send_once()
    assert canary.statistics == CanaryStatistics(1, 0)
    async with connect_within(node, SPACE_NAME, "canary") as session:
        async with session.receiver("stored", count=1) as receiver:
            await receiver.drain()
            assert [delivery async for delivery in receiver] == []


async def test_canary_is_sent_at_each_interval(node: Node) -> None:
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
    assert canary.statistics == CanaryStatistics(sent=3, failed=0)


async def test_hanging_canary_is_reported_after_its_timeout(node: Node) -> None:
    class Hanging(Canary):
        async def _problem(self) -> str | None:
            clock.advance(2 * TIMEOUT_S)
            assert self.statistics.problem is None
            clock.advance(1)
            problem = self.statistics.problem
            assert problem is not None and "did not return within 10 s" in problem
            return None

    clock = TestClock()
    canary = Hanging(node, clock)
    await canary.send_once()
    assert canary.statistics == CanaryStatistics(1, 0)


def test_health_space_matches_the_vector_of_the_node() -> None:
    told = Plan(version=6, spaces=(health_space(has_journal=False),))
    assert json.loads(told.json_text()) == json.loads(GOLDEN.read_text())
