"""OpenAPI: what `kubectl explain` and its check of fields read."""

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


async def test_each_kind_is_found_by_its_name(served: Served) -> None:
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


async def test_a_patch_says_how_fields_are_checked_and_what_it_may_be(served: Served) -> None:
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


def test_a_schema_is_structural() -> None:
    for kind in SERVED:
        for node in nodes(schema(kind.model)):
            assert "$ref" not in node
            assert not any(one == {"type": "null"} for one in node.get("anyOf", []))
            if "properties" in node and "type" in node:
                assert node["type"] == "object"


def test_a_quantity_is_a_number_or_a_text() -> None:
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
def test_bounds_and_choices_are_said(path: tuple[str, ...], kept: dict[str, Any]) -> None:
    found = schema(Address)["properties"]["spec"]
    for name in path:
        found = found["properties"][name]
    assert kept.items() <= found.items()


def test_what_is_required_is_said() -> None:
    spec = schema(Address)["properties"]["spec"]
    assert set(spec["required"]) == {"type", "address"}
    authentication = schema(MessagingUser)["properties"]["spec"]["properties"]["authentication"]
    assert authentication["required"] == ["type"]


async def test_bounds_are_spelled_as_openapi_3_0_has_them(served: Served) -> None:
    # kubectl takes a number there for a broken document, and checks nothing then.
    excluding = 0
    for path, document in (await documents(served)).items():
        for node in nodes(document):
            for bound in ("minimum", "maximum"):
                excludes = node.get(f"exclusive{bound.capitalize()}")
                assert excludes in (None, True), f"{path}: {node}"
                assert excludes is None or bound in node
                excluding += excludes is True
    assert excluding
