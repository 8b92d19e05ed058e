"""The application: which path goes where."""

from collections.abc import Collection

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from enmasse.api import metrics
from enmasse.api.errors import error_response, handle_error
from enmasse.api.guard import Guard
from enmasse.api.operations import OperationHandlers
from enmasse.api.platform import Platform
from enmasse.api.resources import PLURALS, ResourceHandlers
from enmasse.base.errors import (
    Code,
    Denied,
    EnMasseError,
    Invalid,
    Missing,
    Misuse,
)
from enmasse.engines import Operation
from enmasse.resources import API_VERSION

GROUP, VERSION = API_VERSION.split("/")
BASE = f"/apis/{API_VERSION}"
_VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]

__all__ = ["Platform", "create_app"]


def create_app(platform: Platform, *, token: str, hosts: Collection[str]) -> ASGIApp:
    """Return the ASGI application of a platform.

    `token` is what a client must know; `hosts` are the names under which the server may be asked,
    beside plain addresses.
    """
    handlers = ResourceHandlers(platform)
    operations = OperationHandlers(platform)
    pages = _Pages(platform)
    app = Starlette(
        routes=[
            Route("/healthz", pages.healthz),
            Route("/readyz", pages.readyz),
            Route("/metrics", pages.metrics),
            Route("/apis", pages.groups),
            Route(BASE, pages.kinds),
            Route(f"{BASE}/connections", pages.connections),
            Route(f"{BASE}/connections/{{id}}/trace", pages.trace, methods=["POST", "DELETE"]),
            Route(f"{BASE}/{{plural}}", handlers.collection),
            Route(
                f"{BASE}/namespaces/{{namespace}}/{{plural}}",
                handlers.collection,
                methods=["GET", "POST"],
            ),
            Route(
                f"{BASE}/namespaces/{{namespace}}/{{plural}}/{{name}}",
                handlers.one,
                methods=["GET", "PUT", "PATCH", "DELETE"],
            ),
            *(
                Route(
                    f"{BASE}/namespaces/{{namespace}}/addresses/{{name}}/{operation}",
                    operations.handler(operation),
                    methods=["POST"],
                )
                for operation in Operation
            ),
        ],
        exception_handlers={
            EnMasseError: handle_error,
            HTTPException: _handle_http,
            Exception: _handle_bug,
        },
    )
    return Guard(app, token=token, hosts=hosts)


class _Pages:
    """Everything but the resources."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform

    async def healthz(self, _request: Request) -> Response:
        """The process answers."""
        return PlainTextResponse("ok\n")

    async def readyz(self, _request: Request) -> Response:
        """Everything declared at start is served.

        A journal that has stopped does not change that: direct addresses and management go on.
        """
        if self._platform.is_ready():
            trouble = self._platform.engine.trouble()
            return PlainTextResponse(f"ok; {trouble}\n" if trouble else "ok\n")
        return PlainTextResponse("starting or stopping\n", 503)

    async def metrics(self, request: Request) -> Response:
        """The figures for Prometheus; `?addresses=all` for every single address."""
        text = metrics.render(
            await self._platform.engine.observe(),
            await self._platform.engine.connections(),
            ready=self._platform.is_ready(),
            all_addresses=request.query_params.get("addresses") == "all",
        )
        return Response(text, media_type=CONTENT_TYPE_LATEST)

    async def groups(self, _request: Request) -> Response:
        """The API groups, for discovery."""
        version = {"groupVersion": API_VERSION, "version": VERSION}
        group = {"name": GROUP, "versions": [version], "preferredVersion": version}
        return JSONResponse({"kind": "APIGroupList", "apiVersion": "v1", "groups": [group]})

    async def kinds(self, _request: Request) -> Response:
        """The kinds and their verbs, for discovery."""
        resources = [
            {
                "name": plural,
                "singularName": model.__name__.lower(),
                "namespaced": True,
                "kind": model.__name__,
                "verbs": _VERBS,
            }
            for plural, model in PLURALS.items()
        ] + [
            {
                "name": f"addresses/{operation}",
                "singularName": "",
                "namespaced": True,
                "kind": "MessageOperation",
                "verbs": ["create"],
            }
            for operation in Operation
        ]
        return JSONResponse(
            {
                "kind": "APIResourceList",
                "apiVersion": "v1",
                "groupVersion": API_VERSION,
                "resources": resources,
            }
        )

    async def connections(self, _request: Request) -> Response:
        """The open connections."""
        connections = await self._platform.engine.connections()
        return JSONResponse({"items": [connection._asdict() for connection in connections]})

    async def trace(self, request: Request) -> Response:
        """POST switches the protocol trace of a connection on, DELETE off; it goes to the log."""
        number = request.path_params["id"]
        if not number.isascii() or not number.isdecimal() or len(number) > 18:
            raise Missing(Code.CONNECTION_MISSING, f"there is no connection {number!r}")
        await self._platform.engine.trace(int(number), on=request.method == "POST")
        return JSONResponse({"id": int(number), "trace": request.method == "POST"})


async def _handle_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path = request.url.path
    if error.status_code == 404:
        return error_response(Missing(Code.PATH_MISSING, f"there is nothing at {path}"))
    if error.status_code == 405:
        return error_response(
            Denied(Code.VERB_REFUSED, f"{request.method} is not possible on {path}")
        )
    return error_response(Invalid(Code.REQUEST_INVALID, error.detail))


async def _handle_bug(_request: Request, error: Exception) -> Response:
    """Answer for a bug; Starlette raises it again, so that the server logs it."""
    return error_response(Misuse(Code.INTERNAL, f"a bug in EnMasse: {type(error).__name__}"))
