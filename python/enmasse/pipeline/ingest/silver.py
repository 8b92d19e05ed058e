"""Silver: messages as typed readings; and quarantine: what could not be read, with the reason.

A reading is a number or a text that a device measured at a time. One message may contain many. The
functions are pure: columns of the format `enmasse` in, columns of readings out.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow
import pyarrow.compute as pc

from enmasse.base.errors import Invalid
from enmasse.pipeline.ingest.envelope import MESSAGE, TEXT_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from enmasse.resources.pipeline import Source

BATCH_TIME = "_batch_time"
"""A column of records: an upper bound of their arrival, if the server reports none."""

DEVICE_BYTES_MAX = 255
"""Longest name of a device or metric, in UTF-8; a longer one goes to quarantine."""

VALUE_MAX = 1e300
"""Largest magnitude of a value: the sum of a hundred million of them is still finite."""
YEARS = (1000, 9999)
"""First and last year of a time: partitions are days with a year of four digits."""
DAYS = (datetime(YEARS[0], 1, 1, tzinfo=UTC), datetime(YEARS[1], 12, 31, tzinfo=UTC))
"""The first of these days, and the day after the last."""

TEXT, NUMBER, TIME = pyarrow.string(), pyarrow.float64(), pyarrow.timestamp("us", "UTC")
SCHEMA = pyarrow.schema(
    {
        **{"source": TEXT, "space": TEXT, "address": TEXT},
        **{"partition": pyarrow.int32(), "offset": pyarrow.int64(), "index": pyarrow.int32()},
        **{"device": TEXT, "metric": TEXT, "value": NUMBER, "text": TEXT, "unit": TEXT},
        **{"event_time": TIME, "enqueued_time": TIME, "clamped": pyarrow.bool_()},
        **{"date": pyarrow.date32(), "reason": TEXT},
    }
)
"""The result of `parse`: a row is a reading, or, with a reason, a row of quarantine."""

READING = [name for name in SCHEMA.names if name != "reason"]
"""Columns of the silver table."""
QUARANTINE = [
    *("source", "space", "address", "partition", "offset", "index"),
    *("device", "metric", "enqueued_time", "date", "reason"),
]
"""Columns of the quarantine table; the message itself is in bronze."""


@dataclass(frozen=True)
class MetricField:
    """A field that is a reading: its metric, and the field if it has another name."""

    name: str
    field: str | None
    unit: str | None


@dataclass(frozen=True)
class Layout:
    """The fields of a source's records that make a reading: plain data, for tasks of executors."""

    name: str
    format: str
    device: tuple[str, ...]
    time: tuple[str, ...]
    metric: tuple[str, ...]
    value: tuple[str, ...]
    text: tuple[str, ...]
    unit: tuple[str, ...]
    metrics: tuple[MetricField, ...]
    ahead: int
    late: int

    @classmethod
    def of(cls, source: "Source") -> "Layout":
        """Return the layout of a source of the document."""
        chosen = {field.name: getattr(source, field.name) for field in fields(cls)}
        metrics = tuple(MetricField(one.name, one.field, one.unit) for one in source.metrics)
        return cls(**chosen | {"metrics": metrics})


IDENTITY = ("space", "address", "partition", "offset", "enqueued_time")
"""Columns of the envelope that are columns of readings."""


def used(source: Layout) -> list[str]:
    """Return the columns of the envelope that `parse` reads."""
    texts = [name for name, kind in _fields(source) if name in TEXT_COLUMNS and kind == "string"]
    return [*IDENTITY, *(name for name in dict.fromkeys(texts) if name not in IDENTITY)]


