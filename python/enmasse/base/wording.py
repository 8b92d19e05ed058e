"""Error messages for values that fail validation."""

from collections.abc import Mapping
from typing import Any

_PLAIN = {
    "string_type": "must be text (quote numbers and yes/no)",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_parsing_size": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "path_type": "must be a path",
    "tuple_type": "must be a list",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "model_attributes_type": "must be a mapping",
    "too_short": "must not be empty",
    "string_too_short": "must not be empty",
}


def worded(detail: Mapping[str, Any]) -> str:
    """Return the requirement on a value, from an entry of pydantic's `ValidationError.errors`."""
    kind: str = detail["type"]
    if kind == "literal_error":
        return f"must be {detail['ctx']['expected']}"
    if kind == "greater_than_equal":
        return f"must be at least {detail['ctx']['ge']}"
    if kind == "less_than_equal":
        return f"must be at most {detail['ctx']['le']}"
    if kind == "string_too_long":
        return f"must have at most {detail['ctx']['max_length']} characters"
    message = _PLAIN.get(kind) or str(detail["msg"])
    return message.removeprefix("Value error, ")
