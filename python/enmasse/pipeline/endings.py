"""What ended a query: an error that stands, or the death of a process that Spark does not replace.

Spark repeats the tasks of a worker that dies. It does not start the process anew that plans the
batches of a query, nor one that does not answer within ten seconds ("failed to connect back"), as
on a machine that has too much to do: the query ends. So it does where Spark writes down the tasks
of a stage while another query changes what they share. It can begin again where it was.
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
"""Before a query begins again whose process died, each time without a batch since; the next death
is an error that stands."""
TROUBLE_PAUSES_S = (5.0, 15.0, 60.0, 300.0)
"""Before a query begins again that an error ended which stands, while other sources go on; the last
one for ever."""
SOUND_S = 60.0
"""A query that has gone on for so long is sound, whether anything came or not."""
CAUSES_MAX = 16
_OURS = re.compile(r"enmasse\.base\.errors\.(\w+): ([^\n]*)")
_RAISED = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t][^\n]*\n|\n)*(\S[^\n]*)")
_DEATH = re.compile(
    r"Python worker (?:failed to connect back|exited unexpectedly)[^\n]*"
    r"|java\.io\.EOFException[^\n]*"
    r"|java\.net\.SocketException[^\n]*"
    r"|java\.io\.IOException: (?:Broken pipe|Connection reset|Stream closed)[^\n]*"
    r"|Task serialization failed: java\.lang\.IllegalStateException: Illegal size[^\n]*"
    r"|Task serialization failed: java\.util\.ConcurrentModificationException[^\n]*"
)


def _told(error: BaseException) -> str:
    """What an error says, and what its causes say: some of Java's say nothing but their names."""
    texts: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(texts) < CAUSES_MAX:
        texts.append(f"{cause}\n{getattr(cause, '_stackTrace', None) or ''}")
        cause = getattr(cause, "_cause", None) or cause.__cause__
    return "\n".join(texts)


def death(error: BaseException) -> str | None:
    """Return what Spark itself failed at, mostly a process that died, if that ended a query."""
    text = _told(error)
    found = None if _OURS.search(text) else _DEATH.search(text)
    return None if found is None else found[0]


def reason(error: BaseException) -> str:
    """Return in a line what an error says: of a traceback of Python in it, what was raised."""
    text = str(error)
    if raised := _RAISED.findall(text):
        return str(raised[-1])
    return next((line.strip() for line in text.splitlines() if line.strip()), repr(error))


def ours(source: str, error: BaseException) -> EnMasseError | None:
    """Return the error of ours that a process of Spark raised, if it was one."""
    found = _OURS.search(str(error))
    if not found or found[1] not in KINDS:
        return None
    code = f"E{list(KINDS).index(found[1]) + 1}000"
    return KINDS[found[1]](code, f"source {source}: {found[2]}")


def said(source: str, error: BaseException, log_file: Path | None = None) -> EnMasseError:
    """Return what ended a query, in our words where it was an error of ours, else with the file
    that has more of it."""
    if isinstance(error, EnMasseError):
        return error
    if (found := ours(source, error)) is not None:
        return found
    what = f"source {source}: Spark ended the query: {reason(error)}{see_log(log_file)}"
    return Unavailable(Code.NOT_AVAILABLE, what)


@dataclass(frozen=True)
class Trouble:
    """An error that stands: what it says, since when, and how often it came again."""

    error: EnMasseError
    since: datetime
    tries: int = 0

    @property
    def said(self) -> str:
        """What the error says."""
        return str(self.error)


class Restarts:
    """When the query of a source begins again: at growing pauses."""

    def __init__(self, source: str, clock: Clock, log_file: Path | None = None) -> None:
        """Nothing has died yet. `log_file` has what Java says."""
        self._source = source
        self._log_file = log_file
        self._clock = clock
        self._deaths = 0
        self._began_s = clock.monotonic()
        self._due_s: float | None = None
        self._trouble: Trouble | None = None

    @property
    def waits(self) -> bool:
        """Whether the query is to begin again."""
        return self._due_s is not None

    @property
    def is_due(self) -> bool:
        """Whether it is to begin now."""
        return self._due_s is not None and self._clock.monotonic() >= self._due_s

    @property
    def trouble(self) -> Trouble | None:
        """The error that ended the query, until there is a batch or a sound minute again."""
        if self._due_s is None and self._is_sound:
            self._trouble = None
        return self._trouble

    @property
    def _is_sound(self) -> bool:
        return self._clock.monotonic() - self._began_s >= SOUND_S

    def began(self) -> None:
        """Take note that the query goes on."""
        self._began_s, self._due_s = self._clock.monotonic(), None

    def progressed(self) -> None:
        """Take note of a batch that is in."""
        self._deaths, self._trouble = 0, None

    def ended(self, error: BaseException) -> None:
        """Let the query begin again after a pause.

        What ended it is `trouble` if it stands, or is one death too many.
        """
        cause = death(error)
        if self._due_s is None and self._is_sound:
            self._deaths, self._trouble = 0, None
        if cause is None:
            self._stands(said(self._source, error, self._log_file))
        elif self._deaths == len(PAUSES_S):
            self._stands(
                Unavailable(
                    Code.NOT_AVAILABLE,
                    f"source {self._source}: Spark failed {self._deaths + 1} times"
                    f" without a batch in between, the last time: {cause}; see whether this"
                    " machine has memory and processor time left, and start the run again"
                    f"{see_log(self._log_file)}",
                )
            )
        else:
            self._died(cause)

    def _died(self, cause: str) -> None:
        pause_s = PAUSES_S[self._deaths]
        self._deaths += 1
        self._due_s = self._clock.monotonic() + pause_s
        log.warning(
            "source %s: Spark failed: %s; begins again in %.0f s, try %d of %d",
            self._source,
            cause,
            pause_s,
            self._deaths,
            len(PAUSES_S),
        )

    def _stands(self, error: EnMasseError) -> None:
        before = self._trouble
        tries = 0 if before is None else before.tries + 1
        since = self._clock.now() if before is None else before.since
        self._trouble = Trouble(error, since, tries)
        pause_s = TROUBLE_PAUSES_S[min(tries, len(TROUBLE_PAUSES_S) - 1)]
        self._due_s = self._clock.monotonic() + pause_s