def columns(source: Layout, chosen: Sequence[str] = MESSAGE.names) -> str:
    """Return the option `columns` by which a source gives the input of `parse`, with columns of the
    envelope.

    Raises Invalid if a field is used with two types.
    """
    types: dict[str, tuple[str, str]] = {}
    for name, kind in _fields(source):
        if name in TEXT_COLUMNS and kind == "string":
            continue
        if name in (*MESSAGE.names, BATCH_TIME):
            owner = "the envelope" if name in MESSAGE.names else "each record"
            raise Invalid(
                "E1003",
                f"source {source.name}: {name} is a column of {owner} and no {kind}; "
                f"write body.{name} for the field of the body",
            )
        known = types.setdefault(name.lower(), (name, kind))
        if known != (name, kind):
            raise Invalid(
                "E1003",
                f"source {source.name}: {name} cannot be {kind} and, as {known[0]}, {known[1]} too",
            )
    fields = [f"`{name}` {kind}" for name, kind in types.values()]
    return ", ".join([*(f"`{name}`" for name in chosen), "_index", *fields, "_error"])


def _fields(source: Layout) -> Iterator[tuple[str, str]]:
    if _is_senml(source):
        yield from (("n", "string"), ("u", "string"), ("t", "timestamp"), ("v", "double"))
        yield from (("vs", "string"), ("vb", "boolean"))
        return
    for names, kind in (
        (source.device, "string"),
        (source.time, "timestamp"),
        (source.metric, "string"),
        (source.value, "double"),
        (source.text, "string"),
        (source.unit, "string"),
        ([metric.field or metric.name for metric in source.metrics], "double"),
    ):
        for name in names:
            yield name, kind


def _is_senml(source: Layout) -> bool:
    return source.format.startswith("senml")


def parse(batch: pyarrow.Table, source: Layout) -> pyarrow.Table:
    """Return the readings of records, and rows with a reason for quarantine.

    A record may have any number of readings. One without a device, with an unreadable or too old
    time, or without a reading is one row with a reason. So is a field of another type; the other
    readings of its record are good. A time ahead of the server's clock, or of that of the batch, by
    more than the source allows is set back to that bound and marked as clamped.
    """
    records = _Records(batch, source)
    parts = [records.refused(records.fault, pc.is_valid(records.fault))]
    good = pc.is_null(records.fault)
    # a field of another type does not spoil its record
    parts.append(records.refused(records.error, pc.and_(good, pc.is_valid(records.error))))
    found = pyarrow.scalar(False)
    for metric, value, text, unit in records.measured():
        present = pc.and_(good, pc.or_(pc.is_valid(value), pc.is_valid(text)))
        found = pc.or_(found, present)
        reason = _invalid_reading(metric, value, text, unit)
        parts.append(records.rows(present, reason, metric, value, text, unit))
    nothing = pc.and_(good, pc.and_(pc.invert(found), pc.is_null(records.error)))
    reason = pyarrow.repeat(f"holds no reading: none of {_wanted(source)} is there", len(batch))
    parts.append(records.refused(reason, nothing))
    return pyarrow.concat_tables(parts).combine_chunks()


def within_years(times: pyarrow.Array) -> pyarrow.Array:
    """Return times, with null for those outside the years of tables."""
    first, last = (pyarrow.scalar(day, TIME) for day in DAYS)
    within = pc.and_(pc.greater_equal(times, first), pc.less(times, last))
    return pc.if_else(pc.fill_null(within, False), times, None)


def days(times: pyarrow.Array) -> pyarrow.Array:
    """Return the day in UTC of each time."""
    return pc.cast(within_years(times), pyarrow.date32())


def split_frame(rows: "DataFrame") -> "tuple[DataFrame, DataFrame]":
    """Split rows of `SCHEMA` into rows of silver and rows of quarantine."""
    good, refused = rows.where("reason IS NULL"), rows.where("reason IS NOT NULL")
    return good.selectExpr(*READING), refused.selectExpr(*QUARANTINE)


