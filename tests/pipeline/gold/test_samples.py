"""Samples: whatever batches readings come in, and whatever is held, quantiles are those of all."""

import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy
import pyarrow
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from enmasse.base.errors import Conflict
from enmasse.pipeline.gold import gold_table, merging, samples
from enmasse.pipeline.gold.samples import NONE, Held, Samples
from measured import measured

WINDOWS = [60_000, 3_600_000]
APP = "p/s/query"


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples of eight, of which a few are held."""
    monkeypatch.setattr(merging, "SAMPLE_MAX", 8)
    monkeypatch.setattr(samples, "WINDOWS_MAX", 16)
    monkeypatch.setattr(samples, "FIRST", 4)
    monkeypatch.setattr(samples, "CELLS_MAX", 40)
    monkeypatch.setattr(samples, "ROWS_READ", 5)


def some(seed: int, count: int) -> pyarrow.Table:
    dice = random.Random(seed)
    rows: list[dict[str, Any]] = [
        {
            "device": dice.choice("abcdefgh"),
            "value": dice.uniform(-5, 5),
            "seconds": abs(dice.gauss(0, 200)),
        }
        for _ in range(count)
    ]
    return measured(*rows)


def quantiles(windows: pyarrow.Table) -> dict[tuple[Any, ...], tuple[float, float]]:
    names = zip(*(windows[name].to_pylist() for name in merging.KEY), strict=True)
    both = zip(windows["p50"].to_pylist(), windows["p95"].to_pylist(), strict=True)
    return dict(zip(names, both, strict=True))


def added(one: Samples, readings: pyarrow.Table, number: int) -> pyarrow.Table:
    """The windows of a batch with what samples say of them."""
    parts = merging.partials(readings, WINDOWS)
    for name, found in one.add(parts, APP, number).items():
        parts = parts.set_column(parts.schema.get_field_index(name), name, pyarrow.array(found))
    return parts


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("seed", range(4))
def test_what_is_not_held_any_more_is_read_again(tmp_path: Path, seed: int) -> None:
    readings, dice = some(seed, 600), random.Random(seed)
    one = Samples(str(tmp_path))
    first = 0
    for number in range(20):
        end = len(readings) if number == 19 else first + dice.randrange(60)
        batch = readings.slice(first, end - first)
        wanted = quantiles(merging.partials(readings.slice(0, end), WINDOWS))
        for name, found in quantiles(added(one, batch, number)).items():
            assert found == wanted[name]
        first = end
        if dice.random() < 0.3:
            # another process goes on
            one = Samples(str(tmp_path))
    rows = DeltaTable(str(tmp_path)).to_pyarrow_table()
    places = set(zip(*(rows[name].to_pylist() for name in (*merging.KEY, "key")), strict=True))
    # each reading once, and not all of them
    assert len(places) == len(rows) < 2 * len(readings)


@pytest.mark.usefixtures("few")
def test_a_batch_that_comes_again_changes_nothing(tmp_path: Path) -> None:
    readings = some(9, 100)
    for one in (Samples(str(tmp_path)), Samples(str(tmp_path))):
        for number in range(2):
            found = quantiles(added(one, readings.slice(50 * number, 50), number))
    version = DeltaTable(str(tmp_path)).version()
    again = quantiles(added(Samples(str(tmp_path)), readings.slice(50, 50), 1))
    assert again == found
    assert DeltaTable(str(tmp_path)).version() == version


def test_the_table_is_read_once_for_each_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = list[object]()
    real = Samples._batches

    def noted(one: Samples, chosen: Any) -> Any:
        looked.append(chosen)
        return real(one, chosen)

    monkeypatch.setattr(Samples, "_batches", noted)
    readings = some(13, 300)
    wanted = quantiles(merging.partials(readings, [3_600_000]))
    for first in (0, 150):
        # another process goes on where one was
        one = Samples(str(tmp_path))
        for number in range(first, first + 150):
            parts = merging.partials(readings.slice(number, 1), [3_600_000])
            found = one.add(parts, APP, number)["p50"][0]
    # devices come one by one, and are looked for when the first does
    assert len(looked) == 2
    (last,) = quantiles(parts)
    assert found == wanted[last][0]


def test_what_was_not_written_is_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    readings = some(10, 60)
    one = Samples(str(tmp_path))
    added(one, readings.slice(0, 20), 0)

    def full(*_: object) -> None:
        raise OSError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(samples.delta, "append_arrow", full)
        with pytest.raises(OSError, match="full"):
            added(one, readings.slice(20, 20), 1)
    # the batch comes again, or another one under its number
    found = quantiles(added(one, readings.slice(40, 20), 1))
    both = pyarrow.concat_tables([readings.slice(0, 20), readings.slice(40, 20)])
    wanted = quantiles(merging.partials(both, WINDOWS))
    assert found == {name: wanted[name] for name in found}


def test_all_samples_can_be_replaced(tmp_path: Path) -> None:
    table = gold_table.table(str(tmp_path / "gold"), "delta")
    old, new = some(11, 50), some(12, 3000)
    table.merge(merging.partials(old, WINDOWS), APP, 0)
    windows = merging.partials(new.slice(0, 2500), WINDOWS)
    table.replace([windows], {APP: 5})
    assert not table.merge(merging.partials(old, WINDOWS), APP, 5)
    table.merge(merging.partials(new.slice(2500), WINDOWS), APP, 6)
    assert quantiles(table.read()) == quantiles(merging.partials(new, WINDOWS))
    table.tidy(0)
    again = gold_table.table(str(tmp_path / "gold"), "delta")
    again.merge(merging.partials(old, WINDOWS), "p/t/query", 0)
    both = merging.merged([merging.partials(new, WINDOWS), merging.partials(old, WINDOWS)])
    assert quantiles(again.read()) == quantiles(both)


def test_windows_whose_samples_are_gone_are_refused_until_they_are_made_anew(
    tmp_path: Path,
) -> None:
    table = gold_table.table(str(tmp_path / "gold"), "delta")
    parts = merging.partials(some(14, 20), WINDOWS)
    table.merge(parts, APP, 0)
    table.check()
    shutil.rmtree(tmp_path / "gold_samples")
    with pytest.raises(Conflict, match="gold_samples.*backfill --gold-only"):
        table.check()
    table.replace([parts], {APP: 0})
    table.check()


READINGS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 40), st.floats(-9, 9)), max_size=60)


@settings(deadline=None)
@given(st.lists(READINGS, max_size=6))
def test_the_least_hashes_are_held_and_none_twice(
    batches: Sequence[Sequence[tuple[int, int, float]]],
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merging, "SAMPLE_MAX", 7)
        patch.setattr(samples, "CELLS_MAX", 20)
        held = Held()
        places, is_new = held.places([(window,) for window in range(6)])
        assert is_new.all()
        model: dict[int, dict[int, float]] = {window: {} for window in range(6)}
        for batch in batches:
            # one value for each hash, as it is with hashes of values
            rows = [(window, key, key / 7) for window, key, _ in batch]
            window, key, value = (numpy.array([row[n] for row in rows]) for n in range(3))
            came = held.add(
                places[window.astype(int)], key.astype(numpy.int64), value.astype(float)
            )
            offered = {(w, k) for (w, k, _), is_in in zip(rows, came, strict=True) if is_in}
            assert len(offered) == int(came.sum())
            for window_number in range(6):
                before = model[window_number]
                after = before | {k: v for w, k, v in rows if w == window_number}
                model[window_number] = dict(sorted(after.items())[:7])
                came_in = model[window_number].keys() - before.keys()
                assert {(window_number, k) for k in came_in} <= offered
        for window_number, wanted in model.items():
            place = places[window_number]
            row = held._key[place]
            assert row[row < NONE].tolist() == sorted(wanted)
            values = sorted(wanted.values())
            for name, share in merging.QUANTILES:
                if values:
                    at = int(merging.rank(numpy.array([len(values)]), share)[0])
                    assert held.quantiles[name][place] == values[at]
