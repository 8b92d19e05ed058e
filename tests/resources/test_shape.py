"""Bounds of one document."""

import datetime
from typing import Any

import pytest

from enmasse.resources.shape import NESTING_MAX, RESOURCE_VALUES_MAX, excess, unwritable


def nested(levels: int) -> Any:
    data: Any = {}
    for _ in range(levels - 1):
        data = {"a": data}
    return data


def test_document_at_the_nesting_and_value_bounds_is_accepted() -> None:
    assert excess(nested(NESTING_MAX)) == ""
    assert excess([1] * (RESOURCE_VALUES_MAX - 1)) == ""
    assert excess({"kind": "Address"}, 3) == ""


def test_document_beyond_the_nesting_or_value_bound_is_rejected() -> None:
    assert "nested more than 100 levels" in excess(nested(NESTING_MAX + 1))
    assert "more than 50,000 values" in excess([1] * RESOURCE_VALUES_MAX)
    assert "more than 2 values" in excess({"kind": "Address"}, 2)


def test_shared_data_counts_at_each_reference_and_cycles_are_rejected() -> None:
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
def test_value_without_a_json_form_is_reported(value: Any, says: str) -> None:
    assert says in unwritable({"spec": [value]})


def test_json_value_is_writable_up_to_the_byte_bound() -> None:
    date = datetime.date(2026, 1, 31)
    assert unwritable({"a": ["\U0001f600", "\0", 1.5, None, True], 1: date}) == ""
    assert unwritable({"a": "b"}, 10) == ""
    assert "more than 9 bytes" in unwritable({"a": "b"}, 9)
