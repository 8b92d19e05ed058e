"""A rate limit for records."""

from collections import Counter

from enmasse.base.clock import Clock


class Bounded:
    """Limits the records of one kind per second, and counts the suppressed ones."""

    def __init__(self, clock: Clock, a_second: int) -> None:
        self._clock = clock
        self._a_second = a_second
        self._second = -1
        self._counts: Counter[str] = Counter()
        self._unwritten = 0

    def may_write(self, of: str = "") -> bool:
        """Whether one more record may be written; otherwise count it as suppressed.

        Each value of `of` has a limit of its own; the counts reset every second.
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
        """Return the records suppressed since the last call; None if there were none."""
        count, self._unwritten = self._unwritten, 0
        return count or None
