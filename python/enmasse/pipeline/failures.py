"""Failures of queries: which end a query for good, and when a query starts again.

Spark repeats the tasks of a worker that dies. It does not restart the process that plans the
batches of a query, nor one that does not answer within ten seconds ("failed to connect back"), as
on an overloaded machine: the query ends. The same happens when Spark serializes the tasks of a
stage while another query changes shared state. Such a query can continue from its checkpoint.
"""

import logging
import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from enmasse.base.clock import Clock
from enmasse.base.errors import KINDS, Code, EnMasseError, Unavailable
from enmasse.pipeline.session import see_log

log = logging.getLogger("enmasse.pipeline")

PAUSES_S = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0)
"""Before each restart after a failure of Spark, without a batch in between; one more failure is an
error."""
ERROR_PAUSES_S = (5.0, 15.0, 60.0, 300.0)
"""Before each restart after an error while other sources continue; the last one repeats."""
STABLE_S = 60.0
"""A query that has run for this long is stable, with or without batches."""
CAUSES_MAX = 16
_OURS = re.compile(r"enmasse\.base\.errors\.(\w+): ([^\n]*)")
_RAISED = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t][^\n]*\n|\n)*(\S[^\n]*)")
_SPARK_FAILURE = re.compile(
    r"Python worker (?:failed to connect back|exited unexpectedly)[^\n]*"
    r"|java\.io\.EOFException[^\n]*"
    r"|java\.net\.SocketException[^\n]*"
    r"|java\.io\.IOException: (?:Broken pipe|Connection reset|Stream closed)[^\n]*"
    r"|Task serialization failed: java\.lang\.IllegalStateException: Illegal size[^\n]*"
    r"|Task serialization failed: java\.util\.ConcurrentModificationException[^\n]*"
)


def text_of(error: BaseException) -> str:
    """Return the text of an error and of its causes, with the stack traces of Java: some Java
    errors contain only their class name.
    """
    texts: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(texts) < CAUSES_MAX:
        texts.append(f"{cause}\n{getattr(cause, '_stackTrace', None) or ''}")
        cause = getattr(cause, "_cause", None) or cause.__cause__
    return "\n".join(texts)


def spark_failure(error: BaseException) -> str | None:
    """Return the failure of Spark itself, mostly a dead process, if that ended a query."""
    text = text_of(error)
    found = None if _OURS.search(text) else _SPARK_FAILURE.search(text)
    return None if found is None else found[0]


def summary(error: BaseException) -> str:
    """Return an error in one line; of a Python traceback in it, the exception."""
    text = str(error)
    if raised := _RAISED.findall(text):
        return str(raised[-1])
    return next((line.strip() for line in text.splitlines() if line.strip()), repr(error))


def raised_in_task(source: str, error: BaseException) -> EnMasseError | None:
    """Return the EnMasse error that a process of Spark raised, if it was one."""
    found = _OURS.search(str(error))
    if not found or found[1] not in KINDS:
        return None
    code = f"E{list(KINDS).index(found[1]) + 1}000"
    return KINDS[found[1]](code, f"source {source}: {found[2]}")


def as_error(source: str, error: BaseException, log_file: Path | None = None) -> EnMasseError:
    """Return the error that ended a query as an EnMasse error, with the log file for others.

    Its cause has the stack traces of Spark.
    """
    if isinstance(error, EnMasseError):
        return error
    text = f"source {source}: Spark ended the query: {summary(error)}{see_log(log_file)}"
    found = raised_in_task(source, error) or Unavailable(Code.NOT_AVAILABLE, text)
    found.__cause__ = error
    return found


@dataclass(frozen=True)
class Failure:
    """An error that persists: its time, and how often a retry failed."""

    error: EnMasseError
    since: datetime
    tries: int = 0

    @classmethod
    def after(cls, before: "Failure | None", error: EnMasseError, clock: Clock) -> "Failure":
        """Return the failure after one more try that failed."""
        if before is None:
            return cls(error, clock.now())
        return cls(error, before.since, before.tries + 1)

    def pause_s(self, pauses_s: tuple[float, ...] = ERROR_PAUSES_S) -> float:
        """Return the pause before the next try."""
        return pauses_s[min(self.tries, len(pauses_s) - 1)]


class Restarts:
    """When the query of one source starts again, after growing pauses."""

    def __init__(self, source: str, clock: Clock, log_file: Path | None = None) -> None:
        """Start without a failure. `log_file` has the messages of Java."""
        self._source = source
        self._log_file = log_file
        self._clock = clock
        self._spark_failures = 0
        self._started_s = clock.monotonic()
        self._due_s: float | None = None
        self._failure: Failure | None = None

    @property
    def is_pending(self) -> bool:
        """Whether the query has ended and will start again."""
        return self._due_s is not None

    @property
    def is_due(self) -> bool:
        """Whether the query has to start now."""
        return self._due_s is not None and self._clock.monotonic() >= self._due_s

    @property
    def failure(self) -> Failure | None:
        """The error that ended the query, until a batch is committed or the query is stable."""
        if self._due_s is None and self._is_stable:
            self._failure = None
        return self._failure

    @property
    def _is_stable(self) -> bool:
        return self._clock.monotonic() - self._started_s >= STABLE_S

    def started(self) -> None:
        """Record that the query runs."""
        self._started_s, self._due_s = self._clock.monotonic(), None

    def progressed(self) -> None:
        """Record that a batch is committed."""
        self._spark_failures, self._failure = 0, None

    def failed(self, error: BaseException) -> None:
        """Schedule a restart. The error becomes `failure` unless it is a failure of Spark, of
        which there may be `len(PAUSES_S)` in a row.
        """
        cause = spark_failure(error)
        if self._due_s is None and self._is_stable:
            self._spark_failures, self._failure = 0, None
        if cause is None:
            self._record(as_error(self._source, error, self._log_file))
        elif self._spark_failures == len(PAUSES_S):
            text = (
                f"source {self._source}: Spark failed {self._spark_failures + 1} times without a"
                f" batch in between, the last time: {cause}; check that this machine has free"
                f" memory and processor time, and start the run again{see_log(self._log_file)}"
            )
            self._record(Unavailable(Code.NOT_AVAILABLE, text))
        else:
            self._retry(cause)

    def _retry(self, cause: str) -> None:
        pause_s = PAUSES_S[self._spark_failures]
        self._spark_failures += 1
        self._due_s = self._clock.monotonic() + pause_s
        retry = f"restart in {pause_s:.0f} s, try {self._spark_failures} of {len(PAUSES_S)}"
        log.warning("source %s: Spark failed: %s; %s", self._source, cause, retry)

    def _record(self, error: EnMasseError) -> None:
        self._failure = Failure.after(self._failure, error, self._clock)
        self._due_s = self._clock.monotonic() + self._failure.pause_s()
