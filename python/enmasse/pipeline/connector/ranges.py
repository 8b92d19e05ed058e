"""Which offsets a batch has, and which task reads which: pure functions of what Spark remembers.

What Spark keeps of a stream in its checkpoint is `{"uid": "..", "0": 17, "1": 5}`: for each
partition the offset of the next message. The same two of them give the same tasks for ever, and
the same tasks the same rows: that is what exactly once stands on.
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
    """What a stream has at some moment. `uid` is None where the server does not say."""

    uid: str | None
    partitions: dict[int, Partition]

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> "State":
        """From the words of the native core."""
        parts = state["partitions"]
        return cls(
            state["uid"],
            {part["partition"]: Partition(part["first"], part["next"]) for part in parts},
        )

    def offsets(self, by_partition: Mapping[int, int]) -> Offsets:
        """What Spark is to remember."""
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
    """The offsets by partition of what Spark remembers."""
    return {int(name): offset for name, offset in offsets.items() if name != "uid"}


def at(partition: int, offsets: Offsets, uid: str | None) -> int:
    """Where a partition goes on. One that is new, or of a stream made anew, begins at 0."""
    if offsets.get("uid") != uid:
        return 0
    return int(offsets.get(str(partition), 0))


def check(start: Offsets, state: State, *, fails_on_loss: bool, what: str = "stream") -> str | None:
    """Compare what was read with what is kept. Return what went unread, in words.

    Raises Conflict where that is an error: messages are no longer kept, the stream was made anew,
    or it ends before what was read of it.
    """
    mend = "set failOnDataLoss=false to go on, or begin with a new checkpoint"
    if start.get("uid") != state.uid:
        said = f"the {what} was made anew: its uid was {start.get('uid')} and is {state.uid}"
        if fails_on_loss:
            raise Conflict("E4000", f"{said}; {mend}")
        gone = sum(part.first for part in state.partitions.values())
        return (
            f"{said}: what was not read of the old one is lost, and nobody knows how many messages"
            f" that is; {gone} of the new one are no longer kept"
        )
    missing = 0
    for number, offset in numbers(start).items():
        part = state.partitions.get(number)
        if part is None or part.next < offset:
            end = f"ends before offset {part.next}" if part else "is gone"
            raise Conflict(
                "E4000",
                f"partition {number} {end}, and was read to {offset}; begin with a new checkpoint",
            )
        missing += max(0, part.first - offset)
    if not missing:
        return None
    said = f"{missing} messages of the {what} that were not read yet are no longer kept: {start}"
    if fails_on_loss:
        raise Conflict("E4000", f"{said}; {mend}")
    return said


def backlog(start: Offsets, state: State) -> dict[int, Partition]:
    """What waits in each partition: from what was read, or is kept, to its end."""
    return {
        number: Partition(max(part.first, at(number, start, state.uid)), part.next)
        for number, part in state.partitions.items()
    }


def limited(start: Offsets, state: State, rows_max: int | None) -> Offsets:
    """The end of a batch of at most so many messages, None: all there are.

    Each partition gives by its share of what waits; what small ones leave goes to the large. One in
    which something waits gives a message at least, though the batch is larger then: whoever knows
    what came in a batch knows how far all partitions are.
    """
    parts = backlog(start, state)
    waiting = {number: part.next - part.first for number, part in parts.items()}
    least = sum(1 for count in waiting.values() if count)
    left = sum(waiting.values()) if rows_max is None else max(rows_max, least)
    # smallest backlog first: what it cannot use is spread over those that follow
    ends = {}
    total = sum(waiting.values())
    for number in sorted(waiting, key=lambda number: (waiting[number], number)):
        share = -(-left * waiting[number] // total) if total else 0
        taken = min(waiting[number], share, left)
        ends[number] = parts[number].first + taken
        left -= taken
        total -= waiting[number]
    return state.offsets(ends)


def spread(start: Offsets, end: Offsets, count: int) -> list[Slice]:
    """A batch in about so many parts of equal length: one at least of each partition that is in
    it, at most `TASKS_MAX` or as many as there are partitions."""
    uid = end.get("uid")
    total = sum(stop - at(number, start, uid) for number, stop in numbers(end).items())
    return slices(start, end, max(1, -(-total // count)))


def slices(start: Offsets, end: Offsets, task_rows: int) -> list[Slice]:
    """The tasks of a batch, none without messages."""
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
