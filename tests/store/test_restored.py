"""Times of which a store that was put back knows nothing."""

import pytest

from enmasse.resources import ConfigMap
from enmasse.store.restored import RESTORED, TIMES, TIMES_MAX, Lost, is_lost, lost, noted


def at(hour: int) -> str:
    return f"2026-01-{1 + hour // 24:02}T{hour % 24:02}:00:00Z"


def test_times_are_kept_from_one_restore_to_the_next() -> None:
    assert lost(None) == () and not is_lost(at(1), ())
    first = noted((), Lost(at(1), at(3)))
    assert first.key == RESTORED and not first.faults()
    both = lost(noted(lost(first), Lost(at(5), at(5))))
    assert both == (Lost(at(1), at(3)), Lost(at(5), at(5)))
    assert [hour for hour in range(8) if is_lost(at(hour), both)] == [1, 2, 3, 5]
    assert is_lost(None, both), "nobody knows of that one"


def test_of_many_times_the_oldest_become_one() -> None:
    found: ConfigMap | None = None
    for number in range(TIMES_MAX + 2):
        found = noted(lost(found), Lost(at(2 * number), at(2 * number + 1)))
    times = lost(found)
    assert len(times) == TIMES_MAX
    assert times[0] == Lost(at(0), at(5)) and times[1] == Lost(at(6), at(7))


@pytest.mark.parametrize("text", ["yesterday", at(1), f"{at(1)} {at(2)} {at(3)}"])
def test_what_is_no_time_is_named_with_the_mend(text: str) -> None:
    found = noted((), Lost(at(1), at(2))).model_copy(update={"data": {TIMES: f"{text}\n"}})
    with pytest.raises(ValueError, match=r"data\.times: .* is not a pair of times; write"):
        lost(found)
