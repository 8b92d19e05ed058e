"""Usage of address spaces per period, and allowances. Pure.

A period is a day or a month in UTC, by the allowance of the space's plan; a month without an
allowance. The record is in the status of the space.
"""

from collections.abc import Callable, Container, Iterable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import NamedTuple

from enmasse.base.clock import rfc3339
from enmasse.engines import SpaceStatistics
from enmasse.resources import AddressSpace
from enmasse.resources.address_space import PERIODS_KEPT, Usage
from enmasse.resources.address_space_plan import Allowance
from enmasse.resources.conditions import stated, without

SENDING = "Sending"
"""The condition that reports whether clients may send; only spaces with an allowance have it."""


class Period(NamedTuple):
    """A day or a month."""

    name: str
    """`2026-11` or `2026-11-30`."""

    end: datetime


def period_of(now: datetime, allowance: Allowance | None) -> Period:
    """Return the period of a time."""
    is_daily = allowance is not None and allowance.period == "day"
    return _period(now.astimezone(UTC).date(), is_daily=is_daily)


def periods_of(now: datetime) -> frozenset[str]:
    """Return the names of the day and the month of a time."""
    day = now.astimezone(UTC).date()
    return frozenset(_period(day, is_daily=is_daily).name for is_daily in (True, False))


@lru_cache(maxsize=4)
def _period(day: date, *, is_daily: bool) -> Period:
    """Cached: every space needs the same ones every second."""
    today = datetime.combine(day, time(), UTC)
    if is_daily:
        return Period(today.strftime("%Y-%m-%d"), today + timedelta(days=1))
    # Every month ends at most 31 days after its first day, and the following one ends later.
    end = (today.replace(day=1) + timedelta(days=31)).replace(day=1)
    return Period(today.strftime("%Y-%m"), end)


class _Meter:
    """The record of one space, and the engine's counters at the last sample."""

    def __init__(self, usage: Iterable[Usage]) -> None:
        self.usage = self.saved = tuple(usage)
        self.seen: SpaceStatistics | None = None

    def of(self, period: Period) -> Usage:
        if self.usage and self.usage[0].period == period.name:
            return self.usage[0]
        return next((one for one in self.usage if one.period == period.name), _empty(period))

    @property
    def unsaved(self) -> tuple[Usage, ...]:
        """The periods that changed since the last write."""
        if self.usage is self.saved:
            return ()
        # An unchanged period is the same object.
        return tuple(one for one in self.usage if all(one is not old for old in self.saved))

    def recover(self, known: Iterable[Usage]) -> None:
        """Merge known periods that are ahead of the written ones."""
        for one in sorted(known, key=lambda one: one.period):
            record = next((now for now in self.usage if now.period == one.period), None)
            now = _merged(record, one) if record is not None else one
            if now != record:
                self.put(now)

    def put(self, now: Usage) -> None:
        others = [one for one in self.usage if one.period != now.period]
        self.usage = (now, *others)[:PERIODS_KEPT]

    def count(self, statistics: SpaceStatistics, period: Period) -> None:
        before = self.seen
        if before is None or statistics.messages_in < before.messages_in:
            # Its counters started at zero, possibly again.
            before = SpaceStatistics(statistics.uid, statistics.name)
        self.seen, record = statistics, self.of(period)
        now = record.model_copy(
            update={
                "messages_in": record.messages_in + statistics.messages_in - before.messages_in,
                "bytes_in": record.bytes_in + statistics.bytes_in - before.bytes_in,
                "messages_out": record.messages_out + statistics.messages_out - before.messages_out,
                "bytes_out": record.bytes_out + statistics.bytes_out - before.bytes_out,
                "connections": max(record.connections, statistics.connections),
            }
        )
        if now != record:
            self.put(now)


