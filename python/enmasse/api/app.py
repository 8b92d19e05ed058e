"""The ASGI application and its routes."""

import asyncio
from collections.abc import Collection, Mapping
from functools import partial

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from enmasse.api.access.guard import Guard
from enmasse.api.access.message_rights import MessageRights
from enmasse.api.access.reviews import AccessReviews, while_allowed
from enmasse.api.backups import BackupPages
from enmasse.api.change_reviews import ChangeReviews
from enmasse.api.connections import ConnectionPages
from enmasse.api.console.headers import ConsoleHeaders
from enmasse.api.console.routes import Console, ConsoleOptions
from enmasse.api.discovery import (
    ACCESS_VERSION,
    DEFINITIONS,
    IDENTITY_VERSION,
    DiscoveryPages,
    group_versions,
    named_groups,
)
from enmasse.api.errors import error_response, handle_error
from enmasse.api.history.pages import HistoryPages
from enmasse.api.history.prometheus import Prometheus
from enmasse.api.http.compression import Compression
from enmasse.api.kinds import SERVED, of_group_version
from enmasse.api.live.overview import OverviewPages
from enmasse.api.live.stream import SamplePages
from enmasse.api.messages.operations import OperationHandlers
from enmasse.api.messages.send import SendHandler
from enmasse.api.mqtt import MqttPages
from enmasse.api.openapi import v2
from enmasse.api.openapi.v3 import OpenApiPages
from enmasse.api.pipeline_reports import PipelineReports
from enmasse.api.platform import Platform
from enmasse.api.resources.handlers import ResourceHandlers
from enmasse.api.resources.queries import flag, number
from enmasse.api.trail import audit
from enmasse.api.trail.audit import Audit
from enmasse.auth.callers import Callers
from enmasse.base.errors import (
    Code,
    Denied,
    EnMasseError,
    Fault,
    Invalid,
    Missing,
    Misuse,
)
from enmasse.base.log import RECENT, RECENT_MAX
from enmasse.base.rotated import RotatedFile
from enmasse.engines import Operation
from enmasse.resources import API_VERSION

BASE = f"/apis/{API_VERSION}"
LINES = "application/x-ndjson"
AUDIT_TAIL_MAX = 10_000
"""Maximum records of the audit trail per response."""

__all__ = ["Platform", "create_app"]


def create_app(
    platform: Platform,
    *,
    token: str,
    hosts: Collection[str],
    trail: RotatedFile | None = None,
    logins: RotatedFile | None = None,
    exposed: bool = False,
    console: ConsoleOptions | None = None,
) -> ASGIApp:
    """Return the ASGI application of a platform.

    `token` is the owner's, in addition to those in the store; `hosts` are the accepted host names,
    in addition to IP addresses. `trail` is the audit trail of requests; `logins` has the logins of
    messaging clients. `exposed`: other machines can connect and are served over TLS only.
    `console` has the settings of the web console.
    """
    callers = Callers(platform.store, token, platform.clock)
    face = Console(platform, callers, console or ConsoleOptions())
    app = Starlette(
        routes=[
            # Most frequent first: the router tries routes in order.
            *_kinds(platform),
            *_operations(platform),
            *_live(platform, (console or ConsoleOptions()).prometheus),
            *_connections(platform),
            *_mqtt(platform),
            *_pages(platform, trail, logins),
            *_discovery(),
            *face.routes(),
        ],
        exception_handlers={
            EnMasseError: handle_error,
            HTTPException: _handle_http,
            Exception: _handle_bug,
        },
    )
    guarded: ASGIApp = Guard(
        app,
        callers=callers,
        identification=face.identification,
        hosts=hosts,
        exposed=exposed,
    )
    if trail is not None:
        guarded = Audit(guarded, trail, platform.clock)
    # The audit trail reads responses, so compression comes after it.
    return Compression(ConsoleHeaders(guarded))


def _pages(
    platform: Platform, trail: RotatedFile | None, logins: RotatedFile | None
) -> list[Route]:
    pages = _Pages(platform, {"requests": trail, "logins": logins})
    return [
        Route("/healthz", pages.healthz),
        Route("/livez", pages.healthz),
        Route("/readyz", pages.readyz),
        Route("/readyz/messaging", pages.messaging_ready),
        Route("/metrics", pages.metrics),
        Route(f"{BASE}/connections", pages.connections),
        Route(f"{BASE}/logs", pages.logs),
        Route(audit.PATH, pages.audit),
        Route(f"{BASE}/backup", BackupPages(platform).backup),
        Route(f"{BASE}/connections/{{id}}/trace", pages.trace, methods=["POST", "DELETE"]),
        Route(f"{BASE}/changereviews", ChangeReviews(platform).review, methods=["POST"]),
    ]


