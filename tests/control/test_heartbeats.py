"""What a node says of itself, and how it applies its cordon."""

from collections.abc import Sequence

import pytest

from doubles import TestClock
from enmasse.base.errors import Code, Conflict, Unavailable
from enmasse.control.heartbeats import FEATURE_LEVEL, Facts, Heartbeats, Member, proofs_of
from enmasse.control.reconcilers.nodes import key_of
from enmasse.engines import Failure, Proof, SpaceStatistics
from enmasse.resources import MessagingNode
from enmasse.resources.messaging_node import MessagingNodeSpec
from enmasse.resources.model import AdminMetadata
from enmasse.store import MemoryStore
from enmasse.store.nodes import EXCEPTIONS_MAX, Heartbeat, Identity
from fake_engine import FakeEngine

pytestmark = pytest.mark.anyio

ME = Identity("a", "uid-a", 1, "mark")


class Busy(FakeEngine):
    """An engine with given traffic."""

    spaces: Sequence[SpaceStatistics] = ()

    async def usage(self) -> Sequence[SpaceStatistics]:
        return self.spaces


class Node:
    """A node whose loop runs until its clock reaches a time."""

    def __init__(self) -> None:
        self.clock = TestClock()
        self.store = MemoryStore(self.clock)
        self.engine = Busy()
        self.facts = Facts(False, {"https": {"host": "127.0.0.1", "port": 6443}}, None)
        self.cordons: list[bool] = []
        member = Member(self.store, ME, "east")
        self.heartbeats = Heartbeats(
            member, self.engine, self.clock, lambda: self.facts, self.cordons.append
        )
        self.until_s = 0.0
        self.said: list[tuple[float, Heartbeat]] = []
        sleep, beat = self.clock.sleep, self.store.nodes.beat

        async def sleep_until_end(seconds: float) -> None:
            await sleep(seconds)
            if self.clock.monotonic() >= self.until_s:
                raise StopAsyncIteration

        async def recorded(identity: Identity, heartbeat: Heartbeat) -> None:
            self.said.append((self.clock.monotonic(), heartbeat))
            await beat(identity, heartbeat)

        self.clock.sleep = sleep_until_end  # type: ignore[method-assign]
        self.store.nodes.beat = recorded  # type: ignore[method-assign]

    async def run(self, seconds: float) -> None:
        self.until_s = self.clock.monotonic() + seconds
        with pytest.raises(StopAsyncIteration):
            await self.heartbeats.run()

    async def declare(self, *, cordoned: bool) -> None:
        spec = MessagingNodeSpec(cordoned=cordoned)
        await self.store.put([MessagingNode(metadata=AdminMetadata(name="a"), spec=spec)])


@pytest.fixture
async def node() -> Node:
    node = Node()
    assert await node.store.nodes.claim(None, ME, "here")
    return node


async def test_heartbeat_every_interval_with_role_and_listeners(node: Node) -> None:
    await node.run(12)
    assert [at for at, _ in node.said] == [0.0, 5.0, 10.0]
    said = node.said[0][1]
    assert (said.role, said.zone, said.feature_level) == ("standby", "east", FEATURE_LEVEL)
    assert said.endpoints == node.facts.endpoints
    node.facts = node.facts._replace(leads=True)
    await node.run(1)
    assert node.said[-1][1].role == "leader"


async def test_load_is_the_rate_since_the_last_heartbeat(node: Node) -> None:
    node.engine.spaces = [SpaceStatistics("u", "n", connections=3, messages_in=40, messages_out=10)]
    await node.run(5)
    node.engine.spaces = [
        SpaceStatistics("u", "n", connections=2, messages_in=100, messages_out=50),
        SpaceStatistics("v", "m", connections=1),
    ]
    await node.run(2)
    said = node.said[-1][1]
    assert (said.connections, said.messages_per_second) == (3, 20.0)
    # A space was deleted, and its counters with it.
    node.engine.spaces = []
    await node.run(5)
    assert (node.said[-1][1].connections, node.said[-1][1].messages_per_second) == (0, 0.0)


async def test_cordon_is_applied_once_and_reported_at_once(node: Node) -> None:
    await node.run(1)
    await node.declare(cordoned=True)
    await node.run(3)
    assert node.cordons == [True]
    assert node.said[-1][1].is_cordoned
    await node.declare(cordoned=False)
    await node.run(1)
    await node.store.delete([key_of("a")])
    await node.run(1)
    assert node.cordons == [True, False]


async def test_cordoned_node_may_lead_once_no_other_is_ready_and_free(node: Node) -> None:
    other = Identity("b", "uid-b", 1, "mark")
    assert await node.store.nodes.claim(None, other, "there")
    assert await node.heartbeats.may_lead()
    await node.declare(cordoned=True)
    node.heartbeats.follow_cordon()
    assert not await node.heartbeats.may_lead()
    await node.store.nodes.stop(other)
    assert await node.heartbeats.may_lead()


async def test_cordon_holds_while_its_resource_is_missing(node: Node) -> None:
    await node.declare(cordoned=True)
    await node.run(1)
    await node.store.delete([key_of("a")])
    await node.run(6)
    assert node.cordons == [True] and node.said[-1][1].is_cordoned
    await node.declare(cordoned=False)
    await node.run(1)
    assert node.cordons == [True, False]


async def test_node_without_a_store_goes_on_and_one_that_was_replaced_ends(node: Node) -> None:
    beat = node.store.nodes.beat

    async def away(*_: object) -> None:
        raise Unavailable(Code.STORE_UNUSABLE, "away")

    node.store.nodes.beat = away  # type: ignore[method-assign]
    await node.run(12)
    node.store.nodes.beat = beat  # type: ignore[method-assign]
    (known,) = await node.store.nodes.list()
    assert await node.store.nodes.claim(known, ME._replace(start=2), "there")
    with pytest.raises(Conflict, match="restart this one") as refused:
        await node.heartbeats.run()
    assert refused.value.code == Code.NODE_REPLACED


async def test_heartbeat_that_failed_is_sent_again_soon(node: Node) -> None:
    beat, failing_s = node.store.nodes.beat, 3.0

    async def away_for_a_while(identity: Identity, heartbeat: Heartbeat) -> None:
        await beat(identity, heartbeat)
        if node.clock.monotonic() < failing_s:
            raise Unavailable(Code.STORE_UNUSABLE, "away")

    node.store.nodes.beat = away_for_a_while  # type: ignore[method-assign]
    await node.run(10)
    assert [at for at, _ in node.said] == [0.0, 1.0, 2.0, 3.0, 8.0]


async def test_orderly_stop_is_recorded(node: Node) -> None:
    await node.run(1)
    await node.heartbeats.stop()
    (known,) = await node.store.nodes.list()
    assert known.is_stopped


def test_digest_depends_on_the_served_addresses_only() -> None:
    one = proofs_of(Proof(1, frozenset({"a", "b"})))
    assert one == proofs_of(Proof(7, frozenset({"b", "a"})))
    assert one.digest != proofs_of(Proof(1, frozenset({"a"}))).digest
    assert proofs_of(None).digest == ""


def test_exceptions_are_bounded_and_all_counted() -> None:
    failed = {f"uid-{number:04}": Failure("NotOpened", "no room") for number in range(1000)}
    found = proofs_of(Proof(1, frozenset(), failed))
    assert len(found.exceptions) == EXCEPTIONS_MAX and found.exception_count == 1000
    assert found.exceptions["uid-0000"] == "NotOpened"
