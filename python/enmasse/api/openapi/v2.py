"""OpenAPI v2 of the resource paths: one document, derived from those of v3.

client-go's `OpenAPISchema()` reads it: Argo CD, Terraform, and kubectl before 1.27, which needs it
for `apply`, `explain` and `diff`. They request it only in protobuf (`v2_protobuf`). Schema parts
that v2 cannot express are omitted.
"""

import json
from functools import cache
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from enmasse.api.http.accept import accepted
from enmasse.api.kinds import SERVED
from enmasse.api.openapi import v2_protobuf, v3
from enmasse.base.errors import Code, Invalid

Document = dict[str, Any]

_JSON = ("application/json", "application/*", "*/*")
_V3, _V2 = "#/components/schemas/", "#/definitions/"
_VERBS = ("get", "put", "post", "delete", "patch")
_OPEN = "x-kubernetes-preserve-unknown-fields"


async def page(request: Request) -> Response:
    """The document, in the first form that the client accepts.

    Raises: Invalid if it accepts neither JSON nor protobuf.
    """
    header = request.headers.get("accept")
    for media in accepted(header):
        if media.type in v2_protobuf.REQUESTED_TYPES:
            return Response(_wire(), media_type=v2_protobuf.MEDIA_TYPE)
        if media.type in _JSON:
            return Response(_text(), media_type="application/json")
    raise Invalid(
        Code.FORM_UNSUPPORTED,
        f"cannot respond with {header!r}; accept application/json or {v2_protobuf.MEDIA_TYPE}",
    )


@cache
def _text() -> bytes:
    return json.dumps(document()).encode()


@cache
def _wire() -> bytes:
    return v2_protobuf.encoded(document())


@cache
def document() -> Document:
    """Return the document of all groups and versions. Do not modify the result: it is cached."""
    found = [v3.document(one) for one in dict.fromkeys(kind.group_version for kind in SERVED)]
    return {
        "swagger": "2.0",
        "info": found[0]["info"],
        "paths": {
            path: _path(item)
            for one in found
            for path, item in one["paths"].items()
            if _is_of_a_resource(item)
        },
        "definitions": {
            name: _schema(one)
            for each in found
            for name, one in each["components"]["schemas"].items()
        },
        "securityDefinitions": {
            "BearerToken": {"type": "apiKey", "name": "authorization", "in": "header"}
        },
        "security": [{"BearerToken": []}],
    }


def _is_of_a_resource(item: Document) -> bool:
    """Whether a path is that of a kind: clients of v2 know no others."""
    return any("x-kubernetes-action" in item[verb] for verb in _VERBS if verb in item)


def _path(item: Document) -> Document:
    made: Document = {verb: _operation(item[verb]) for verb in _VERBS if verb in item}
    return made | {"parameters": [_parameter(one) for one in item["parameters"]]}


def _operation(operation: Document) -> Document:
    parameters = [_parameter(one) for one in operation["parameters"]]
    made = {key: value for key, value in operation.items() if key != "requestBody"}
    if body := operation.get("requestBody"):
        made["consumes"] = list(body["content"])
        of = _schema(next(iter(body["content"].values()))["schema"])
        parameters.append({"name": "body", "in": "body", "required": True, "schema": of})
    return made | {
        "parameters": parameters,
        "produces": ["application/json"],
        "responses": {
            status: {
                "description": answer["description"],
                "schema": _schema(answer["content"]["application/json"]["schema"]),
            }
            for status, answer in operation["responses"].items()
        },
    }


def _parameter(parameter: Document) -> Document:
    schema: Document = parameter["schema"]
    return {key: value for key, value in parameter.items() if key != "schema"} | schema


def _schema(schema: Document) -> Document:
    if len(schema.get("allOf", ())) == 1:  # v3's way to describe what is looked up elsewhere
        elsewhere: Document = schema["allOf"][0]
        return _schema(elsewhere | {"description": schema["description"]})
    made: Document = {key: value for key, value in schema.items() if key != "anyOf"}
    if "$ref" in made:
        made["$ref"] = made["$ref"].replace(_V3, _V2)
    if made.get(_OPEN):
        # kubectl would reject unknown fields of a schema with a type.
        return {key: made[key] for key in (_OPEN, "description") if key in made}
    if "properties" in made:
        made["properties"] = {name: _schema(one) for name, one in made["properties"].items()}
    for key in ("items", "additionalProperties"):
        if key in made:
            made[key] = _schema(made[key])
    return made
