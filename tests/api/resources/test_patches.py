"""Patches, with the examples of RFC 7396, appendix A, and RFC 6902, appendix A."""

import json
from typing import Any

import pytest

from enmasse.api.resources.patches import (
    COPIED_BYTES_MAX,
    OPERATIONS_MAX,
    json_patch,
    merge_patch,
    strategic_merge_patch,
)
from enmasse.base.errors import Code, Invalid

EXAMPLES: list[tuple[Any, Any, Any]] = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, None, None),
    ({"a": "foo"}, "bar", "bar"),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@pytest.mark.parametrize(("target", "patch", "result"), EXAMPLES)
def test_merge_patch_matches_the_examples_of_rfc_7396(target: Any, patch: Any, result: Any) -> None:
    assert merge_patch(target, patch) == result


def test_merge_patch_does_not_change_its_target() -> None:
    target = {"a": {"b": 1}}
    merge_patch(target, {"a": {"b": None}})
    assert target == {"a": {"b": 1}}


def op(name: str, path: str, **more: Any) -> dict[str, Any]:
    return {"op": name, "path": path} | {name.rstrip("_"): one for name, one in more.items()}


JSON_EXAMPLES: list[tuple[Any, list[dict[str, Any]], Any]] = [
    ({"foo": "bar"}, [op("add", "/baz", value="qux")], {"baz": "qux", "foo": "bar"}),
    ({"foo": ["a", "b"]}, [op("add", "/foo/1", value="x")], {"foo": ["a", "x", "b"]}),
    ({"baz": "qux", "foo": "bar"}, [op("remove", "/baz")], {"foo": "bar"}),
    ({"foo": ["a", "x", "b"]}, [op("remove", "/foo/1")], {"foo": ["a", "b"]}),
    ({"baz": "qux"}, [op("replace", "/baz", value="boo")], {"baz": "boo"}),
    (
        {"foo": {"bar": "baz", "waldo": "fred"}, "qux": {"corge": "grault"}},
        [op("move", "/qux/thud", from_="/foo/waldo")],
        {"foo": {"bar": "baz"}, "qux": {"corge": "grault", "thud": "fred"}},
    ),
    (
        {"foo": ["all", "grass", "cows", "eat"]},
        [op("move", "/foo/3", from_="/foo/1")],
        {"foo": ["all", "cows", "eat", "grass"]},
    ),
    (
        {"baz": "qux", "foo": ["a", 2, "c"]},
        [op("test", "/baz", value="qux"), op("test", "/foo/1", value=2.0)],
        {"baz": "qux", "foo": ["a", 2, "c"]},
    ),
    ({"foo": "bar"}, [op("add", "/child", value={"a": {}})], {"foo": "bar", "child": {"a": {}}}),
    ({"/": 9, "~1": 10}, [op("test", "/~01", value=10)], {"/": 9, "~1": 10}),
    ({"foo": ["bar"]}, [op("add", "/foo/-", value=["abc"])], {"foo": ["bar", ["abc"]]}),
    ({"a": {"b": 1}}, [op("copy", "/c", from_="/a"), op("add", "/c/b", value=2)],
     {"a": {"b": 1}, "c": {"b": 2}}),
    ({"a": 1}, [op("replace", "", value={"b": 2})], {"b": 2}),
]  # fmt: skip


@pytest.mark.parametrize(("target", "patch", "result"), JSON_EXAMPLES)
def test_json_patch_operations_are_applied_in_order(target: Any, patch: Any, result: Any) -> None:
    before = json.dumps(target)
    assert json_patch(target, patch) == result
    assert json.dumps(target) == before


@pytest.mark.parametrize(
    "operation",
    [
        op("test", "/a", value=2),
        op("test", "/a", value=True),
        op("test", "/a"),
        op("add", "/b/c", value=1),
        op("add", "/a/c", value=1),
        op("add", "a", value=1),
        op("add", "/l/2", value=1),
        op("add", "/l/01", value=1),
        op("remove", "/l/-"),
        op("remove", "/b"),
        op("replace", "/b", value=1),
        op("move", "/l/0/x", from_="/l"),
        op("copy", "/b", from_="/c"),
        op("copy", "/b"),
        op("rename", "/a"),
        {"op": "add"},
        3,
    ],
)
def test_inapplicable_json_patch_operation_is_refused_with_its_index(operation: Any) -> None:
    with pytest.raises(Invalid) as refusal:
        json_patch({"a": 1, "l": [1]}, [op("add", "/x", value=1), operation])
    assert refusal.value.code == Code.PATCH_UNFIT
    assert refusal.value.faults[0].field == "[1]"


def test_json_patch_bounds_operations_and_copied_bytes() -> None:
    with pytest.raises(Invalid, match="at most"):
        json_patch({}, [op("add", "/a", value=1)] * (OPERATIONS_MAX + 1))
    with pytest.raises(Invalid, match="at most"):
        json_patch({}, {})
    doubling = [op("copy", "/a/-", from_="/a") for _ in range(64)]
    with pytest.raises(Invalid, match=f"copies more than {COPIED_BYTES_MAX} bytes"):
        json_patch({"a": [1]}, doubling)


def test_a_strategic_merge_patch_adds_to_finalizers() -> None:
    target = {"metadata": {"finalizers": ["a", "b"]}, "data": {"x": "1"}}
    patch = {
        "metadata": {
            "$setElementOrder/finalizers": ["c", "b"],
            "$deleteFromPrimitiveList/finalizers": ["a"],
            "finalizers": ["c"],
        },
        "data": {"x": None, "y": "2"},
    }
    assert strategic_merge_patch(target, patch) == {
        "metadata": {"finalizers": ["b", "c"]},
        "data": {"y": "2"},
    }
    with pytest.raises(Invalid, match="metadata"):
        strategic_merge_patch(target, {"metadata": {"$patch": "replace"}})
