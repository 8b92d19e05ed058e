"""The offsets of batches and of their tasks: pure functions of Spark's checkpoint.

The checkpoint of a stream is `{"uid": "..", "0": 17, "1": 5}`: for each partition the offset of the
next message. The same two checkpoints always give the same tasks, and the same tasks the same rows.
Exactly once depends on that.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from enmasse.base.errors import Conflict
from enmasse.pipeline.connector.options import TASKS_MAX

Offsets = dict[str, Any]


@dataclass(frozen=True)
class Partition:
    """Messages `first` to `next`, exclusive, are kept."""

    first: int
    next: int


@dataclass(frozen=True)
class State:
    """The state of a stream at one moment. `uid` is None if the server reports none."""

    uid: str | None
    partitions: dict[int, Partition]

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> "State":
        """Convert the state of the native core."""
        parts = {
            one["partition"]: Partition(one["first"], one["next"]) for one in state["partitions"]
        }
        return cls(state["uid"], parts)

    @property
    def firsts(self) -> dict[int, int]:
        """The first offset of each partition that is kept."""
        return {number: part.first for number, part in self.partitions.items()}

    @property
    def nexts(self) -> dict[int, int]:
        """The end of each partition."""
        return {number: part.next for number, part in self.partitions.items()}

    def offsets(self, by_partition: Mapping[int, int]) -> Offsets:
        """Return offsets for Spark's checkpoint."""
        offsets: Offsets = {} if self.uid is None else {"uid": self.uid}
        return offsets | {str(number): by_partition[number] for number in sorted(by_partition)}


@dataclass(frozen=True)
class Slice:
    """A part of one partition's offsets, for one task: `start` to `end`, exclusive."""

    partition: int
    start: int
    end: int
    uid: str | None


def numbers(offsets: Offsets) -> dict[int, int]:
    """Return the offsets by partition of a checkpoint."""
    return {int(name): offset for name, offset in offsets.items() if name != "uid"}


def at(partition: int, offsets: Offsets, uid: str | None) -> int:
    """Return the next offset of a partition: 0 if it, or the stream, is another one."""
    if offsets.get("uid") != uid:
        return 0
    return int(offsets.get(str(partition), 0))


def check(start: Offsets, state: State, *, fails_on_loss: bool, what: str = "stream") -> str | None:
    """Compare a checkpoint with the stream. Return a description of lost messages, or None.

    Raises Conflict if losses are errors and messages have expired or the stream was created again,
    and always if the stream ends before the checkpoint.
    """
    remedy = "set failOnDataLoss=false to continue, or use a new checkpoint"
    if start.get("uid") != state.uid:
        text = f"the {what} was created again: its uid was {start.get('uid')} and is {state.uid}"
        if fails_on_loss:
            raise Conflict("E4000", f"{text}; {remedy}")
        gone = sum(state.firsts.values())
        return (
            f"{text}: an unknown number of unread messages of the old one is lost; {gone} messages"
            " of the new one are no longer kept"
        )
    missing = 0
    for number, offset in numbers(start).items():
        part = state.partitions.get(number)
        if part is None or part.next < offset:
            end = f"ends before offset {part.next}" if part else "is gone"
            raise Conflict(
                "E4000",
                f"partition {number} {end}, and was read to {offset}; use a new checkpoint",
            )
        missing += max(0, part.first - offset)
    if not missing:
        return None
    text = f"{missing} unread messages of the {what} are no longer kept: {start}"
    if fails_on_loss:
        raise Conflict("E4000", f"{text}; {remedy}")
    return text


def backlog(start: Offsets, state: State) -> dict[int, Partition]:
    """Return the unread messages of each partition that are still kept."""
    return {
        number: Partition(max(part.first, at(number, start, state.uid)), part.next)
        for number, part in state.partitions.items()
    }


def limited(start: Offsets, state: State, rows_max: int | None) -> Offsets:
    """Return the end of a batch of at most `rows_max` messages, None: of all.

    Each partition contributes in proportion to its backlog; small ones leave their remainder to the
    large. A partition with a backlog contributes at least one message, even if the batch becomes
    larger: the batch then shows the progress of all partitions.
    """
    parts = backlog(start, state)
    unread = {number: part.next - part.first for number, part in parts.items()}
    least = sum(1 for count in unread.values() if count)
    left = sum(unread.values()) if rows_max is None else max(rows_max, least)
    # smallest backlog first: the others share the remainder
    ends = {}
    total = sum(unread.values())
    for number in sorted(unread, key=lambda number: (unread[number], number)):
        share = -(-left * unread[number] // total) if total else 0
        count = min(unread[number], share, left)
        ends[number] = parts[number].first + count
        left -= count
        total -= unread[number]
    return state.offsets(ends)


def spread(start: Offsets, end: Offsets, count: int) -> list[Slice]:
    """Split a batch into about `count` slices of equal length: at least one for each partition, at
    most `TASKS_MAX` or the number of partitions.
    """
    uid = end.get("uid")
    total = sum(stop - at(number, start, uid) for number, stop in numbers(end).items())
    return slices(start, end, max(1, -(-total // count)))


def slices(start: Offsets, end: Offsets, task_rows: int) -> list[Slice]:
    """Return the slices that the tasks of a batch read; none is empty."""
    uid = end.get("uid")
    spans = {
        number: (at(number, start, uid), stop)
        for number, stop in numbers(end).items()
        if stop > at(number, start, uid)
    }
    total = sum(stop - begin for begin, stop in spans.values())
    rows = max(task_rows, -(-total // max(1, TASKS_MAX - len(spans))))
    tasks = []
    for number, (begin, stop) in sorted(spans.items()):
        count = -(-(stop - begin) // rows)
        marks = [begin + (stop - begin) * index // count for index in range(count + 1)]
        tasks += [Slice(number, marks[index], marks[index + 1], uid) for index in range(count)]
    return tasks
