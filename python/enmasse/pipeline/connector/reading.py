"""Streams as record batches: connections are kept between reads, reads survive a restart."""

import logging
import os
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pyarrow

from enmasse.base.clock import Clock, SystemClock
from enmasse.base.errors import Unavailable
from enmasse.native import Stream
from enmasse.pipeline.connector.options import Options
from enmasse.pipeline.connector.ranges import Slice, State

log = logging.getLogger("enmasse.pipeline")

T = TypeVar("T")
IDLE_MAX = 4
"""Connections that a process keeps for each source: more than tasks run at a time are closed."""
PAUSE_FIRST_S, PAUSE_MAX_S = 0.1, 2.0
"""Between attempts to reach a server that is away."""

_idle: dict[tuple[int, str], tuple[object, list[Stream]]] = {}
"""By process and server: the token of now, and connections."""


def _kept(options: Options) -> tuple[dict[str, Any], list[Stream]]:
    """Return what a connection is made from, and those that are kept: with another token, none."""
    asked = options.stream()
    client = dict(asked["client"])
    token = client.pop("token", None)
    # a connection does not survive a fork: its thread stays behind
    key = os.getpid(), repr(sorted((asked | {"client": client}).items(), key=str))
    before, idle = _idle.get(key, (token, []))
    _idle[key] = token, idle if before == token else []
    return asked, _idle[key][1]


def take(options: Options) -> Stream:
    """Return a connection, one of those that are kept where there is one."""
    asked, idle = _kept(options)
    return idle.pop() if idle else Stream(asked)


def keep(options: Options, stream: Stream) -> None:
    """Keep a connection whose last read came to its end, for the next one."""
    _, idle = _kept(options)
    if len(idle) < IDLE_MAX:
        idle.append(stream)


class Patience:
    """Waits for a server that is away, until it has been away for too long."""

    def __init__(self, limit_s: float, clock: Clock, pause: Callable[[float], None]) -> None:
        """Give up after `limit_s` without success."""
        self._limit_s = limit_s
        self._clock = clock
        self._wait = pause
        self.renew()

    def renew(self) -> None:
        """Count anew: there was progress."""
        self._deadline = self._clock.monotonic() + self._limit_s
        self._pause_s = PAUSE_FIRST_S

    def wait(self, error: Unavailable) -> None:
        """Return after a pause, or raise what went wrong."""
        if self._clock.monotonic() + self._pause_s > self._deadline:
            raise error
        log.warning("%s; trying again in %.1f s", error, self._pause_s)
        self._wait(self._pause_s)
        self._pause_s = min(self._pause_s * 2, PAUSE_MAX_S)


def asked(options: Options, question: Callable[[Stream], T], waits: Patience | None = None) -> T:
    """Return the answer of a server, asked again while it is away.

    Raises Unavailable after the time-out, and what the server says.
    """
    waits = waits or patience(options.timeout_s)
    while True:
        try:
            stream = take(options)
            answer = question(stream)
        except Unavailable as error:
            waits.wait(error)
            continue
        keep(options, stream)
        return answer


def state(options: Options) -> State:
    """Return what the stream has now."""
    return asked(options, lambda stream: State.of(stream.state()))


def offset_at(options: Options, partition: int, time_ms: int) -> int | None:
    """Return the first offset of a partition from a time on, if there is one."""
    return asked(options, lambda stream: stream.offset_at(partition, time_ms))


def message_size(options: Options, part: Slice) -> float:
    """Return the mean size of the messages at the beginning of a slice, in bytes."""

    def measure(stream: Stream) -> float:
        if part.start >= part.end:
            return 0.0
        stream.begin(_wanted(part, part.start, tolerant=True), {"columns": "offset"})
        rows = stream.next_batch()
        return rows.size / len(rows) if rows else 0.0

    return asked(options, measure)


def _wanted(part: Slice, start: int, *, tolerant: bool) -> dict[str, object]:
    return {
        "partition": part.partition,
        "from": start,
        "to": part.end,
        "uid": part.uid,
        "tolerant": tolerant,
    }


def batches(
    options: Options, part: Slice, waits: Patience | None = None
) -> Iterator[pyarrow.RecordBatch]:
    """Yield the rows of a slice, going on where it was when a server comes back.

    Raises Conflict for messages that are no longer kept, unless that is only counted.
    """
    waits = waits or patience(options.timeout_s)
    position, missing = part.start, 0
    while position < part.end:
        try:
            stream = take(options)
            stream.begin(
                _wanted(part, position, tolerant=not options.fails_on_loss), options.columns
            )
            while (rows := stream.next_batch()) is not None:
                waits.renew()
                position = rows.next_offset
                yield pyarrow.record_batch(rows)
        except Unavailable as error:
            waits.wait(error)
            continue
        missing += stream.missing()
        keep(options, stream)
        break
    if missing:
        log.warning(
            "%s: partition %d: at least %d messages of %d..%d are no longer kept",
            options.address,
            part.partition,
            missing,
            part.start,
            part.end,
        )


def patience(limit_s: float) -> Patience:
    """Return patience with a server for so many seconds."""
    return Patience(limit_s, SystemClock(), time.sleep)
