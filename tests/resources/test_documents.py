"""Parsing of documents into resources: accepted forms, rejections and their messages."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from enmasse.base.errors import EnMasseError, Invalid
from enmasse.resources import (
    KINDS,
    Address,
    AddressSpace,
    MessagingUser,
    load,
    one_document,
    parse,
)

VECTORS = Path(__file__).parents[2] / "vectors" / "resources"
REFUSED = yaml.safe_load((VECTORS / "refused.yaml").read_text())

ORDERS = """
apiVersion: enmasse.io/v1beta1
kind: Address
metadata: {name: default.orders}
spec: {address: orders, type: anycast}
"""


@pytest.mark.parametrize("case", REFUSED, ids=[case["why"] for case in REFUSED])
def test_invalid_document_is_rejected_with_field_and_remedy(case: dict[str, Any]) -> None:
    with pytest.raises(Invalid) as refusal:
        parse(case["document"])
    messages = {fault.field: fault.message for fault in refusal.value.faults}
    assert case["field"] in messages
    assert case["says"] in messages[case["field"]]
    assert "\n" not in refusal.value.message


def test_all_faults_are_reported_together_with_the_type_first() -> None:
    document = yaml.safe_load(ORDERS)
    document["spec"] = {"type": "unicast", "messageTimeToLive": {"maximum": 1}}
    with pytest.raises(Invalid) as refusal:
        parse(document)
    fields = [fault.field for fault in refusal.value.faults]
    assert fields == ["spec.type", "spec.address", "spec.messageTimeToLive"]
    assert refusal.value.message.startswith("Address default.orders: spec.type: 'unicast' is not")


def test_several_documents_of_one_file_are_read_in_order() -> None:
    space = "apiVersion: enmasse.io/v1beta1\nkind: AddressSpace\nmetadata: {name: default}\n"
    text = f"---\n{space}spec: {{type: standard}}\n---\n{ORDERS}---\n"
    resources = load(text, "file")
    assert [type(resource) for resource in resources] == [AddressSpace, Address]


def test_json_and_kubernetes_lists_are_read() -> None:
    one = yaml.safe_load(ORDERS)
    assert load(json.dumps(one), "file") == load(ORDERS, "file")
    unfolded = load(json.dumps({"apiVersion": "v1", "kind": "List", "items": [one, one]}), "file")
    assert [resource.metadata.name for resource in unfolded] == ["default.orders"] * 2
    assert len(load(json.dumps([one]), "file")) == 1
    assert load("{kind: Address, apiVersion: enmasse.io/v1beta1, metadata: {name: a.b},"
                " spec: {type: anycast, address: b}}", "file")[0].space == "a"  # fmt: skip


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("kind: [", "orders.yaml, line 2: not a YAML document"),
        (
            "kind: Address\nkind: Address",
            "orders.yaml, line 2: not a YAML document: duplicate key 'kind'",
        ),
        ("just text", "orders.yaml, document 1: not a resource"),
        ("a: 2026-99-99", "orders.yaml: not a YAML document: month must be in 1..12"),
        ("[" * 100_000, "orders.yaml: not a YAML document: it is nested more than 100 levels deep"),
        ("!!python/object:os.system {}", "orders.yaml, line 1: not a YAML document"),
        (ORDERS + "---\nkind: Adress", "orders.yaml, document 2: kind: 'Adress' is not served"),
        (ORDERS.replace("anycast", "any"), "document 1: Address default.orders: spec.type: 'any'"),
    ],
)
def test_malformed_text_is_rejected_naming_file_and_line(text: str, says: str) -> None:
    with pytest.raises(Invalid) as refusal:
        load(text, "orders.yaml")
    assert says in refusal.value.message


def test_yaml_merge_keys_and_complex_keys_are_handled() -> None:
    merged = "base: &b {type: anycast}\nspec: {<<: *b, address: orders}\n"
    with pytest.raises(Invalid, match="kind: is required"):
        load(merged, "file")
    with pytest.raises(Invalid):
        load("? [a, b]\n: c\n", "file")


def test_server_side_fields_are_ignored() -> None:
    document = yaml.safe_load(ORDERS)
    document["status"] = {"anything": 1}
    document["metadata"] |= {"managedFields": [{}], "selfLink": "/x"}
    assert parse(document) == parse(yaml.safe_load(ORDERS))


def test_stored_resource_round_trips_through_its_document() -> None:
    for resource in [*load_stored("shop.yaml"), *load_stored("stored.yaml")]:
        assert parse(resource.document(), stored=True) == resource


def test_every_kind_has_its_name_and_plural() -> None:
    for name, model in KINDS.items():
        assert model.model_fields["kind"].default == name
        assert model.plural == name.lower() + ("es" if name.endswith("s") else "s")


@pytest.mark.parametrize("kind", ["ConsoleService", "IoTConfig", "IoTProject"])
def test_kind_of_the_original_that_is_not_served_is_rejected(kind: str) -> None:
    with pytest.raises(Invalid, match=f"kind: '{kind}' is not served; .*remove the document"):
        parse({"apiVersion": "admin.enmasse.io/v1beta1", "kind": kind, "metadata": {"name": "x"}})


def load_stored(file: str) -> list[Any]:
    return [parse(item, stored=True) for item in yaml.safe_load_all((VECTORS / file).read_text())]


def test_user_is_accepted_in_the_api_group_of_the_original() -> None:
    document = {
        "apiVersion": "user.enmasse.io/v1beta1",
        "kind": "MessagingUser",
        "metadata": {"name": "shop.alice"},
        "spec": {
            "username": "alice",
            "authentication": {"type": "password", "password": "c2VjcmV0"},
            "authorization": [{"addresses": ["*", "or*", "#/x", "a/+/b"], "operations": ["send"]}],
        },
    }
    user = parse(document)
    assert isinstance(user, MessagingUser)
    assert user.api_version == "enmasse.io/v1beta1"
    document["kind"] = "Address"
    with pytest.raises(Invalid, match="write enmasse.io/v1beta1"):
        parse(document)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(spec=json_values, metadata=json_values, kind=st.sampled_from([*KINDS, "Nothing"]))
def test_arbitrary_document_parses_or_is_rejected_with_faults(
    spec: Any, metadata: Any, kind: str
) -> None:
    document = {
        "apiVersion": "enmasse.io/v1beta1",
        "kind": kind,
        "metadata": metadata,
        "spec": spec,
    }
    try:
        assert parse(document).kind == kind
    except EnMasseError as error:
        assert error.faults


@given(st.text())
def test_arbitrary_text_loads_or_is_rejected_naming_the_file(text: str) -> None:
    try:
        assert isinstance(load(text, "file"), list)
    except Invalid as error:
        assert error.message.startswith("file")


def test_conflicting_declarations_of_a_resource_are_rejected() -> None:
    with pytest.raises(Invalid) as refusal:
        load(f"{ORDERS}---{ORDERS.replace('anycast', 'multicast')}", "orders.yaml")
    assert refusal.value.message == (
        "orders.yaml, document 2: Address default.orders: metadata.name: document 1 declares it"
        " differently; keep one of the two"
    )
    assert len(load(f"{ORDERS}---{ORDERS}", "orders.yaml")) == 2


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: " + "[" * 50_000, "nested more than 100 levels deep"),
        ("\n".join(" " * level + "a:" for level in range(200)), "nested more than 100 levels deep"),
        ("a: " + "{a: " * 101 + "}" * 101, "nested more than 100 levels deep"),
        (
            "a: &a [0, 1]\n"
            + "".join(
                f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n"
                for before, name in pairwise("abcdefgh")
            ),
            "more than [0-9,]* values",
        ),
    ],
    ids=["flow", "block", "mappings", "aliases"],
)
def test_deeply_nested_or_expanding_yaml_is_rejected(text: str, problem: str) -> None:
    with pytest.raises(Invalid, match=problem):
        one_document(text)
    with pytest.raises(Invalid, match="file: .*" + problem):
        load(text, "file")


def test_aliases_and_levels_within_bounds_are_read() -> None:
    found = one_document("a: &a {b: 1}\nc: [*a, *a]\nd: " + "[" * 98 + "]" * 98)
    assert isinstance(found, dict)
    assert found["c"] == [{"b": 1}] * 2


def test_text_repeated_by_aliases_is_bounded() -> None:
    long = f"a: &x {'y' * 100_000}\nl: [{', '.join(['*x'] * 12)}]\n"
    with pytest.raises(Invalid, match="aliases repeat more than 1,048,576 characters"):
        one_document(long)
    nested = f"a: &x [&y {'y' * 100_000}, *y, *y]\nl: [*x, *x, *x]\n"
    with pytest.raises(Invalid, match="aliases repeat"):
        one_document(nested)
    assert one_document(long.replace(", *x, *x, *x", "", 1))


@pytest.mark.parametrize("text", ['{"a": NaN}', '{"a": 1e999}', '{"a": "\\ud800"}', "a: .inf"])
def test_document_with_a_value_without_json_form_is_rejected(text: str) -> None:
    with pytest.raises(Invalid, match="the body: not a YAML document: it contains"):
        one_document(text)
