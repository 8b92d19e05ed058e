"""Records values of addresses and spaces every ten seconds.

Every series has the coarse ring. The busiest addresses and all spaces, up to a bound, have all
rings. Open chunks are in memory and are written every `FLUSH_S`, so that a killed process loses at
most a minute.
"""

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from enmasse.api.history.rings import (
    COARSE,
    FINE,
    MIDDLE,
    RINGS,
    Ring,
    Row,
    Values,
    chunk_start,
)
from enmasse.api.history.storage import Chunk, Run, Series
from enmasse.api.live.values import live_space
from enmasse.api.monitoring.samples import Sample
from enmasse.engines import AddressStatistics

FLUSH_S = 50
"""Maximum age of a row that is not on disk."""

BUSIEST = 1000
"""Series with all rings."""

RANKED_S = 600
"""Interval of choosing the busiest."""

PORTION = 2_000
"""Series that are recorded at once."""

ADDRESS_COLUMNS = (
    *("stored_messages", "stored_bytes", "oldest_message_s", "senders", "receivers"),
    *("enqueued_messages", "delivered", "bytes"),
)
"""Columns of an address. `oldest_message_s` is the time of the oldest message, since 1970; its age
would change all the time.
"""

SPACE_COLUMNS = (
    *("connections", "links", "messages_in", "messages_out", "bytes_in", "bytes_out"),
    *("stored_messages", "stored_bytes"),
)
COLUMNS = {"address": ADDRESS_COLUMNS, "space": SPACE_COLUMNS}

_ENQUEUED, _DELIVERED = (
    ADDRESS_COLUMNS.index("enqueued_messages"),
    ADDRESS_COLUMNS.index("delivered"),
)
_IN, _OUT = SPACE_COLUMNS.index("messages_in"), SPACE_COLUMNS.index("messages_out")


@dataclass
class _Open:
    """The open chunk of a series in a ring. Its key on disk is the time of its first row: a later
    run of the platform begins another chunk in the same period.
    """

    period_s: int
    rows: list[Row] = field(default_factory=list)
    dirty: bool = False


@dataclass
class _Recorded:
    """A series in memory."""

    series: Series
    values: Values = ()
    """The last values."""

    counted: int = 0
    """Messages at the last ranking."""

    has_all: bool = False
    chunks: dict[int, _Open] = field(default_factory=dict)
    """Open chunks by ring."""

    last: dict[int, Values | None] = field(default_factory=dict)
    """The last written values by ring."""


