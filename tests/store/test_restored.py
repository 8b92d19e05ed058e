"""Periods of which a restored store has no resources."""

import pytest

from enmasse.resources import ConfigMap
from enmasse.store.restored import RESTORED, TIMES, TIMES_MAX, UnknownPeriod, is_lost, lost, noted


def at(hour: int) -> str:
    return f"2026-01-{1 + hour // 24:02}T{hour % 24:02}:00:00Z"


def test_lost_periods_accumulate_over_restores() -> None:
    assert lost(None) == () and not is_lost(at(1), ())
    first = noted((), UnknownPeriod(at(1), at(3)))
    assert first.key == RESTORED and not first.faults()
    both = lost(noted(lost(first), UnknownPeriod(at(5), at(5))))
    assert both == (UnknownPeriod(at(1), at(3)), UnknownPeriod(at(5), at(5)))
    assert [hour for hour in range(8) if is_lost(at(hour), both)] == [1, 2, 3, 5]
    assert is_lost(None, both), "an unknown creation time counts as lost"


def test_oldest_lost_periods_are_merged_beyond_the_bound() -> None:
    found: ConfigMap | None = None
    for number in range(TIMES_MAX + 2):
        found = noted(lost(found), UnknownPeriod(at(2 * number), at(2 * number + 1)))
    times = lost(found)
    assert len(times) == TIMES_MAX
    assert times[0] == UnknownPeriod(at(0), at(5)) and times[1] == UnknownPeriod(at(6), at(7))


@pytest.mark.parametrize("text", ["yesterday", at(1), f"{at(1)} {at(2)} {at(3)}"])
def test_malformed_lost_period_is_rejected_with_a_remedy(text: str) -> None:
    found = noted((), UnknownPeriod(at(1), at(2))).model_copy(update={"data": {TIMES: f"{text}\n"}})
    with pytest.raises(ValueError, match=r"data\.times: .* is not a pair of times; write"):
        lost(found)
