"""OpenAPI v3 of the resource paths: a document per group and version, and their index.

`kubectl explain`, client-side field validation and client generators read it.
"""

import hashlib
import json
from functools import cache
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from enmasse import __version__
from enmasse.api.http.bodies import YAML
from enmasse.api.kinds import SERVED, Kind, of_group_version
from enmasse.api.live.values import sort_keys
from enmasse.api.openapi import v3_operations
from enmasse.api.resources.patches import APPLY, JSON, MERGE, STRATEGIC
from enmasse.base.errors import Code, Missing
from enmasse.resources import API_VERSION
from enmasse.resources.model import Metadata
from enmasse.resources.schema import schema

Document = dict[str, Any]

META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_TEXT = {"type": "string"}


class OpenApiPages:
    """The paths below /openapi."""

    async def index(self, _request: Request) -> Response:
        """The index of documents; the URL of a document changes with its content."""
        bases = dict.fromkeys(kind.base for kind in SERVED)
        paths = {base.lstrip("/"): {"serverRelativeURL": _address(base)} for base in bases}
        return JSONResponse({"paths": paths})

    async def document(self, request: Request) -> Response:
        """One document."""
        base = request.url.path.removeprefix("/openapi/v3")
        found = next((kind for kind in SERVED if kind.base == base), None)
        if found is None:
            raise Missing(Code.PATH_MISSING, f"OpenAPI document of {base} not found")
        return JSONResponse(document(found.group_version))


def _address(base: str) -> str:
    group_version = next(kind.group_version for kind in SERVED if kind.base == base)
    text = json.dumps(document(group_version), sort_keys=True)
    return f"/openapi/v3{base}?hash={hashlib.sha256(text.encode()).hexdigest()[:32].upper()}"


@cache
def document(group_version: str) -> Document:
    """Return the document of one group and version. Do not modify the result: it is cached."""
    kinds = of_group_version(group_version)
    paths: Document = {}
    schemas: Document = {f"{META}.ObjectMeta": schema(Metadata), f"{META}.Status": _STATUS}
    for kind in kinds:
        paths |= _paths(kind)
        schemas |= {_component(kind): _kind_schema(kind), f"{_component(kind)}List": _list_of(kind)}
    if group_version == API_VERSION:
        paths |= v3_operations.paths(_REFUSED)
        schemas |= v3_operations.components()
    return {
        "openapi": "3.0.0",
        "info": {"title": "EnMasse", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"BearerToken": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"BearerToken": []}],
    }


_REFUSED: Document = {
    "description": "Refused",
    "content": {
        "application/json": {"schema": {"$ref": f"#/components/schemas/{META}.Status"}},
    },
}

_STATUS: Document = {
    "type": "object",
    "description": "Result of a request that returns no resource.",
    "properties": {
        **dict.fromkeys(("apiVersion", "kind", "status", "message", "reason"), _TEXT),
        "code": {"type": "integer"},
        "details": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "metadata": {"type": "object"},
    },
    "x-kubernetes-group-version-kind": [{"group": "", "kind": "Status", "version": "v1"}],
}


def _component(kind: Kind) -> str:
    host = ".".join(reversed(kind.group.split("."))) if kind.group else "io.k8s.api.core"
    return f"{host}.{kind.version}.{kind.name}"


def _reference(name: str) -> Document:
    return {"$ref": f"#/components/schemas/{name}"}


def _kind_schema(kind: Kind) -> Document:
    own = schema(kind.model)
    properties = own["properties"] | {
        "apiVersion": _TEXT | {"description": f"Always {kind.group_version}."},
        "kind": _TEXT | {"description": f"Always {kind.name}."},
        "metadata": {
            "allOf": [_reference(f"{META}.ObjectMeta")],
            "description": own["properties"]["metadata"].get("description", ""),
            "default": {},
        },
    }
    return own | {
        "properties": properties,
        "x-kubernetes-group-version-kind": [kind.group_version_kind],
    }


