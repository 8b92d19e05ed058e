"""Authorization questions (`kubectl auth can-i`, `whoami`) and refusals.

Words and forms are those of Kubernetes, whose clients show them unchanged.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from enmasse.api.discovery import ACCESS_VERSION, IDENTITY_VERSION
from enmasse.api.http.bodies import object_body
from enmasse.auth.roles import ANY, Attributes, Caller, able
from enmasse.base.errors import Code, Denied, Fault, Invalid

CALLER = "enmasse.caller"
"""Scope key of the caller, set by the guard."""

STILL = "enmasse.still"
"""Scope key of a function that repeats the authorization check."""

PRESENT = "enmasse.present"
"""Scope key of a function that returns the caller with its present rights, or None."""

CHECK_S = 1.0
"""Interval at which an open stream checks the right of its caller."""

_Item = TypeVar("_Item")


def forbidden(caller: Caller, asked: Attributes) -> Denied:
    """Return the refusal of a request, with the resource as its context."""
    if not asked.resource:
        spec_part = f'forbidden: User "{caller.name}" cannot {asked.verb} path "{asked.path}"'
        if roles := able(asked):
            spec_part += f"; it needs the role {' or '.join(roles)} in all namespaces"
        return Denied(Code.ACCESS_DENIED, spec_part)
    plural = f"{asked.resource}.{asked.group}" if asked.group else asked.resource
    named = f'{plural} "{asked.name}"' if asked.name else plural
    where = f'in the namespace "{asked.namespace}"' if asked.namespace else "at the cluster scope"
    message = (
        f'{named} is forbidden: User "{caller.name}" cannot {asked.verb} resource "{asked.part}"'
        f' in API group "{asked.group}" {where}'
    )
    if roles := able(asked):
        needed = f"in {asked.namespace}" if asked.namespace else "in all namespaces"
        message += f"; it needs the role {' or '.join(roles)} {needed}"
    about = {"kind": asked.resource, "group": asked.group, "name": asked.name}
    refusal = Denied(Code.ACCESS_DENIED, message)
    refusal.context = {name: text for name, text in about.items() if text}
    return refusal


async def while_allowed(request: Request, lines: AsyncIterator[_Item]) -> AsyncIterator[_Item]:
    """Yield the events of a watch until its caller loses the right, also while there are none."""
    still = request.scope[STILL]
    while True:
        # The limit covers only the wait for an event: around a `yield` it would interrupt the
        # caller of this function.
        try:
            async with asyncio.timeout(None) as limit:
                with _checked(still, limit):
                    line = await anext(lines)
        except (StopAsyncIteration, TimeoutError):
            return
        if not still():
            return
        yield line


@contextmanager
def _checked(still: Callable[[], object], limit: asyncio.Timeout) -> Iterator[None]:
    """Check a right every `CHECK_S`, and let the limit expire once it is lost."""
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle

    def check() -> None:
        nonlocal timer
        if still():
            timer = loop.call_later(CHECK_S, check)
        else:
            limit.reschedule(loop.time())

    timer = loop.call_later(CHECK_S, check)
    try:
        yield
    finally:
        timer.cancel()


class AccessReviews:
    """Kinds that are answered immediately and never stored."""

    async def access(self, request: Request) -> Response:
        """Whether one request is allowed."""
        document = await _question(request, "SelfSubjectAccessReview", ACCESS_VERSION)
        spec = _spec(document)
        given = [
            name
            for name in ("resourceAttributes", "nonResourceAttributes")
            if isinstance(spec.get(name), dict)
        ]
        if len(given) != 1:
            raise _fault("spec", "must have resourceAttributes or nonResourceAttributes")
        caller, asked = _caller(request), _attributes(spec[given[0]], given[0])
        allowed = caller.may(asked)
        if caller.is_owner:
            reason = "the owner's token has every right"
        elif allowed:
            reason = "a role of the token allows it"
        else:
            reason = forbidden(caller, asked).message
        return JSONResponse(document | {"status": {"allowed": allowed, "reason": reason}}, 201)

    async def rules(self, request: Request) -> Response:
        """Every right in a namespace."""
        document = await _question(request, "SelfSubjectRulesReview", ACCESS_VERSION)
        namespace = _text(_spec(document), "namespace", "spec")
        caller = _caller(request)
        paths = [ANY] if caller.is_owner else [f"{one}{below}" for one in caller.paths()
                                               for below in ("", "/*")]  # fmt: skip
        status = {
            "resourceRules": [
                {
                    "verbs": list(rule.verbs),
                    "apiGroups": [rule.group],
                    "resources": list(rule.resources),
                }
                for rule in caller.rules(namespace)
            ],
            "nonResourceRules": [
                {"verbs": [ANY] if caller.is_owner else ["get"], "nonResourceURLs": paths}
            ],
            "incomplete": False,
        }
        return JSONResponse(document | {"status": status}, 201)

    async def identity(self, request: Request) -> Response:
        """The caller."""
        document = await _question(request, "SelfSubjectReview", IDENTITY_VERSION)
        caller = _caller(request)
        status = {"userInfo": {"username": caller.name, "groups": caller.groups}}
        return JSONResponse(document | {"status": status}, 201)


def _caller(request: Request) -> Caller:
    caller = request.scope[CALLER]
    assert isinstance(caller, Caller)
    return caller


async def _question(request: Request, kind: str, version: str) -> dict[str, Any]:
    document = {"kind": kind, "apiVersion": version} | await object_body(request)
    if document["kind"] != kind or document["apiVersion"] != version:
        raise _fault("kind", f"must be {kind} of {version} on this path")
    return document


def _spec(document: dict[str, Any]) -> dict[str, Any]:
    spec = document.get("spec")
    if not isinstance(spec, dict):
        raise _fault("spec", "is required")
    return spec


def _attributes(spec_part: dict[str, Any], field: str) -> Attributes:
    """Return the attributes of a question; absent ones mean all."""
    names = ("verb", "group", "resource", "subresource", "namespace", "name", "path")
    text = {name: _text(spec_part, name, f"spec.{field}") for name in names}
    if field == "nonResourceAttributes":
        return Attributes(text["verb"] or ANY, path=text["path"] or ANY)
    namespace = text["name"] if text["resource"] == "namespaces" else text["namespace"]
    return Attributes(
        text["verb"] or ANY,
        text["group"],
        text["resource"] or ANY,
        text["subresource"],
        namespace,
        text["name"],
    )


def _text(spec_part: dict[str, Any], name: str, where: str) -> str:
    value = spec_part.get(name) or ""
    if not isinstance(value, str):
        raise _fault(f"{where}.{name}", "must be a text")
    return value


def _fault(field: str, problem: str) -> Invalid:
    fault = Fault(field, problem)
    return Invalid(Code.FIELD_INVALID, str(fault), faults=[fault])