class _Records:
    """Records of one source, and the columns that all of their readings share."""

    def __init__(self, batch: pyarrow.Table, source: Layout) -> None:
        self.batch = batch
        self.source = source
        self.error = batch["_error"].combine_chunks()
        self.arrived = within_years(pc.cast(batch["enqueued_time"].combine_chunks(), TIME))
        self.names = self.text("n") if _is_senml(source) else None
        device = self._senml_name("device") if _is_senml(source) else self.first(source.device)
        stated = self.first(("t",) if _is_senml(source) else source.time, TIME)
        # without a time of arrival: the time of measurement, at most that of the batch
        before = within_years(pc.cast(batch[BATCH_TIME].combine_chunks(), TIME))
        is_later = pc.fill_null(pc.greater(stated, before), False)
        measured = pc.if_else(is_later, before, within_years(stated))
        self.arrived = pc.coalesce(self.arrived, measured, before)
        latest = pc.add(self.arrived, _span(source.ahead))
        self.clamped = pc.fill_null(pc.greater(stated, latest), False)
        time = pc.if_else(self.clamped, latest, within_years(stated))
        self.time = pc.coalesce(time, self.arrived)
        self.device = device
        self.fault = self._fault(stated)

    def first(self, names: Iterable[str], kind: pyarrow.DataType = TEXT) -> pyarrow.Array:
        """The first of several columns that has a value, in each row."""
        found = [pc.cast(self.batch[name].combine_chunks(), kind) for name in names]
        if not found:
            return pyarrow.nulls(len(self.batch), kind)
        if kind == TEXT:
            found = [pc.if_else(pc.equal(one, ""), None, one) for one in found]
        return pc.coalesce(*found)

    def text(self, name: str) -> pyarrow.Array:
        return self.first((name,))

    def _senml_name(self, part: str) -> pyarrow.Array:
        """A record's name up to its last `:` or `/`, or the part after it."""
        split = pc.extract_regex(self.names, r"(?s)^(?P<device>.*)[:/](?P<metric>[^:/]*)$")
        whole = self.names if part == "device" else pyarrow.nulls(len(self.batch), TEXT)
        found = pc.coalesce(pc.struct_field(split, part), whole)
        return pc.if_else(pc.equal(found, ""), None, found)

    def _fault(self, stated: pyarrow.Array) -> pyarrow.Array:
        """The reason why no reading of a record is usable; null for good records."""
        source, bad = self.source, pc.is_valid(self.error)
        unnamed, size = pc.is_null(self.device), pc.binary_length(self.device)
        asks_time = bool(source.time) or _is_senml(source)
        wanted = "the name of a SenML record" if _is_senml(source) else " or ".join(source.device)
        within = within_years(stated)
        is_outside = pc.and_(pc.is_valid(stated), pc.is_null(within))
        oldest = pc.subtract(self.arrived, _span(source.late))
        age = f" is more than {source.late // 1000} s before its message came"
        return pc.coalesce(
            _when(pc.and_(unnamed, bad), self.error),
            _when(unnamed, f"names no device: {wanted}"),
            _too_long("device", size),
            _when(_has_nul(self.device), "device has a NUL"),
            _when(pc.and_(pc.and_(pc.is_null(stated), bad), asks_time), self.error),
            _when(
                pc.and_(is_outside, pc.invert(self.clamped)),
                f"time is outside the years {YEARS[0]} to {YEARS[1]}",
            ),
            _when(pc.is_null(self.time), "has no time, nor has its message"),
            _when(
                pc.less(stated, oldest),
                lambda: _concat("time ", pc.strftime(within, "%Y-%m-%dT%H:%M:%SZ"), age),
            ),
        )

    def measured(self) -> Iterator[tuple[pyarrow.Array, ...]]:
        """Yield metric, number, text and unit, as columns of all records."""
        source, rows = self.source, len(self.batch)
        no_text = pyarrow.nulls(rows, TEXT)
        if _is_senml(source):
            flag = pc.cast(self.batch["vb"].combine_chunks(), pyarrow.float64())
            value = pc.coalesce(self.first(("v",), NUMBER), flag)
            metric = pc.coalesce(self._senml_name("metric"), pyarrow.repeat("value", rows))
            yield metric, value, self.text("vs"), self.text("u")
            return
        for one in source.metrics:
            value = self.first((_field(one),), NUMBER)
            unit = pyarrow.repeat(one.unit, rows) if one.unit else no_text
            yield pyarrow.repeat(one.name, rows), value, no_text, unit
        if source.value or source.text:
            called = (source.value or source.text)[0].removeprefix("body.")
            metric = pc.coalesce(self.first(source.metric), pyarrow.repeat(called, rows))
            value, text = self.first(source.value, NUMBER), self.first(source.text)
            yield metric, value, text, self.first(source.unit)

    def rows(
        self, chosen: pyarrow.Array, reason: pyarrow.Array, *reading: pyarrow.Array
    ) -> pyarrow.Table:
        """Rows as `SCHEMA` of the chosen records; a reading is as from `measured`."""
        if not pc.any(chosen).as_py():
            return SCHEMA.empty_table()
        # the time of a quarantined record may be wrong
        of = pc.if_else(pc.is_valid(reason), self.arrived, pc.coalesce(self.time, self.arrived))
        columns = {name: self.batch[name] for name in ("space", "address", "partition", "offset")}
        columns |= {"source": pyarrow.repeat(self.source.name, len(self.batch))}
        columns |= {"index": self.batch["_index"], "device": self.device}
        columns |= dict(zip(("metric", "value", "text", "unit"), reading, strict=True))
        columns |= {"event_time": self.time, "enqueued_time": self.arrived}
        columns |= {"clamped": self.clamped, "date": days(of), "reason": reason}
        return pyarrow.table(columns).select(SCHEMA.names).cast(SCHEMA).filter(chosen)

    def refused(self, reason: pyarrow.Array, chosen: pyarrow.Array) -> pyarrow.Table:
        """Rows of quarantine."""
        none = pyarrow.nulls(len(self.batch), TEXT)
        return self.rows(chosen, reason, none, pyarrow.nulls(len(self.batch), NUMBER), none, none)


