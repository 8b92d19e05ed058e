"""Differences and conflicts of edited documents."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enmasse.api.resources.patches import merge_patch
from enmasse.cli.resources.editing import conflicting_fields, difference, editable

VALUES = st.recursive(
    st.integers() | st.text(max_size=3) | st.booleans() | st.lists(st.integers(), max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
DOCUMENTS = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)


@settings(deadline=None)
@given(DOCUMENTS, DOCUMENTS)
def test_difference_applied_to_the_first_document_yields_the_second(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    assert merge_patch(before, difference(before, after)) == after
    assert (difference(before, after) == {}) is (before == after)


@pytest.mark.parametrize(
    ("mine", "theirs", "fields"),
    [
        ({"spec": {"plan": "a"}}, {"spec": {"plan": "b"}}, ["spec.plan"]),
        ({"spec": {"plan": "a"}}, {"spec": {"plan": "a"}}, []),
        ({"spec": {"plan": "a"}}, {"spec": {"topic": "b"}}, []),
        ({"spec": {"plan": None}}, {"spec": {"plan": "b"}}, ["spec.plan"]),
        ({"spec": {"ttl": {"a": 1}}}, {"spec": {"ttl": None}}, ["spec.ttl"]),
    ],
)
def test_fields_changed_differently_by_both_are_disputed(
    mine: dict[str, Any], theirs: dict[str, Any], fields: list[str]
) -> None:
    assert conflicting_fields(mine, theirs) == fields


def test_editable_document_omits_server_fields() -> None:
    document = {
        "kind": "Address",
        "metadata": {"name": "a.b", "uid": "u", "resourceVersion": "1", "labels": {"x": "y"}},
        "spec": {"type": "queue"},
        "status": {"isReady": True},
    }
    assert editable(document) == {
        "kind": "Address",
        "metadata": {"name": "a.b", "labels": {"x": "y"}},
        "spec": {"type": "queue"},
    }
