"""The samples of windows, in which quantiles are found: a table beside that of gold.

A sample grows with every batch, and would be written again with it: 8 KiB for each window. So the
table is only appended to, by readings that came into a sample, as long as they may stay in it. The
samples that batches touch are held in memory. What is held is what the table has: it is appended to
first, and whatever fails empties the memory, which is filled from the table again.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy
import pyarrow
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.transaction import AddAction

from enmasse.pipeline.gold import merging
from enmasse.pipeline.gold.grouping import Numbers, array, groups
from enmasse.pipeline.tables import delta
from enmasse.pipeline.tables.delta import Table

PARTITION_BY = ("window_ms", "date")
SCHEMA = pyarrow.schema(
    [merging.SCHEMA.field(name) for name in (*merging.KEY, "date")]
    + [pyarrow.field("key", pyarrow.int64()), pyarrow.field("value", pyarrow.float64())]
)
"""A row: a reading of a sample, with its hash."""
STARTS_MAX = 64
"""Beginnings of windows that a filter names one by one."""
WINDOWS_MAX = 32_768
"""Windows whose samples are held, 8 KiB each; those that were touched longest ago go first."""
FIRST = 1024
"""Windows that there is room for at the beginning."""
CELLS_MAX = 1 << 21
"""Numbers that are sorted at a time."""
ROWS_READ = 1 << 18
NONE = numpy.iinfo(numpy.int64).max
"""The hash of no reading."""


class Samples:
    """The samples of one table of gold, for one thread at a time."""

    def __init__(self, path: str) -> None:
        """Use the Delta table at a folder or URI; it is made with the first batch."""
        self.path = path
        self._table = Table(path, "delta", PARTITION_BY)
        self._held = Held()

    def exist(self) -> bool:
        """Return whether there is the table."""
        return DeltaTable.is_deltatable(self.path)

    def add(self, parts: pyarrow.Table, app_id: str, batch_id: int) -> dict[str, Numbers]:
        """Add the samples of partials, and return the quantiles of each of their windows.

        A batch that is in the table already changes nothing. Each window stands in `parts` once.
        """
        found = {name: numpy.empty(len(parts)) for name, _ in merging.QUANTILES}
        fresh = [SCHEMA.empty_table()]
        try:
            for first in range(0, len(parts), WINDOWS_MAX):
                part = parts.slice(first, WINDOWS_MAX)
                places = self._places(part, is_first=first == 0)
                window, key, value = _readings(part)
                is_new = self._held.add(places[window], key, value)
                fresh.append(_rows(part, window[is_new], key[is_new], value[is_new]))
                for name in found:
                    found[name][first : first + len(part)] = self._held.quantiles[name][places]
            delta.append_arrow(pyarrow.concat_tables(fresh), self._table, app_id, batch_id)
        except BaseException:
            self._held = Held()
            raise
        return found

    def _places(self, windows: pyarrow.Table, *, is_first: bool) -> Numbers:
        """Where the samples of windows are held, of which each stands once.

        `is_first`: nothing is held that the table does not have.
        """
        names = list(_names(windows))
        places, is_new = self._held.places(names)
        is_missing = is_new & [name[:2] not in self._held.whole for name in names]
        if is_missing.any():
            missing = windows.filter(pyarrow.array(is_missing))
            self._read(missing, places[is_missing], takes_more=is_first)
        return places

    def _read(self, windows: pyarrow.Table, places: Numbers, *, takes_more: bool) -> None:
        """Fill what is held of windows, and is empty, from the table.

        `takes_more`: with other windows of their times as long as there is room, so that a window
        that comes later is not looked for.
        """
        wanted = dict(zip(_names(windows), places.tolist(), strict=True))
        left_out = set[tuple[Any, ...]]()
        for batch in self._batches(near(windows)):
            rows = pyarrow.Table.from_batches([batch]).select(SCHEMA.names).cast(SCHEMA)
            group, first = groups(rows, merging.KEY)
            names = list(_names(rows.take(first)))
            more = [name for name in names if name not in wanted]
            if takes_more:
                wanted |= self._held.more(more)
            left_out |= {name[:2] for name in more if not self._held.has(name)}
            place = numpy.array([wanted.get(name, -1) for name in names], int)[group]
            meant = place >= 0
            key, value = array(rows["key"])[meant], array(rows["value"])[meant]
            self._held.add(place[meant], key, value)
        if takes_more:
            self._held.whole |= {name[:2] for name in wanted} - left_out

    def _batches(self, chosen: pc.Expression) -> Iterator[pyarrow.RecordBatch]:
        if self.exist():
            found = delta.dataset(DeltaTable(self.path), self.path)
            yield from found.to_batches(filter=chosen, batch_size=ROWS_READ)

    def written(self, windows: pyarrow.Table, folder: str, name: str) -> AddAction:
        """Write a file of the samples of windows, all of one day and length."""
        rows = _rows(windows, *_readings(windows)).drop_columns(list(PARTITION_BY))
        return delta.written(rows, self.path, f"{folder}/{name}")

    def replace(self, files: Iterable[AddAction], batches: Mapping[str, int]) -> None:
        """Let these be all samples, with these batches in them."""
        self._held = Held()
        if not self.exist():
            DeltaTable.create(self.path, SCHEMA, mode="ignore", partition_by=list(PARTITION_BY))
        opened = DeltaTable(self.path)
        opened.create_write_transaction(
            list(files),
            "overwrite",
            opened.schema(),
            list(PARTITION_BY),
            commit_properties=delta.remembering(batches),
        )

    def tidy(self, keep_ms: int) -> None:
        """Make large files of small ones, and delete what no version of that time has."""
        if self.exist():
            delta.compact(self._table)
            delta.clean(DeltaTable(self.path), keep_ms)


class Held:
    """Samples of up to `WINDOWS_MAX` windows: a row of hashes each, the least first, and the values
    beside them."""

    def __init__(self) -> None:
        """Hold nothing."""
        self.whole = set[tuple[Any, ...]]()
        """Beginnings and lengths of windows of which all are held that the table has."""
        self._place: dict[tuple[Any, ...], int] = {}
        self._name: list[tuple[Any, ...]] = []
        self._free: list[int] = []
        self._turn = 0
        self._touched = numpy.zeros(0, numpy.int64)
        self._count = numpy.zeros(0, numpy.int64)
        self._key = numpy.zeros((0, merging.SAMPLE_MAX), numpy.int64)
        self._value = numpy.zeros((0, merging.SAMPLE_MAX))
        self.quantiles = {name: numpy.zeros(0) for name, _ in merging.QUANTILES}

    def places(self, names: list[tuple[Any, ...]]) -> tuple[Numbers, Numbers]:
        """Return where windows are held, and whether they are new, which are empty.

        No more than `WINDOWS_MAX` at once, each once.
        """
        self._turn += 1
        found = numpy.array([self._place.get(name, -1) for name in names], int)
        is_new = found < 0
        self._touched[found[~is_new]] = self._turn
        new = numpy.flatnonzero(is_new)
        self._make_room(len(new))
        for index in new:
            found[index] = place = self._free.pop()
            self._place[names[index]] = place
            self._name[place] = names[index]
        self._touched[found] = self._turn
        self._count[found[new]] = 0
        self._key[found[new]] = NONE
        return found, is_new

    def has(self, name: tuple[Any, ...]) -> bool:
        """Return whether a window is held."""
        return name in self._place

    def more(self, names: list[tuple[Any, ...]]) -> dict[tuple[Any, ...], int]:
        """Hold windows that are not held, empty, as long as there is room; return where."""
        new = [name for name in names if name not in self._place]
        new = new[: WINDOWS_MAX - len(self._place)]
        return dict(zip(new, self.places(new)[0].tolist(), strict=True))

    def _make_room(self, wanted: int) -> None:
        while len(self._free) < wanted and len(self._name) < WINDOWS_MAX:
            self._grow(min(WINDOWS_MAX, max(FIRST, 2 * len(self._name))))
        if len(self._free) >= wanted:
            return
        # some more than are wanted: finding the oldest looks at all
        oldest = numpy.argsort(self._touched, kind="stable")[: wanted + WINDOWS_MAX // 8]
        for place in oldest[self._touched[oldest] < self._turn].tolist():
            del self._place[self._name[place]]
            self.whole.discard(self._name[place][:2])
            self._touched[place] = NONE
            self._free.append(place)

    def _grow(self, size: int) -> None:
        more = size - len(self._name)
        self._free += range(size - 1, len(self._name) - 1, -1)
        self._name += [()] * more
        self._touched = numpy.append(self._touched, numpy.full(more, NONE))
        self._count = numpy.append(self._count, numpy.zeros(more, numpy.int64))
        for name, held in self.quantiles.items():
            self.quantiles[name] = numpy.append(held, numpy.zeros(more))
        # memory is taken row by row, when a row is written
        key, value = self._key, self._value
        self._key = numpy.empty((size, merging.SAMPLE_MAX), numpy.int64)
        self._value = numpy.empty((size, merging.SAMPLE_MAX))
        self._key[: len(key)], self._value[: len(value)] = key, value

    def add(self, place: Numbers, key: Numbers, value: Numbers) -> Numbers:
        """Add readings to the samples at places; return which of them came in."""
        chosen = numpy.flatnonzero(key < self._key[place, -1])
        chosen = chosen[numpy.lexsort([key[chosen], place[chosen]])]
        at, hashes = place[chosen], key[chosen]
        is_new = numpy.append([True], (at[1:] != at[:-1]) | (hashes[1:] != hashes[:-1]))[: len(at)]
        chosen = chosen[is_new & ~self._has(at, hashes)]
        at = place[chosen]
        starts = numpy.flatnonzero(numpy.diff(at, prepend=-1))
        ends = numpy.append(starts, len(at))[1:]
        # of more than a sample takes, the least
        rank = numpy.arange(len(at)) - numpy.repeat(starts, ends - starts)
        kept = rank < merging.SAMPLE_MAX
        chosen, at, rank = chosen[kept], at[kept], rank[kept]
        sizes = numpy.minimum(ends - starts, merging.SAMPLE_MAX)
        self._merge(at[rank == 0], sizes, key[chosen], value[chosen])
        found = numpy.zeros(len(key), bool)
        found[chosen] = True
        return found

    def _has(self, place: Numbers, key: Numbers) -> Numbers:
        """Whether a sample has a reading already: its row is searched by halves."""
        low = numpy.zeros(len(key), numpy.int64)
        step = 1 << (merging.SAMPLE_MAX - 1).bit_length()
        while step > 1:
            step //= 2
            middle = numpy.minimum(low + step, merging.SAMPLE_MAX - 1)
            low = numpy.where(self._key[place, middle] <= key, middle, low)
        return numpy.asarray(self._key[place, low] == key)

    def _merge(self, places: Numbers, sizes: Numbers, key: Numbers, value: Numbers) -> None:
        """Merge readings into samples: so many for each place, in their order."""
        firsts = numpy.append([0], numpy.cumsum(sizes))
        # rows of about one length are sorted together
        order = numpy.argsort(self._count[places] + sizes, kind="stable")
        while len(order):
            # as many of the longest as may be sorted at once, when they are as long as that one
            longest = order[-1]
            width = int(self._count[places[longest]] + sizes[longest])
            part = order[-max(1, CELLS_MAX // width) :]
            order = order[: len(order) - len(part)]
            self._merge_part(places[part], sizes[part], firsts[part], key, value)

    def _merge_part(
        self, places: Numbers, sizes: Numbers, firsts: Numbers, key: Numbers, value: Numbers
    ) -> None:
        held = int(self._count[places].max())
        column = numpy.arange(held + int(sizes.max()))
        new = column[None, held:] - held
        is_new = new < sizes[:, None]
        source = numpy.where(is_new, firsts[:, None] + new, 0)
        keys = numpy.hstack([self._key[places, :held], numpy.where(is_new, key[source], NONE)])
        values = numpy.hstack([self._value[places, :held], value[source]])
        order = numpy.argsort(keys, axis=1)[:, : merging.SAMPLE_MAX]
        keys = numpy.take_along_axis(keys, order, axis=1)
        values = numpy.take_along_axis(values, order, axis=1)
        self._key[places, : keys.shape[1]] = keys
        self._value[places, : keys.shape[1]] = values
        count = numpy.minimum(self._count[places] + sizes, merging.SAMPLE_MAX)
        self._count[places] = count
        # what is no reading stands behind all
        ranked = numpy.sort(numpy.where(keys == NONE, numpy.inf, values), axis=1)
        rows = numpy.arange(len(places))
        for name, share in merging.QUANTILES:
            self.quantiles[name][places] = ranked[rows, merging.rank(count, share)]


def _names(windows: pyarrow.Table) -> Iterator[tuple[Any, ...]]:
    """Names of each window, in the order of `merging.KEY`: its length, its beginning, and whose."""
    start = windows["start"].cast(pyarrow.int64()).to_pylist()
    others = (windows[name].to_pylist() for name in ("source", "device", "metric"))
    return zip(windows["window_ms"].to_pylist(), start, *others, strict=True)


def _readings(windows: pyarrow.Table) -> tuple[Numbers, Numbers, Numbers]:
    """The samples of windows, reading by reading: the row of its window, its hash and value."""
    sizes = array(pc.list_value_length(windows["sample"]))
    window = numpy.repeat(numpy.arange(len(windows)), sizes)
    key, value = (
        array(pc.list_flatten(windows[name].combine_chunks())) for name in ("sample_keys", "sample")
    )
    return window, key, value


def _rows(windows: pyarrow.Table, window: Numbers, key: Numbers, value: Numbers) -> pyarrow.Table:
    rows = {name: windows[name].take(window) for name in (*merging.KEY, "date")}
    return pyarrow.table(rows | {"key": key, "value": value}).select(SCHEMA.names).cast(SCHEMA)


def near(parts: pyarrow.Table) -> pc.Expression:
    """Return what rows windows can have: of the same length and day, and of the same beginnings.

    Days are asked for one by one: a late reading is not to bring in all that came since.
    """
    chosen = pc.scalar(False)
    for key in parts.group_by(list(PARTITION_BY)).aggregate([]).to_pylist():
        mine = [pc.equal(parts[name], key[name]) for name in PARTITION_BY]
        starts = pc.unique(parts.filter(pc.and_(*mine))["start"])
        start = pc.field("start")
        # of many beginnings the range says enough
        when = (
            start.isin(starts)
            if len(starts) <= STARTS_MAX
            else (start >= pc.min(starts)) & (start <= pc.max(starts))
        )
        length, day = (
            pc.field(name) == pyarrow.scalar(key[name], merging.SCHEMA.field(name).type)
            for name in PARTITION_BY
        )
        chosen |= length & day & when
    return chosen
