"""A bound on what is written in a second."""

from collections import Counter

from enmasse.base.clock import Clock


class Bounded:
    """How many records of one kind are written in a second; of the others only how many."""

    def __init__(self, clock: Clock, a_second: int) -> None:
        self._clock = clock
        self._a_second = a_second
        self._second = -1
        self._counts: Counter[str] = Counter()
        self._unwritten = 0

    def may_write(self, of: str = "") -> bool:
        """Whether one more is written; one that is not is counted.

        `of` tells apart what has a bound of its own; it is forgotten with the second.
        """
        second = int(self._clock.monotonic())
        if second != self._second:
            self._second = second
            self._counts.clear()
        self._counts[of] += 1
        if self._counts[of] > self._a_second:
            self._unwritten += 1
            return False
        return True

    def unwritten(self) -> int | None:
        """Return how many were not written since this was asked last; None: all were."""
        count, self._unwritten = self._unwritten, 0
        return count or None
