"""Patterns of rights, by the rules of the node."""

import pytest

from enmasse.plan.model import Right
from enmasse.plan.rights import allowing, matches


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("orders", "orders", True),
        ("orders", "orders/1", False),
        ("*", "a/b/c", True),
        ("#", "a", True),
        ("orders/#", "orders", True),
        ("orders/#", "orders/a/b", True),
        ("orders/#/x", "orders/x", True),
        ("orders/#/x", "orders/a/b/x", True),
        ("orders/#/x", "orders/a/b", False),
        ("orders/+", "orders/a", True),
        ("orders/*", "orders/a", True),
        ("orders/+", "orders", False),
        ("+/x", "a/x", True),
        ("ord*", "orders", True),
        ("ord*", "orders/eu/1", True),
        ("ord*", "or", False),
        ("a/ord*", "a/orders/b", True),
        ("a/ord*", "b/orders", False),
        ("#/#", "a", True),
        ("+/#", "a", True),
        ("+", "", True),
        ("x" * 2000, "x" * 2000, True),
        ("#", "x" * 2000, False),
    ],
)
def test_a_pattern_matches_as_in_the_node(pattern: str, name: str, expected: bool) -> None:
    assert matches(pattern, name) is expected


def test_the_first_right_that_allows_it_is_named() -> None:
    rights = (
        Right(pattern="news/#", operations=("recv",)),
        Right(pattern="orders", operations=("send", "view")),
    )
    assert allowing(rights, "recv", "news/a") == "news/#"
    assert allowing(rights, "send", "news/a") is None
    assert allowing(rights, "view", "elsewhere") == "orders", "a right on any address"
    assert allowing(rights, "manage", "orders") is None
