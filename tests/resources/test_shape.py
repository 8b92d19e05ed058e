"""How much one document may be."""

import datetime
from typing import Any

import pytest

from enmasse.resources.shape import NESTING_MAX, RESOURCE_VALUES_MAX, excess, unwritable


def nested(levels: int) -> Any:
    data: Any = {}
    for _ in range(levels - 1):
        data = {"a": data}
    return data


def test_levels_and_values_up_to_the_bounds_fit() -> None:
    assert excess(nested(NESTING_MAX)) == ""
    assert excess([1] * (RESOURCE_VALUES_MAX - 1)) == ""
    assert excess({"kind": "Address"}, 3) == ""


def test_one_more_does_not() -> None:
    assert "nested more than 100 levels" in excess(nested(NESTING_MAX + 1))
    assert "more than 50,000 values" in excess([1] * RESOURCE_VALUES_MAX)
    assert "more than 2 values" in excess({"kind": "Address"}, 2)


def test_data_in_several_places_counts_in_each_and_itself_is_too_deep() -> None:
    many: Any = [0] * 10
    for _ in range(9):
        many = [many] * 10
    assert "values" in excess(many)
    ring: dict[str, Any] = {}
    ring["again"] = ring
    assert "levels" in excess(ring)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (float("nan"), "number"),
        (1e999, "number"),
        ("\ud800", "surrogate"),
        ({"\udfff": 1}, "surrogate"),
    ],
    ids=["nan", "infinity", "text", "name"],
)
def test_what_json_cannot_say_is_told(value: Any, says: str) -> None:
    assert says in unwritable({"spec": [value]})


def test_what_json_says_can_be_written_up_to_its_bytes() -> None:
    date = datetime.date(2026, 1, 31)
    assert unwritable({"a": ["\U0001f600", "\0", 1.5, None, True], 1: date}) == ""
    assert unwritable({"a": "b"}, 10) == ""
    assert "more than 9 bytes" in unwritable({"a": "b"}, 9)
