"""Which files of gold a change touches, and which files it writes: pure functions of the log.

The windows of a start, or of several starts that follow each other, lie in files of their own. So
a change reads and writes the files of its own starts, whatever else the table holds.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

FILE_ROWS = 32_768
"""Windows of a file, about; with sketches that is 16 to 32 MB."""
JOINED_ROWS = FILE_ROWS // 32
"""New starts share a file until it has so many windows."""


@dataclass(frozen=True)
class File:
    """A file of one length of windows and one day. All its windows start from `first` to `last`."""

    path: str
    size: int
    rows: int
    first: int
    last: int


@dataclass
class Group:
    """Files that are replaced, and starts whose windows go where theirs go."""

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
        """Files that are written, each by a task."""
        return -(-self.rows // FILE_ROWS)


def groups(rows_of: Mapping[int, int], files: Sequence[File]) -> list[Group]:
    """Return what changes of a folder when windows of these starts come, so many of each."""
    starts = sorted(rows_of)
    old = joined(within(files, starts, 1))
    new: list[Group] = []
    home, is_open = 0, False
    for start in starts:
        while home < len(old) and old[home].last < start:
            home += 1
            # a file of new starts does not reach across one that is there
            is_open = False
        if home < len(old) and old[home].first <= start:
            group = old[home]
        else:
            if not is_open or new[-1].rows >= JOINED_ROWS:
                new.append(Group())
                is_open = True
            group = new[-1]
        group.starts.append(start)
        group.rows += rows_of[start]
    return [*old, *new]


def joined(files: Iterable[File]) -> list[Group]:
    """Return files in the order of their starts, those together that share some."""
    found: list[Group] = []
    for file in sorted(files, key=lambda one: one.first):
        if not found or file.first > found[-1].last:
            found.append(Group())
        found[-1].files.append(file)
        found[-1].rows += file.rows
    return found


def small(files: Iterable[File]) -> list[Group]:
    """Return files that would be one file together: neighbours, two or more of them."""
    found: list[Group] = []
    for group in joined(files):
        if found and found[-1].rows + group.rows <= FILE_ROWS:
            found[-1].files += group.files
            found[-1].rows += group.rows
        else:
            found.append(group)
    return [group for group in found if len(group.files) > max(1, group.tasks)]


def within(files: Iterable[File], starts: Sequence[int], length: int) -> list[File]:
    """Return the files that may hold windows within longer ones of a length, which begin at these
    times."""
    found = []
    for file in files:
        place = bisect_left(starts, file.first - file.first % length)
        if place < len(starts) and starts[place] <= file.last:
            found.append(file)
    return found
