"""Our own engine: the Rust node in this process."""

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, TypeVar

import structlog
from pydantic.alias_generators import to_camel

from enmasse.base.bounded import Bounded
from enmasse.base.clock import Clock, SystemClock
from enmasse.base.errors import Code, EnMasseError, Missing
from enmasse.client import connect_within
from enmasse.engines.canary import UIDS, Canary
from enmasse.engines.protocol import (
    FRAMES_WAITING_MAX,
    LINKS_MAX,
    AddressStatistics,
    Connection,
    Failure,
    JournalStatistics,
    LinkOutcomes,
    LinkStatistics,
    MqttSession,
    MqttSubscription,
    MqttWill,
    Observed,
    Operation,
    Proof,
    ServerCertificate,
    SessionKind,
    SessionName,
    Slice,
    SliceDone,
    SpaceStatistics,
    StoredMessage,
    Unnamed,
    UnusableCertificate,
    WorkerStatistics,
)
from enmasse.messaging import Session
from enmasse.native import Node, decode_message, encode_message
from enmasse.plan import Plan

log = structlog.get_logger(__name__)

EVENTS_PER_TURN = 512
"""Maximum events logged before other tasks run."""

ADMINISTRATOR = "$administrator"
"""The user of a node's space that has every right; no client can be it."""

LOGINS_PER_TURN = 64
"""Maximum logins fetched before other tasks run."""

CREATIONS_PER_TURN = 64
"""Maximum creation requests fetched before other tasks run."""

Answer = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
"""Decides a login; `_native.pyi` has the members of both mappings."""

Create = Callable[[Mapping[str, Any]], Awaitable[str | None]]
"""Creates the address of a request from `_native.pyi`; returns the reason of a refusal."""

JOURNAL_CHECK_S = 1.0
"""Interval of checking whether the journal has stopped."""

WARNINGS = frozenset(
    {
        *("login-refused", "cut-off", "accept-paused", "source-crowded", "certificate-unusable"),
        *("lost", "message-damaged", "journal-damaged", "journal-mended", "journal-unnamed"),
        *("journal-unreadable", "journal-readable"),
    }
)
"""Events logged as warnings; others serve to trace a single connection."""

WARNINGS_A_SECOND = 20
"""Maximum logged warnings of one kind per second; the next warning has the number of the others.
Otherwise repeated refusals of one client would fill the log and delay others."""

_ADDRESS_MEMBERS = {to_camel(name): name for name in AddressStatistics._fields}
_WORKER_MEMBERS = [to_camel(name) for name in WorkerStatistics._fields]
_SPACE_MEMBERS = [to_camel(name) for name in SpaceStatistics._fields]
_JOURNAL_MEMBERS = [to_camel(name) for name in JournalStatistics._fields]
_Result = TypeVar("_Result")


