"""The engine of a stand-by process: a proxy that has no engine until the process leads."""

import socket
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from enmasse.base.errors import Code, Unavailable
from enmasse.engines.protocol import (
    Connection,
    Engine,
    LinkStatistics,
    MqttSession,
    Observed,
    Operation,
    Proof,
    ServerCertificate,
    SessionName,
    Slice,
    SliceDone,
    SpaceStatistics,
    UnusableCertificate,
)
from enmasse.messaging import Session
from enmasse.plan import Plan

STANDBY_REASON = "this process is a stand-by; another process of the same database serves messaging"


class Standby:
    """An `Engine` without messaging until another engine is activated behind it."""

    def __init__(self) -> None:
        self._engine: Engine | None = None

    @property
    def leads(self) -> bool:
        """Whether an engine is active behind it."""
        return self._engine is not None

    def activate(self, engine: Engine) -> None:
        """Activate an engine: all later calls go to it."""
        self._engine = engine

    async def apply(self, plan: Plan) -> Proof:
        """Apply a Plan. Raises: Unavailable while standing by."""
        return await self._leading().apply(plan)

    async def prove(self) -> Proof:
        """Return the confirmation. Raises: Unavailable while standing by."""
        return await self._leading().prove()

    async def show_certificates(
        self, spaces: Mapping[str, Sequence[ServerCertificate]]
    ) -> Sequence[UnusableCertificate]:
        """Replace certificates of spaces. Raises: Unavailable while standing by."""
        return await self._leading().show_certificates(spaces)

    async def observe(self) -> Observed:
        """Return the present statistics; empty while standing by."""
        return await self._engine.observe() if self._engine else Observed(0, ())

    async def usage(self) -> Sequence[SpaceStatistics]:
        """Return the traffic of spaces; empty while standing by."""
        return await self._engine.usage() if self._engine else ()

    def problem(self) -> str | None:
        """Return the defect of the engine, or that this process stands by."""
        return self._engine.problem() if self._engine else STANDBY_REASON

    async def connections(self) -> Sequence[Connection]:
        """Return the open connections; none while standing by."""
        return await self._engine.connections() if self._engine else ()

    async def links(
        self, *, connection: int | None = None, address_uid: str | None = None
    ) -> tuple[Sequence[LinkStatistics], int]:
        """Return links; none while standing by."""
        if self._engine is None:
            return (), 0
        return await self._engine.links(connection=connection, address_uid=address_uid)

    async def close_connection(self, connection: int) -> None:
        """Close a connection. Raises: Unavailable while standing by."""
        await self._leading().close_connection(connection)

    async def mqtt_sessions(
        self, space_uid: str, *, after: SessionName | None, limit: int
    ) -> tuple[Sequence[MqttSession], int]:
        """Return MQTT sessions. Raises: Unavailable while standing by."""
        return await self._leading().mqtt_sessions(space_uid, after=after, limit=limit)

    async def end_mqtt_session(self, space_uid: str, name: SessionName) -> bool:
        """End an MQTT session. Raises: Unavailable while standing by."""
        return await self._leading().end_mqtt_session(space_uid, name)

    def session(self, space: str) -> Session:
        """Return a session with a space. Raises: Unavailable while standing by."""
        return self._leading().session(space)

    def connect(self, space: str, user: str | None) -> socket.socket:
        """Return a socket of a user. Raises: Unavailable while standing by."""
        return self._leading().connect(space, user)

    async def trace(self, connection: int, *, on: bool) -> None:
        """Switch a connection's trace. Raises: Unavailable while standing by."""
        await self._leading().trace(connection, on=on)

    def frames(self, connection: int) -> AsyncGenerator[Mapping[str, Any], None]:
        """Trace a connection. Raises: Unavailable while standing by."""
        return self._leading().frames(connection)

    async def manage(self, address_uid: str, operation: Operation, part: Slice) -> SliceDone:
        """Run a slice of an operation. Raises: Unavailable while standing by."""
        return await self._leading().manage(address_uid, operation, part)

    def _leading(self) -> Engine:
        if self._engine is None:
            raise Unavailable(
                Code.STANDING_BY, f"{STANDBY_REASON}; send the request to that process"
            )
        return self._engine
