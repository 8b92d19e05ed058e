"""Time as an argument: the only module that reads the system clock.

Everything that needs time takes a `Clock`, so that a test owns it.
"""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """A source of time."""

    def now(self) -> datetime:
        """Return wall time in UTC, for timestamps people read; it may jump."""

    def monotonic(self) -> float:
        """Return seconds from an arbitrary start that never go back, for intervals."""

    def thread_s(self) -> float:
        """Return the processor time of the calling thread, in seconds from an arbitrary start."""

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds`."""


class SystemClock:
    """The clock of the machine."""

    def now(self) -> datetime:
        """Return wall time in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        return time.monotonic()

    def thread_s(self) -> float:
        """Return the processor time of the calling thread."""
        return time.thread_time()

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds`."""
        # Imported here: asyncio would double the start time of a command, which never sleeps.
        import asyncio

        await asyncio.sleep(seconds)


def rfc3339(moment: datetime) -> str:
    """Format a moment as in resources: UTC, whole seconds, `2026-01-31T08:00:00Z`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
