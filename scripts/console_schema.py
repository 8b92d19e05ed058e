"""Write the schemas of the API as one OpenAPI document, for the types of the console.

Usage: console_schema.py FILE
"""

import json
import sys
from pathlib import Path
from typing import Any

from enmasse.api.kinds import SERVED
from enmasse.api.openapi.v3 import document


def combined() -> dict[str, Any]:
    """The components of all groups; without the paths, which the console knows by their kinds."""
    schemas: dict[str, Any] = {}
    for group_version in dict.fromkeys(kind.group_version for kind in SERVED):
        schemas |= document(group_version)["components"]["schemas"]
    return {
        "openapi": "3.0.0",
        "info": {"title": "EnMasse", "version": "1"},
        "paths": {},
        "components": {"schemas": schemas},
    }


def with_members(node: Any) -> Any:
    """Allow any member of objects that keep unknown fields; generators take them as empty."""
    if isinstance(node, list):
        return [with_members(one) for one in node]
    if not isinstance(node, dict):
        return node
    found = {key: with_members(one) for key, one in node.items()}
    if found.get("x-kubernetes-preserve-unknown-fields") and "properties" not in found:
        found["additionalProperties"] = True
    return found


def main() -> None:
    """Write the document."""
    target = Path(sys.argv[1])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(with_members(combined())))


if __name__ == "__main__":
    main()
