"""Operations on stored messages, by the native engine with a real node."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from proton import Message
from proton.utils import BlockingConnection

from doubles import TestClock, deadletter, queue, space
from enmasse.base.errors import Exhausted, Invalid
from enmasse.engines import Operation, Slice, SliceDone
from enmasse.engines.native import NativeEngine
from enmasse.messaging import Value
from enmasse.native import Node
from enmasse.plan import compile

RESOURCES = [
    space(),
    queue(deadletter="dead"),
    queue("default.fleeting", durability="memory"),
    queue("default.other"),
    queue("default.small", limits={"messages": 3, "onFull": "reject"}),
    deadletter(),
]


class Running:
    """A node with stored addresses."""

    def __init__(self, folder: Path) -> None:
        self.node = Node(workers=2, journal=folder)
        self.engine = NativeEngine(self.node)
        self.port = self.node.listen("amqp", "127.0.0.1", 0)

    async def start(self) -> None:
        names = [one.with_metadata(uid=f"uid-{number}") for number, one in enumerate(RESOURCES)]
        self.uids = {one.metadata.name.partition(".")[2]: one.metadata.uid or "" for one in names}
        await self.engine.apply(compile(names, 1).plan)

    def send(self, to: str, count: int, size: int = 0) -> None:
        with closing(BlockingConnection(f"amqp://127.0.0.1:{self.port}", timeout=10)) as one:
            sender = one.create_sender(to)
            for number in range(count):
                properties = {"n": number, "filling": "x" * size}
                sender.send(Message(body=f"m{number}", properties=properties))

    def reject_all(self, name: str, count: int) -> None:
        with closing(BlockingConnection(f"amqp://127.0.0.1:{self.port}", timeout=10)) as one:
            receiver = one.create_receiver(name, credit=count)
            for _ in range(count):
                receiver.receive(timeout=10)
                receiver.reject()

    async def operate(self, name: str, operation: str, **part: Any) -> SliceDone:
        if "to" in part:
            part["to"] = self.uids[part["to"]]
        return await self.engine.manage(self.uids[name], Operation(operation), Slice(**part))

    async def texts(self, name: str) -> list[Any]:
        found = (await self.operate(name, "peek")).found
        bodies = [one.message.body for one in found if one.message]
        return [body.value for body in bodies if isinstance(body, Value)]


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    running = Running(tmp_path)
    await running.start()
    yield running
    await asyncio.to_thread(running.node.stop, 1.0)


async def test_peek_pages_through_messages_without_removing_them(running: Running) -> None:
    await asyncio.to_thread(running.send, "orders", 3)
    done = await running.operate("orders", "peek", limit=2)
    assert (done.messages, len(done.found)) == (2, 2)
    assert done.rest is not None
    rest = await running.operate("orders", "peek", after=done.rest)
    assert (rest.messages, rest.rest) == (1, None)
    assert [one.state for one in done.found] == ["waiting", "waiting"]
    assert await running.texts("orders") == ["m0", "m1", "m2"]


async def test_a_message_that_cannot_be_decoded_does_not_hide_the_others(running: Running) -> None:
    def send() -> None:
        nested: Any = "x"
        for _ in range(60):
            nested = [nested]
        with closing(BlockingConnection(f"amqp://127.0.0.1:{running.port}", timeout=10)) as one:
            one.create_sender("orders").send(Message(body=nested))

    await asyncio.to_thread(send)
    await asyncio.to_thread(running.send, "orders", 1)
    deep, plain = (await running.operate("orders", "peek")).found
    assert deep.message is None
    assert "nests deeper" in (deep.problem or "")
    assert (plain.message is not None, plain.problem) == (True, None)


@pytest.mark.parametrize("name", ["orders", "fleeting"])
async def test_purge_removes_only_messages_that_match_the_selector(
    running: Running, name: str
) -> None:
    await asyncio.to_thread(running.send, name, 10)
    counted = await running.operate(name, "purge", selector="n >= 6", dry_run=True)
    assert counted.messages == 4
    done = await running.operate(name, "purge", selector="n >= 6")
    assert (done.messages, done.bytes) == (counted.messages, counted.bytes)
    assert await running.texts(name) == [f"m{number}" for number in range(6)]
    assert (await running.operate(name, "purge")).messages == 6
    assert await running.texts(name) == []


@pytest.mark.parametrize("source", ["orders", "fleeting"])
@pytest.mark.parametrize("to", ["other", "fleeting"])
async def test_messages_are_moved_and_copied(running: Running, source: str, to: str) -> None:
    if source == to:
        return
    await asyncio.to_thread(running.send, source, 5)
    assert (await running.operate(source, "copy", to=to, selector="n < 2")).messages == 2
    assert await running.texts(to) == ["m0", "m1"]
    assert (await running.operate(source, "move", to=to)).messages == 5
    assert await running.texts(source) == []
    assert await running.texts(to) == ["m0", "m1", "m0", "m1", "m2", "m3", "m4"]


async def test_dead_letters_go_back_where_they_failed(running: Running) -> None:
    await asyncio.to_thread(running.send, "orders", 3)
    await asyncio.to_thread(running.reject_all, "orders", 3)
    await asyncio.to_thread(running.send, "other", 1)
    assert (await running.operate("other", "move", to="dead")).messages == 1
    assert (await running.operate("dead", "redrive", selector="n > 0")).messages == 2
    assert await running.texts("orders") == ["m1", "m2"]
    assert (await running.operate("dead", "redrive")).messages == 1
    assert await running.texts("dead") == ["m0"], "a moved message has no origin to return to"


async def test_move_to_a_full_queue_leaves_the_remaining_messages_in_place(
    running: Running,
) -> None:
    await asyncio.to_thread(running.send, "orders", 5)
    with pytest.raises(Exhausted, match="3 messages"):
        await running.operate("orders", "move", to="small")
    assert await running.texts("small") == ["m0", "m1", "m2"]
    assert await running.texts("orders") == ["m3", "m4"]


async def test_messages_evicted_from_memory_are_purged_and_peeked_from_disk(
    running: Running,
) -> None:
    await asyncio.to_thread(running.send, "other", 900, 60_000)
    selector = "n = 1 OR n = 899"
    assert (await running.operate("other", "purge", selector=selector)).messages == 2
    seen, rest = 0, None
    while True:
        done = await running.operate("other", "peek", after=rest)
        seen += done.messages
        assert all(one.message for one in done.found)
        if (rest := done.rest) is None:
            break
    assert seen == 898


async def test_invalid_selector_or_continuation_token_is_rejected(running: Running) -> None:
    with pytest.raises(Invalid, match="selector"):
        await running.operate("orders", "peek", selector="n >")
    with pytest.raises(Invalid, match="continue"):
        await running.operate("orders", "peek", after="x")


async def test_observe_reports_statistics_of_stored_messages_and_the_journal(
    running: Running,
) -> None:
    await asyncio.to_thread(running.send, "orders", 4)
    await asyncio.to_thread(running.reject_all, "orders", 1)
    # The disposition is sent before the journal has moved the message to the dead letter address.
    async with asyncio.timeout(10.0):
        while True:
            observed = await running.engine.observe()
            statistics = {one.name: one for one in observed.addresses}
            orders, dead = statistics["orders"], statistics["dead"]
            if orders.stored == 3 and dead.stored == 1:
                break
    assert (orders.stored, orders.enqueued, orders.dead_rejected) == (3, 4, 1)
    assert (dead.stored, dead.enqueued) == (1, 1)
    assert orders.stored_bytes > 0
    assert orders.oldest_age_s > 0
    assert observed.journal is not None
    assert observed.journal.syncs > 0
    assert observed.journal.used_bytes > 0
    assert running.engine.problem() is None


class StoppingJournalNode:
    """A node whose journal reports a stop at the third query."""

    def __init__(self) -> None:
        self.asked = 0
        self.damaged: dict[str, int] = {}

    def journal(self) -> dict[str, Any]:
        self.asked += 1
        stopped = "no space" if self.asked > 2 else None
        return {"stopped": stopped, "unreadable": None, "damaged": self.damaged}


async def test_stopped_journal_is_reported_once() -> None:
    node, clock = StoppingJournalNode(), TestClock()
    engine = NativeEngine(node, clock=clock)  # type: ignore[arg-type]
    said: list[str] = []
    await engine.watch_journal(lambda: said.append("stopped"))
    assert said == ["stopped"]
    assert (node.asked, clock.elapsed_s) == (3, 2.0)
    assert "no space" in (engine.problem() or "")


async def test_loss_of_messages_is_reported_once() -> None:
    node, clock = StoppingJournalNode(), TestClock()
    node.damaged = {"u": 5}
    engine = NativeEngine(node, clock=clock)  # type: ignore[arg-type]
    said: list[int] = []
    await engine.watch_journal(lambda: said.append(node.asked))
    assert said == [1, 3], "the loss, then the stop"
