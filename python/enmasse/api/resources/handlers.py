"""Handlers for all kinds: list, watch, create, get, replace, patch, delete."""

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from enmasse.api.access.identification import BACKGROUND_HEADER, SESSION, InSession
from enmasse.api.access.reviews import while_allowed
from enmasse.api.http.accept import WHOLE, Form, form_of
from enmasse.api.http.bodies import object_body
from enmasse.api.kinds import Kind
from enmasse.api.live.ordering import Ordering, View
from enmasse.api.live.values import full_name, live_space
from enmasse.api.monitoring.samples import Sample
from enmasse.api.monitoring.statistics import shown_of
from enmasse.api.platform import Platform
from enmasse.api.resources import representations
from enmasse.api.resources.paging import ListScope, Page, Snapshots
from enmasse.api.resources.queries import ListQuery, WriteQuery, flag
from enmasse.api.resources.watch import Watched, check_version, watch_lines
from enmasse.api.resources.writes import Write
from enmasse.api.trail.audit import WHO
from enmasse.base.errors import Code, Conflict, Fault, Invalid, Missing
from enmasse.resources import Address, AddressSpace, Key, Resource

Document = dict[str, Any]


class ResourceHandlers:
    """The verbs of resource paths."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._snapshots = Snapshots(platform.clock)
        self._ordering = Ordering(platform.store, platform.statistics.shared)

    async def collection(self, kind: Kind, request: Request) -> Response:
        """Handle GET, POST and DELETE on a collection."""
        namespace = request.path_params.get("namespace")
        if request.method == "POST":
            return await Write(self._platform, kind, request).create(namespace)
        form = form_of(request.headers.get("accept"))
        query = ListQuery.of(request.query_params, kind.model)
        # Version 0 accepts any state, however old.
        if query.resource_version != 0 and not query.continue_:
            await self._platform.store_of(kind.model).refresh()
        if request.method == "DELETE":
            return await self._delete_all(kind, request, namespace, query)
        store = self._platform.store_of(kind.model)
        if query.watch:
            watched = Watched(store, kind, namespace, form, _shown(kind, {}), self._platform.clock)
            lines = while_allowed(request, watch_lines(watched, query))
            return StreamingResponse(_encoded(lines), media_type="application/json")
        if query.sort_by:
            return await self._sorted(kind, request, namespace, query, form)
        page = self._page(request, kind, query)
        metadata: Document = {"resourceVersion": str(page.version)}
        if page.continue_:
            metadata["continue"] = page.continue_
            if not any(query.selectors):
                metadata["remainingItemCount"] = page.remaining
        stats = await self._stats(request, kind, form)
        shown = _shown(kind, stats)
        now = self._platform.clock.now()
        return JSONResponse(
            representations.several(
                kind, form, page.resources, shown, now, metadata, query.include, stats
            )
        )

    async def _sorted(
        self, kind: Kind, request: Request, namespace: str | None, query: ListQuery, form: Form
    ) -> Response:
        """Return a page of a list in the order of a value."""
        # Live columns imply it, but a malformed value is refused here too.
        flag(request.query_params, "statistics")
        asked = _scope_of(request, kind, namespace, query)
        if query.continue_:
            page = self._snapshots.next(asked, query.continue_, query.limit)
            total = sorted_by = None
        else:
            view = await self._ordering.view(kind.model, namespace, query)
            total, sorted_by = len(view.resources), view.sample
            page = self._first_page(request, asked, view, query)
        sample = sorted_by or await self._platform.statistics.shared.recent()
        metadata: Document = {
            "resourceVersion": str(page.version),
            "remainingItemCount": page.remaining,
            "sampleTime": sample.time,
        }
        if total is not None:
            metadata["itemCount"] = total
        if page.continue_:
            metadata["continue"] = page.continue_
        shown, stats = live_documents(kind, page.resources, sample)
        now = self._platform.clock.now()
        return JSONResponse(
            representations.several(
                kind, form, page.resources, shown, now, metadata, query.include, stats
            )
        )

    def _first_page(self, request: Request, asked: ListScope, view: View, query: ListQuery) -> Page:
        """Return the first page. One for a timer is not kept for `continue`: its order is of no
        further use, and it would evict those that are.
        """
        if query.limit and BACKGROUND_HEADER in request.headers:
            end = query.offset + query.limit
            rows = view.resources[query.offset : end]
            return Page(view.version, rows, "", max(len(view.resources) - end, 0))
        return self._snapshots.first(asked, view.version, view.resources, query.limit, query.offset)

    async def one(self, kind: Kind, request: Request) -> Response:
        """Handle GET, PUT, PATCH and DELETE on one resource."""
        key = _key(kind, request)
        form = form_of(request.headers.get("accept"))
        if request.method == "DELETE":
            return await self._delete(kind, request, key)
        await self._platform.store_of(kind.model).refresh()
        if request.method == "PUT":
            return await Write(self._platform, kind, request).replace(key)
        if request.method == "PATCH":
            return await Write(self._platform, kind, request).patch(key)
        stats = await self._stats(request, kind, form, described=_is_described(request))
        shown = _shown(kind, stats)
        found = self._get(kind, key)
        now = self._platform.clock.now()
        return JSONResponse(representations.one(kind, form, found, shown, now, stats))

    def _page(self, request: Request, kind: Kind, query: ListQuery) -> Page:
        namespace = request.path_params.get("namespace")
        asked = _scope_of(request, kind, namespace, query)
        if query.continue_:
            return self._snapshots.next(asked, query.continue_, query.limit)
        store = self._platform.store_of(kind.model)
        check_version(store, query.resource_version)
        if query.match == "Exact" and query.resource_version != store.version:
            raise Conflict(
                Code.VERSION_EXPIRED,
                f"resourceVersion {query.resource_version} has been compacted"
                f" (current: {store.version})",
            )
        found = [one for one in store.list(kind.name, namespace) if query.selects(one)]
        return self._snapshots.first(asked, store.version, found, query.limit)

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
        """Delete the resources of a list; skip those deleted concurrently."""
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
        return JSONResponse(representations.several(kind, WHOLE, deleted, shown, now, metadata))

    def _get(self, kind: Kind, key: Key) -> Resource:
        resource = self._platform.store_of(kind.model).get(key)
        if resource is None:
            raise Missing(Code.RESOURCE_MISSING, f'{kind.qualified} "{key.name}" not found')
        return resource

    async def _stats(
        self, request: Request, kind: Kind, form: Form, *, described: bool = False
    ) -> dict[str, dict[str, Any]]:
        """Return statistics by uid for a table, a description, or if requested: they take up to
        half a second.
        """
        requested = flag(request.query_params, "statistics")
        wanted = requested or described or form.kind == "Table"
        if not wanted or not kind.model.live_columns:
            return {}
        return await self._platform.statistics.by_uid()


def _scope_of(request: Request, kind: Kind, namespace: str | None, query: ListQuery) -> ListScope:
    within: InSession | None = request.scope.get(SESSION)
    # Several sessions of a person each keep their own pages.
    who = within.record.key.name if within is not None else request.scope[WHO]
    resource = f"{kind.group_version}/{kind.name}"
    return ListScope(who, resource, namespace, query.selectors, (query.sort_by, query.contains))


def live_documents(
    kind: Kind, resources: Sequence[Resource], sample: Sample
) -> tuple[Callable[[Resource], Document], dict[str, dict[str, Any]]]:
    """Return the serialiser of resources with their live values, and the values by uid."""
    uids = [one.metadata.uid or "" for one in resources if isinstance(one, Address)]
    stats = {uid: found for uid in uids if (found := shown_of(sample, uid)) is not None}
    plain = _shown(kind, stats)

    def shown(resource: Resource) -> Document:
        document = plain(resource)
        if isinstance(resource, AddressSpace):
            document["status"]["live"] = live_space(sample, full_name(resource))
        return document

    return shown, stats


def _is_described(request: Request) -> bool:
    """Whether `kubectl describe` sends the request: kubectl names its command in a header.

    It shows what a plain GET returns. All other clients get the stored object, which for one
    resourceVersion is always the same, without the cost of sampling.
    """
    return request.headers.get("kubectl-command", "").endswith(" describe")


def _shown(kind: Kind, stats: Mapping[str, dict[str, Any]]) -> Callable[[Resource], Document]:
    """Return the serialiser for a group version."""

    def shown(resource: Resource) -> Document:
        document = resource.public().document() | {"apiVersion": kind.group_version}
        if found := stats.get(resource.metadata.uid or ""):
            document["status"]["statistics"] = found
        return document

    return shown


def _key(kind: Kind, request: Request) -> Key:
    namespace = request.path_params["namespace"] if kind.model.namespaced else ""
    return Key(kind.name, namespace, request.path_params["name"])


async def _delete_options(request: Request) -> tuple[Document, bool]:
    """Return the options of a delete, and whether it is a dry run."""
    options = await object_body(request) if await request.body() else {}
    query = WriteQuery.of(request.query_params, "")
    asked = options.get("dryRun") or []
    if asked not in ([], ["All"]):
        fault = Fault("dryRun", "can only be All")
        raise Invalid(Code.PARAMETER_INVALID, str(fault), faults=[fault])
    for policy in (options.get("propagationPolicy"), request.query_params.get("propagationPolicy")):
        if policy is not None and policy not in _PROPAGATIONS:
            fault = Fault(
                "propagationPolicy",
                f"Unsupported value: {json.dumps(policy)}: supported values:"
                f" {', '.join(map(json.dumps, _PROPAGATIONS))}",
            )
            raise Invalid(Code.PARAMETER_INVALID, str(fault), faults=[fault])
    return options, query.dry_run or bool(asked)


_PROPAGATIONS = ("Background", "Foreground", "Orphan")
"""Deletion of dependents. Owner references have no effect here, so all policies are equivalent."""


def _member(data: Document, name: str) -> Document:
    value = data.get(name)
    return dict(value) if isinstance(value, dict) else {}


async def _encoded(lines: AsyncIterator[Document]) -> AsyncIterator[bytes]:
    async for line in lines:
        yield json.dumps(line, separators=(",", ":")).encode() + b"\n"
