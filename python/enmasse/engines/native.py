"""Our own engine: the Rust node in this process."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import structlog
from pydantic.alias_generators import to_camel

from enmasse.base.errors import Code, Missing, Unavailable
from enmasse.engines.protocol import (
    AddressFigures,
    Connection,
    Observed,
    Operation,
    Proof,
    Slice,
    SliceDone,
    WorkerFigures,
)
from enmasse.native import Node
from enmasse.plan import Plan

log = structlog.get_logger(__name__)

EVENTS_PER_TURN = 512
"""Events logged before other tasks get their turn."""

WARNINGS = frozenset({"login-refused", "cut-off", "accept-paused", "certificate-unusable", "lost"})
"""Events an operator should see at once; the rest is for following one connection."""

_ADDRESS_MEMBERS = {to_camel(name): name for name in AddressFigures._fields}
_WORKER_MEMBERS = [to_camel(name) for name in WorkerFigures._fields]
_Result = TypeVar("_Result")


class NativeEngine:
    """An `Engine` over a `Node`. Calls that may wait run in a thread, one after another."""

    def __init__(
        self, node: Node, before_apply: Callable[[Plan], Awaitable[None]] | None = None
    ) -> None:
        """Drive `node`. `before_apply` is awaited with each Plan before the node has it."""
        self._node = node
        self._before_apply = before_apply
        self._calling = asyncio.Lock()

    async def apply(self, plan: Plan) -> Proof:
        """Serve this Plan from now on."""
        if self._before_apply is not None:
            await self._before_apply(plan)
        proof = await self._call(self._node.apply, plan)
        return Proof(proof["version"], frozenset(proof["active"]))

    async def observe(self) -> Observed:
        """Return the figures of this moment."""
        return await self._call(self._observe)

    async def connections(self) -> Sequence[Connection]:
        """Return the open connections."""
        return [_connection(one) for one in await self._call(self._node.connections)]

    async def trace(self, connection: int, *, on: bool) -> None:
        """Write the frames of one connection to the log, or stop that."""
        if all(one.id != connection for one in await self.connections()):
            raise Missing(
                Code.CONNECTION_MISSING,
                f"there is no connection {connection}; `enmasse get connections` lists them",
            )
        self._node.trace(connection, on=on)

    async def manage(self, address_uid: str, operation: Operation, part: Slice) -> SliceDone:
        """Refuse: the node has no messages at rest."""
        raise Unavailable(
            Code.OPERATION_UNSUPPORTED,
            f"this node cannot {operation} messages: it stores none",
        )

    async def log_events(self) -> None:
        """Write the node's events to the log until cancelled."""
        loop = asyncio.get_running_loop()
        some = asyncio.Event()
        loop.add_reader(self._node.event_fd(), some.set)
        try:
            while True:
                await some.wait()
                some.clear()
                for event in self._node.events(EVENTS_PER_TURN):
                    log_event(event)
        finally:
            loop.remove_reader(self._node.event_fd())

    def _observe(self) -> Observed:
        stats = self._node.stats()
        return Observed(
            connections=stats["connections"],
            addresses=[
                AddressFigures(
                    **{
                        name: line[member]
                        for member, name in _ADDRESS_MEMBERS.items()
                        if member in line
                    }
                )
                for line in stats["addresses"]
            ],
            workers=[
                WorkerFigures(*(line[name] for name in _WORKER_MEMBERS))
                for line in stats["workers"]
            ],
            accept_pauses=stats["acceptPauses"],
        )

    async def _call(self, function: Callable[..., _Result], *arguments: Any) -> _Result:
        async with self._calling:
            return await asyncio.to_thread(function, *arguments)


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


def _connection(line: dict[str, Any]) -> Connection:
    return Connection(
        id=line["id"],
        space=line["space"],
        user=line["user"],
        container=line["container"],
        peer=line["address"],
        transport=line["transport"],
        links=line["links"],
    )
