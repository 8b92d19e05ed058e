"""Samples the usage of spaces periodically."""

import asyncio
from contextlib import suppress

import structlog

from enmasse.base.clock import Clock
from enmasse.base.errors import EnMasseError
from enmasse.control.reconcilers import UsageReconciler
from enmasse.control.usage_file import UsageFile
from enmasse.engines import Engine

log = structlog.get_logger(__name__)

LOOK_S = 1.0
"""Sampling interval of the engine's counters: messages sent within it after an allowance is used up
are accepted, up to the rate of the plan.
"""

SAVE_S = 60.0
"""Interval of writing changed records into statuses. Newer usage is in the interim file: a killed
process loses at most the time since the last sample.
"""

LAST_SAVE_S = 1.0
"""Maximum wait for the last write at shutdown; the interim file has what it misses."""


class Recorder:
    """Samples the traffic of an engine for the records of spaces."""

    def __init__(
        self,
        usage: UsageReconciler,
        engine: Engine,
        clock: Clock,
        interim: UsageFile | None = None,
    ) -> None:
        """Start at the present counters of `engine`, the one of `usage`."""
        self._usage = usage
        self._interim = interim
        self._engine = engine
        self._clock = clock

    async def run(self) -> None:
        """Sample and write until cancelled, then write once more."""
        saved = self._clock.monotonic()
        try:
            while True:
                await self._sample()
                if self._clock.monotonic() - saved >= SAVE_S:
                    saved = self._clock.monotonic()
                    await self._sample_stored()
                    await self._save()
                self._write_interim()
                await self._clock.sleep(LOOK_S)
        finally:
            await self._sample()
            self._write_interim()
            with suppress(TimeoutError):
                async with asyncio.timeout(LAST_SAVE_S):
                    await self._save()
            self._write_interim()

    async def _sample(self) -> None:
        await self._usage.sample()

    def _write_interim(self) -> None:
        if self._interim is not None:
            self._interim.write(self._usage.unsaved())

    async def _sample_stored(self) -> None:
        stored: dict[str, int] = {}
        try:
            observed = await self._engine.observe()
        except EnMasseError as error:
            log.warning("stored messages cannot be counted", reason=error.message)
            return
        for one in observed.addresses:
            stored[one.space] = stored.get(one.space, 0) + one.stored_bytes
        self._usage.note_stored(stored)

    async def _save(self) -> None:
        try:
            await self._usage.save()
        except EnMasseError as error:
            # The next attempt has everything, since nothing is discarded.
            log.warning("usage is not written", reason=error.message)
