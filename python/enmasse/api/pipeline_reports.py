"""GET and PUT on `pipelines/NAME/report`: what the process that runs a pipeline says of itself.

The platform does not run pipelines. `enmasse pipeline run --report` sends the document of `enmasse
pipeline status` every few seconds; it is kept in memory and forgotten when no other one follows.
"""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from enmasse.api.http.bodies import object_body
from enmasse.api.platform import Platform
from enmasse.base.clock import rfc3339
from enmasse.base.errors import Code, Exhausted, Missing
from enmasse.resources import API_VERSION, Key

VALID_S = 60.0
"""A report counts as present for this time."""

KEPT_MAX = 1000
"""Maximum reports; beyond it the oldest is forgotten."""

REPORT_BYTES_MAX = 64 << 10
"""Maximum size of a report as it is sent."""


class _Kept(NamedTuple):
    document: Mapping[str, Any]
    time: str
    until_s: float


class PipelineReports:
    """The latest report of each pipeline."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._kept: OrderedDict[Key, _Kept] = OrderedDict()

    async def report(self, request: Request) -> Response:
        """The latest report; PUT replaces it."""
        key = Key("Pipeline", request.path_params["namespace"], request.path_params["name"])
        await self._platform.store.refresh()
        if self._platform.store.get(key) is None:
            raise Missing(Code.RESOURCE_MISSING, f"there is no {key}; apply its document first")
        clock = self._platform.clock
        if request.method == "PUT":
            document = await object_body(request)
            if len(await request.body()) > REPORT_BYTES_MAX:
                raise Exhausted(
                    Code.REQUEST_TOO_LARGE,
                    f"the report must have at most {REPORT_BYTES_MAX} bytes: it is the document of"
                    " `enmasse pipeline status`",
                )
            self._kept.pop(key, None)
            self._kept[key] = _Kept(document, rfc3339(clock.now()), clock.monotonic() + VALID_S)
            while len(self._kept) > KEPT_MAX:
                self._kept.popitem(last=False)
        kept = self._kept.get(key)
        if kept is None or kept.until_s <= clock.monotonic():
            self._kept.pop(key, None)
            raise Missing(
                Code.NOT_FOUND,
                f"no running process reports on {key}; start it with `enmasse pipeline run"
                f" --report {key.namespace}`",
            )
        head = {"kind": "PipelineReport", "apiVersion": API_VERSION, "time": kept.time}
        return JSONResponse(head | {"report": kept.document})
