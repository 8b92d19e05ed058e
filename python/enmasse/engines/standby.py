"""The engine of a process that may stand by: none, until it leads."""

from collections.abc import Mapping, Sequence

from enmasse.base.errors import Code, Unavailable
from enmasse.engines.protocol import (
    Connection,
    Engine,
    Observed,
    Operation,
    Proof,
    ServerCertificate,
    Slice,
    SliceDone,
    SpaceFigures,
    Unshown,
)
from enmasse.plan import Plan

WHY = "this process is a stand-by; another process of the same database serves messaging"


class Standby:
    """An `Engine` that has nothing to do with messages until another is put behind it."""

    def __init__(self) -> None:
        self._engine: Engine | None = None

    @property
    def leads(self) -> bool:
        """Whether there is an engine behind it."""
        return self._engine is not None

    def give_way(self, engine: Engine) -> None:
        """Be that engine from now on."""
        self._engine = engine

    async def apply(self, plan: Plan) -> Proof:
        """Serve this Plan from now on. Raises: Unavailable while standing by."""
        return await self._leading().apply(plan)

    async def prove(self) -> Proof:
        """Say what is served. Raises: Unavailable while standing by."""
        return await self._leading().prove()

    async def show_certificates(
        self, spaces: Mapping[str, Sequence[ServerCertificate]]
    ) -> Sequence[Unshown]:
        """Show certificates of spaces. Raises: Unavailable while standing by."""
        return await self._leading().show_certificates(spaces)

    async def observe(self) -> Observed:
        """Return the figures of this moment: none while standing by."""
        return await self._engine.observe() if self._engine else Observed(0, ())

    async def usage(self) -> Sequence[SpaceFigures]:
        """Return what spaces carry: nothing while standing by."""
        return await self._engine.usage() if self._engine else ()

    def trouble(self) -> str | None:
        """Return what cannot be done."""
        return self._engine.trouble() if self._engine else WHY

    async def connections(self) -> Sequence[Connection]:
        """Return the open connections: none while standing by."""
        return await self._engine.connections() if self._engine else ()

    async def trace(self, connection: int, *, on: bool) -> None:
        """Switch a connection's trace. Raises: Unavailable while standing by."""
        await self._leading().trace(connection, on=on)

    async def manage(self, address_uid: str, operation: Operation, part: Slice) -> SliceDone:
        """Do a slice of an operation. Raises: Unavailable while standing by."""
        return await self._leading().manage(address_uid, operation, part)

    def _leading(self) -> Engine:
        if self._engine is None:
            raise Unavailable(Code.STANDING_BY, f"{WHY}; send the request to that process")
        return self._engine
