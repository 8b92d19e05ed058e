"""The native engine with a real node."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any, cast

import pytest
import structlog
from proton.utils import BlockingConnection, LinkDetached

from doubles import TestClock, address, document, queue, space
from enmasse.base.errors import Code, Invalid, Missing, Unavailable
from enmasse.engines import Operation, Slice, native
from enmasse.engines.native import NativeEngine, log_event
from enmasse.native import Node
from enmasse.plan import Plan, compile
from enmasse.resources import parse


@pytest.fixture
def node() -> Iterator[Node]:
    node = Node(workers=1)
    yield node
    node.stop(1.0)


def plan(version: int = 1, *names: str) -> Plan:
    resources = [
        space().with_metadata(uid="s"),
        *(address(f"default.{name}").with_metadata(uid=f"a-{name}") for name in names),
    ]
    return compile(resources, version).plan


async def test_apply_returns_a_proof_of_the_served_addresses(node: Node) -> None:
    engine = NativeEngine(node)
    proof = await engine.apply(plan(1, "orders"))
    assert proof.version == 1
    assert proof.active == {"a-orders"}
    proof = await engine.apply(plan(2, "news"))
    assert proof.active == {"a-news"}


async def test_proof_lists_queues_without_a_journal_as_failed(node: Node) -> None:
    engine = NativeEngine(node)
    resources = [space().with_metadata(uid="s"), address().with_metadata(uid="a")]
    disk = queue("default.disk").with_metadata(uid="q")
    proof = await engine.apply(compile([*resources, disk], 1).plan)
    assert proof.active == {"a"}
    assert proof.failed["q"].reason == "NotOpened"
    assert not proof.is_final
    assert await engine.prove() == proof
    proof = await engine.apply(compile(resources, 2).plan)
    assert (proof.failed, proof.is_final) == ({}, True)


async def test_older_plan_is_rejected_and_the_newer_one_stays_in_force(node: Node) -> None:
    engine = NativeEngine(node)
    await engine.apply(plan(2, "orders"))
    with pytest.raises(Invalid):
        await engine.apply(plan(1, "news"))
    assert [one.name for one in (await engine.observe()).addresses] == ["orders"]


async def test_operation_on_an_address_without_storage_is_rejected(node: Node) -> None:
    engine = NativeEngine(node)
    await engine.apply(plan(1, "orders"))
    for uid in ("a-orders", "a-nobody"):
        with pytest.raises(Missing, match="stores messages"):
            await engine.manage(uid, Operation.PURGE, Slice())


async def test_observe_lists_every_declared_address(node: Node) -> None:
    engine = NativeEngine(node)
    await engine.apply(plan(1, "orders", "news"))
    observed = await engine.observe()
    assert observed.connections == 0
    assert [(one.uid, one.space, one.name) for one in observed.addresses] == [
        ("a-news", "default.default", "news"),
        ("a-orders", "default.default", "orders"),
    ]


async def test_statistics_leave_out_what_is_zero(node: Node) -> None:
    await NativeEngine(node).apply(plan(1, "orders"))
    assert [line for line in node.stats()["addresses"] if line["uid"] == "a-orders"] == [
        {"uid": "a-orders", "space": "default.default", "name": "orders"},
    ]


def test_listening_on_a_port_in_use_raises_unavailable_naming_the_port(node: Node) -> None:
    port = node.listen("amqp", "127.0.0.1", 0)
    with pytest.raises(Unavailable, match=str(port)):
        node.listen("amqp", "127.0.0.1", port)


@pytest.fixture
async def events(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[asyncio.Queue[dict[str, Any]]]:
    """The events that the engine would log."""
    queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    monkeypatch.setattr(native, "log_event", queue.put_nowait)
    logging = asyncio.ensure_future(NativeEngine(node).log_events())
    yield queue
    logging.cancel()
    await asyncio.gather(logging, return_exceptions=True)


async def test_connections_are_listed_and_traced(
    node: Node, events: asyncio.Queue[dict[str, Any]]
) -> None:
    engine = NativeEngine(node)
    await engine.apply(plan(1, "orders"))
    port = node.listen("amqp", "127.0.0.1", 0)
    client = await asyncio.to_thread(BlockingConnection, f"amqp://127.0.0.1:{port}", timeout=10)
    (connection,) = await engine.connections()
    assert connection.transport == "amqp"
    assert connection.space == "default.default"
    assert connection.peer is not None
    await engine.trace(connection.id, on=True)
    await asyncio.to_thread(client.create_receiver, "orders")
    while "attach" not in (await events.get()).get("frames", ""):
        pass
    await asyncio.to_thread(client.close)
    with pytest.raises(Missing, match="connection 99 not found") as refusal:
        await engine.trace(99, on=True)
    assert refusal.value.code == Code.CONNECTION_MISSING


async def test_connection_events_are_logged(
    node: Node, events: asyncio.Queue[dict[str, Any]]
) -> None:
    port = node.listen("amqp", "127.0.0.1", 0)
    with socket.create_connection(("127.0.0.1", port)) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert (await events.get())["connection"] >= 0


@pytest.mark.parametrize(
    ("event", "level"),
    [
        ({"event": "login-refused", "user": "alice", "reason": "wrong"}, "warning"),
        ({"event": "trace", "direction": "in", "frames": "open"}, "info"),
        ({"event": "opened", "container": "c"}, "debug"),
        ({"event": "something-new"}, "debug"),
    ],
)
def test_each_event_is_logged_at_its_level(event: dict[str, Any], level: str) -> None:
    with structlog.testing.capture_logs() as logs:
        log_event({"atMs": 1, **event})
    assert logs == [{**event, "log_level": level}]


class LoginRefusingNode:
    """A node that reports refused logins through its event descriptor."""

    def __init__(self) -> None:
        self.ours, self.theirs = socket.socketpair()
        self.told: list[dict[str, Any]] = []

    def refuse(self, count: int) -> None:
        self.told += [{"event": "login-refused", "atMs": 1, "user": "eve"} for _ in range(count)]
        self.ours.send(b"x")

    def event_fd(self) -> int:
        return self.theirs.fileno()

    def events(self, most: int) -> list[dict[str, Any]]:
        some, self.told = self.told[:most], self.told[most:]
        if not self.told:
            self.theirs.recv(100)
        return some


async def test_warnings_per_second_are_bounded_and_the_excess_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node, clock = LoginRefusingNode(), TestClock()
    logged: list[dict[str, Any]] = []
    monkeypatch.setattr(native, "log_event", logged.append)
    trail: asyncio.Queue[Any] = asyncio.Queue()
    engine = NativeEngine(cast(Node, node), clock=clock)
    logging = asyncio.ensure_future(engine.log_events(trail.put_nowait))
    with node.ours, node.theirs:
        node.refuse(1000)
        for _ in range(1000):
            await trail.get()
        assert len(logged) == native.WARNINGS_A_SECOND
        assert not any("unwritten" in event for event in logged)
        clock.advance(1.0)
        node.refuse(1)
        await trail.get()
        assert logged[-1]["unwritten"] == 1000 - native.WARNINGS_A_SECOND
        logging.cancel()
        await asyncio.gather(logging, return_exceptions=True)


async def test_attach_is_refused_after_2_s_if_its_address_is_not_created(node: Node) -> None:
    """The control plane does not answer the creation request."""
    creating = {"autoCreate": [{"pattern": "jobs/*"}]}
    made = parse(document("AddressSpace", "default", {"type": "standard"} | creating))
    resources = [made.with_metadata(uid="s"), address().with_metadata(uid="a")]
    engine = NativeEngine(node)
    await engine.apply(compile(resources, 1).plan)
    port = node.listen("amqp", "127.0.0.1", 0)

    def attach() -> tuple[str, float]:
        connection = BlockingConnection(f"amqp://127.0.0.1:{port}", timeout=30)
        began = time.monotonic()
        with pytest.raises(LinkDetached) as refused:
            connection.create_sender("jobs/1")
        took_s = time.monotonic() - began
        connection.create_sender("orders")
        connection.close()
        return str(refused.value), took_s

    reason, took_s = await asyncio.to_thread(attach)
    assert "was not created within 2 s" in reason
    assert 2.0 <= took_s < 10.0
    (wanted,) = node.creations(10)
    assert wanted["address"] == "jobs/1"
    assert (wanted["space"], wanted["patterns"]) == ("default.default", ["jobs/*"])


async def test_address_is_sealed_only_while_it_has_no_link(node: Node) -> None:
    engine = NativeEngine(node)
    await engine.apply(plan(1, "orders"))
    port = node.listen("amqp", "127.0.0.1", 0)

    def attach() -> BlockingConnection:
        connection = BlockingConnection(f"amqp://127.0.0.1:{port}", timeout=30)
        connection.create_receiver("orders")
        return connection

    connection = await asyncio.to_thread(attach)
    assert not await engine.seal_unused("a-orders", seal=True)
    await asyncio.to_thread(connection.close)
    assert await engine.seal_unused("a-orders", seal=True)
    with pytest.raises(LinkDetached, match="attach again"):
        await asyncio.to_thread(attach)
    assert not await engine.seal_unused("a-orders", seal=False)
    await asyncio.to_thread(lambda: attach().close())
    assert not await engine.seal_unused("a-nobody", seal=True)