class Recorder:
    """The series in memory. Pure: samples in, chunks out."""

    def __init__(self, known: list[Series], last_s: int, busiest: int = BUSIEST) -> None:
        """Continue the known series after the end of the last run."""
        self._known = {(one.kind, one.uid): one for one in known}
        """Every series on disk, by kind and uid."""

        self._by_key: dict[tuple[str, str], _Recorded] = {}
        """The series of the last sample."""

        self._behind: set[tuple[str, str]] = set()
        """The series whose last values are not yet in all their rings: most values of many
        addresses do not change.
        """

        self._next_id = max((one.id for one in known), default=0) + 1
        self._run_start_s = 0
        self._busiest = busiest
        self._ranked_s = 0
        self._time_s = last_s
        self._changed: dict[int, Series] = {}
        """Series to write: new and ended ones."""

        self._unflushed: dict[int, _Recorded] = {}
        """Series with rows in open chunks that are not on disk, by id."""

        self._closed: defaultdict[tuple[int, int], list[Chunk]] = defaultdict(list)
        """Chunks whose period has ended, and that are not on disk, by series and ring."""

    def recording(self, sample: Sample) -> Iterator[None]:
        """Record a sample. It yields after each portion of series: with many, other work is done
        between portions. The sample is recorded at the end of the iteration.
        """
        time_s = int(sample.now.time.timestamp())
        time_s -= time_s % FINE.step_s
        if time_s <= self._time_s:
            return
        due = {one for one in RINGS if time_s // one.step_s != self._time_s // one.step_s}
        self._time_s = time_s
        self._run_start_s = self._run_start_s or time_s
        addresses, spaces = sample.now.addresses, _spaces(sample)
        for number, (uid, one) in enumerate(addresses.items(), start=1):
            if number % PORTION == 0:
                yield
            values = _address_values(one, time_s)
            recorded = self._by_key.get(("address", uid))
            if recorded is None or recorded.values != values:
                self._add(("address", uid), one.space, one.name, values)
        for name in spaces:
            self._add(("space", name), name, "", _space_values(sample, name))
        present: Mapping[str, Container[str]] = {"address": addresses, "space": spaces}
        for key in [(kind, uid) for kind, uid in self._by_key if uid not in present[kind]]:
            self._end(key)
        if time_s - self._ranked_s >= RANKED_S:
            self._rank()
        for number, key in enumerate([*self._behind], start=1):
            if number % PORTION == 0:
                yield
            if self._write_rings(self._by_key[key], due):
                self._behind.remove(key)

    @property
    def series(self) -> Iterable[Series]:
        """Every series, ended ones included."""
        return self._known.values()

    @property
    def run(self) -> Run:
        """The present run."""
        return Run(self._run_start_s, self._time_s)

    def pending(self, series: Series, ring: Ring) -> list[Row]:
        """Return the rows of a series that may not be on disk."""
        closed = self._closed.get((series.id, ring.number), ())
        rows = [row for chunk in closed for row in chunk.rows]
        recorded = self._by_key.get((series.kind, series.uid))
        if recorded is not None and ring.number in recorded.chunks:
            rows += recorded.chunks[ring.number].rows
        return rows

    def flush(self) -> tuple[list[Series], list[Chunk], Run]:
        """Return what is to be written to disk; it is then no longer pending."""
        chunks = [chunk for closed in self._closed.values() for chunk in closed]
        self._closed.clear()
        for recorded in self._unflushed.values():
            for ring, open_ in recorded.chunks.items():
                if open_.dirty:
                    chunks.append(_chunk(ring, recorded.series, open_))
                    open_.dirty = False
        self._unflushed.clear()
        series, self._changed = [*self._changed.values()], {}
        return series, chunks, self.run

    def _add(self, key: tuple[str, str], space: str, name: str, values: Values) -> None:
        recorded = self._by_key.get(key)
        if recorded is None:
            series = self._known.get(key) or Series(self._next_id, *key, space, name)
            if series.id == self._next_id:
                self._next_id += 1
            series = self._known[key] = series._replace(ended_s=None)
            self._changed[series.id] = series
            # Until the first ranking there is room for all.
            recorded = self._by_key[key] = _Recorded(series, counted=_count(series, values))
            recorded.has_all = len(self._by_key) <= self._busiest
        recorded.values = values
        self._behind.add(key)

    def _end(self, key: tuple[str, str]) -> None:
        recorded = self._by_key.pop(key)
        self._behind.discard(key)
        for ring in (FINE, MIDDLE, COARSE):
            if recorded.last.get(ring.number) is not None:
                self._append(recorded, ring, None)
        series = self._known[key] = recorded.series._replace(ended_s=self._time_s)
        self._changed[series.id] = series
        for number, open_ in recorded.chunks.items():
            if open_.dirty:
                self._closed[series.id, number].append(_chunk(number, series, open_))
        self._unflushed.pop(series.id, None)

    def _rank(self) -> None:
        """Choose the series with all rings: those with the most messages since the last time."""
        self._ranked_s = self._time_s
        ranked = sorted(
            self._by_key.items(),
            key=lambda item: _count(item[1].series, item[1].values) - item[1].counted,
            reverse=True,
        )
        for place, (key, recorded) in enumerate(ranked):
            recorded.counted = _count(recorded.series, recorded.values)
            has_all = place < self._busiest
            if recorded.has_all and not has_all:
                for ring in (FINE, MIDDLE):
                    if recorded.last.get(ring.number) is not None:
                        self._append(recorded, ring, None)
            if has_all and not recorded.has_all:
                self._behind.add(key)
            recorded.has_all = has_all

    def _write_rings(self, recorded: _Recorded, due: Container[Ring]) -> bool:
        """Write the values of a series into the rings that are due; return whether no ring of the
        series is behind then.
        """
        is_complete = True
        for ring in (FINE, MIDDLE, COARSE) if recorded.has_all else (COARSE,):
            is_first = ring.number not in recorded.last
            if recorded.last.get(ring.number) == recorded.values:
                continue
            if is_first or ring in due:
                self._append(recorded, ring, recorded.values)
            else:
                is_complete = False
        return is_complete

    def _append(self, recorded: _Recorded, ring: Ring, values: Values | None) -> None:
        period_s = chunk_start(ring, self._time_s)
        open_ = recorded.chunks.get(ring.number)
        if open_ is None or open_.period_s != period_s:
            if open_ is not None and open_.dirty:
                closed = _chunk(ring.number, recorded.series, open_)
                self._closed[recorded.series.id, ring.number].append(closed)
            open_ = recorded.chunks[ring.number] = _Open(period_s)
        open_.rows.append(Row(self._time_s, values))
        open_.dirty = True
        self._unflushed[recorded.series.id] = recorded
        recorded.last[ring.number] = values


def _chunk(ring: int, series: Series, open_: _Open) -> Chunk:
    return Chunk(ring, series.id, tuple(open_.rows), len(COLUMNS[series.kind]))


def _address_values(one: AddressStatistics, time_s: int) -> Values:
    oldest_s = round(time_s - one.oldest_age_s) if one.oldest_age_s else 0
    return (
        *(one.stored, one.stored_bytes, oldest_s, one.senders, one.receivers),
        *(one.enqueued, one.delivered, one.bytes),
    )


def _space_values(sample: Sample, name: str) -> Values:
    traffic, live = sample.now.spaces.get(name), live_space(sample, name)
    counters = (
        (traffic.messages_in, traffic.messages_out, traffic.bytes_in, traffic.bytes_out)
        if traffic
        else (0, 0, 0, 0)
    )
    held = int(live["stored"]), int(live["storedBytes"])
    return (int(live["connections"]), int(live["links"]), *counters, *held)


def _spaces(sample: Sample) -> Mapping[str, None]:
    """Return the names of the spaces in a sample."""
    names = sample.derived.get("space names")
    if names is None:
        of_addresses = dict.fromkeys(one.space for one in sample.now.addresses.values())
        names = of_addresses | dict.fromkeys(sample.now.spaces)
        sample.derived["space names"] = names
    assert isinstance(names, dict)
    return names


def _count(series: Series, values: Values) -> int:
    """Return the messages of a series so far."""
    if not values:
        return 0
    if series.kind == "space":
        return values[_IN] + values[_OUT]
    return values[_ENQUEUED] + values[_DELIVERED]
