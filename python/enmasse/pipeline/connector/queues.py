"""Queues and subscriptions as Spark calls them: taken into a spool on the driver, read from it.

Messages are settled when they are on disk in the spool, so none is lost; one that comes again,
because its settlement was, is known by its identity and left out. Offsets are those of the spool.
"""

import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from enmasse.base.clock import Clock, SystemClock
from enmasse.base.errors import Conflict, EnMasseError, Unavailable
from enmasse.native import Intake, Segment, Spooled
from enmasse.pipeline.connector import ranges
from enmasse.pipeline.connector.options import Options
from enmasse.pipeline.connector.ranges import Offsets, Partition, State
from enmasse.pipeline.connector.reading import Patience, patience
from enmasse.pipeline.connector.spool import Queue, Spool

log = logging.getLogger("enmasse.pipeline")

SEGMENT_ROWS = 32_768
"""Messages of one file of the spool, about."""
SEGMENT_BYTES = 16 << 20
"""Bytes of messages of one file, but for its last message."""
NS_A_MS = 1_000_000
DEPTH_EVERY_S = 1.0
"""How old the figure may be by which the lag is told."""


@dataclass(frozen=True)
class Cut:
    """What one task reads: offsets `start` to `end` (exclusive), which lie in these files."""

    paths: tuple[str, ...]
    start: int
    end: int


class Task(InputPartition):
    """What one task reads."""

    def __init__(self, cut: Cut) -> None:
        """Read this cut."""
        super().__init__(cut)


class Filler:
    """Takes messages from a queue into its spool. One lives in the planner of a query."""

    def __init__(self, options: Options, spool: Spool, waits: Patience | None = None) -> None:
        """Look at what the spool has; connect to nothing yet. Raises Conflict for torn files."""
        self.spool = spool
        self._options = options
        self._waits = waits or patience(options.timeout_s)
        self._intake = Intake(options.stream(), spool.uid)
        spool.load(self._intake.know)
        self._bound: int | None = None
        self._ended = False
        self._closing = False
        self._anonymous = False
        self._doubtful = 0

    def bound(self) -> None:
        """Take what waits now, and nothing that comes later, where the server says how much."""
        self._closing = True
        self._waits.renew()
        while True:
            try:
                depth = self._intake.depth()
            except Unavailable as error:
                self._waits.wait(error)
                continue
            self._bound = None if depth is None else self.spool.next + depth
            return

    def fill(self, start: int, rows: int, size: int) -> int:
        """Take messages until as many wait from `start` on, or the queue has no more.

        Returns where a batch of at most so many messages and bytes ends: at `start` if there is
        none. A server that is away is waited for, unless there is something without it.
        """
        spool = self.spool
        if self._bound is not None:
            rows = max(0, min(rows, self._bound - start))
        self._waits.renew()
        while not self._ended and spool.next - start < rows and spool.size(start) < size:
            room = min(size - spool.size(start), SEGMENT_BYTES)
            wanted = min(rows - (spool.next - start), SEGMENT_ROWS)
            try:
                segment = self._intake.pull(spool.next, wanted, room)
            except Unavailable as error:
                if spool.next > start:
                    log.warning("%s; going on with what is in the spool", error)
                    break
                self._waits.wait(error)
                continue
            self._waits.renew()
            self._keep(segment)
            if not segment.more:
                self._ended = self._closing
                break
        return spool.end(start, rows, size)

    def depth(self) -> int | None:
        """Return how many messages wait in the queue, None where that is not to be had."""
        try:
            return self._intake.depth()
        except EnMasseError as error:
            log.warning("%s: how much waits is not known: %s", self._options.address, error)
            return None

    def commit(self, end: int) -> None:
        """Forget the messages before `end`, but for the identities of the last of them."""
        window = self._options.id_window
        self.spool.commit(end, window)
        # those that are still there, and the window before them
        self._intake.keep(self.spool.next - self.spool.committed + window)

    def close(self) -> None:
        """End the connection, and let another process have the spool."""
        self._intake.close()
        self.spool.release()

    def _keep(self, segment: Segment) -> None:
        """Keep messages in the spool, then tell the server that they are ours."""
        if segment.rows:
            try:
                self.spool.add(segment.rows, segment.data, segment.ids)
            except BaseException:
                self._intake.settle(accepted=False)
                raise
        self._intake.settle(accepted=True)
        name = self._options.address
        if segment.repeated:
            log.warning("%s: %d messages came again and are left out", name, segment.repeated)
        if segment.anonymous and not self._anonymous:
            self._anonymous = True
            log.warning(
                "%s: there are messages without a message-id: after a crash they may come twice",
                name,
            )
        if segment.doubtful:
            self._doubtful += segment.doubtful
            log.warning(
                "%s: %d messages without a message-id were handed out before and may be here "
                "twice, %d since the start",
                name,
                segment.doubtful,
                self._doubtful,
            )


class QueueReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming query on a queue. Its planner lives as long as the query."""

    def __init__(self, options: Options, clock: Clock | None = None) -> None:
        """Connect to nothing and open no file yet."""
        self._options = options
        self._clock = clock or SystemClock()
        self._filler: Filler | None = None
        self._depth: int | None = None
        self._asked_s = float("-inf")

    def initialOffset(self) -> Offsets:
        """Return where a query without a checkpoint begins."""
        return self._offsets(self._open().spool.begin())

    def prepareForTriggerAvailableNow(self) -> None:
        """Read what waits now, and no further."""
        self._open().bound()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the most of one batch."""
        return ReadMaxRows(self._options.rows_max)

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:
        """Take what waits into the spool; return the end of the next batch."""
        filler, options = self._open(), self._options
        begin = self._checked(start)
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else options.rows_max
        asked = limit.max_bytes if isinstance(limit, ReadMaxBytes) else options.bytes_max
        size = options.spool_bytes if asked is None else min(asked, options.spool_bytes)
        if isinstance(limit, ReadAllAvailable):
            rows, size = options.rows_max, options.spool_bytes
        end = filler.fill(begin, rows, size)
        return self._offsets(end) if end > begin else start

    def reportLatestOffset(self) -> Offsets | None:
        """Return where all that waits would end, by which Spark tells the lag."""
        filler, now = self._filler, self._clock.monotonic()
        if filler is None:
            return None
        if now - self._asked_s >= DEPTH_EVERY_S:
            self._depth, self._asked_s = filler.depth(), now
        return None if self._depth is None else self._offsets(filler.spool.next + self._depth)

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[InputPartition]:
        """Return the tasks of a batch: the same for the same two places, until it is committed."""
        spool = self._open().spool
        if end.get("uid") != spool.uid:
            self._another(end)
            return []
        found = []
        for part in ranges.slices(start, end, self._options.task_rows):
            paths = [str(file.path) for file in spool.parts(part.start, part.end)]
            found.append(Task(Cut(tuple(paths), part.start, part.end)))
        return found

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Yield the rows of a task."""
        return rows_of(self._options, partition.value) if partition.value else iter(())

    def commit(self, end: Offsets) -> None:
        """Remove the files of messages that are in the sink."""
        if end.get("uid") == self._open().spool.uid:
            self._open().commit(int(end["0"]))

    def stop(self) -> None:
        """End the connection, and let another query have the spool."""
        if self._filler:
            self._filler.close()
            self._filler = None

    def _open(self) -> Filler:
        if self._filler is None:
            options = self._options
            assert options.spool is not None
            of = Queue(options.address, options.space, options.servers)
            spool = Spool(Path(options.spool), of, fails_on_loss=options.fails_on_loss)
            try:
                self._filler = Filler(options, spool)
            except BaseException:
                spool.release()
                raise
        return self._filler

    def _offsets(self, offset: int) -> Offsets:
        return {"uid": self._open().spool.uid, "0": offset}

    def _checked(self, start: Offsets) -> int:
        """Where the spool goes on after what a checkpoint says."""
        spool, options = self._open().spool, self._options
        state = State(spool.uid, {0: Partition(spool.first, spool.next)})
        lost = ranges.check(start, state, fails_on_loss=options.fails_on_loss, what="spool")
        if lost:
            log.warning("%s: %s", options.address, lost)
        return ranges.backlog(start, state)[0].first

    def _another(self, end: Offsets) -> None:
        said = (
            f"{self._options.spool}: the spool is another than that of the checkpoint, whose uid "
            f"was {end.get('uid')}: what was in it is not read"
        )
        if self._options.fails_on_loss:
            raise Conflict(
                "E4000", f"{said}; name that one, or set failOnDataLoss=false to go on without"
            )
        log.warning("%s", said)


def rows_of(options: Options, cut: Cut) -> Iterator[pyarrow.RecordBatch]:
    """Yield the rows of a cut. Raises Conflict for a file that is torn or not there."""
    wanted: dict[str, Any] = {
        "address": options.address,
        "space": options.space,
        "from": cut.start,
        "to": cut.end,
        "columns": options.columns,
    }
    for path in cut.paths:
        try:
            taken_ms = os.stat(path).st_mtime_ns // NS_A_MS
            file = Spooled(Path(path).read_bytes(), wanted | {"takenMs": taken_ms})
        except (OSError, Conflict) as error:
            if options.fails_on_loss:
                raise Conflict(
                    "E4000",
                    f"{path}: {error}; executors and driver have to share the folder, or set "
                    "failOnDataLoss=false to go on without its messages",
                ) from error
            log.warning("%s: %s; its messages are left out", path, error)
            continue
        while (rows := file.next_batch()) is not None:
            yield pyarrow.record_batch(rows)
