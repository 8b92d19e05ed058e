"""Statistics of addresses, with rates. Sampled on demand only."""

from typing import Any, NamedTuple

from enmasse.api.monitoring.samples import NO_ADDRESS, Sample, Samples
from enmasse.base.clock import Clock
from enmasse.engines import AddressStatistics, Engine

WINDOW_MIN_S = 0.5
"""Minimum interval of a rate."""

WINDOW_MAX_S = 30.0
"""Maximum interval: an older sample is outdated."""


class _Sample(NamedTuple):
    taken_s: float
    statistics: dict[str, AddressStatistics]


class Statistics:
    """Statistics by the address's uid, with the names of `/metrics`."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        self.shared = Samples(engine, clock)
        """Samples for many readers, which may be seconds old."""

        self._samples: list[_Sample] = []
        """The start and end of a window, both from earlier calls. While the end is too recent to
        start a window, calls measure from the same start and need not wait.
        """

    async def by_uid(self) -> dict[str, dict[str, Any]]:
        """Return the present statistics of all addresses.

        Rates cover the time since the last sample of an earlier call that is 0.5 s to 30 s old;
        without one this call takes two samples 0.5 s apart.
        """
        sample = await self._sample()
        start = self._window_start(sample.taken_s)
        if start is None:
            recent = [one for one in self._samples if sample.taken_s - one.taken_s < WINDOW_MIN_S]
            start = recent[0] if recent else sample
            await self._clock.sleep(WINDOW_MIN_S - (sample.taken_s - start.taken_s))
            sample = await self._sample()
            self._samples = [start, sample]
        elif start is self._samples[-1]:
            self._samples = [start, sample]
        window_s = max(sample.taken_s - start.taken_s, WINDOW_MIN_S)
        return {
            uid: _shown(statistics, start.statistics.get(uid), window_s)
            for uid, statistics in sample.statistics.items()
        }

    def _window_start(self, now_s: float) -> _Sample | None:
        """Return the newest earlier sample from which a rate can be measured now."""
        usable = (
            one for one in self._samples if WINDOW_MIN_S <= now_s - one.taken_s <= WINDOW_MAX_S
        )
        return max(usable, key=lambda one: one.taken_s, default=None)

    async def _sample(self) -> _Sample:
        observed = await self._engine.observe()
        return _Sample(
            self._clock.monotonic(),
            {statistics.uid: statistics for statistics in observed.addresses},
        )


def shown_of(sample: Sample, uid: str) -> dict[str, Any] | None:
    """Return the statistics of an address in a shared sample; None if it is not served."""
    now = sample.now.addresses.get(uid)
    return _shown(now, sample.before.addresses.get(uid), sample.window_s) if now else None


def _shown(
    now: AddressStatistics, before: AddressStatistics | None, window_s: float
) -> dict[str, Any]:
    since = before or NO_ADDRESS
    # Counters since the node started, then gauges of now, then rates over the window.
    return {
        "senders": now.senders,
        "receivers": now.receivers,
        "waiting": now.waiting,
        "stored": {
            "messages": now.stored,
            "bytes": now.stored_bytes,
            "inFlight": now.in_flight,
            "scheduled": now.scheduled,
            "oldestAgeSeconds": round(now.oldest_age_s, 3),
        },
        "enqueued": now.enqueued,
        "redelivered": now.redelivered,
        "duplicates": now.duplicates,
        "expired": now.expired,
        "replaced": now.replaced,
        "overrun": now.overrun,
        "deadLettered": {
            "rejected": now.dead_rejected,
            "maximumDeliveryAttempts": now.dead_attempts,
            "expired": now.dead_expired,
        },
        "damaged": now.damaged,
        "delivered": now.delivered,
        "bytes": now.bytes,
        "outcomes": {
            "accepted": now.accepted,
            "rejected": now.rejected,
            "released": now.released,
            "modified": now.modified,
            "presettled": now.presettled,
            "dropped": now.dropped,
        },
        "creditStalls": now.credit_stalls,
        "enqueuedPerSecond": _rate(now.enqueued, since.enqueued, window_s),
        "deliveredPerSecond": _rate(now.delivered, since.delivered, window_s),
        "bytesPerSecond": _rate(now.bytes, since.bytes, window_s),
    }


def _rate(now: int, before: int, window_s: float) -> float:
    return round(max(now - before, 0) / window_s, 1)
