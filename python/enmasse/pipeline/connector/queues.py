"""Queues and subscriptions as sources of Spark: the driver spools messages, tasks read the spool.

Messages are settled once they are on disk in the spool, so none is lost. A redelivered message,
whose settlement was lost, is recognized by its identity and skipped. The spool defines offsets.
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
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from enmasse.base.clock import Clock, SystemClock
from enmasse.base.errors import Conflict, EnMasseError, Unavailable
from enmasse.native import Intake, Segment, Spooled
from enmasse.pipeline.connector import ranges
from enmasse.pipeline.connector.options import Options
from enmasse.pipeline.connector.ranges import Offsets, Partition, State
from enmasse.pipeline.connector.reading import Retry, retry_for
from enmasse.pipeline.connector.spool import Queue, Spool

log = logging.getLogger("enmasse.pipeline")

SEGMENT_ROWS = 32_768
"""Approximate messages per file of the spool."""
SEGMENT_BYTES = 16 << 20
"""Bytes of messages per file, excluding its last message."""
NS_PER_MS = 1_000_000
DEPTH_EVERY_S = 1.0
"""Maximum age of the queue depth in the reported lag."""


@dataclass(frozen=True)
class FileRange:
    """The range of one task: offsets `start` to `end` (exclusive), in these files."""

    paths: tuple[str, ...]
    start: int
    end: int
    space: str | None = None
    """The address space of the messages."""


class Filler:
    """Moves messages from a queue to its spool, in the planner of a query."""

    def __init__(self, options: Options, spool: Spool, retry: Retry | None = None) -> None:
        """Load the spool; connect to nothing yet. Raises Conflict for damaged files."""
        self.spool = spool
        self._options = options
        self._retry = retry or retry_for(options.timeout_s)
        self._intake = Intake(options.stream(), spool.uid)
        spool.load(self._intake.know)
        self._bound: int | None = None
        self._ended = False
        self._closing = False
        self._anonymous = False
        self._doubtful = 0

    def bound(self) -> None:
        """Read the current messages only, if the server reports their number."""
        self._closing = True
        self._retry.renew()
        depth = self._retry.repeat(self._intake.depth)
        self._bound = None if depth is None else self.spool.next + depth

    def fill(self, start: int, rows: int, size: int) -> int:
        """Spool messages from `start` up to these limits, or until the queue is empty.

        Returns the end of a batch within the limits: `start` if there are no messages. Waits for an
        unavailable server unless the spool has messages.
        """
        spool = self.spool
        if self._bound is not None:
            rows = max(0, min(rows, self._bound - start))
        self._retry.renew()
        while not self._ended and spool.next - start < rows and spool.size(start) < size:
            room = min(size - spool.size(start), SEGMENT_BYTES)
            wanted = min(rows - (spool.next - start), SEGMENT_ROWS)
            try:
                segment = self._intake.pull(spool.next, wanted, room)
            except Unavailable as error:
                if spool.next > start:
                    log.warning("%s; continuing with the messages in the spool", error)
                    break
                self._retry.wait(error)
                continue
            self._retry.renew()
            self._store(segment)
            if not segment.more:
                self._ended = self._closing
                break
        return spool.end(start, rows, size)

    def depth(self) -> int | None:
        """Return the number of messages in the queue, None if that is unknown."""
        try:
            return self._intake.depth()
        except EnMasseError as error:
            log.warning("%s: the queue depth is unknown: %s", self._options.address, error)
            return None

    def commit(self, end: int) -> None:
        """Delete the messages before `end`, and keep the identities of the last of them."""
        window = self._options.id_window
        self.spool.commit(end, window)
        # messages in the spool, and the window before them
        self._intake.keep(self.spool.next - self.spool.committed + window)

    def close(self) -> None:
        """Close the connection and release the spool."""
        self._intake.close()
        self.spool.release()

    def _store(self, segment: Segment) -> None:
        """Store messages in the spool, then settle them."""
        if segment.rows:
            try:
                if self._options.space is None:
                    self.spool.announce(self._intake.space())
                self.spool.add(segment.rows, segment.data, segment.ids)
            except BaseException:
                self._intake.settle(accepted=False)
                raise
        self._intake.settle(accepted=True)
        name = self._options.address
        if segment.repeated:
            log.warning("%s: skipped %d redelivered messages", name, segment.repeated)
        if segment.anonymous and not self._anonymous:
            self._anonymous = True
            log.warning("%s: messages without a message-id may be duplicated after a crash", name)
        if segment.doubtful:
            self._doubtful += segment.doubtful
            log.warning(
                "%s: %d redelivered messages without a message-id may be duplicates, "
                "%d since the start",
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
        self._depth_read_s = float("-inf")

    def initialOffset(self) -> Offsets:
        """Return the start of a query without a checkpoint."""
        return self._offsets(self._open().spool.begin())

    def prepareForTriggerAvailableNow(self) -> None:
        """Read the current messages only."""
        self._open().bound()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit of one batch."""
        return ReadMaxRows(self._options.max_rows_per_trigger)

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:
        """Spool messages; return the end of the next batch."""
        filler, options = self._open(), self._options
        begin = self._checked(start)
        rows = getattr(limit, "max_rows", options.max_rows_per_trigger)
        size = getattr(limit, "max_bytes", options.max_bytes_per_trigger)
        if size is None or isinstance(limit, ReadAllAvailable):
            size = options.spool_bytes
        end = filler.fill(begin, rows, min(size, options.spool_bytes))
        return self._offsets(end) if end > begin else start

    def reportLatestOffset(self) -> Offsets | None:
        """Return the end of all messages, from which Spark computes the lag."""
        filler, now = self._filler, self._clock.monotonic()
        if filler is None:
            return None
        if now - self._depth_read_s >= DEPTH_EVERY_S:
            self._depth, self._depth_read_s = filler.depth(), now
        return None if self._depth is None else self._offsets(filler.spool.next + self._depth)

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[InputPartition]:
        """Return the tasks of a batch: the same for the same offsets until it is committed."""
        spool = self._open().spool
        if end.get("uid") != spool.uid:
            self._check_uid(end)
            return []
        found = []
        space = self._options.space or spool.announced_space
        for part in ranges.slices(start, end, self._options.rows_per_task):
            paths = [str(file.path) for file in spool.parts(part.start, part.end)]
            found.append(InputPartition(FileRange(tuple(paths), part.start, part.end, space)))
        return found

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Yield the rows of a task."""
        return rows_of(self._options, partition.value) if partition.value else iter(())

    def commit(self, end: Offsets) -> None:
        """Delete the files of messages that are in the sink."""
        if end.get("uid") == self._open().spool.uid:
            self._open().commit(int(end["0"]))

    def stop(self) -> None:
        """Close the connection and release the spool."""
        if self._filler:
            self._filler.close()
            self._filler = None

    def _open(self) -> Filler:
        if self._filler is None:
            options = self._options
            assert options.spool is not None
            of = Queue(options.address, options.space, options.servers)
            spool = Spool(Path(options.spool), of, fails_on_loss=options.fail_on_data_loss)
            try:
                self._filler = Filler(options, spool)
            except BaseException:
                spool.release()
                raise
        return self._filler

    def _offsets(self, offset: int) -> Offsets:
        return {"uid": self._open().spool.uid, "0": offset}

    def _checked(self, start: Offsets) -> int:
        """The offset in the spool after a checkpoint."""
        spool, options = self._open().spool, self._options
        state = State(spool.uid, {0: Partition(spool.first, spool.next)})
        lost = ranges.check(start, state, fails_on_loss=options.fail_on_data_loss, what="spool")
        if lost:
            log.warning("%s: %s", options.address, lost)
        return ranges.backlog(start, state)[0].first

    def _check_uid(self, end: Offsets) -> None:
        text = (
            f"{self._options.spool}: the checkpoint belongs to another spool, with uid "
            f"{end.get('uid')}, whose messages are not read"
        )
        if self._options.fail_on_data_loss:
            raise Conflict(
                "E4000", f"{text}; name that spool, or set failOnDataLoss=false to continue without"
            )
        log.warning("%s", text)


def rows_of(options: Options, files: FileRange) -> Iterator[pyarrow.RecordBatch]:
    """Yield the rows of a range. Raises Conflict for a damaged or missing file."""
    wanted: dict[str, Any] = {"address": options.address, "space": files.space}
    wanted |= {"from": files.start, "to": files.end, "columns": options.columns}
    for path in files.paths:
        try:
            spooled_ms = os.stat(path).st_mtime_ns // NS_PER_MS
            file = Spooled(Path(path).read_bytes(), wanted | {"takenMs": spooled_ms})
        except (OSError, Conflict) as error:
            if options.fail_on_data_loss:
                raise Conflict(
                    "E4000",
                    f"{path}: {error}; executors and driver have to share the folder, or set "
                    "failOnDataLoss=false to continue without its messages",
                ) from error
            log.warning("%s: %s; skipped its messages", path, error)
            continue
        while (rows := file.next_batch()) is not None:
            yield pyarrow.record_batch(rows)
