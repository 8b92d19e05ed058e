"""OpenAPI v2: what kubectl reads that is too old for v3."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from asgi_platform import Served
from enmasse.api.kinds import SERVED
from enmasse.api.openapi import v3
from enmasse.api.openapi.v2 import document
from enmasse.api.openapi.v2_protobuf import ASKED_FOR, MEDIA_TYPE, encoded


def nodes(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    for one in value if isinstance(value, list) else ():
        yield from nodes(one)


def definition(name: str) -> dict[str, Any]:
    found: dict[str, Any] = document()["definitions"][name]
    return found


async def test_it_is_served_as_json_and_as_kubectl_asks_for_it(served: Served) -> None:
    plain = await served.http.get("/openapi/v2")
    assert plain.headers["content-type"] == "application/json"
    assert plain.json() == document()
    for asked in (
        *ASKED_FOR,
        "application/com.github.googleapis.gnostic.OpenAPIv2@68f4ded+protobuf",
    ):
        answer = await served.http.get("/openapi/v2", headers={"Accept": f"{asked}, */*;q=0.1"})
        assert answer.headers["content-type"] == MEDIA_TYPE
        assert answer.content == encoded(document())
    refused = await served.http.get("/openapi/v2", headers={"Accept": "text/html"})
    assert refused.status_code == 406
    assert MEDIA_TYPE in refused.json()["message"]


def test_every_path_and_kind_of_v3_is_in_it() -> None:
    found = [v3.document(kind.group_version) for kind in SERVED]
    assert set(document()["paths"]) == {path for one in found for path in one["paths"]}
    assert set(document()["definitions"]) == {
        name for one in found for name in one["components"]["schemas"]
    }
    for kind in SERVED:
        named = [
            one
            for one in document()["definitions"].values()
            if kind.group_version_kind in one.get("x-kubernetes-group-version-kind", [])
        ]
        assert len(named) == 1, kind


def test_every_reference_leads_somewhere_and_no_word_is_of_v3() -> None:
    said = json.dumps(document())
    assert "#/components" not in said
    references = {node["$ref"] for node in nodes(document()) if isinstance(node.get("$ref"), str)}
    assert references <= {f"#/definitions/{name}" for name in document()["definitions"]}
    for schema in document()["definitions"].values():
        for node in nodes(schema):
            assert not {"anyOf", "oneOf", "allOf", "nullable"} & set(node)


def test_a_change_says_how_fields_are_checked_and_what_it_may_be() -> None:
    one = document()["paths"]["/apis/enmasse.io/v1beta1/namespaces/{namespace}/addresses/{name}"]
    named = {each["name"]: each for each in one["patch"]["parameters"]}
    assert {"fieldValidation", "dryRun", "fieldManager"} <= set(named)
    assert named["body"]["in"] == "body"
    assert "application/apply-patch+yaml" in one["patch"]["consumes"]
    assert {each["name"] for each in one["parameters"]} == {"namespace", "name"}
    address = {"$ref": "#/definitions/io.enmasse.v1beta1.Address"}
    assert one["get"]["responses"]["200"]["schema"] == address
    assert "requestBody" not in one["put"]


def test_what_is_looked_up_elsewhere_keeps_its_description() -> None:
    metadata = definition("io.enmasse.v1beta1.Address")["properties"]["metadata"]
    assert metadata["$ref"].endswith("ObjectMeta")
    assert metadata["description"]
    assert set(metadata) == {"$ref", "description"}


@pytest.mark.parametrize("name", ["minimum", "maximum"])
def test_a_number_or_a_text_has_no_type(name: str) -> None:
    spec = definition("io.enmasse.v1beta1.Address")["properties"]["spec"]
    ttl = spec["properties"]["messageTtl"]["properties"][name]
    assert ttl["x-kubernetes-int-or-string"] is True
    assert not {"type", "anyOf"} & set(ttl)


def test_what_may_hold_anything_promises_no_fields() -> None:
    open_ = [
        node
        for node in nodes(document()["definitions"])
        if node.get("x-kubernetes-preserve-unknown-fields") is True
    ]
    assert open_
    for node in open_:
        assert set(node) <= {"x-kubernetes-preserve-unknown-fields", "description"}
