"""The JSON Schema of the Plan, from its models: what a node must parse. Pure.

`vectors/plans/schema.json` has it (`make reference`), and the tests of the node check its structs
against that file. So a field of a Plan is declared in Python, and Rust cannot lack it.
"""

from typing import Any

from enmasse.plan.model import Plan


def plan_schema() -> dict[str, Any]:
    """Return the schema."""
    schema = Plan.model_json_schema()
    found: dict[str, Any] = _tidy(schema)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | found


def _tidy(part: Any) -> Any:
    """Return a part without titles and defaults, which say nothing of the shape; an object names
    its required members even if there are none.
    """
    if isinstance(part, list):
        return [_tidy(one) for one in part]
    if not isinstance(part, dict):
        return part
    if "x-kubernetes-int-or-string" in part:
        # Texts with a unit are for people; a Plan has the number.
        return _tidy(part["anyOf"][0])
    if "properties" not in part:
        return {key: _tidy(one) for key, one in part.items() if key not in ("title", "default")}
    members = {name: _tidy(one) for name, one in part["properties"].items()}
    rest = {key: one for key, one in part.items() if key not in ("title", "properties")}
    return {"required": [], **_tidy(rest), "properties": members}
