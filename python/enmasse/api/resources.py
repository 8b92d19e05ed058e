"""One set of handlers for all kinds: list, watch, create, get, replace, patch, delete."""

import json
import secrets
import string
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from enmasse.api import forms, patches
from enmasse.api.accept import WHOLE, form_of
from enmasse.api.kinds import Kind
from enmasse.api.platform import Platform
from enmasse.api.queries import ListQuery, WriteQuery
from enmasse.api.requests import json_body, media_type, object_body
from enmasse.api.snapshots import Page, Snapshots
from enmasse.api.watch import Watched, check_version, watch_lines
from enmasse.base.errors import Code, Conflict, Fault, Invalid, Missing
from enmasse.resources import Key, Resource, invalid, parse, pruned

PATCH_ATTEMPTS = 5
"""How often a patch without a version is tried on a resource that others change meanwhile."""

WARNINGS_MAX = 20
"""Fields that one answer warns of."""

_LETTERS = string.ascii_lowercase + string.digits
Document = dict[str, Any]


class Read(NamedTuple):
    """What a body says, and which fields of it are passed over."""

    resource: Resource
    unknown: list[Fault]


class ResourceHandlers:
    """The verbs of the resource paths."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._snapshots = Snapshots()

    async def collection(self, kind: Kind, request: Request) -> Response:
        """Answer GET, POST and DELETE on all resources of a kind."""
        namespace = request.path_params.get("namespace")
        if request.method == "POST":
            return await self._create(kind, request, namespace)
        form = form_of(request.headers.get("accept"))
        query = ListQuery.of(request.query_params, kind.model)
        if request.method == "DELETE":
            return await self._delete_all(kind, request, namespace, query)
        store = self._platform.store_of(kind.model)
        if query.watch:
            watched = Watched(store, kind, namespace, form, _shown(kind, {}), self._platform.clock)
            lines = watch_lines(watched, query)
            return StreamingResponse(_encoded(lines), media_type="application/json")
        page = self._page(kind, namespace, query)
        metadata: Document = {"resourceVersion": str(page.version)}
        if page.continue_:
            metadata["continue"] = page.continue_
            if not query.is_selective:
                metadata["remainingItemCount"] = page.remaining
        shown = _shown(kind, await self._figures(request, kind))
        now = self._platform.clock.now()
        return JSONResponse(
            forms.several(kind, form, page.resources, shown, now, metadata, query.include)
        )

    async def one(self, kind: Kind, request: Request) -> Response:
        """Answer GET, PUT, PATCH and DELETE on one resource."""
        key = _key(kind, request)
        form = form_of(request.headers.get("accept"))
        if request.method == "DELETE":
            return await self._delete(kind, request, key)
        if request.method == "GET":
            shown = _shown(kind, await self._figures(request, kind))
            found = self._get(kind, key)
            return JSONResponse(forms.one(kind, form, found, shown, self._platform.clock.now()))
        query = WriteQuery.of(request.query_params, request.headers.get("user-agent", ""))
        if request.method == "PUT":
            data = await object_body(request)
            read = _read(data, kind, key.namespace, key.name, query.validation)
            done = await self._platform.admission.replace(read.resource, dry_run=query.dry_run)
        else:
            done, read = await self._patch(kind, request, key, query)
        return self._written(kind, request, done, read.unknown, query)

    async def _create(self, kind: Kind, request: Request, namespace: str | None) -> Response:
        form_of(request.headers.get("accept"))
        query = WriteQuery.of(request.query_params, request.headers.get("user-agent", ""))
        data = _named(await object_body(request))
        read = _read(data, kind, namespace, None, query.validation)
        created = await self._platform.admission.create(read.resource, dry_run=query.dry_run)
        return self._written(kind, request, created, read.unknown, query, 201)

    def _written(
        self,
        kind: Kind,
        request: Request,
        resource: Resource,
        unknown: list[Fault],
        query: WriteQuery,
        status: int = 200,
    ) -> Response:
        form = form_of(request.headers.get("accept"))
        now = self._platform.clock.now()
        document = forms.one(kind, form, resource, _shown(kind, {}), now)
        answer = JSONResponse(document, status)
        if query.validation == "Warn":
            for fault in unknown[:WARNINGS_MAX]:
                answer.headers.append("Warning", _warning(fault))
        return answer

    def _page(self, kind: Kind, namespace: str | None, query: ListQuery) -> Page:
        if query.continue_:
            return self._snapshots.next(query.continue_, query.limit)
        store = self._platform.store_of(kind.model)
        check_version(store, query.resource_version)
        if query.match == "Exact" and query.resource_version != store.version:
            raise Conflict(
                Code.VERSION_EXPIRED,
                f"how things were at version {query.resource_version} is no longer kept; it is"
                f" {store.version} now",
            )
        found = [one for one in store.list(kind.name, namespace) if query.selects(one)]
        return self._snapshots.first(store.version, found, query.limit)

    async def _patch(
        self, kind: Kind, request: Request, key: Key, query: WriteQuery
    ) -> tuple[Resource, Read]:
        patch = _patcher(kind, media_type(request), await json_body(request))
        for attempt in range(1, PATCH_ATTEMPTS + 1):
            # The present version is part of what is patched, so a change meanwhile is noticed.
            before = _shown(kind, {})(self._get(kind, key))
            patched = patch(before)
            if not isinstance(patched, dict):
                raise Invalid(Code.PATCH_UNFIT, "what the patch leaves is not a resource")
            read = _read(patched, kind, key.namespace, key.name, query.validation)
            named = _member(patched, "metadata").get("resourceVersion")
            has_version = named != before["metadata"]["resourceVersion"]
            try:
                done = await self._platform.admission.replace(read.resource, dry_run=query.dry_run)
                return done, read
            except Conflict as error:
                last = has_version or attempt == PATCH_ATTEMPTS
                if last or error.code != Code.VERSION_CONFLICT:
                    raise
        raise AssertionError("the last attempt returns or raises")

    async def _delete(self, kind: Kind, request: Request, key: Key) -> Response:
        options, dry_run = await _delete_options(request)
        conditions = _member(options, "preconditions")
        deleted = await self._platform.admission.delete(
            key,
            uid=conditions.get("uid"),
            version=conditions.get("resourceVersion"),
            dry_run=dry_run,
        )
        if deleted.metadata.finalizers:
            return JSONResponse(_shown(kind, {})(deleted))
        details = {"kind": deleted.plural, "name": key.name, "uid": deleted.metadata.uid}
        return JSONResponse(
            {
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Success",
                "details": details | ({"group": kind.group} if kind.group else {}),
            }
        )

    async def _delete_all(
        self, kind: Kind, request: Request, namespace: str | None, query: ListQuery
    ) -> Response:
        """Delete what a list would show; what somebody else deletes meanwhile is passed over."""
        _, dry_run = await _delete_options(request)
        store = self._platform.store_of(kind.model)
        deleted = []
        for resource in store.list(kind.name, namespace):
            if not query.selects(resource):
                continue
            try:
                deleted.append(
                    await self._platform.admission.delete(
                        resource.key, uid=resource.metadata.uid, dry_run=dry_run
                    )
                )
            except (Missing, Conflict) as error:
                if error.code not in (Code.RESOURCE_MISSING, Code.VERSION_CONFLICT):
                    raise
        now = self._platform.clock.now()
        metadata: Document = {"resourceVersion": str(store.version)}
        shown = _shown(kind, {})
        return JSONResponse(forms.several(kind, WHOLE, deleted, shown, now, metadata))

    def _get(self, kind: Kind, key: Key) -> Resource:
        resource = self._platform.store_of(kind.model).get(key)
        if resource is None:
            raise Missing(Code.RESOURCE_MISSING, f'{kind.qualified} "{key.name}" not found')
        return resource

    async def _figures(self, request: Request, kind: Kind) -> dict[str, dict[str, Any]]:
        """Return live figures by uid if they are asked for: they cost up to half a second."""
        wanted = request.query_params.get("statistics") in ("true", "1")
        if not wanted or kind.model.plural != "addresses":
            return {}
        return await self._platform.statistics.by_uid()


def _shown(kind: Kind, figures: Mapping[str, dict[str, Any]]) -> Callable[[Resource], Document]:
    """Return what writes a resource as clients of a group and version see it."""

    def shown(resource: Resource) -> Document:
        document = resource.public().document() | {"apiVersion": kind.group_version}
        if found := figures.get(resource.metadata.uid or ""):
            document["status"]["statistics"] = found
        return document

    return shown


def _key(kind: Kind, request: Request) -> Key:
    namespace = request.path_params["namespace"] if kind.model.namespaced else ""
    return Key(kind.name, namespace, request.path_params["name"])


def _named(data: Document) -> Document:
    """Return a body with a name, made from `generateName` if it has none."""
    metadata = _member(data, "metadata")
    begin = metadata.get("generateName")
    if metadata.get("name") or not isinstance(begin, str):
        return data
    name = begin + "".join(secrets.choice(_LETTERS) for _ in range(5))
    return data | {"metadata": metadata | {"name": name}}


def _read(
    data: Document, kind: Kind, namespace: str | None, name: str | None, validation: str
) -> Read:
    """Return the resource of a body, which must fit the path it was sent to."""
    head: Document = {"kind": kind.name, "apiVersion": kind.group_version}
    data = head | data
    if data["kind"] != kind.name:
        raise invalid(kind.name, name or "", [Fault("kind", f"must be {kind.name} on this path")])
    if isinstance(data.get("metadata", {}), dict):
        metadata = _member(data, "metadata")
        data = data | {"metadata": metadata}
        wanted = {"namespace": namespace if kind.model.namespaced else None, "name": name}
        for field, value in wanted.items():
            if value is not None and metadata.setdefault(field, value) != value:
                fault = Fault(f"metadata.{field}", f"must be {value!r}, as in the path")
                raise invalid(kind.name, name or "", [fault])
    if validation == "Strict":
        return Read(parse(data), [])
    known, unknown = pruned(data)
    return Read(parse(known), unknown)


def _patcher(kind: Kind, media: str, patch: Any) -> Callable[[Document], Any]:
    """Return what applies a patch of a media type.

    Raises: Invalid if patches of that type are not applied to the kind.
    """
    known = [patches.MERGE, patches.JSON]
    if media == patches.JSON:
        return lambda document: patches.json_patch(document, patch)
    if media == patches.MERGE and isinstance(patch, dict):
        return lambda document: patches.merge_patch(document, patch)
    if media == patches.STRATEGIC and not kind.group and isinstance(patch, dict):
        return lambda document: patches.strategic_merge_patch(document, patch)
    if media in (patches.MERGE, patches.STRATEGIC) and not isinstance(patch, dict):
        raise Invalid(Code.DOCUMENT_UNREADABLE, "the body must be a JSON object")
    raise Invalid(
        Code.PATCH_UNSUPPORTED,
        f"a patch of type {media!r} is not applied here; send {' or '.join(known)}",
    )


async def _delete_options(request: Request) -> tuple[Document, bool]:
    """Return the options of a delete, and whether it is only tried."""
    options = await object_body(request) if await request.body() else {}
    query = WriteQuery.of(request.query_params, "")
    asked = options.get("dryRun") or []
    if asked not in ([], ["All"]):
        fault = Fault("dryRun", "can only be All")
        raise Invalid(Code.PARAMETER_INVALID, str(fault), faults=[fault])
    return options, query.dry_run or bool(asked)


def _member(data: Document, name: str) -> Document:
    value = data.get(name)
    return dict(value) if isinstance(value, dict) else {}


def _warning(fault: Fault) -> str:
    """Write a fault as a Warning header (RFC 9111, 5.5)."""
    text = f'unknown field "{fault.field}"'.encode("ascii", "backslashreplace").decode()
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{"".join(one for one in escaped if one.isprintable())}"'


async def _encoded(lines: AsyncIterator[Document]) -> AsyncIterator[bytes]:
    async for line in lines:
        yield json.dumps(line, separators=(",", ":")).encode() + b"\n"