class UsageBook:
    """The records of all spaces, by uid."""

    def __init__(self) -> None:
        self._meters: dict[str, _Meter] = {}
        self._recovered: dict[str, tuple[Usage, ...]] = {}
        """Restored usage of spaces that are not open yet."""

    def recover(self, known: Mapping[str, tuple[Usage, ...]]) -> None:
        """Restore the usage known to a killed process, before spaces are opened."""
        self._recovered = dict(known)

    def open(self, space: AddressSpace, departed: Iterable[Usage] = ()) -> None:
        """Open a space with the record of its status if it is new, and with that of a deleted space
        of its name.
        """
        uid = space.metadata.uid
        if uid is not None and uid not in self._meters:
            self._meters[uid] = meter = _Meter(space.status.usage or ())
            meter.recover(self._recovered.pop(uid, ()))
            meter.recover(departed)

    def close(self, uid: str) -> tuple[Usage, ...]:
        """Remove a space; return its usage."""
        meter = self._meters.pop(uid, None)
        return meter.usage if meter else ()

    def count(
        self,
        statistics: Iterable[SpaceStatistics],
        allowance_of: Callable[[str], Allowance | None],
        now: datetime,
    ) -> set[str]:
        """Add the growth of the engine's counters to the current period; return the spaces with
        traffic.
        """
        moved = set()
        for one in statistics:
            meter = self._meters.get(one.uid)
            if meter is not None and meter.seen != one:
                meter.count(one, period_of(now, allowance_of(one.uid)))
                moved.add(one.uid)
        return moved

    def note_stored(
        self,
        stored: Mapping[str, int],
        allowance_of: Callable[[str], Allowance | None],
        now: datetime,
    ) -> None:
        """Raise the stored bytes of spaces, by uid, to the present values if larger."""
        for uid, count in stored.items():
            if (meter := self._meters.get(uid)) is not None and count:
                record = meter.of(period_of(now, allowance_of(uid)))
                if count > record.stored_bytes:
                    meter.put(record.model_copy(update={"stored_bytes": count}))

    def exhausted(
        self,
        allowance_of: Callable[[str], Allowance | None],
        now: datetime,
        among: Container[str] | None = None,
    ) -> dict[str, str]:
        """Return the spaces of `among` whose allowance is used up, with the reason."""
        found = {}
        for uid, meter in self._meters.items():
            if among is not None and uid not in among:
                continue
            allowance = allowance_of(uid) if meter.usage else None
            if allowance is not None:
                period = period_of(now, allowance)
                if spent := _exhausted_part(meter.of(period), allowance):
                    found[uid] = (
                        f"{spent}: senders get no credit until {rfc3339(period.end)}, or until the"
                        " plan of the address space allows more"
                    )
        return found

    def unsaved(self) -> dict[str, tuple[Usage, ...]]:
        """Return the records that changed since the last write."""
        meters = self._meters.items()
        return {uid: meter.usage for uid, meter in meters if meter.usage is not meter.saved}

    def unsaved_periods(self) -> dict[str, tuple[Usage, ...]]:
        """Return the changed periods of those records."""
        meters = self._meters.items()
        return {uid: periods for uid, meter in meters if (periods := meter.unsaved)}

    def saved(self, records: Mapping[str, tuple[Usage, ...]]) -> None:
        """Mark these records as written."""
        for uid, usage in records.items():
            if (meter := self._meters.get(uid)) is not None:
                meter.saved = usage

    def with_usage(
        self, space: AddressSpace, allowance: Allowance | None, spent: str | None, now: datetime
    ) -> AddressSpace:
        """Return a space whose status has its record and the condition for sending."""
        meter = self._meters.get(space.metadata.uid or "")
        if meter is None:
            return space
        status = space.status
        conditions = without(status.conditions, SENDING)
        if allowance is not None:
            conditions = stated(
                status,
                SENDING,
                holds=not spent,
                reason="AllowanceUsedUp" if spent else "WithinAllowance",
                message=spent or "",
                generation=space.metadata.generation,
                now=now,
            )
        update: dict[str, object] = {"conditions": conditions, "usage": meter.usage or None}
        if spent and spent not in status.messages:
            update["messages"] = (*status.messages, spent)
        return space.with_status(status.model_copy(update=update))


def _merged(one: Usage, other: Usage) -> Usage:
    """Merge two records of a period. Records only grow, and one is an earlier or later state of the
    other.
    """
    names = (name for name in Usage.model_fields if name != "period")
    return one.model_copy(
        update={name: max(getattr(one, name), getattr(other, name)) for name in names}
    )


def _empty(period: Period) -> Usage:
    return Usage(period=period.name)


def _exhausted_part(usage: Usage, allowance: Allowance) -> str | None:
    """Return the part of an allowance that is used up, or None."""
    for what, used, most in (
        ("messages", usage.messages_in, allowance.messages),
        ("bytes", usage.bytes_in, allowance.bytes),
    ):
        if most is not None and used >= most:
            return f"the allowance of {most} {what} of {usage.period} is used up"
    return None
