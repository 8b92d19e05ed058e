"""One set of handlers for all kinds: list, watch, create, get, replace, patch, delete."""

import json
from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from enmasse.api.merge import merge_patch
from enmasse.api.platform import Platform
from enmasse.api.requests import object_body
from enmasse.api.watch import watch_lines
from enmasse.base.errors import Code, Conflict, Fault, Invalid, Missing
from enmasse.resources import API_VERSION, KINDS, Key, Resource, invalid, parse

PATCH_ATTEMPTS = 5
"""How often a patch without a version is tried on a resource that others change meanwhile."""

PLURALS: dict[str, type[Resource]] = {model.plural: model for model in KINDS.values()}


class ResourceHandlers:
    """The verbs of the resource paths."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform

    async def collection(self, request: Request) -> Response:
        """Answer GET and POST on all resources of a kind."""
        model = _model(request)
        namespace = request.path_params.get("namespace")
        if request.method == "POST":
            resource = _addressed(await object_body(request), model, namespace, name=None)
            created = await self._platform.admission.create(resource)
            return JSONResponse(self._shown(created), 201)
        _refuse_selectors(request)
        if request.query_params.get("watch") in ("true", "1"):
            lines = watch_lines(self._platform.store, model, namespace, request.query_params)
            return StreamingResponse(_encoded(lines), media_type="application/json")
        return JSONResponse(await self._list(request, model, namespace))

    async def one(self, request: Request) -> Response:
        """Answer GET, PUT, PATCH and DELETE on one resource."""
        model = _model(request)
        key = Key(model.__name__, request.path_params["namespace"], request.path_params["name"])
        match request.method:
            case "PUT":
                resource = _addressed(await object_body(request), model, key.namespace, key.name)
                return JSONResponse(self._shown(await self._platform.admission.replace(resource)))
            case "PATCH":
                return JSONResponse(self._shown(await self._patch(request, key)))
            case "DELETE":
                return JSONResponse(await self._delete(request, key))
        figures = await self._figures(request, model)
        return JSONResponse(self._shown(self._get(key), figures))

    async def _list(
        self, request: Request, model: type[Resource], namespace: str | None
    ) -> dict[str, Any]:
        figures = await self._figures(request, model)
        store = self._platform.store
        return {
            "kind": f"{model.__name__}List",
            "apiVersion": API_VERSION,
            "metadata": {"resourceVersion": str(store.version)},
            "items": [
                self._shown(resource, figures) for resource in store.list(model.__name__, namespace)
            ],
        }

    async def _patch(self, request: Request, key: Key) -> Resource:
        media = request.headers.get("content-type", "").partition(";")[0].strip()
        if media != "application/merge-patch+json":
            raise Invalid(
                Code.PATCH_UNSUPPORTED,
                f"a patch of type {media!r} is not applied here; send a JSON merge patch as"
                " application/merge-patch+json",
            )
        patch = await object_body(request)
        has_version = bool(_member(patch, "metadata").get("resourceVersion"))
        for attempt in range(1, PATCH_ATTEMPTS + 1):
            # The present version is part of what is patched, so a change meanwhile is noticed.
            patched = merge_patch(self._get(key).public().document(), patch)
            resource = _addressed(patched, KINDS[key.kind], key.namespace, key.name)
            try:
                return await self._platform.admission.replace(resource)
            except Conflict as error:
                last = has_version or attempt == PATCH_ATTEMPTS
                if last or error.code != Code.VERSION_CONFLICT:
                    raise
        raise AssertionError("the last attempt returns or raises")

    async def _delete(self, request: Request, key: Key) -> dict[str, Any]:
        options = await object_body(request) if await request.body() else {}
        uid = _member(options, "preconditions").get("uid")
        deleted = await self._platform.admission.delete(key, uid=uid)
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": {"kind": deleted.plural, "name": key.name, "uid": deleted.metadata.uid},
        }

    def _get(self, key: Key) -> Resource:
        resource = self._platform.store.get(key)
        if resource is None:
            raise Missing(Code.RESOURCE_MISSING, f"there is no {key}")
        return resource

    async def _figures(self, request: Request, model: type[Resource]) -> dict[str, dict[str, Any]]:
        """Return live figures by uid if they are asked for: they cost up to half a second."""
        wanted = request.query_params.get("statistics") in ("true", "1")
        if not wanted or model.plural != "addresses":
            return {}
        return await self._platform.statistics.by_uid()

    def _shown(
        self, resource: Resource, figures: dict[str, dict[str, Any]] | None = None
    ) -> dict[str, Any]:
        document = resource.public().document()
        if figures and (found := figures.get(resource.metadata.uid or "")):
            document["status"]["statistics"] = found
        return document


def _model(request: Request) -> type[Resource]:
    plural = request.path_params["plural"]
    if plural not in PLURALS:
        raise Missing(
            Code.PATH_MISSING,
            f"there is no kind {plural!r} in {API_VERSION}; there are {', '.join(PLURALS)}",
        )
    return PLURALS[plural]


def _addressed(
    data: dict[str, Any], model: type[Resource], namespace: str | None, name: str | None
) -> Resource:
    """Return the resource of a body, which must fit the path it was sent to."""
    kind = model.__name__
    data = {"kind": kind, "apiVersion": API_VERSION} | data
    if data["kind"] != kind:
        raise invalid(kind, name or "", [Fault("kind", f"must be {kind} on this path")])
    if isinstance(data.get("metadata", {}), dict):
        data["metadata"] = metadata = _member(data, "metadata")
        for field, wanted in (("namespace", namespace), ("name", name)):
            if wanted is not None and metadata.setdefault(field, wanted) != wanted:
                fault = Fault(f"metadata.{field}", f"must be {wanted!r}, as in the path")
                raise invalid(kind, name or "", [fault])
    return parse(data)


def _member(data: dict[str, Any], name: str) -> dict[str, Any]:
    value = data.get(name)
    return dict(value) if isinstance(value, dict) else {}


def _refuse_selectors(request: Request) -> None:
    for name in ("labelSelector", "fieldSelector"):
        if request.query_params.get(name):
            raise Invalid(
                Code.SELECTOR_UNSUPPORTED, f"{name} is not supported: leave it out and filter"
            )


async def _encoded(lines: AsyncIterator[dict[str, Any]]) -> AsyncIterator[bytes]:
    async for line in lines:
        yield json.dumps(line, separators=(",", ":")).encode() + b"\n"
