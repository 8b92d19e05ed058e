"""Our own engine: the Rust node in this process."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

import structlog
from pydantic.alias_generators import to_camel

from enmasse.base.bounded import Bounded
from enmasse.base.clock import Clock, SystemClock
from enmasse.base.errors import Code, EnMasseError, Missing
from enmasse.engines.canary import UIDS, Canary
from enmasse.engines.protocol import (
    AddressFigures,
    Connection,
    Failure,
    JournalFigures,
    Observed,
    Operation,
    Proof,
    ServerCertificate,
    Slice,
    SliceDone,
    SpaceFigures,
    StoredMessage,
    Unshown,
    WorkerFigures,
)
from enmasse.native import Node, decode_message
from enmasse.plan import Plan

log = structlog.get_logger(__name__)

EVENTS_PER_TURN = 512
"""Events logged before other tasks get their turn."""

LOGINS_PER_TURN = 64
"""Logins taken before other tasks get their turn."""

CREATIONS_PER_TURN = 64
"""Addresses to create that are taken before other tasks get their turn."""

Answer = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
"""Decides a login; both sides are as `_native.pyi` says."""

Create = Callable[[Mapping[str, Any]], Awaitable[str | None]]
"""Creates an address that a link wants, as `_native.pyi` says; returns why there will be none."""

JOURNAL_CHECK_S = 1.0
"""How often it is looked whether the journal still takes messages."""

WARNINGS = frozenset(
    {
        *("login-refused", "cut-off", "accept-paused", "source-crowded", "certificate-unusable"),
        *("lost", "message-damaged", "journal-damaged", "journal-mended", "journal-unnamed"),
        *("journal-unreadable", "journal-readable"),
    }
)
"""Events an operator should see at once; the rest is for following one connection."""

WARNINGS_A_SECOND = 20
"""Warnings of one kind that are logged in a second; the next one says how many were not. Else who
is refused again and again has this process write logs for them, and others wait."""

_ADDRESS_MEMBERS = {to_camel(name): name for name in AddressFigures._fields}
_WORKER_MEMBERS = [to_camel(name) for name in WorkerFigures._fields]
_SPACE_MEMBERS = [to_camel(name) for name in SpaceFigures._fields]
_JOURNAL_MEMBERS = [to_camel(name) for name in JournalFigures._fields]
_Result = TypeVar("_Result")


class NativeEngine:
    """An `Engine` over a `Node`. Calls that may wait run in a thread, one after another."""

    def __init__(self, node: Node, clock: Clock | None = None) -> None:
        """Drive `node`."""
        self._node = node
        self._clock = clock or SystemClock()
        self._calling = asyncio.Lock()
        self._bounds = {kind: Bounded(self._clock, WARNINGS_A_SECOND) for kind in WARNINGS}
        self._canary = Canary(node, self._clock)
        self._usage: tuple[str, Sequence[SpaceFigures]] = "", ()
        """The last report of the node about its spaces, and its parsed form."""

    async def apply(self, plan: Plan) -> Proof:
        """Serve this Plan from now on."""
        whole = plan.model_copy(update={"spaces": (*plan.spaces, self._canary.space)})
        return _proof(await self._call(self._node.apply, whole), self._damaged())

    async def prove(self) -> Proof:
        """Say what is served at this moment."""
        return _proof(await self._call(self._node.proof), self._damaged())

    async def show_certificates(
        self, spaces: Mapping[str, Sequence[ServerCertificate]]
    ) -> Sequence[Unshown]:
        """Show certificates of spaces from the next handshake on."""
        told = [
            {"uid": uid, "certificates": [asdict(one) for one in certificates]}
            for uid, certificates in spaces.items()
        ]
        unshown = await self._call(self._node.show_certificates, told)
        return [Unshown(one["uid"], tuple(one["names"]), one["reason"]) for one in unshown]

    async def observe(self) -> Observed:
        """Return the figures of this moment."""
        return await self._call(self._observe)

    async def usage(self) -> Sequence[SpaceFigures]:
        """Return what spaces carry."""
        text = self._node.usage()
        if text != self._usage[0]:
            # Most of the time most nodes rest: then nothing is read that was read before.
            lines = json.loads(text)
            figures = [SpaceFigures(*(line[name] for name in _SPACE_MEMBERS)) for line in lines]
            self._usage = text, figures
        return self._usage[1]

    async def connections(self) -> Sequence[Connection]:
        """Return the open connections."""
        return [_connection(one) for one in await self._call(self._node.connections)]

    async def trace(self, connection: int, *, on: bool) -> None:
        """Write the frames of one connection to the log, or stop that."""
        if all(one.id != connection for one in await self.connections()):
            raise Missing(
                Code.CONNECTION_MISSING,
                f"connection {connection} not found; `enmasse get connections` lists them",
            )
        self._node.trace(connection, on=on)

    async def manage(self, address_uid: str, operation: Operation, part: Slice) -> SliceDone:
        """Do one slice of an operation on the messages of an address."""
        request = {
            "address": address_uid,
            "operation": str(operation),
            "limit": part.limit,
            "selector": part.selector,
            "dryRun": part.dry_run,
            "to": part.to,
            "after": part.after,
        }
        done, messages = await self._call(self._node.manage, request)
        return SliceDone(
            messages=done["messages"],
            bytes=done["bytes"],
            rest=done["rest"],
            found=[
                _found(line, message) for line, message in zip(done["found"], messages, strict=True)
            ],
        )

    def trouble(self) -> str | None:
        """Return why nothing can be stored any more, or what the last canary met, if so."""
        return _stopped(self._node.journal()) or self._unreadable() or self._canary.figures.problem

    async def fly_canary(self) -> None:
        """Send a message through the node now and then, until cancelled."""
        await self._canary.run()

    def _unreadable(self) -> str | None:
        journal = self._node.journal()
        if journal is None or journal["unreadable"] is None:
            return None
        return (
            f"stored messages cannot be read ({journal['unreadable']}); they"
            " wait and reads are retried; check the disk"
        )

    async def watch_journal(self, changed: Callable[[], None]) -> None:
        """Call `changed` when addresses have lost messages, and when the journal has stopped. The
        latter is logged once.
        """
        damaged: Mapping[str, int] = {}
        while (trouble := _stopped(journal := self._node.journal())) is None:
            if journal and journal["damaged"] != damaged:
                damaged = journal["damaged"]
                changed()
            await self._clock.sleep(JOURNAL_CHECK_S)
        log.error("journal-stopped", reason=trouble)
        changed()

    def _damaged(self) -> Mapping[str, int]:
        journal = self._node.journal()
        damaged: Mapping[str, int] = journal["damaged"] if journal else {}
        return damaged

    async def answer_logins(self, answer: Answer) -> None:
        """Have logins decided that the Plan alone does not decide, until cancelled.

        They are decided beside one another; the node bounds how many wait.
        """
        node = self._node
        await _each(
            node.login_fd(),
            lambda: node.logins(LOGINS_PER_TURN),
            lambda login: self._answer_login(login, answer),
        )

    async def create_wanted(self, create: Create) -> None:
        """Have addresses created that links want, until cancelled; the node bounds how many wait.

        They are created beside one another: each is a write that waits for the store.
        """
        node = self._node
        await _each(
            node.creation_fd(),
            lambda: node.creations(CREATIONS_PER_TURN),
            lambda wanted: self._create_wanted(wanted, create),
        )

    async def _create_wanted(self, wanted: Mapping[str, Any], create: Create) -> None:
        try:
            refused = await create(wanted)
        except Exception:
            # A bug must not end what else is created; the links give up by themselves.
            log.exception("address not created by a bug")
            refused = "the address was not created by a bug, which is in the log"
        self._node.answer_creation(wanted["id"], refused)

    async def seal_unused(self, uid: str, *, seal: bool) -> bool:
        """Have no link attach to an address if it is not in use, or have links attach as before.

        Returns whether it is sealed now.
        """
        return await self._call(lambda: self._node.seal_unused(uid, seal=seal))

    async def _answer_login(self, login: Mapping[str, Any], answer: Answer) -> None:
        try:
            self._node.answer_login(await answer(login))
        except EnMasseError as error:
            log.error("login not answered", reason=error.message)

    async def log_events(self, *told: Callable[[Mapping[str, Any]], None]) -> None:
        """Write the node's events to the log, and tell them to others, until cancelled."""
        loop = asyncio.get_running_loop()
        some = asyncio.Event()
        loop.add_reader(self._node.event_fd(), some.set)
        try:
            while True:
                await some.wait()
                some.clear()
                for event in self._node.events(EVENTS_PER_TURN):
                    if (said := self._bounded(event)) is not None:
                        log_event(said)
                    for one in told:
                        one(event)
        finally:
            loop.remove_reader(self._node.event_fd())

    def _bounded(self, event: dict[str, Any]) -> dict[str, Any] | None:
        """Return what is logged of an event; None: there were too many of its kind."""
        bound = self._bounds.get(event["event"])
        if bound is None:
            return event
        if not bound.may_write():
            return None
        unwritten = bound.unwritten()
        return event if unwritten is None else event | {"unwritten": unwritten}

    def _observe(self) -> Observed:
        stats = self._node.stats()
        now_ms = self._clock.now().timestamp() * 1000
        journal = stats["journal"]
        return Observed(
            connections=stats["connections"],
            addresses=[_figures(line, now_ms) for line in stats["addresses"]],
            workers=[
                WorkerFigures(*(line[name] for name in _WORKER_MEMBERS))
                for line in stats["workers"]
            ],
            accept_pauses=stats["acceptPauses"],
            received_bytes=stats["receivedBytes"],
            receive_budget_bytes=stats["receiveBudgetBytes"],
            journal=JournalFigures(*(journal[name] for name in _JOURNAL_MEMBERS))
            if journal
            else None,
            canary=self._canary.figures,
        )

    async def _call(self, function: Callable[..., _Result], *arguments: Any) -> _Result:
        async with self._calling:
            return await asyncio.to_thread(function, *arguments)


