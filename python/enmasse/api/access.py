"""What the caller may do, as `kubectl auth can-i` asks. Whoever has the token may do everything."""

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from enmasse.api.discovery import ACCESS_VERSION, IDENTITY_VERSION
from enmasse.api.requests import object_body
from enmasse.base.errors import Code, Fault, Invalid

BEARER = "enmasse:token"
"""What the bearer of the data folder's token is called."""

_EVERYTHING = "*"


class AccessReviews:
    """Questions that are answered at once and never stored."""

    async def access(self, request: Request) -> Response:
        """Whether one thing is allowed."""
        document = await _question(request, "SelfSubjectAccessReview", ACCESS_VERSION)
        _check_spec(document)
        given = [
            name
            for name in ("resourceAttributes", "nonResourceAttributes")
            if isinstance(document["spec"].get(name), dict)
        ]
        if len(given) != 1:
            raise _fault("spec", "must have resourceAttributes or nonResourceAttributes")
        status = {"allowed": True, "reason": "the bearer of the token may do everything"}
        return JSONResponse(document | {"status": status}, 201)

    async def rules(self, request: Request) -> Response:
        """Everything that is allowed in a namespace."""
        document = await _question(request, "SelfSubjectRulesReview", ACCESS_VERSION)
        _check_spec(document)
        everything = [_EVERYTHING]
        status = {
            "resourceRules": [
                {"verbs": everything, "apiGroups": everything, "resources": everything}
            ],
            "nonResourceRules": [{"verbs": everything, "nonResourceURLs": everything}],
            "incomplete": False,
        }
        return JSONResponse(document | {"status": status}, 201)

    async def identity(self, request: Request) -> Response:
        """Who asks."""
        document = await _question(request, "SelfSubjectReview", IDENTITY_VERSION)
        status = {"userInfo": {"username": BEARER, "groups": []}}
        return JSONResponse(document | {"status": status}, 201)


async def _question(request: Request, kind: str, version: str) -> dict[str, Any]:
    document = {"kind": kind, "apiVersion": version} | await object_body(request)
    if document["kind"] != kind or document["apiVersion"] != version:
        raise _fault("kind", f"must be {kind} of {version} on this path")
    return document


def _check_spec(document: dict[str, Any]) -> None:
    if not isinstance(document.get("spec"), dict):
        raise _fault("spec", "is required")


def _fault(field: str, problem: str) -> Invalid:
    fault = Fault(field, problem)
    return Invalid(Code.FIELD_INVALID, str(fault), faults=[fault])
