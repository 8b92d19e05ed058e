"""OpenAPI, which `kubectl explain` and the field validation of kubectl read."""

from collections.abc import Iterator
from typing import Any

import pytest

from asgi_platform import Served
from enmasse.api.kinds import SERVED
from enmasse.resources import Address, MessagingUser
from enmasse.resources.schema import schema


async def documents(served: Served) -> dict[str, Any]:
    index = (await served.http.get("/openapi/v3")).json()["paths"]
    return {
        path: (await served.http.get(one["serverRelativeURL"])).json()
        for path, one in index.items()
    }


def nodes(document: Any) -> Iterator[dict[str, Any]]:
    if isinstance(document, dict):
        yield document
        for value in document.values():
            yield from nodes(value)
    elif isinstance(document, list):
        for value in document:
            yield from nodes(value)


async def test_each_group_and_version_has_a_document(served: Served) -> None:
    found = await documents(served)
    assert set(found) == {kind.base.lstrip("/") for kind in SERVED}
    for document in found.values():
        schemas = document["components"]["schemas"]
        references = {node["$ref"] for node in nodes(document) if "$ref" in node}
        assert {one.removeprefix("#/components/schemas/") for one in references} <= set(schemas)
    missing = await served.http.get("/openapi/v3/apis/nothing/v1")
    assert missing.status_code == 404


async def test_each_kind_has_one_schema_with_its_group_version_kind(served: Served) -> None:
    found = await documents(served)
    for kind in SERVED:
        document = found[kind.base.lstrip("/")]
        named = [
            one
            for one in document["components"]["schemas"].values()
            if kind.group_version_kind in one.get("x-kubernetes-group-version-kind", [])
        ]
        assert len(named) == 1, kind
        assert named[0]["properties"]["metadata"]["allOf"][0]["$ref"].endswith("ObjectMeta")


async def test_openapi_patch_lists_its_parameters_and_media_types(served: Served) -> None:
    found = await documents(served)
    paths = found["apis/enmasse.io/v1beta1"]["paths"]
    one = paths["/apis/enmasse.io/v1beta1/namespaces/{namespace}/addresses/{name}"]
    assert {parameter["name"] for parameter in one["parameters"]} == {"namespace", "name"}
    named = {parameter["name"] for parameter in one["patch"]["parameters"]}
    assert {"fieldValidation", "dryRun", "fieldManager"} <= named
    strategic = "application/strategic-merge-patch+json"
    assert strategic not in one["patch"]["requestBody"]["content"]
    core = found["api/v1"]["paths"]["/api/v1/namespaces/{namespace}/secrets/{name}"]
    assert strategic in core["patch"]["requestBody"]["content"]
    events = found["api/v1"]["paths"]["/api/v1/namespaces/{namespace}/events/{name}"]
    assert "patch" not in events


def test_schema_of_every_kind_is_structural() -> None:
    for kind in SERVED:
        for node in nodes(schema(kind.model)):
            assert "$ref" not in node
            assert not any(one == {"type": "null"} for one in node.get("anyOf", []))
            if "properties" in node and "type" in node:
                assert node["type"] == "object"


def test_quantity_schema_is_an_integer_or_a_string() -> None:
    ttl = schema(Address)["properties"]["spec"]["properties"]["messageTtl"]
    maximum = ttl["properties"]["maximum"]
    assert maximum["x-kubernetes-int-or-string"] is True
    assert [one["type"] for one in maximum["anyOf"]] == ["integer", "string"]
    assert "milliseconds" in maximum["description"]


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        (("type",), {"type": "string"}),
        (("limits", "onFull"), {"enum": ["block", "reject", "dropOldest"]}),
        (("partitions",), {"minimum": 1, "maximum": 1024, "type": "integer"}),
        (("singleActiveConsumer",), {"type": "boolean"}),
    ],
)
def test_schema_states_bounds_and_enums(path: tuple[str, ...], kept: dict[str, Any]) -> None:
    found = schema(Address)["properties"]["spec"]
    for name in path:
        found = found["properties"][name]
    assert kept.items() <= found.items()


def test_schema_states_required_fields() -> None:
    spec = schema(Address)["properties"]["spec"]
    assert set(spec["required"]) == {"type", "address"}
    authentication = schema(MessagingUser)["properties"]["spec"]["properties"]["authentication"]
    assert authentication["required"] == ["type"]


async def test_exclusive_bounds_are_booleans_as_in_openapi_3_0(served: Served) -> None:
    # kubectl regards a number as a broken document and then validates nothing.
    excluding = 0
    for path, document in (await documents(served)).items():
        for node in nodes(document):
            for bound in ("minimum", "maximum"):
                excludes = node.get(f"exclusive{bound.capitalize()}")
                assert excludes in (None, True), f"{path}: {node}"
                assert excludes is None or bound in node
                excluding += excludes is True
    assert excluding
