"""CustomResourceDefinitions: complete, structural, and consistent with the kinds."""

from collections.abc import Iterator
from typing import Any

import pytest

from enmasse.resources import KINDS
from enmasse.resources.crd import definitions, home
from enmasse.resources.model import Declared

DEFINITIONS = {one["metadata"]["name"]: one for one in definitions()}


def versions() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, one in DEFINITIONS.items():
        for version in one["spec"]["versions"]:
            yield name, version


def nodes(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield schema
    for inner in schema.get("properties", {}).values():
        yield from nodes(inner)
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield from nodes(schema[name])


def test_every_kind_has_a_definition_in_its_api_group() -> None:
    own = {model.plural for model in KINDS.values() if "v1" not in model.api_versions}
    plurals = [one["spec"]["names"]["plural"] for one in DEFINITIONS.values()]
    assert sorted(plurals) == sorted(own | {"addressspaceschemas"})
    assert "messagingusers.user.enmasse.io" in DEFINITIONS


def test_every_immutable_field_has_a_validation_rule() -> None:
    for model in KINDS.values():
        if not issubclass(model, Declared):
            continue
        group = home(model).partition("/")[0]
        for version in DEFINITIONS[f"{model.plural}.{group}"]["spec"]["versions"]:
            spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
            rules = spec.get("x-kubernetes-validations", [])
            assert len(rules) == len(model.immutable)
            for rule in rules:
                assert rule["message"].partition(" ")[0] in spec["properties"]


def test_definitions_set_no_defaults() -> None:
    for _, version in versions():
        for node in nodes(version["schema"]["openAPIV3Schema"]):
            assert "default" not in node


@pytest.mark.parametrize("name", DEFINITIONS)
def test_one_version_is_stored_and_all_are_served(name: str) -> None:
    found = DEFINITIONS[name]["spec"]["versions"]
    assert [one["storage"] for one in found] == [True, *(False for _ in found[1:])]
    assert all(one["served"] for one in found)


def test_plans_are_stored_in_the_newer_version() -> None:
    found = DEFINITIONS["addressplans.admin.enmasse.io"]["spec"]
    assert [one["name"] for one in found["versions"]] == ["v1beta2", "v1beta1"]
    assert found["scope"] == "Namespaced"
    assert DEFINITIONS["addressspaceschemas.enmasse.io"]["spec"]["scope"] == "Cluster"


def test_T_AS_13_schemas_are_structural() -> None:
    """The rules of Kubernetes: every node has a type unless it accepts any value, and `anyOf`
    occurs only for int-or-string."""
    count = 0
    for name, version in versions():
        for node in nodes(version["schema"]["openAPIV3Schema"]):
            count += 1
            assert "$ref" not in node, name
            if node.get("x-kubernetes-int-or-string"):
                assert node["anyOf"] == [{"type": "integer"}, {"type": "string"}]
                assert "type" not in node
                continue
            assert "anyOf" not in node, (name, node)
            if set(node) <= {"x-kubernetes-preserve-unknown-fields", "description"}:
                assert node["x-kubernetes-preserve-unknown-fields"] is True, (name, node)
                continue
            assert node.get("type"), (name, node)
            assert not {"properties", "additionalProperties"} <= set(node), (name, node)
            for bound in ("exclusiveMinimum", "exclusiveMaximum"):
                assert node.get(bound, True) is True
    assert count > 500


def test_a_status_is_a_sub_resource_with_typed_conditions() -> None:
    (version,) = DEFINITIONS["addresses.enmasse.io"]["spec"]["versions"]
    assert version["subresources"] == {"status": {}}
    status = version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
    assert status["observedGeneration"]["type"] == "integer"
    condition = status["conditions"]["items"]
    assert {"type", "status", "reason"} <= set(condition["required"])
    columns = {one["name"]: one["jsonPath"] for one in version["additionalPrinterColumns"]}
    assert columns["Phase"] == ".status.phase"
    assert {"jsonPath": ".spec.address"} in version["selectableFields"]
