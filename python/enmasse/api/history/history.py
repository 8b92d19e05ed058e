"""The history of one data folder: records samples, and reads rows."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import structlog

from enmasse.api.history.recorder import FLUSH_S, Recorder
from enmasse.api.history.rings import FINE, Ring, Row
from enmasse.api.history.storage import HistoryStorage, Run, Series
from enmasse.api.monitoring.samples import Samples
from enmasse.base.clock import Clock
from enmasse.base.errors import EnMasseError

log = structlog.get_logger(__name__)

COST_FACTOR = 40.0
"""Minimum ratio of the interval to the processor time of a sample: 2.5 % of a core."""

_Result = TypeVar("_Result")


class History:
    """The series of a data folder."""

    def __init__(self, file: Path, samples: Samples, clock: Clock) -> None:
        """Open the database, which begins empty."""
        self._samples = samples
        self._clock = clock
        self._storage = HistoryStorage(file)
        self._runs = self._storage.runs()
        last_s = max((one.end_s for one in self._runs), default=0)
        self._recorder = Recorder(self._storage.series(), last_s)
        self._using = asyncio.Lock()
        self._database = threading.Lock()
        self._flushed_s = clock.monotonic()

    async def run(self, leads: Callable[[], bool]) -> None:
        """Record until cancelled, while this process leads."""
        while True:
            cost_s = await self.record() if leads() else 0.0
            await self._clock.sleep(max(FINE.step_s, COST_FACTOR * cost_s))

    async def record(self) -> float:
        """Record a sample, and write what is pending if it is due; return the cost of the sample
        in seconds.
        """
        try:
            sample = await self._samples.latest()
        except EnMasseError as error:
            log.warning("history not recorded", reason=error.message)
            return 0.0
        for _ in self._recorder.recording(sample):
            await asyncio.sleep(0)
        if self._clock.monotonic() - self._flushed_s >= FLUSH_S - FINE.step_s:
            await self.flush()
        return sample.now.cost_s

    async def flush(self) -> None:
        """Write everything that is pending. A failed write loses it and nothing else."""
        self._flushed_s = self._clock.monotonic()
        series, chunks, run = self._recorder.flush()
        if run.start_s == 0:
            return
        now_s = int(self._clock.now().timestamp())
        try:
            await self._call(partial(self._storage.write, series, chunks, run, now_s))
        except OSError as error:
            log.warning("history not written", reason=str(error))

    async def close(self) -> None:
        """Write everything and close the database."""
        await self.flush()
        await self._call(self._storage.close)

    @property
    def series(self) -> Sequence[Series]:
        """Every series, ended ones included."""
        return list(self._recorder.series)

    @property
    def runs(self) -> list[Run]:
        """The runs, oldest first; the present one is the last."""
        present = self._recorder.run
        return [*self._runs, present] if present.start_s else list(self._runs)

    @property
    def size_bytes(self) -> int:
        """Bytes of the database."""
        return self._storage.size_bytes

    async def rows(
        self, wanted: Sequence[Series], ring: Ring, from_s: int, to_s: int
    ) -> list[list[Row]]:
        """Return the rows of series in a period, each with the row that holds at its start."""
        pending = [self._recorder.pending(one, ring) for one in wanted]

        def read() -> list[list[Row]]:
            found = []
            for one, recent in zip(wanted, pending, strict=True):
                stored = self._storage.rows(one.id, ring, from_s, to_s)
                begin = recent[0].time_s if recent else to_s + 1
                found.append([*(row for row in stored if row.time_s < begin), *recent])
            return found

        return await self._call(read)

    async def _call(self, work: Callable[[], _Result]) -> _Result:
        """Run a blocking call in a thread, one at a time."""

        def alone() -> _Result:
            # A cancelled task leaves its thread behind, so the lock of the loop is not enough.
            with self._database:
                return work()

        async with self._using:
            return await asyncio.to_thread(alone)