def _discovery() -> list[Route]:
    pages, schemas, reviews = DiscoveryPages(), OpenApiPages(), AccessReviews()
    access, identity = f"/apis/{ACCESS_VERSION}", f"/apis/{IDENTITY_VERSION}"
    return [
        Route("/version", pages.version),
        Route("/api", pages.core),
        Route("/apis", pages.groups),
        *(Route(f"/apis/{group}", pages.group) for group in named_groups()),
        *(
            Route(f"/apis/{one}" if "/" in one else f"/api/{one}", pages.kinds)
            for one in group_versions()
        ),
        # kubectl reads this path before it reports an unknown kind.
        Route(DEFINITIONS, pages.definitions),
        Route("/openapi/v2", v2.page),
        Route("/openapi/v3", schemas.index),
        Route("/openapi/v3/{path:path}", schemas.document),
        Route(f"{access}/selfsubjectaccessreviews", reviews.access, methods=["POST"]),
        Route(f"{access}/selfsubjectrulesreviews", reviews.rules, methods=["POST"]),
        Route(f"{identity}/selfsubjectreviews", reviews.identity, methods=["POST"]),
    ]


def _operations(platform: Platform) -> list[Route]:
    operations = OperationHandlers(platform)
    handlers = {
        **{str(operation): operations.handler(operation) for operation in Operation},
        "deadletters": operations.dead_letters,
        "send": SendHandler(platform).send,
    }
    address = f"{BASE}/namespaces/{{namespace}}/addresses/{{name}}"
    return [
        Route(f"{address}/{name}", handler, methods=["POST"]) for name, handler in handlers.items()
    ]


def _live(platform: Platform, prometheus: Prometheus | None) -> list[Route]:
    """Return the routes of what the node reports, in a namespace and in all."""
    pages = {
        "samples": SamplePages(platform).samples,
        "overview": OverviewPages(platform).overview,
        "query_range": HistoryPages(platform, prometheus).query_range,
    }
    return [
        Route(f"{base}/{name}", page)
        for name, page in pages.items()
        for base in (BASE, f"{BASE}/namespaces/{{namespace}}")
    ]


def _connections(platform: Platform) -> list[Route]:
    """Return the routes of connections, links and rights of messaging users."""
    pages, inside = ConnectionPages(platform), f"{BASE}/namespaces/{{namespace}}"
    review = MessageRights(platform).review
    return [
        Route(f"{inside}/connections", pages.several),
        Route(f"{inside}/connections/{{id}}", pages.one, methods=["GET", "DELETE"]),
        Route(f"{inside}/connections/{{id}}/trace", pages.trace),
        Route(f"{inside}/addresses/{{name}}/links", pages.links),
        Route(
            f"{inside}/pipelines/{{name}}/report",
            PipelineReports(platform).report,
            methods=["GET", "PUT"],
        ),
        Route(f"{inside}/addressspaces/{{name}}/accessreviews", review, methods=["POST"]),
    ]


def _mqtt(platform: Platform) -> list[Route]:
    """Return the routes of what MQTT clients leave behind in an address space."""
    pages = MqttPages(platform)
    space = f"{BASE}/namespaces/{{namespace}}/addressspaces/{{name}}"
    return [
        Route(f"{space}/retained", pages.retained, methods=["GET", "DELETE"]),
        Route(f"{space}/mqttsessions", pages.sessions, methods=["GET", "DELETE"]),
    ]


def _kinds(platform: Platform) -> list[Route]:
    handlers = ResourceHandlers(platform)
    routes = []
    for kind in SERVED:
        plural = kind.model.plural
        inside = f"{kind.base}/namespaces/{{namespace}}" if kind.model.namespaced else kind.base
        collection, one = partial(handlers.collection, kind), partial(handlers.one, kind)
        many = ["GET", "POST", "DELETE"] if "create" in kind.verbs else ["GET"]
        each = ["GET", "PUT", "PATCH", "DELETE"] if "create" in kind.verbs else ["GET"]
        routes += [
            Route(f"{inside}/{plural}", collection, methods=many),
            Route(f"{inside}/{plural}/{{name}}", one, methods=each),
        ]
        if kind.model.namespaced:
            routes.append(Route(f"{kind.base}/{plural}", collection))
        if kind.has_status:
            routes.append(Route(f"{inside}/{plural}/{{name}}/status", one, methods=["GET"]))
    return routes


