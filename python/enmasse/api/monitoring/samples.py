"""Samples of an engine's statistics that all readers share.

A sample is taken on demand and serves everyone until it is `FRESH_S` old, longer if it was
expensive: sampling never uses more than a tenth of a core. What counts is the processor time of the
threads that take it. On a busy machine a sample takes longer than that, and readers wait for it;
their values must not become older as well. Rates cover the time since the previous sample.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from operator import attrgetter

from enmasse.base.clock import Clock
from enmasse.engines import AddressStatistics, Engine, Observed, SpaceStatistics

FRESH_S = 2.0
"""Age up to which a sample is shared."""

WINDOW_MIN_S = 0.5
"""Minimum window of rates; the first sample waits for it."""

WINDOW_MAX_S = 60.0
"""Maximum window: an older sample is outdated."""

COST_FACTOR = 10.0
"""Minimum ratio of the age at which a sample is renewed to its processor time."""

NO_ADDRESS = AddressStatistics("", "", "")
NO_SPACE = SpaceStatistics("", "")


@dataclass(frozen=True, slots=True)
class Reading:
    """What the engine reported at one moment."""

    taken_s: float
    """Its begin, by the monotonic clock."""

    time: datetime
    """Its begin."""

    observed: Observed
    addresses: Mapping[str, AddressStatistics]
    """By uid."""

    spaces: Mapping[str, SpaceStatistics]
    """By `NAME.NAMESPACE`; spaces with traffic only."""

    cost_s: float = 0.0
    """Processor time that it took in Python."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A reading and the one before it."""

    number: int
    now: Reading
    before: Reading
    derived: dict[str, object] = field(default_factory=dict)
    """Values that readers computed from this sample, by name."""

    @property
    def window_s(self) -> float:
        """The window of rates."""
        return max(self.now.taken_s - self.before.taken_s, WINDOW_MIN_S)

    @property
    def renewed_s(self) -> float:
        """When the next sample is due, by the monotonic clock."""
        return self.now.taken_s + max(FRESH_S, COST_FACTOR * self.now.cost_s)

    @property
    def time(self) -> str:
        """Its time, RFC 3339, with milliseconds: readers see how old its values are."""
        return self.now.time.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def address(self, uid: str) -> AddressStatistics:
        """Return the statistics of an address; zeros if it is not served."""
        return self.now.addresses.get(uid, NO_ADDRESS)

    def rates(self, name: str) -> dict[str, float]:
        """Return the rates of a counter of all addresses by uid, where they are not 0."""
        counter, before, window_s = attrgetter(name), self.before.addresses, self.window_s
        return {
            uid: rate
            for uid, one in self.now.addresses.items()
            if (now := counter(one))
            and (rate := _rate(now, counter(before.get(uid, NO_ADDRESS)), window_s))
        }

    def space_rate(self, space: str, name: str) -> float:
        """Return the rate per second of a counter of a space, `NAME.NAMESPACE`."""
        now, before = (one.spaces.get(space, NO_SPACE) for one in (self.now, self.before))
        return _rate(getattr(now, name), getattr(before, name), self.window_s)


class Samples:
    """The latest sample."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        self._taking = asyncio.Lock()
        self._latest: Sample | None = None

    async def latest(self, fresh_s: float = FRESH_S) -> Sample:
        """Return a sample that is at most `fresh_s` old, that was too expensive to renew, or that
        was taken while this call waited.
        """
        before = self._latest
        async with self._taking:
            now_s = self._clock.monotonic()
            latest = self._latest
            if latest is not None:
                if latest is not before:
                    return latest
                age_s = now_s - latest.now.taken_s
                if age_s <= max(fresh_s, COST_FACTOR * latest.now.cost_s):
                    return latest
            if latest is None or now_s - latest.now.taken_s > WINDOW_MAX_S:
                first = await self._read()
                await self._clock.sleep(WINDOW_MIN_S)
            else:
                first = latest.now
            number = latest.number + 1 if latest is not None else 1
            self._latest = Sample(number, await self._read(), first)
            return self._latest

    async def recent(self) -> Sample:
        """Return a sample as `latest` does, or the one before it while another reader renews it:
        a list does not wait for that. A sample older than `WINDOW_MAX_S` is not returned.
        """
        latest = self._latest
        is_recent = (
            latest is not None and self._clock.monotonic() - latest.now.taken_s <= WINDOW_MAX_S
        )
        if latest is not None and is_recent and self._taking.locked():
            return latest
        return await self.latest()

    async def _read(self) -> Reading:
        # The time before it: values must not be older than they say, however long it takes.
        taken_s, time = self._clock.monotonic(), self._clock.now()
        observed = await self._engine.observe()
        usage = await self._engine.usage()
        begun_s = self._clock.thread_s()
        addresses = {one.uid: one for one in observed.addresses}
        return Reading(
            taken_s=taken_s,
            time=time,
            observed=observed,
            addresses=addresses,
            spaces={one.name: one for one in usage},
            cost_s=observed.cost_s + self._clock.thread_s() - begun_s,
        )


def _rate(now: int, before: int, window_s: float) -> float:
    return round(max(now - before, 0) / window_s, 1)