def _invalid_reading(
    metric: pyarrow.Array, value: pyarrow.Array, text: pyarrow.Array, unit: pyarrow.Array
) -> pyarrow.Array:
    """The reason why a reading is quarantined; null for good ones."""
    texts = (("metric", metric), ("text", text), ("unit", unit))
    is_large = pc.greater(pc.abs(value), VALUE_MAX)
    return pc.coalesce(
        _too_long("metric", pc.binary_length(metric)),
        *(_when(_has_nul(words), f"{name} has a NUL") for name, words in texts),
        _when(pc.invert(pc.is_finite(value)), lambda: _concat("", metric, " is not finite")),
        _when(is_large, lambda: _concat("", metric, f" is beyond {VALUE_MAX:g}")),
    )


def _when(
    condition: pyarrow.Array, reason: pyarrow.Array | str | Callable[[], pyarrow.Array]
) -> pyarrow.Array:
    """The reason where a condition holds, else null; a function is called if it holds anywhere."""
    if not pc.any(condition).as_py():
        return pyarrow.nulls(len(condition), TEXT)
    found = reason() if callable(reason) else reason
    return pc.if_else(pc.fill_null(condition, False), found, pyarrow.scalar(None, TEXT))


def _too_long(what: str, size: pyarrow.Array) -> pyarrow.Array:
    return _when(
        pc.greater(size, DEVICE_BYTES_MAX),
        lambda: _concat(f"{what} has ", size, f" bytes; at most {DEVICE_BYTES_MAX}"),
    )


def _has_nul(text: pyarrow.Array) -> pyarrow.Array:
    """Whether texts contain a NUL, which PostgreSQL refuses."""
    return pc.fill_null(pc.match_substring(text, "\0"), False)


def _concat(before: str, middle: pyarrow.Array, after: str) -> pyarrow.Array:
    return pc.binary_join_element_wise(before, pc.cast(middle, TEXT), after, "")


def _span(milliseconds: int) -> pyarrow.Scalar:
    return pyarrow.scalar(milliseconds * 1000, pyarrow.duration("us"))


def _field(metric: MetricField) -> str:
    return metric.field or metric.name


def _wanted(source: Layout) -> str:
    if _is_senml(source):
        return "v, vs, vb"
    return ", ".join([*(_field(one) for one in source.metrics), *source.value, *source.text])
