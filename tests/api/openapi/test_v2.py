"""OpenAPI v2, for versions of kubectl that do not read v3."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from asgi_platform import Served
from enmasse.api.kinds import SERVED
from enmasse.api.openapi import v3, v3_operations
from enmasse.api.openapi.v2 import document
from enmasse.api.openapi.v2_protobuf import MEDIA_TYPE, REQUESTED_TYPES, encoded


def nodes(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    for one in value if isinstance(value, list) else ():
        yield from nodes(one)


def definition(name: str) -> dict[str, Any]:
    found: dict[str, Any] = document()["definitions"][name]
    return found


async def test_openapi_v2_is_served_as_json_and_as_protobuf(served: Served) -> None:
    plain = await served.http.get("/openapi/v2")
    assert plain.headers["content-type"] == "application/json"
    assert plain.json() == document()
    for asked in (
        *REQUESTED_TYPES,
        "application/com.github.googleapis.gnostic.OpenAPIv2@68f4ded+protobuf",
    ):
        answer = await served.http.get("/openapi/v2", headers={"Accept": f"{asked}, */*;q=0.1"})
        assert answer.headers["content-type"] == MEDIA_TYPE
        assert answer.content == encoded(document())
    refused = await served.http.get("/openapi/v2", headers={"Accept": "text/html"})
    assert refused.status_code == 406
    assert MEDIA_TYPE in refused.json()["message"]


def test_openapi_v2_has_every_path_and_kind_of_v3() -> None:
    found = [v3.document(kind.group_version) for kind in SERVED]
    others = {one.path for one in v3_operations.described()}
    resources = {path for one in found for path in one["paths"]} - others
    assert set(document()["paths"]) == resources
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


def test_openapi_v2_references_resolve_and_use_no_v3_keyword() -> None:
    said = json.dumps(document())
    assert "#/components" not in said
    references = {node["$ref"] for node in nodes(document()) if isinstance(node.get("$ref"), str)}
    assert references <= {f"#/definitions/{name}" for name in document()["definitions"]}
    for schema in document()["definitions"].values():
        for node in nodes(schema):
            assert not {"anyOf", "oneOf", "allOf", "nullable"} & set(node)


def test_openapi_v2_patch_lists_its_parameters_and_media_types() -> None:
    one = document()["paths"]["/apis/enmasse.io/v1beta1/namespaces/{namespace}/addresses/{name}"]
    named = {each["name"]: each for each in one["patch"]["parameters"]}
    assert {"fieldValidation", "dryRun", "fieldManager"} <= set(named)
    assert named["body"]["in"] == "body"
    assert "application/apply-patch+yaml" in one["patch"]["consumes"]
    assert {each["name"] for each in one["parameters"]} == {"namespace", "name"}
    address = {"$ref": "#/definitions/io.enmasse.v1beta1.Address"}
    assert one["get"]["responses"]["200"]["schema"] == address
    assert "requestBody" not in one["put"]


def test_openapi_v2_reference_retains_its_description() -> None:
    metadata = definition("io.enmasse.v1beta1.Address")["properties"]["metadata"]
    assert metadata["$ref"].endswith("ObjectMeta")
    assert metadata["description"]
    assert set(metadata) == {"$ref", "description"}


@pytest.mark.parametrize("name", ["minimum", "maximum"])
def test_openapi_v2_int_or_string_has_no_type(name: str) -> None:
    spec = definition("io.enmasse.v1beta1.Address")["properties"]["spec"]
    ttl = spec["properties"]["messageTtl"]["properties"][name]
    assert ttl["x-kubernetes-int-or-string"] is True
    assert not {"type", "anyOf"} & set(ttl)


def test_openapi_v2_free_form_object_declares_no_fields() -> None:
    open_ = [
        node
        for node in nodes(document()["definitions"])
        if node.get("x-kubernetes-preserve-unknown-fields") is True
    ]
    assert open_
    for node in open_:
        assert set(node) <= {"x-kubernetes-preserve-unknown-fields", "description"}
