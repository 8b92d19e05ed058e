"""Time as an argument: the only module that asks the operating system what time it is.

Everything that needs time takes a `Clock`, so that a test owns it.
"""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Where time comes from."""

    def now(self) -> datetime:
        """Return wall time in UTC, for timestamps people read; it may jump."""

    def monotonic(self) -> float:
        """Return seconds from an arbitrary start that never go back, for intervals."""

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

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds`."""
        # Imported here: it costs a command as much as a request, and commands do not sleep.
        import asyncio

        await asyncio.sleep(seconds)


def rfc3339(moment: datetime) -> str:
    """Write a moment as resources carry it: UTC, whole seconds, `2026-01-31T08:00:00Z`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
