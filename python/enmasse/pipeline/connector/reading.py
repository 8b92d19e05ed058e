"""Streams as record batches: connections are pooled, and reads continue after a server restart."""

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
"""Idle connections per process and source."""
PAUSE_FIRST_S, PAUSE_MAX_S = 0.1, 2.0
"""Pauses between attempts to reach an unavailable server."""

_idle: dict[tuple[int, str], tuple[object, list[Stream]]] = {}
"""By process and server: the current token, and idle connections."""


def _pool(options: Options) -> tuple[dict[str, Any], list[Stream]]:
    """Return the parameters of a connection, and the idle ones with the current token."""
    parameters = options.stream()
    client = dict(parameters["client"])
    token = client.pop("token", None)
    # a connection does not survive a fork: its thread stays behind
    key = os.getpid(), repr(sorted((parameters | {"client": client}).items(), key=str))
    before, idle = _idle.get(key, (token, []))
    _idle[key] = token, idle if before == token else []
    return parameters, _idle[key][1]


def acquire(options: Options) -> Stream:
    """Return a connection, an idle one if there is one."""
    parameters, idle = _pool(options)
    return idle.pop() if idle else Stream(parameters)


def release(options: Options, stream: Stream) -> None:
    """Return a connection to the pool after its read has ended."""
    _, idle = _pool(options)
    if len(idle) < IDLE_MAX:
        idle.append(stream)


class Retry:
    """Pauses between attempts, up to a time limit without success."""

    def __init__(self, limit_s: float, clock: Clock, pause: Callable[[float], None]) -> None:
        """Give up after `limit_s` without success."""
        self._limit_s = limit_s
        self._clock = clock
        self._wait = pause
        self.renew()

    def renew(self) -> None:
        """Restart the time limit after progress."""
        self._deadline = self._clock.monotonic() + self._limit_s
        self._pause_s = PAUSE_FIRST_S

    def wait(self, error: Unavailable) -> None:
        """Return after a pause, or raise the error at the time limit."""
        if self._clock.monotonic() + self._pause_s > self._deadline:
            raise error
        log.warning("%s; trying again in %.1f s", error, self._pause_s)
        self._wait(self._pause_s)
        self._pause_s = min(self._pause_s * 2, PAUSE_MAX_S)

    def repeat(self, attempt: Callable[[], T]) -> T:
        """Return the result of the first attempt that finds its server available."""
        while True:
            try:
                return attempt()
            except Unavailable as error:
                self.wait(error)


def request(options: Options, query: Callable[[Stream], T], retry: Retry | None = None) -> T:
    """Return the result of a query, repeated while the server is unavailable.

    Raises Unavailable after the time-out, and errors of the server.
    """

    def attempt() -> T:
        stream = acquire(options)
        answer = query(stream)
        release(options, stream)
        return answer

    return (retry or retry_for(options.timeout_s)).repeat(attempt)


def state(options: Options) -> State:
    """Return the current state of the stream."""
    return request(options, lambda stream: State.of(stream.state()))


def space(options: Options) -> str | None:
    """Return the address space: that of the options, else the one that the server announces."""
    return request(options, lambda stream: stream.space())


def offset_at(options: Options, partition: int, time_ms: int) -> int | None:
    """Return the first offset of a partition at or after a time, if there is one."""
    return request(options, lambda stream: stream.offset_at(partition, time_ms))


def message_size(options: Options, part: Slice) -> float:
    """Return the mean size of the messages at the beginning of a slice, in bytes."""

    def measure(stream: Stream) -> float:
        if part.start >= part.end:
            return 0.0
        stream.begin(_wanted(part, part.start, tolerant=True), {"columns": "offset"})
        rows = stream.next_batch()
        return rows.size / len(rows) if rows else 0.0

    return request(options, measure)


def _wanted(part: Slice, start: int, *, tolerant: bool) -> dict[str, object]:
    wanted: dict[str, object] = {
        "partition": part.partition,
        "from": start,
        "to": part.end,
        "uid": part.uid,
    }
    return wanted | {"tolerant": tolerant}


def batches(
    options: Options, part: Slice, retry: Retry | None = None
) -> Iterator[pyarrow.RecordBatch]:
    """Yield the rows of a slice, continuing after a server restart.

    Raises Conflict for messages that are no longer kept, unless losses are only counted.
    """
    retry = retry or retry_for(options.timeout_s)
    position, missing = part.start, 0
    while position < part.end:
        try:
            stream = acquire(options)
            stream.begin(
                _wanted(part, position, tolerant=not options.fail_on_data_loss), options.columns
            )
            while (rows := stream.next_batch()) is not None:
                retry.renew()
                position = rows.next_offset
                yield pyarrow.record_batch(rows)
        except Unavailable as error:
            retry.wait(error)
            continue
        missing += stream.missing()
        release(options, stream)
        break
    if missing:
        what = f"at least {missing} messages of {part.start}..{part.end} are no longer kept"
        log.warning("%s: partition %d: %s", options.address, part.partition, what)


def retry_for(limit_s: float) -> Retry:
    """Return retries for this many seconds without success."""
    return Retry(limit_s, SystemClock(), time.sleep)
