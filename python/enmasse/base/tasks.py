"""How long to wait before trying again."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential waits: `first_s`, doubled on each failure, never above `limit_s`.

    There is no random part: what waits here is one queue in one process, not a crowd of clients.
    """

    first_s: float = 0.1
    """Wait after the first failure. Short, because most failures are a race that is over."""

    limit_s: float = 30.0
    """Longest wait. A mended fault is noticed within this time."""

    def delay_s(self, failures: int) -> float:
        """Return the wait after `failures` failures in a row (1 or more)."""
        return float(min(self.limit_s, self.first_s * 2 ** min(failures - 1, 32)))