class NativeEngine:
    """An `Engine` over a `Node`. Blocking calls run in a thread, one at a time."""

    def __init__(self, node: Node, clock: Clock | None = None) -> None:
        """Control `node`."""
        self._node = node
        self._clock = clock or SystemClock()
        self._calling = asyncio.Lock()
        self._bounds = {kind: Bounded(self._clock, WARNINGS_A_SECOND) for kind in WARNINGS}
        self._canary = Canary(node, self._clock)
        self._readers: dict[int, set[asyncio.Queue[Mapping[str, Any]]]] = {}
        """Readers of traces by connection."""

        self._logged: set[int] = set()
        """Connections whose traces are logged."""

        self._usage: tuple[str, Sequence[SpaceStatistics]] = "", ()
        """The last report of the node about its spaces, and its parsed form."""

    async def apply(self, plan: Plan) -> Proof:
        """Serve this Plan, and return the confirmation."""
        whole = plan.model_copy(update={"spaces": (*plan.spaces, self._canary.space)})
        return _proof(await self._call(self._node.apply, whole), self._node.journal())

    async def prove(self) -> Proof:
        """Return the present confirmation."""
        return _proof(await self._call(self._node.proof), self._node.journal())

    async def show_certificates(
        self, spaces: Mapping[str, Sequence[ServerCertificate]]
    ) -> Sequence[UnusableCertificate]:
        """Use certificates of spaces from the next handshake on."""
        receivers = [
            {"uid": uid, "certificates": [asdict(one) for one in certificates]}
            for uid, certificates in spaces.items()
        ]
        unusable = await self._call(self._node.show_certificates, receivers)
        return [
            UnusableCertificate(one["uid"], tuple(one["names"]), one["reason"]) for one in unusable
        ]

    async def observe(self) -> Observed:
        """Return the present statistics."""
        return await self._call(self._observe)

    async def usage(self) -> Sequence[SpaceStatistics]:
        """Return the traffic of spaces."""
        text = self._node.usage()
        if text != self._usage[0]:
            # Parsed only if changed: most nodes are idle most of the time.
            lines = json.loads(text)
            statistics = [
                SpaceStatistics(*(line[name] for name in _SPACE_MEMBERS)) for line in lines
            ]
            self._usage = text, statistics
        return self._usage[1]

    async def connections(self) -> Sequence[Connection]:
        """Return the open connections."""
        return [_connection(one) for one in await self._call(self._node.connections)]

    async def links(
        self, *, connection: int | None = None, address_uid: str | None = None
    ) -> tuple[Sequence[LinkStatistics], int]:
        """Return links, and the number of those beyond the maximum."""
        lines, more = await self._call(self._node.links, connection, address_uid, LINKS_MAX)
        return [_link(line) for line in lines], more

    async def close_connection(self, connection: int) -> None:
        """Close a connection."""
        if not await self._call(self._node.close_connection, connection):
            raise _no_connection(connection)

    async def mqtt_sessions(
        self, space_uid: str, *, after: SessionName | None, limit: int
    ) -> tuple[Sequence[MqttSession], int]:
        """Return MQTT sessions of a space and the number of the others."""
        start = None if after is None else _named(after)
        lines, more = await self._call(self._node.sessions, space_uid, start, limit)
        return [_mqtt_session(line) for line in lines], more

    async def end_mqtt_session(self, space_uid: str, name: SessionName) -> bool:
        """End an MQTT session."""
        ended: bool = await self._call(self._node.end_session, space_uid, _named(name))
        return ended

    def session(self, space: str) -> Session:
        """Return a session with a space that has every right."""
        return connect_within(self._node, space, ADMINISTRATOR)

    def connect(self, space: str, user: str | None) -> socket.socket:
        """Return a socket that speaks AMQP with a space as a user of it."""
        return socket.socket(fileno=self._node.connect(space, user))

    async def trace(self, connection: int, *, on: bool) -> None:
        """Write the frames of one connection to the log, or stop that."""
        if all(one.id != connection for one in await self.connections()):
            raise _no_connection(connection)
        self._node.trace(connection, on=on)
        (self._logged.add if on else self._logged.discard)(connection)

    async def frames(self, connection: int) -> AsyncGenerator[Mapping[str, Any], None]:
        """Trace a connection for one reader."""
        waiting: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue(FRAMES_WAITING_MAX)
        readers = self._readers.setdefault(connection, set())
        readers.add(waiting)
        self._node.trace(connection, on=True)
        try:
            while True:
                yield await waiting.get()
        finally:
            readers.discard(waiting)
            if not readers:
                self._readers.pop(connection, None)
                if connection not in self._logged:
                    self._node.trace(connection, on=False)

    async def manage(self, address_uid: str, operation: Operation, part: Slice) -> SliceDone:
        """Run one slice of an operation on the messages of an address."""
        request = {
            "address": address_uid,
            "operation": str(operation),
            "limit": part.limit,
            "selector": part.selector,
            "filter": part.filter,
            "topicFilter": part.topic_filter,
            "message": part.message,
            "edited": [*encode_message(part.edited)] if part.edited is not None else None,
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

    def problem(self) -> str | None:
        """Return why nothing can be stored, or why the last canary failed, if so."""
        return (
            _stopped(self._node.journal()) or self._unreadable() or self._canary.statistics.problem
        )

    async def run_canary(self) -> None:
        """Send canary messages periodically, until cancelled."""
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
        while (problem := _stopped(journal := self._node.journal())) is None:
            if journal and journal["damaged"] != damaged:
                damaged = journal["damaged"]
                changed()
            await self._clock.sleep(JOURNAL_CHECK_S)
        log.error("journal-stopped", reason=problem)
        changed()

    async def answer_logins(self, answer: Answer) -> None:
        """Pass logins that the Plan alone does not decide to `answer`, until cancelled.

        They are decided concurrently; the node bounds their number.
        """
        node = self._node
        await _each(
            node.login_fd(),
            lambda: node.logins(LOGINS_PER_TURN),
            lambda login: self._answer_login(login, answer),
        )

    async def create_wanted(self, create: Create) -> None:
        """Pass addresses that links request to `create`, until cancelled.

        They are created concurrently, because each is a write to the store; the node bounds their
        number.
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
            # A bug must not stop other creations; the links time out.
            log.exception("address not created by a bug")
            refused = "the address was not created by a bug, which is in the log"
        self._node.answer_creation(wanted["id"], refused)

    async def seal_unused(self, uid: str, *, seal: bool) -> bool:
        """Seal an address if it is unused, so that no link attaches, or lift the seal.

        Returns whether it is sealed.
        """
        return await self._call(lambda: self._node.seal_unused(uid, seal=seal))

    async def _answer_login(self, login: Mapping[str, Any], answer: Answer) -> None:
        try:
            self._node.answer_login(await answer(login))
        except EnMasseError as error:
            log.error("login not answered", reason=error.message)

    async def log_events(self, *receivers: Callable[[Mapping[str, Any]], None]) -> None:
        """Log the node's events and pass them to `receivers`, until cancelled."""
        loop = asyncio.get_running_loop()
        some = asyncio.Event()
        loop.add_reader(self._node.event_fd(), some.set)
        try:
            while True:
                await some.wait()
                some.clear()
                for event in self._node.events(EVENTS_PER_TURN):
                    if event["event"] == "trace" and self._read(event):
                        continue
                    if (reported := self._bounded(event)) is not None:
                        log_event(reported)
                    for one in receivers:
                        one(event)
        finally:
            loop.remove_reader(self._node.event_fd())

    def _read(self, event: Mapping[str, Any]) -> bool:
        """Pass a traced frame to its readers; return whether it is not for the log."""
        connection = event.get("connection")
        readers = self._readers.get(connection, ()) if connection is not None else ()
        for waiting in readers:
            if not waiting.full():
                waiting.put_nowait(event)
        return bool(readers) and connection not in self._logged

    def _bounded(self, event: dict[str, Any]) -> dict[str, Any] | None:
        """Return the logged form of an event; None if the rate limit of its kind is exceeded."""
        bound = self._bounds.get(event["event"])
        if bound is None:
            return event
        if not bound.may_write():
            return None
        unwritten = bound.unwritten()
        return event if unwritten is None else event | {"unwritten": unwritten}

    def _observe(self) -> Observed:
        begun_s = self._clock.thread_s()
        stats = self._node.stats()
        now_ms = self._clock.now().timestamp() * 1000
        journal = stats["journal"]
        addresses = [_statistics(line, now_ms) for line in stats["addresses"]]
        return Observed(
            connections=stats["connections"],
            addresses=addresses,
            workers=[
                WorkerStatistics(*(line[name] for name in _WORKER_MEMBERS))
                for line in stats["workers"]
            ],
            accept_pauses=stats["acceptPauses"],
            received_bytes=stats["receivedBytes"],
            receive_budget_bytes=stats["receiveBudgetBytes"],
            journal=JournalStatistics(*(journal[name] for name in _JOURNAL_MEMBERS))
            if journal
            else None,
            canary=self._canary.statistics,
            cost_s=self._clock.thread_s() - begun_s,
        )

    async def _call(self, function: Callable[..., _Result], *arguments: Any) -> _Result:
        async with self._calling:
            return await asyncio.to_thread(function, *arguments)


async def _each(
    fd: int,
    take: Callable[[], Sequence[Mapping[str, Any]]],
    answer: Callable[[Mapping[str, Any]], Coroutine[Any, Any, None]],
) -> None:
    """Process each request that `take` returns while `fd` is readable, concurrently."""
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
    """Return why a journal has stopped storing, if so."""
    if journal is None or journal["stopped"] is None:
        return None
    return (
        f"the journal has stopped: {journal['stopped']}; addresses on disk"
        " accept no messages and deliver those they hold; repair the disk and"
        " restart"
    )


def _proof(reported: Mapping[str, Any], journal: Mapping[str, Any] | None) -> Proof:
    failed = {
        one["uid"]: Failure(one["reason"], one["message"])
        for one in reported["failed"]
        if one["uid"] not in UIDS
    }
    proof = Proof(reported["version"], frozenset(reported["active"]) - UIDS, failed)
    if journal is None:
        return proof
    unnamed = Unnamed(journal["unnamedMessages"], journal["unnamedSegments"])
    return replace(proof, damaged=journal["damaged"], unnamed=unnamed)


def _statistics(line: dict[str, Any], now_ms: float) -> AddressStatistics:
    # The node leaves out zeros, so most lines are short.
    oldest_ms = line.pop("oldestMs", 0)
    members = {_ADDRESS_MEMBERS[member]: value for member, value in line.items()}
    if oldest_ms:
        members["oldest_age_s"] = max(now_ms - oldest_ms, 0) / 1000
    return AddressStatistics(**members)


def _found(line: dict[str, Any], encoded: bytes | None) -> StoredMessage:
    message, problem = None, None
    if encoded is not None:
        try:
            message = decode_message(encoded)
        except EnMasseError as error:
            # One such message must not hide the others.
            problem = error.message
    return StoredMessage(
        id=line["id"],
        state=line["state"],
        bytes=line["bytes"],
        enqueued_ms=line["enqueuedMs"],
        expires_ms=line["expiresMs"],
        due_ms=line["dueMs"],
        attempts=line["attempts"],
        message=message,
        problem=problem,
    )


def _no_connection(connection: int) -> Missing:
    return Missing(
        Code.CONNECTION_MISSING,
        f"connection {connection} not found; `enmasse get connections` lists them",
    )


def _link(line: dict[str, Any]) -> LinkStatistics:
    outcomes = line["outcomes"]
    members = line | {
        "addresses": tuple(line["addresses"]),
        "outcomes": LinkOutcomes(**outcomes) if outcomes is not None else None,
    }
    return LinkStatistics(**members)


def _named(name: SessionName) -> dict[str, Any]:
    return {
        "user": name.user,
        "kind": name.kind,
        "clientId": name.client_id,
        "link": name.link,
    }


def _mqtt_session(line: dict[str, Any]) -> MqttSession:
    will = line["will"]
    name = SessionName(line["user"], line["clientId"], SessionKind(line["kind"]), line["link"])
    return MqttSession(
        name=name,
        connection=line["connection"],
        expiry_s=line["expiryS"],
        subscription_count=line["subscriptionCount"],
        subscriptions=tuple(
            MqttSubscription(one["filter"], one["qos"], one["noLocal"])
            for one in line["subscriptions"]
        ),
        will=None
        if will is None
        else MqttWill(will["topic"], will["qos"], will["retain"], will["delayS"], will["bytes"]),
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
        product=line["product"],
    )
