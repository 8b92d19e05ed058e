"""The time format of resources, and the system clock."""

from datetime import UTC, datetime, timedelta, timezone

from enmasse.base.clock import SystemClock, rfc3339


def test_rfc3339_writes_utc_with_whole_seconds() -> None:
    moment = datetime(2026, 1, 31, 9, 0, 0, 999_999, tzinfo=timezone(timedelta(hours=1)))
    assert rfc3339(moment) == "2026-01-31T08:00:00Z"


def test_system_clock_is_utc_and_monotonic() -> None:
    clock = SystemClock()
    assert clock.now().tzinfo is UTC
    assert clock.monotonic() <= clock.monotonic()
