"""The reconciler of nodes: which heartbeats become statuses, and when."""

import math
from dataclasses import replace

import pytest

from enmasse.control.events import EventDetails
from enmasse.control.messaging_node import CHAIN, NodeReport, event_of_cordon, with_report
from enmasse.control.reconcilers.nodes import NodeObserver, Nodes, key_of
from enmasse.control.status import Seen, decide
from enmasse.resources import MessagingNode
from enmasse.resources.conditions import find
from enmasse.resources.messaging_node import CORDONED, MessagingNodeSpec
from enmasse.resources.model import AdminMetadata
from enmasse.store.nodes import Heartbeat, Identity, Registered
from reconciler_setup import Surroundings

pytestmark = pytest.mark.anyio

A = Identity("a", "uid-a", 1, "mark")


def report(silent_s: float = 0.0, identity: Identity = A, **said: object) -> NodeReport:
    heartbeat = replace(Heartbeat(), **said)  # type: ignore[arg-type]
    node = Registered(identity, "here", "1", silent_s, heartbeat)
    return NodeReport(node, node.is_silent)


def due(around: Surroundings) -> set[str]:
    return {key.name for key in around.queue.take().keys}


def test_conditions_are_reported_at_once_and_loads_rarely() -> None:
    around = Surroundings()
    nodes = Nodes(around.clock, around.queue)
    nodes.note([report(connections=100)])
    assert due(around) == {"a"}
    nodes.note([report(connections=200)])
    assert due(around) == set()
    around.clock.advance(30)
    for connections, expected in ((119, set()), (121, {"a"}), (200, set())):
        nodes.note([report(connections=connections)])
        assert due(around) == expected
    around.clock.advance(1)
    for changed in (
        report(15.0, connections=121),
        report(connections=121),
        report(connections=121, role="leader"),
        report(connections=121, is_cordoned=True),
        report(math.inf, connections=121),
    ):
        nodes.note([changed])
        assert due(around) == {"a"}
        nodes.note([changed])
        assert due(around) == set()


def test_forgotten_node_is_reported_once() -> None:
    around = Surroundings()
    nodes = Nodes(around.clock, around.queue)
    nodes.note([report()])
    around.queue.take()
    nodes.note([])
    assert due(around) == {"a"} and nodes.reports == {}
    nodes.note([])
    assert due(around) == set()


async def test_observer_creates_a_resource_for_each_node() -> None:
    around = Surroundings()
    nodes = Nodes(around.clock, around.queue)
    registry = around.store.nodes
    observer = NodeObserver(around.store, nodes, around.clock)
    for name in ("a", "b"):
        assert await registry.claim(None, Identity(name, f"uid-{name}", 1, "m"), "here")
    await observer.observe()
    version = around.store.version
    assert {one.metadata.name for one in around.store.list("MessagingNode")} == {"a", "b"}
    assert nodes.reports.keys() == {"a", "b"}
    await observer.observe()
    assert around.store.version == version


async def test_deleted_resource_of_a_cordoned_node_is_created_with_its_cordon() -> None:
    around = Surroundings()
    observer = NodeObserver(around.store, Nodes(around.clock, around.queue), around.clock)
    assert await around.store.nodes.claim(None, A, "here")
    await around.store.nodes.beat(A, Heartbeat(is_cordoned=True))
    await observer.observe()
    made = around.store.get(key_of("a"))
    assert isinstance(made, MessagingNode) and made.spec.cordoned


async def test_node_not_observed_for_long_enough_is_what_it_was() -> None:
    around = Surroundings()
    nodes = Nodes(around.clock, around.queue)
    observer = NodeObserver(around.store, nodes, around.clock)
    (made,) = await around.store.put([MessagingNode(metadata=AdminMetadata(name="a"))])
    assert isinstance(made, MessagingNode)

    async def listed() -> list[Registered]:
        return [Registered(A, "here", "1", None)]

    around.store.nodes.list = listed  # type: ignore[method-assign]
    for is_ready, uid, is_silent in ((False, "uid-a", True), (True, "uid-a", False)):
        status = made.status.model_copy(update={"is_ready": is_ready, "uid": uid})
        await around.store.put_status([made.with_status(status)])
        await observer.observe()
        assert nodes.reports["a"].is_silent == is_silent
    # Another node has taken the name.
    status = made.status.model_copy(update={"is_ready": False, "uid": "uid-b"})
    await around.store.put_status([made.with_status(status)])
    await observer.observe()
    assert not nodes.reports["a"].is_silent


def shown(node: MessagingNode, *reports: NodeReport) -> MessagingNode:
    seen = Seen(
        version=1,
        excluded={},
        waiting={},
        proof=None,
        refusal=None,
        now=Surroundings().clock.now(),
        nodes={one.node.identity.name: one for one in reports},
    )
    return with_report(node.with_status(decide(node, seen, CHAIN, "Alive")), seen)


@pytest.mark.parametrize(
    ("reports", "reason", "remedy"),
    [
        ([report()], "Alive", ""),
        ([report(15.0)], "Silent", "enmasse node forget a"),
        ([report(math.inf)], "Stopped", "start it again"),
        ([], "NotRegistered", "enmasse node forget a"),
    ],
)
def test_ready_condition_names_reason_and_remedy(
    reports: list[NodeReport], reason: str, remedy: str
) -> None:
    status = shown(MessagingNode(metadata=AdminMetadata(name="a")), *reports).status
    ready = find(status.conditions, "Ready")
    assert ready is not None and ready.reason == reason
    assert status.is_ready == (reason == "Alive") == (not ready.message)
    assert remedy in ready.message


def test_status_has_what_the_heartbeat_says() -> None:
    said = report(
        role="leader",
        zone="east",
        version="1.2",
        feature_level=1,
        endpoints={"amqp": {"host": "10.0.0.1", "port": 5672}},
        connections=3,
        messages_per_second=2.5,
    )
    status = shown(MessagingNode(metadata=AdminMetadata(name="a")), said).status.document()
    assert status["role"] == "leader" and status["zone"] == "east" and status["uid"] == "uid-a"
    assert status["endpoints"] == {"amqp": {"host": "10.0.0.1", "port": 5672}}
    assert status["load"] == {"connections": 3, "messagesPerSecond": 2.5}


def test_cordon_is_a_condition_and_an_event_once_the_node_has_seen_it() -> None:
    open_node = MessagingNode(metadata=AdminMetadata(name="a"))
    cordoned = open_node.model_copy(update={"spec": MessagingNodeSpec(cordoned=True)})
    asked = shown(cordoned, report())
    seen = shown(asked, report(is_cordoned=True))
    lifting = shown(seen.model_copy(update={"spec": open_node.spec}), report(is_cordoned=True))
    lifted = shown(lifting, report())
    reasons = []
    for one in (shown(open_node, report()), asked, seen, lifting, lifted):
        condition = find(one.status.conditions, CORDONED)
        reasons.append(condition and (condition.status, condition.reason))
    assert reasons == [
        None,
        ("False", "NotSeen"),
        ("True", "Cordoned"),
        ("True", "StillCordoned"),
        None,
    ]
    assert event_of_cordon(open_node, asked) is None
    events = [event_of_cordon(asked, seen), event_of_cordon(lifting, lifted)]
    assert [one.reason for one in events if isinstance(one, EventDetails)] == [
        "Cordoned",
        "Uncordoned",
    ]
    assert key_of("a") == open_node.key
