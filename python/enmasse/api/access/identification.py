"""Who sends a request: the bearer of a token, or the person of a console session.

A browser sends the session's cookie by itself, also for pages of other sites on this machine:
cookies do not distinguish ports. A request with the cookie must therefore come from the console's
own origin, and a change must carry the CSRF token, which only a page of that origin can read. A
request with `Authorization` ignores the cookie.
"""

from collections.abc import Callable
from typing import NamedTuple

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.types import Scope

from enmasse.auth.bearers import TokenBearers
from enmasse.auth.callers import Callers
from enmasse.auth.roles import Caller
from enmasse.auth.session_records import Record, is_csrf_token
from enmasse.auth.sessions import Sessions
from enmasse.base.errors import Code, Denied, EnMasseError

COOKIE, SECURE_COOKIE = "enmasse-session", "__Host-enmasse-session"
"""Names of the session's cookie without and with TLS. The prefix makes browsers refuse a cookie
that another host or an unencrypted page set (RFC 6265bis, 4.1.3.2).
"""

BACKGROUND_HEADER = "x-background"
"""Marks requests that a timer sends: they do not extend a session."""

CSRF_HEADER = "x-csrf-token"
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")

WEB_SOCKET_METHOD = "GET"
"""The method of the request that opens a WebSocket (RFC 6455, 4.1)."""

SESSION = "enmasse.session"
"""Scope key of the session and its cookie, set by the guard."""


class InSession(NamedTuple):
    """The session of a request."""

    record: Record
    cookie: str


class Identified(NamedTuple):
    """The sender of a request."""

    caller: Caller
    still: Callable[[], Caller | None]
    """Returns the caller with its present rights; None once it has none."""

    session: InSession | None = None


class Identification:
    """Identifies the senders of requests."""

    def __init__(self, callers: Callers, sessions: Sessions, bearers: TokenBearers | None) -> None:
        """`bearers` checks tokens of an issuer (OpenID Connect)."""
        self._callers = callers
        self._sessions = sessions
        self._bearers = bearers

    async def of(self, scope: Scope, headers: Headers) -> Identified | None:
        """Return the sender of a new request; None if it is unknown.

        Raises: Exhausted if its address has to wait after wrong tokens; Denied if a session is used
            by another origin or without its CSRF token.
        """
        authorization = headers.get("authorization")
        if authorization is None:
            return await self._in_session(scope, headers)
        if self._bearers is not None and self._bearers.is_for(authorization):
            caller = await self._bearers.caller(authorization)
            return None if caller is None else Identified(caller, self._bearers.still(caller))
        source = (scope.get("client") or ("", 0))[0]
        caller = self._callers.authenticate(authorization, source)
        if caller is None:
            return None
        return Identified(caller, lambda: self._callers.bearer(authorization))

    async def _in_session(self, scope: Scope, headers: Headers) -> Identified | None:
        cookie = cookie_of(scope, headers)
        found = await self._sessions.look_up(cookie) if cookie else None
        if found is None:
            return None
        if (error := _misuse(scope, headers, cookie)) is not None:
            raise error
        if BACKGROUND_HEADER not in headers:
            await self._sessions.use(found.record)

        def still() -> Caller | None:
            now = self._sessions.find(cookie)
            return None if now is None else now.caller

        return Identified(found.caller, still, InSession(found.record, cookie))


def cookie_name(scope: Scope) -> str:
    """Return the name of the session's cookie on a connection."""
    return SECURE_COOKIE if scope["scheme"] in ("https", "wss") else COOKIE


def cookie_of(scope: Scope, headers: Headers) -> str:
    """Return the session's cookie; empty without one."""
    sent = ";".join(headers.getlist("cookie"))  # HTTP/2 may split it (RFC 9113, 8.2.3)
    return cookie_parser(sent).get(cookie_name(scope), "")


def origin_problem(headers: Headers) -> EnMasseError | None:
    """Return the refusal of a request that a page of another origin sent, or None.

    Browsers state the relation in `Sec-Fetch-Site`; older ones send `Origin` with every POST.
    """
    site = headers.get("sec-fetch-site", "same-origin")
    origin = headers.get("origin")
    host = headers.get("host", "")
    is_own = origin is None or origin.partition("://")[2] == host
    return None if site in ("same-origin", "none") and is_own else _foreign()


def _foreign() -> EnMasseError:
    return Denied(
        Code.ORIGIN_REFUSED,
        "the request comes from a page of another origin; open the console at the platform's own"
        " address",
    )


def _misuse(scope: Scope, headers: Headers, cookie: str) -> EnMasseError | None:
    if (error := origin_problem(headers)) is not None:
        return error
    if scope["type"] == "websocket":
        # Browsers send the origin with every WebSocket (RFC 6455, 4.1), and no page can add a
        # header with the CSRF token.
        return None if "origin" in headers else _foreign()
    given = headers.get(CSRF_HEADER)
    if scope["method"] in SAFE_METHODS or is_csrf_token(cookie, given):
        return None
    return Denied(
        Code.CSRF_TOKEN_REQUIRED,
        "send the header X-CSRF-Token with the value `csrf` of GET /console/session",
    )