async def _each(
    fd: int,
    take: Callable[[], Sequence[Mapping[str, Any]]],
    answer: Callable[[Mapping[str, Any]], Coroutine[Any, Any, None]],
) -> None:
    """Answer each question that can be taken while `fd` is readable, beside one another."""
    loop = asyncio.get_running_loop()
    some = asyncio.Event()
    loop.add_reader(fd, some.set)
    try:
        async with asyncio.TaskGroup() as tasks:
            while True:
                await some.wait()
                some.clear()
                for question in take():
                    tasks.create_task(answer(question))
    finally:
        loop.remove_reader(fd)


def log_event(event: dict[str, Any]) -> None:
    """Write one event of the node to the log."""
    fields = {name: value for name, value in event.items() if name not in ("event", "atMs")}
    kind = event["event"]
    if kind in WARNINGS:
        log.warning(kind, **fields)
    elif kind == "trace":
        log.info(kind, **fields)
    else:
        log.debug(kind, **fields)


def _stopped(journal: Mapping[str, Any] | None) -> str | None:
    """Return why a journal stores nothing any more, if so."""
    if journal is None or journal["stopped"] is None:
        return None
    return (
        f"the journal has stopped: {journal['stopped']}; addresses on disk"
        " accept no messages and deliver those they hold; repair the disk and"
        " restart"
    )


