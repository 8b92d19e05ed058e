"""The JSON Schema of the Plan, which the node's structs are checked against."""

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from enmasse.plan.schema import plan_schema
from enmasse.resources.address import NodeSettings

PLANS = Path(__file__).parents[2] / "vectors" / "plans"


def read(name: str) -> Any:
    return json.loads((PLANS / name).read_text())


GOLDENS = sorted(one.name for one in PLANS.glob("*.json") if one.name != "schema.json")


def test_the_file_is_the_schema_of_the_models() -> None:
    assert read("schema.json") == plan_schema(), "run make reference"


@pytest.mark.parametrize("name", GOLDENS)
def test_every_golden_plan_fits(name: str) -> None:
    jsonschema_rs.validator_for(plan_schema()).validate(read(name))


def refused() -> list[Any]:
    cases: list[Any] = read("refused/shape.json")
    return cases


@pytest.mark.parametrize("case", refused(), ids=lambda case: case["why"])
def test_a_plan_of_another_shape_does_not_fit(case: dict[str, Any]) -> None:
    plan = copy.deepcopy(read(case["plan"]))
    *path, last = case["at"].strip("/").split("/")
    part = plan
    for step in path:
        part = part[int(step)] if isinstance(part, list) else part[step]
    if "put" in case:
        part[last] = case["put"]
    else:
        del part[last]
    assert not jsonschema_rs.validator_for(plan_schema()).is_valid(plan)


def test_settings_for_the_node_are_members_of_its_addresses() -> None:
    members = plan_schema()["$defs"]["PlannedAddress"]["properties"]
    assert {one.alias for one in NodeSettings.model_fields.values()} <= members.keys()
