"""Windows: figures that are right, in whatever order and portions readings come."""

import math
import statistics
from datetime import timedelta
from typing import Any

import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enmasse.pipeline.gold import merging
from measured import BEGIN, measured

MINUTE, HOUR = 60_000, 3_600_000


def readings(*rows: tuple[str, float | None, float]) -> pyarrow.Table:
    """Device, value and seconds after the beginning, in the order of their offsets."""
    return measured(
        *(
            {
                "device": device,
                "unit": "Cel" if value is not None and value < 1e6 else None,
                "value": value,
                "seconds": seconds,
                "partition": offset % 2,
            }
            for offset, (device, value, seconds) in enumerate(rows)
        )
    )


def windows(table: pyarrow.Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.to_pylist()
    return sorted(rows, key=lambda row: (row["window_ms"], row["start"], row["device"]))


def test_a_window_tells_what_its_readings_were() -> None:
    found = windows(
        merging.partials(
            readings(
                ("a", 1.0, 0), ("a", 4.0, 59.999), ("a", 2.0, 30), ("a", 9.0, 60), ("b", 5.0, 1)
            ),
            [MINUTE, HOUR],
        )
    )
    assert [(row["window_ms"], row["start"], row["device"], row["count"]) for row in found] == [
        (MINUTE, BEGIN, "a", 3),
        (MINUTE, BEGIN, "b", 1),
        (MINUTE, BEGIN + timedelta(minutes=1), "a", 1),
        (HOUR, BEGIN, "a", 4),
        (HOUR, BEGIN, "b", 1),
    ]
    first = found[0]
    assert (first["min"], first["max"], first["last"], first["sum"]) == (1.0, 4.0, 4.0, 7.0)
    assert first["last_time"] == BEGIN + timedelta(seconds=59.999)
    assert math.isclose(first["mean"], 7 / 3)
    assert math.isclose(first["stddev"], statistics.stdev([1, 4, 2]))
    assert (first["p50"], first["p95"]) == (2.0, 4.0)
    assert (first["date"], first["unit"]) == (BEGIN.date(), "Cel")
    assert found[1]["stddev"] is None


def test_a_sum_that_is_no_number_stays_one_infinity() -> None:
    part = merging.partials(readings(("a", 1.7e308, 0), ("a", 1.7e308, 1)), [HOUR])
    whole = merging.merged([part, merging.partials(readings(("a", 1.0, 2)), [HOUR])])
    assert whole["sum"].to_pylist() == [math.inf]
    assert whole["sum_rest"].to_pylist() == [0.0]
    assert whole["max"].to_pylist() == [1.7e308]
    assert merging.differences(whole, whole) == []
    assert merging.differences(whole, merging.partials(readings(("a", 1.0, 0)), [HOUR])) != []


def test_texts_are_in_no_window() -> None:
    assert len(merging.partials(readings(("a", None, 0)), [MINUTE])) == 0
    assert merging.partials(readings(), [MINUTE]).schema == merging.SCHEMA


def test_of_two_readings_of_one_time_the_one_behind_in_the_stream_is_last() -> None:
    both = readings(("a", 1.0, 5), ("a", 2.0, 5), ("a", 3.0, 5))
    # places are ordered by partition, then offset
    assert windows(merging.partials(both, [MINUTE]))[0]["last"] == 2.0
    backwards = both.take([2, 1, 0])
    assert windows(merging.partials(backwards, [MINUTE]))[0]["last"] == 2.0


def test_a_sum_that_nearly_cancels_keeps_its_digits() -> None:
    values = [1e16, 1.0, -1e16] * 100
    rows = readings(*(("a", value, 1.0) for value in values))
    parts = [merging.partials(rows.slice(first, 7), [MINUTE]) for first in range(0, 300, 7)]
    (window,) = windows(merging.merged(parts))
    assert window["sum"] == math.fsum(values) == 100.0


@pytest.mark.parametrize("value", [5.5e-179, 1e-320, 1e200])
def test_squares_out_of_range_do_not_spoil_the_deviation(value: float) -> None:
    (whole,) = windows(merging.partials(readings(("a", 0.0, 0), ("a", value, 0)), [MINUTE]))
    halves = [merging.partials(readings(("a", half, 0)), [MINUTE]) for half in (0.0, value)]
    (again,) = windows(merging.merged([merging.merged(halves)]))
    assert math.isclose(whole["stddev"], value / math.sqrt(2), abs_tol=merging.LEAST)
    assert math.isclose(again["stddev"], whole["stddev"], abs_tol=merging.LEAST)


def test_quantiles_of_many_readings_keep_their_rank() -> None:
    count = 20_000
    rows = readings(*(("a", float((number * 7919) % count), 1.0) for number in range(count)))
    (window,) = windows(merging.partials(rows, [HOUR]))
    assert len(window["sample"]) == merging.SAMPLE_MAX
    for name, share in (("p50", 0.5), ("p95", 0.95)):
        error = math.sqrt(share * (1 - share) / merging.SAMPLE_MAX)
        assert abs(window[name] / count - share) < 3 * error


VALUES = (
    st.floats(-1e300, 1e300)
    | st.floats(-1e9, 1e9)
    | st.floats(-1.0, 1.0)
    | st.integers(-3, 3).map(float)
)
READING = st.tuples(st.sampled_from("ab"), VALUES, st.floats(0, 7200))


@settings(deadline=None, max_examples=50)
@given(st.lists(READING, min_size=1, max_size=40), st.data())
def test_any_portions_in_any_order_give_what_all_at_once_give(
    rows: list[tuple[str, float, float]], data: st.DataObject
) -> None:
    table = readings(*rows)
    whole = merging.partials(table, [MINUTE, HOUR])
    order = data.draw(st.permutations(range(len(rows))))
    cuts = sorted(data.draw(st.sets(st.integers(0, len(rows)), max_size=4)) | {0, len(rows)})
    held = merging.SCHEMA.empty_table()
    for first, end in zip(cuts, cuts[1:], strict=False):
        portion = merging.partials(table.take(order[first:end]), [MINUTE, HOUR])
        held = merging.merged([held, portion])
    assert merging.differences(held, whole) == []
    for row in whole.to_pylist():
        mine = [
            value
            for device, value, seconds in rows
            if device == row["device"]
            and row["start"]
            <= BEGIN + timedelta(seconds=seconds)
            < row["start"] + timedelta(milliseconds=row["window_ms"])
        ]
        assert (row["count"], row["min"], row["max"]) == (len(mine), min(mine), max(mine))
        scale = max(map(abs, mine))
        assert math.isclose(row["sum"], math.fsum(mine), abs_tol=scale * 1e-15)
        assert row["p50"] == sorted(mine)[math.ceil(len(mine) / 2) - 1]
        if len(mine) > 1:
            assert math.isclose(
                row["stddev"],
                statistics.stdev(mine),
                rel_tol=1e-9,
                abs_tol=scale * 1e-12 + merging.LEAST,
            )


@pytest.mark.parametrize(
    ("change", "says"),
    [({"count": 3}, ["count"]), ({"mean": 1.5000001}, ["mean"]), ({"last": 7.0}, ["last"])],
)
def test_windows_that_differ_are_told(change: dict[str, Any], says: list[str]) -> None:
    wanted = merging.partials(readings(("a", 1.0, 0), ("a", 2.0, 1)), [MINUTE])
    changed = pyarrow.Table.from_pylist([wanted.to_pylist()[0] | change], merging.SCHEMA)
    (found,) = merging.differences(changed, wanted)
    assert (found["device"], found["differs"]) == ("a", says)
    empty = merging.SCHEMA.empty_table()
    assert merging.differences(empty, wanted)[0]["differs"] == ["missing"]
    assert merging.differences(wanted, empty)[0]["differs"] == ["not in bronze"]
    slight = pyarrow.Table.from_pylist(
        [wanted.to_pylist()[0] | {"mean": 1.5 * (1 + 1e-12)}], merging.SCHEMA
    )
    assert merging.differences(slight, wanted) == []
