"""Login, logout and the session of the console."""

from collections.abc import Iterable
from math import ceil
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from enmasse import __version__
from enmasse.api.access.identification import (
    SECURE_COOKIE,
    SESSION,
    InSession,
    cookie_name,
    origin_problem,
)
from enmasse.api.access.impersonation import Impersonating
from enmasse.api.access.reviews import CALLER
from enmasse.api.console.paths import LOGIN, OIDC_START
from enmasse.api.http.bodies import object_body
from enmasse.api.platform import Platform
from enmasse.api.trail.audit import WHO
from enmasse.auth.callers import Callers
from enmasse.auth.guesses import Guesses
from enmasse.auth.roles import GROUP, Attributes, Caller
from enmasse.auth.session_records import Identity, Record, csrf_token
from enmasse.auth.sessions import Opened, Sessions
from enmasse.base.clock import rfc3339
from enmasse.base.errors import Code, Denied, Exhausted, Fault, Invalid
from enmasse.base.hosts import is_loopback
from enmasse.resources.api_token import EVERYWHERE

NAMESPACES_MAX = 10_000
"""Maximum namespaces in a session."""


class SessionPages:
    """The paths of logins and sessions."""

    def __init__(
        self, platform: Platform, callers: Callers, sessions: Sessions, provider: str | None
    ) -> None:
        """`provider` is the name of the identity provider, if there is one."""
        self._platform = platform
        self._callers = callers
        self._sessions = sessions
        self._provider = provider
        self._guesses = Guesses()

    async def methods(self, _request: Request) -> Response:
        """The ways to log in."""
        oidc = {"name": self._provider, "start": OIDC_START} if self._provider else None
        return JSONResponse({"token": True, "code": True, "oidc": oidc})

    async def session(self, request: Request) -> Response:
        """The session; POST begins one, DELETE ends it."""
        if request.method == "POST":
            return await self._log_in(request)
        within: InSession | None = request.scope.get(SESSION)
        if request.method != "DELETE":
            return JSONResponse(self.document(request.scope[CALLER], within))
        if within is None:
            raise Invalid(Code.REQUEST_INVALID, "a token has no session to end; delete the token")
        await self._sessions.end(within.record)
        return without_cookie(Response(status_code=204), request)

    async def codes(self, request: Request) -> Response:
        """Return a one-time code for the bearer of a token."""
        if SESSION in request.scope:
            raise Denied(Code.ACCESS_DENIED, "a session cannot extend itself; send a token")
        caller = request.scope[CALLER]
        if isinstance(caller, Impersonating):
            # A session would have all rights of the other user, not only the common ones.
            raise Denied(Code.ACCESS_DENIED, "a code is for the bearer itself; omit Impersonate-*")
        identity = self._sessions.identity_of(caller)
        if identity is None:
            raise Denied(Code.LOGIN_REFUSED, "the token has been deleted")
        code, expires = await self._sessions.issue_code(identity)
        document = {"code": code, "expires": rfc3339(expires), "path": f"{LOGIN}#code={code}"}
        return JSONResponse(document, 201)

    def document(self, caller: Caller, within: InSession | None) -> dict[str, Any]:
        """Return who the caller is, what it may do, and the end of its session."""
        record = within.record if within is not None else None
        return {
            "user": caller.name,
            "isOwner": caller.is_owner,
            "roles": {role: sorted(where) for role, where in caller.roles.items()},
            "groups": caller.groups,
            "method": record.identity.method if record else "bearer",
            "created": rfc3339(record.created) if record else None,
            "expires": self._expiry(caller, record),
            "idleSeconds": self._sessions.lifetimes.idle_s if record else None,
            "csrf": csrf_token(within.cookie) if within is not None else None,
            "may": {
                "operate": caller.is_owner or EVERYWHERE in caller.roles.get("service-admin", ()),
                "readAll": caller.may(Attributes("list", GROUP, "addressspaces")),
                "namespaces": self._namespaces(caller),
            },
            "platform": {"version": __version__, "endpoints": self._platform.endpoints()},
        }

    async def begin(self, request: Request, identity: Identity, answer: Response) -> Opened:
        """Begin a session, with its cookie in an answer."""
        opened = await self._sessions.open(identity)
        request.scope[WHO] = identity.name
        _set_cookie(request, answer, opened.cookie, self._sessions.lifetimes.absolute_s)
        return opened

    async def _log_in(self, request: Request) -> Response:
        if (error := origin_problem(request.headers)) is not None:
            raise error
        given = await object_body(request)
        source = request.client.host if request.client else ""
        match given:
            case {"token": str(token), **rest} if not rest:
                caller = self._callers.authenticate(f"Bearer {token.strip()}", source)
                identity = self._sessions.identity_of(caller) if caller is not None else None
            case {"code": str(code), **rest} if not rest:
                identity = await self._redeemed(code, source)
            case _:
                fault = Fault("", "must have either `token` or `code`, a text")
                raise Invalid(Code.FIELD_INVALID, str(fault), faults=[fault])
        if identity is None:
            raise Denied(
                Code.LOGIN_REFUSED,
                "the token or code is wrong, used or expired; `enmasse console` makes a new link",
            )
        answer = JSONResponse({}, 201)
        opened = await self.begin(request, identity, answer)
        found = await self._sessions.look_up(opened.cookie)
        if found is None:
            raise Denied(Code.LOGIN_REFUSED, "the token was deleted during the login")
        within = InSession(found.record, opened.cookie)
        answer.body = JSONResponse(self.document(found.caller, within)).body
        answer.headers["content-length"] = str(len(answer.body))
        return answer

    async def _redeemed(self, code: str, source: str) -> Identity | None:
        """Return the identity of a code. Wrong ones count against their source.

        Raises: Exhausted if the source has to wait.
        """
        now_s = self._platform.clock.monotonic()
        attempt = self._guesses.begin("code", source, now_s)
        if attempt.wait_s > 0 and not is_loopback(source):
            raise Exhausted(
                Code.LIMIT_REACHED,
                "too many wrong codes came from this address: wait, and make a new link",
                retry_after_s=float(ceil(attempt.wait_s)),
            )
        identity = await self._sessions.redeem(code.strip())
        if identity is None:
            self._guesses.failed("code", source, now_s)
        else:
            self._guesses.succeeded("code", source, now_s)
        return identity

    def _expiry(self, caller: Caller, record: Record | None) -> str | None:
        known = (caller.expires, record.expires if record is not None else None)
        ends = [one for one in known if one is not None]
        return rfc3339(min(ends)) if ends else None

    def _namespaces(self, caller: Caller) -> list[str]:
        """Return the namespaces whose resources the caller may read."""
        every = (one.metadata.name for one in self._platform.store.list("Namespace"))
        return _readable(caller, every)[:NAMESPACES_MAX]


def _readable(caller: Caller, names: Iterable[str]) -> list[str]:
    return [
        name
        for name in names
        if caller.may(Attributes("list", GROUP, "addressspaces", namespace=name))
    ]


def _set_cookie(request: Request, answer: Response, cookie: str, lifetime_s: float) -> None:
    name = cookie_name(request.scope)
    answer.set_cookie(
        name,
        cookie,
        max_age=int(lifetime_s),
        path="/",
        secure=name == SECURE_COOKIE,
        httponly=True,
        samesite="strict",
    )


def without_cookie(answer: Response, request: Request) -> Response:
    """Remove the session's cookie with an answer."""
    name = cookie_name(request.scope)
    answer.delete_cookie(
        name, path="/", secure=name == SECURE_COOKIE, httponly=True, samesite="strict"
    )
    return answer