class _Pages:
    """Handlers of everything except resources."""

    def __init__(self, platform: Platform, trails: Mapping[str, RotatedFile | None]) -> None:
        self._platform = platform
        self._trails = trails

    async def healthz(self, _request: Request) -> Response:
        """The process responds."""
        return PlainTextResponse("ok\n")

    async def readyz(self, _request: Request) -> Response:
        """Everything declared at start is served.

        A stopped journal does not change that: direct addresses and management keep working.
        """
        if self._platform.is_ready():
            problem = self._platform.engine.problem()
            return PlainTextResponse(f"ok; {problem}\n" if problem else "ok\n")
        return PlainTextResponse("starting or stopping\n", 503)

    async def messaging_ready(self, _request: Request) -> Response:
        """Whether this process serves messages to new clients, on disk too: false on a stand-by,
        on a cordoned node and with a stopped journal.
        """
        if not self._platform.is_ready():
            return PlainTextResponse("starting or stopping\n", 503)
        if self._platform.is_cordoned():
            return PlainTextResponse("cordoned: this node admits no new connections\n", 503)
        problem = self._platform.engine.problem()
        return PlainTextResponse(f"{problem}\n", 503) if problem else PlainTextResponse("ok\n")

    async def metrics(self, request: Request) -> Response:
        """Metrics for Prometheus; `?addresses=all` includes every address."""
        # Imported here: the Prometheus client would slow down the start.
        from enmasse.api.monitoring import metrics

        text = metrics.render(
            await self._platform.engine.observe(),
            await self._platform.engine.connections(),
            await self._platform.engine.usage(),
            ready=self._platform.is_ready(),
            all_addresses=request.query_params.get("addresses") == "all",
            data=self._platform.data(),
        )
        return Response(text, media_type=metrics.CONTENT_TYPE)

    async def connections(self, _request: Request) -> Response:
        """The open connections."""
        connections = await self._platform.engine.connections()
        return JSONResponse({"items": [connection._asdict() for connection in connections]})

    async def logs(self, request: Request) -> Response:
        """The latest log records as JSON lines; `?follow=true` continues."""
        tail = number(request.query_params, "tail")
        tail = RECENT_MAX if tail is None else min(tail, RECENT_MAX)
        if flag(request.query_params, "follow"):
            lines = (f"{line}\n" async for line in while_allowed(request, RECENT.follow(tail)))
            return StreamingResponse(lines, media_type=LINES)
        text = "".join(f"{line}\n" for line in RECENT.last(tail))
        return Response(text, media_type=LINES)

    async def audit(self, request: Request) -> Response:
        """The latest records of the audit trail as JSON lines; `?of=logins` for logins of messaging
        clients.
        """
        of = request.query_params.get("of", "requests")
        if of not in self._trails:
            fault = Fault("of", f"must be {' or '.join(self._trails)}")
            raise Invalid(Code.PARAMETER_INVALID, str(fault), faults=[fault])
        trail = self._trails[of]
        if trail is None:
            raise Missing(Code.NOT_FOUND, "this platform keeps no audit trail")
        tail = number(request.query_params, "tail")
        tail = AUDIT_TAIL_MAX if tail is None else min(tail, AUDIT_TAIL_MAX)
        lines = await asyncio.to_thread(trail.last, tail)
        return Response("".join(f"{line}\n" for line in lines), media_type=LINES)

    async def trace(self, request: Request) -> Response:
        """POST starts the protocol trace of a connection, DELETE stops it; frames go to the log."""
        number = request.path_params["id"]
        if not number.isascii() or not number.isdecimal() or len(number) > 18:
            raise Missing(Code.CONNECTION_MISSING, f"connection {number!r} not found")
        await self._platform.engine.trace(int(number), on=request.method == "POST")
        return JSONResponse({"id": int(number), "trace": request.method == "POST"})


async def _handle_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path = request.url.path
    if error.status_code == 404:
        known = [kind for kind in SERVED if path.startswith(f"{kind.base}/")]
        hint = ""
        if known:
            plurals = ", ".join(
                one.model.plural for one in of_group_version(known[0].group_version)
            )
            hint = f"; in {known[0].group_version} there are {plurals}"
        return error_response(Missing(Code.PATH_MISSING, f"path {path} not found{hint}"))
    if error.status_code == 405:
        refused = Denied(Code.VERB_REFUSED, f"{path} does not support {request.method}")
        answer = error_response(refused)
        # the header that RFC 9110, 15.5.6 requires
        answer.headers.update(error.headers or {})
        return answer
    return error_response(Invalid(Code.REQUEST_INVALID, error.detail))


async def _handle_bug(_request: Request, error: Exception) -> Response:
    """Response to an internal error; Starlette raises it again, so the server logs it."""
    return error_response(Misuse(Code.INTERNAL, f"internal error: {type(error).__name__}"))