def _proof(said: Mapping[str, Any], damaged: Mapping[str, int]) -> Proof:
    failed = {
        one["uid"]: Failure(one["reason"], one["message"])
        for one in said["failed"]
        if one["uid"] not in UIDS
    }
    return Proof(said["version"], frozenset(said["active"]) - UIDS, failed, damaged)


def _figures(line: dict[str, Any], now_ms: float) -> AddressFigures:
    members = {name: line[member] for member, name in _ADDRESS_MEMBERS.items() if member in line}
    if line["oldestMs"]:
        members["oldest_age_s"] = max(now_ms - line["oldestMs"], 0) / 1000
    return AddressFigures(**members)


def _found(line: dict[str, Any], message: bytes | None) -> StoredMessage:
    return StoredMessage(
        id=line["id"],
        state=line["state"],
        bytes=line["bytes"],
        enqueued_ms=line["enqueuedMs"],
        expires_ms=line["expiresMs"],
        due_ms=line["dueMs"],
        attempts=line["attempts"],
        message=decode_message(message) if message is not None else None,
    )


def _connection(line: dict[str, Any]) -> Connection:
    return Connection(
        id=line["id"],
        space=line["space"],
        user=line["user"],
        container=line["container"],
        peer=line["address"],
        transport=line["transport"],
        links=line["links"],
        messages_in=line["messagesIn"],
        bytes_in=line["bytesIn"],
        messages_out=line["messagesOut"],
        bytes_out=line["bytesOut"],
    )
