"""Resource names for addresses and user names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from enmasse.cli.resources.names import in_space
from enmasse.resources.model import name_in_space
from enmasse.resources.naming import resource_name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("orders", "default.orders"),
        ("a-1", "default.a-1"),
        ("news/europe", "default.news-europe-"),
        ("Orders", "default.orders-"),
        ("#", "default."),
    ],
)
def test_resource_name_keeps_valid_text_and_hashes_the_rest(text: str, name: str) -> None:
    made = resource_name("default", text)
    assert made.startswith(name)
    assert (made == name) is (name[-1] not in "-.")


@given(st.text(min_size=1), st.text(min_size=1))
def test_resource_names_are_valid_and_unique_per_text(one: str, other: str) -> None:
    name = resource_name("default", one)
    assert name_in_space(name) == name
    assert name == resource_name("default", one)
    assert (name == resource_name("default", other)) is (one == other)


def test_resource_name_may_already_include_its_space() -> None:
    assert in_space("shop", "orders") == "shop.orders"
    assert in_space("shop", "shop.orders") == "shop.orders"