def _list_of(kind: Kind) -> Document:
    gvk = kind.group_version_kind
    return {
        "type": "object",
        "description": f"A list of resources of kind {kind.name}.",
        "required": ["items"],
        "properties": {
            "apiVersion": _TEXT,
            "kind": _TEXT,
            "metadata": {"type": "object", "properties": {"resourceVersion": _TEXT}},
            "items": {"type": "array", "items": _reference(_component(kind))},
        },
        "x-kubernetes-group-version-kind": [gvk | {"kind": f"{kind.name}List"}],
    }


def _paths(kind: Kind) -> Document:
    model = kind.model
    inside = f"{kind.base}/namespaces/{{namespace}}" if model.namespaced else kind.base
    collection, one = f"{inside}/{model.plural}", f"{inside}/{model.plural}/{{name}}"
    whole, many = _reference(_component(kind)), _reference(f"{_component(kind)}List")
    status = _reference(f"{META}.Status")
    paths: Document = {
        collection: {"get": _listing(kind, many)},
        one: {"get": _operation(kind, "get", whole, ())},
    }
    # As in Kubernetes, a collection without a namespace lists all namespaces.
    if model.namespaced:
        paths[f"{kind.base}/{model.plural}"] = {"get": _listing(kind, many)}
    if "create" in kind.verbs:
        body = _body(whole, ("application/json", YAML))
        paths[collection] |= {
            "post": _operation(kind, "post", whole, _WRITING, body, 201),
            "delete": _operation(kind, "deletecollection", status, (*_LISTING, "dryRun")),
        }
        paths[one] |= {
            "put": _operation(kind, "put", whole, _WRITING, body),
            "patch": _operation(kind, "patch", whole, (*_WRITING, "force"), _patch_body(kind)),
            "delete": _operation(kind, "delete", status, ("dryRun",)),
        }
    if kind.has_status:
        paths[f"{one}/status"] = {"get": _operation(kind, "get", whole, ())}
    for path, item in paths.items():
        item["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": _TEXT}
            for name in ("namespace", "name")
            if f"{{{name}}}" in path
        ]
    return paths


_LISTING = (
    *("labelSelector", "fieldSelector", "limit", "continue", "watch", "resourceVersion"),
    *("resourceVersionMatch", "allowWatchBookmarks", "sendInitialEvents", "timeoutSeconds"),
)
_WRITING = ("dryRun", "fieldManager", "fieldValidation")
_PARAMETERS: dict[str, Document] = {
    **{key: {"type": "integer", "minimum": 0} for key in ("limit", "timeoutSeconds")},
    **{
        key: {"type": "boolean"}
        for key in ("watch", "allowWatchBookmarks", "sendInitialEvents", "force")
    },
    "dryRun": {"type": "string", "enum": ["All"]},
    "fieldValidation": {"type": "string", "enum": ["Ignore", "Warn", "Strict"]},
    "resourceVersionMatch": {"type": "string", "enum": ["", "Exact", "NotOlderThan"]},
}


def _listing(kind: Kind, many: Document) -> Document:
    """Return the operation of a list; some kinds can be sorted by values."""
    operation = _operation(kind, "list", many, _LISTING)
    if sort_keys(kind.model):
        operation["parameters"] += [
            {"name": name, "in": "query", "schema": of} for name, of in v3_operations.SORTING
        ]
    return operation


def _operation(
    kind: Kind,
    action: str,
    answer: Document,
    parameters: tuple[str, ...],
    body: Document | None = None,
    status: int = 200,
) -> Document:
    # Every path can refuse, with the same document: it is the default response.
    operation: Document = {
        "tags": [kind.group_version.replace("/", "_")],
        "parameters": [
            {"name": name, "in": "query", "schema": _PARAMETERS.get(name, _TEXT)}
            for name in parameters
        ],
        "responses": {
            str(status): {
                "description": "Done",
                "content": {"application/json": {"schema": answer}},
            },
            "default": _REFUSED,
        },
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": kind.group_version_kind,
    }
    return operation | ({"requestBody": body} if body else {})


def _body(of: Document, media: tuple[str, ...]) -> Document:
    return {"required": True, "content": {one: {"schema": of} for one in media}}


def _patch_body(kind: Kind) -> Document:
    strategic = (STRATEGIC,) if kind.group == "" else ()
    return _body({"type": "object"}, (JSON, MERGE, *strategic, APPLY))
