"""Retry delays."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential back-off: `first_s`, doubled with each failure, up to `limit_s`.

    Without jitter: one queue in one process waits, not many clients.
    """

    first_s: float = 0.1
    """Delay after the first failure. Short, because most failures are transient races."""

    limit_s: float = 30.0
    """Maximum delay. A repaired fault is noticed within this time."""

    def delay_s(self, failures: int) -> float:
        """Return the delay after `failures` consecutive failures (1 or more)."""
        return float(min(self.limit_s, self.first_s * 2 ** min(failures - 1, 32)))
