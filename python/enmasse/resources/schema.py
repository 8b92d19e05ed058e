"""The OpenAPI v3 schema of a kind, generated from its model."""

from functools import cache
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from enmasse.resources.docstrings import docstrings
from enmasse.resources.model import Model

Schema = dict[str, Any]

_EXCLUSIVE = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}
"""Bounds that OpenAPI 3.0 expresses as a bound and a flag for exclusiveness."""

_DROPPED_KEYWORDS = {"title", "additionalProperties", "const", "$defs"}


class _Documented(GenerateJsonSchema):
    """Describes each field by its docstring."""

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        described = super().model_schema(schema)
        model: type[Model] = schema["cls"]
        for name, text in docstrings(model).items():
            field = model.model_fields[name]
            description = described.get("properties", {}).get(field.alias or name)
            if description is not None:
                description.setdefault("description", text)
        return described


@cache
def schema(model: type[Model]) -> Schema:
    """Return the structural schema of a model without references.

    Optional fields may be absent; null equals absent and is not listed. Descriptions are the
    docstrings of the model. Do not modify the result.
    """
    raw = model.model_json_schema(by_alias=True, schema_generator=_Documented, mode="validation")
    return _plain(raw, raw.get("$defs", {}))


def _plain(raw: Schema, definitions: dict[str, Schema]) -> Schema:
    if "$ref" in raw:
        target = definitions[raw["$ref"].rpartition("/")[2]]
        return _plain(target | {key: one for key, one in raw.items() if key != "$ref"}, definitions)
    if (choice := _only_choice(raw)) is not None:
        return _plain(
            choice | {key: one for key, one in raw.items() if key != "anyOf"}, definitions
        )
    # Keywords that OpenAPI 3.0 lacks are translated; those without meaning to a reader are dropped.
    plain: Schema = {}
    for key, value in raw.items():
        if key == "properties":
            plain[key] = {name: _plain(one, definitions) for name, one in value.items()}
        elif key == "items":
            plain[key] = _plain(value, definitions)
        elif key == "anyOf":
            plain[key] = [_plain(one, definitions) for one in value]
        elif key == "additionalProperties" and isinstance(value, dict):
            plain[key] = _plain(value, definitions)
        elif key == "default":
            plain |= {key: value} if value not in (None, {}, []) else {}
        elif key == "description":
            plain[key] = " ".join(value.split())
        elif key in _EXCLUSIVE:
            plain |= {_EXCLUSIVE[key]: value, key: True}
        elif key not in _DROPPED_KEYWORDS:
            plain[key] = value
    if "const" in raw:
        plain["enum"] = [raw["const"]]
    if raw.get("additionalProperties") is True:
        plain["x-kubernetes-preserve-unknown-fields"] = True
    return plain


def _only_choice(raw: Schema) -> Schema | None:
    """Return the schema of a nullable field without null."""
    choices = [one for one in raw.get("anyOf", ()) if one.get("type") != "null"]
    return choices[0] if len(choices) == 1 else None
