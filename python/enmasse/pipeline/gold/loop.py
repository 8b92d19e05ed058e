"""When the gold query takes its steps: a thread with a trigger of its own, beside the queries of
sources."""

import logging
import threading
from collections.abc import Callable
from pathlib import Path

from enmasse.base.clock import Clock
from enmasse.base.errors import Code, EnMasseError, Unavailable
from enmasse.pipeline.endings import TROUBLE_PAUSES_S, Trouble, reason
from enmasse.pipeline.gold.query import GoldQuery
from enmasse.pipeline.session import see_log

log = logging.getLogger("enmasse.pipeline")

LONG_S = 300.0
"""Longer windows are merged from shorter ones so often at most."""
CANCEL_S = 20.0
"""How long a step under way may take when the run is to end; one that is cut off is repeated."""


class GoldLoop:
    """Brings gold to where silver is, again and again."""

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
        """Prepare; `start` begins. Small files are joined after `compact_every` steps."""
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
        self._trouble: Trouble | None = None

    @property
    def trouble(self) -> Trouble | None:
        """The error that the last turn ended with, if it did."""
        return self._trouble

    def start(self) -> None:
        """Take turns from now on, until `close`."""
        self._thread.start()

    def close(self) -> None:
        """End after the step under way, or cut it off if that takes long."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(CANCEL_S)
        if self._thread.is_alive():
            self._query.cancel()
            self._thread.join(CANCEL_S)

    def finish(self) -> None:
        """Bring all of gold to where silver is; raises what that fails with."""
        self._turn(self._query.catch_up)
        if self._trouble is not None:
            raise self._trouble.error

    def turn(self) -> None:
        """Take what is new, and what is due besides."""
        self._turn(self._take)

    def _run(self) -> None:
        pause_s = 0.0
        while not self._stop.wait(pause_s):
            begun_s = self._clock.monotonic()
            self.turn()
            took_s = self._clock.monotonic() - begun_s
            pause_s = max(0.0, self._every_s - took_s)
            if self._trouble is not None:
                pause_s = TROUBLE_PAUSES_S[min(self._trouble.tries, len(TROUBLE_PAUSES_S) - 1)]

    def _take(self) -> None:
        while not self._stop.is_set() and self._query.step():
            self._steps += 1
        if self._clock.monotonic() >= self._long_due_s:
            self._query.merge_long()
            self._long_due_s = self._clock.monotonic() + LONG_S
        if self._steps >= self._compact_every:
            self._query.tidy(self._keep_ms)
            self._steps = 0

    def _turn(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            if not self._stop.is_set():
                self._failed(error)
        else:
            self._trouble = None

    def _failed(self, error: Exception) -> None:
        said = error if isinstance(error, EnMasseError) else self._said(error)
        before = self._trouble
        tries = 0 if before is None else before.tries + 1
        since = self._clock.now() if before is None else before.since
        self._trouble = Trouble(said, since, tries)
        if before is None or str(before.error) != str(said):
            log.warning("%s; sources go on", said)

    def _said(self, error: Exception) -> EnMasseError:
        text = f"gold: the query failed: {reason(error)}{see_log(self._log_file)}"
        return Unavailable(Code.NOT_AVAILABLE, text)
