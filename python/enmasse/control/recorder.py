"""Looks at what spaces come to, again and again, and has it kept."""

import asyncio
from contextlib import suppress

import structlog

from enmasse.base.clock import Clock
from enmasse.base.errors import EnMasseError
from enmasse.control.interim import Interim
from enmasse.control.manager import Manager
from enmasse.engines import Engine

log = structlog.get_logger(__name__)

LOOK_S = 1.0
"""How often the engine's counters are looked at: what is sent within this time after an allowance
is used up still comes in, as fast as the plan lets it."""

SAVE_S = 60.0
"""How often records that have changed are written into statuses. What is newer is in the interim
file: a process that is killed loses what came after the last look."""

LAST_SAVE_S = 1.0
"""Longest wait for the last write, as the process ends: what it misses is in the interim file."""


class Recorder:
    """Counts for a manager what its engine carries."""

    def __init__(
        self, manager: Manager, engine: Engine, clock: Clock, interim: Interim | None = None
    ) -> None:
        """Count what `engine`, which is the manager's, has carried since it began."""
        self._manager = manager
        self._interim = interim
        self._engine = engine
        self._clock = clock

    async def run(self) -> None:
        """Look and write until cancelled, then write once more."""
        saved = self._clock.monotonic()
        try:
            while True:
                await self._look()
                if self._clock.monotonic() - saved >= SAVE_S:
                    saved = self._clock.monotonic()
                    await self._look_at_rest()
                    await self._save()
                self._keep()
                await self._clock.sleep(LOOK_S)
        finally:
            await self._look()
            self._keep()
            with suppress(TimeoutError):
                async with asyncio.timeout(LAST_SAVE_S):
                    await self._save()
            self._keep()

    async def _look(self) -> None:
        self._manager.note_usage(await self._engine.usage())

    def _keep(self) -> None:
        if self._interim is not None:
            self._interim.write(self._manager.unsaved_usage())

    async def _look_at_rest(self) -> None:
        stored: dict[str, int] = {}
        try:
            observed = await self._engine.observe()
        except EnMasseError as error:
            log.warning("messages at rest are not counted", reason=error.message)
            return
        for one in observed.addresses:
            stored[one.space] = stored.get(one.space, 0) + one.stored_bytes
        self._manager.note_stored(stored)

    async def _save(self) -> None:
        try:
            await self._manager.save_usage()
        except EnMasseError as error:
            # The next time comes: nothing is forgotten meanwhile.
            log.warning("usage is not written", reason=error.message)
