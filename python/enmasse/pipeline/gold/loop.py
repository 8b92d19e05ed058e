"""The schedule of the gold query: a thread with a trigger of its own."""

import logging
import threading
from collections.abc import Callable
from pathlib import Path

from enmasse.base.clock import Clock
from enmasse.base.errors import Code, EnMasseError, Unavailable
from enmasse.pipeline.failures import Failure, summary
from enmasse.pipeline.gold.query import GoldQuery
from enmasse.pipeline.session import is_jvm_lost, see_log

log = logging.getLogger("enmasse.pipeline")

LONG_S = 300.0
"""Minimum interval between merges of longer windows."""
CANCEL_S = 20.0
"""How long the end of a run waits for a step; an interrupted step is repeated."""


class GoldLoop:
    """Updates gold from silver at intervals."""

    def __init__(
        self,
        query: GoldQuery,
        clock: Clock,
        *,
        every_ms: int,
        compact_every: int,
        keep_ms: int,
        log_file: Path | None = None,
    ) -> None:
        """Prepare; `start` begins. Files are compacted after `compact_every` steps."""
        self._query = query
        self._clock = clock
        self._every_s = every_ms / 1000
        self._compact_every = compact_every
        self._keep_ms = keep_ms
        self._log_file = log_file
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gold", daemon=True)
        self._steps = 0
        self._long_due_s = clock.monotonic()
        self._failure: Failure | None = None

    @property
    def failure(self) -> Failure | None:
        """The error of the last turn, if it failed."""
        return self._failure

    def start(self) -> None:
        """Run until `close`."""
        self._thread.start()

    def close(self) -> None:
        """End after the step in progress, or interrupt it if that takes long."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(CANCEL_S)
        if self._thread.is_alive():
            self._query.cancel()
            self._thread.join(CANCEL_S)

    def finish(self) -> None:
        """Update gold completely; raise the error if that fails."""
        self._turn(self._query.catch_up)
        if self._failure is not None:
            raise self._failure.error

    def turn(self) -> None:
        """Process new readings, and maintenance that is due."""
        self._turn(self._advance)

    def _run(self) -> None:
        pause_s = 0.0
        while not self._stop.wait(pause_s):
            start_s = self._clock.monotonic()
            self.turn()
            took_s = self._clock.monotonic() - start_s
            pause_s = max(0.0, self._every_s - took_s)
            if self._failure is not None:
                pause_s = self._failure.pause_s()

    def _advance(self) -> None:
        for _ in self._query.advance():
            self._steps += 1
            if self._stop.is_set():
                break
        if self._clock.monotonic() >= self._long_due_s:
            self._query.merge_long()
            self._long_due_s = self._clock.monotonic() + LONG_S
        if self._steps >= self._compact_every:
            self._query.maintain(self._keep_ms)
            self._steps = 0

    def _turn(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            if not self._stop.is_set():
                self._failed(error)
        else:
            self._failure = None

    def _failed(self, error: Exception) -> None:
        found, before = error, self._failure
        if not isinstance(found, EnMasseError):
            text = f"gold: the query failed: {summary(error)}{see_log(self._log_file)}"
            found = Unavailable(Code.NOT_AVAILABLE, text)
            found.__cause__ = error
        self._failure = Failure.after(before, found, self._clock)
        if not is_jvm_lost(error) and (before is None or str(before.error) != str(found)):
            log.warning("%s; sources continue", found)
