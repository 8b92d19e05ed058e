"""Time as resources carry it."""

from datetime import UTC, datetime, timedelta, timezone

from enmasse.base.clock import SystemClock, rfc3339


def test_moments_are_written_in_utc_with_whole_seconds() -> None:
    moment = datetime(2026, 1, 31, 9, 0, 0, 999_999, tzinfo=timezone(timedelta(hours=1)))
    assert rfc3339(moment) == "2026-01-31T08:00:00Z"


def test_the_system_clock_knows_its_zone_and_never_goes_back() -> None:
    clock = SystemClock()
    assert clock.now().tzinfo is UTC
    assert clock.monotonic() <= clock.monotonic()
