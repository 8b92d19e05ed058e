"""The files of gold that a change reads and writes: pure functions of the log.

A file has the windows of one start, or of several adjacent starts. So a change reads and writes
only the files of its own starts, regardless of the size of the table.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

FILE_ROWS = 32_768
"""Approximate windows per file; with sketches that is 16 to 32 MB."""
SHARED_ROWS = FILE_ROWS // 32
"""New starts share a file up to this many windows."""


@dataclass(frozen=True)
class File:
    """A file of one window length and one day. Its windows start from `first` to `last`."""

    path: str
    size: int
    rows: int
    first: int
    last: int


@dataclass
class Group:
    """Files that are replaced, and starts whose windows are added to theirs."""

    files: list[File] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    rows: int = 0

    @property
    def first(self) -> int:
        """The first start of its windows."""
        return min([*self.starts, *(file.first for file in self.files)])

    @property
    def last(self) -> int:
        """The last start of its windows."""
        return max([*self.starts, *(file.last for file in self.files)])

    @property
    def tasks(self) -> int:
        """The number of files to write, each by a task."""
        return -(-self.rows // FILE_ROWS)


def groups(rows_of: Mapping[int, int], files: Sequence[File]) -> list[Group]:
    """Return the changes of a folder for new windows, given as their number by start."""
    starts = sorted(rows_of)
    old = overlapping(covering(files, starts, 1))
    new: list[Group] = []
    left, is_open = deque(old), False
    for start in starts:
        while left and left[0].last < start:
            left.popleft()
            # a file of new starts must not span an existing one
            is_open = False
        if left and left[0].first <= start:
            group = left[0]
        else:
            if not is_open or new[-1].rows >= SHARED_ROWS:
                new.append(Group())
                is_open = True
            group = new[-1]
        group.starts.append(start)
        group.rows += rows_of[start]
    return [*old, *new]


def overlapping(files: Iterable[File]) -> list[Group]:
    """Return files in order of their starts, grouped by overlap."""
    found: list[Group] = []
    for file in sorted(files, key=lambda one: one.first):
        if not found or file.first > found[-1].last:
            found.append(Group())
        found[-1].files.append(file)
        found[-1].rows += file.rows
    return found


def compactable(files: Iterable[File]) -> list[Group]:
    """Return groups of two or more adjacent files that fit into fewer."""
    found: list[Group] = []
    for group in overlapping(files):
        if found and found[-1].rows + group.rows <= FILE_ROWS:
            found[-1].files += group.files
            found[-1].rows += group.rows
        else:
            found.append(group)
    return [group for group in found if len(group.files) > max(1, group.tasks)]


def covering(files: Iterable[File], starts: Sequence[int], length: int) -> list[File]:
    """Return the files that may have windows within longer ones of a length and these starts."""
    found = []
    for file in files:
        index = bisect_left(starts, file.first - file.first % length)
        if index < len(starts) and starts[index] <= file.last:
            found.append(file)
    return found
