"""Logins at an identity provider (OpenID Connect), as redirects of the browser."""

import hmac
from urllib.parse import quote, urlsplit

import structlog
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from enmasse.api.console.paths import LOGIN, OIDC_CALLBACK, ROOT
from enmasse.api.console.sessions import SessionPages
from enmasse.auth.authorization_code import AuthorizationCode, LoginState
from enmasse.auth.grants import Refused, Unanswered
from enmasse.auth.session_records import Identity
from enmasse.base.errors import Unavailable

log = structlog.get_logger(__name__)

COOKIE, SECURE_COOKIE = "enmasse-login", "__Host-enmasse-login"
COOKIE_S = 600
"""Lifetime of a login in progress."""

THEN_LENGTH_MAX = 1000


class OidcPages:
    """The start and the end of such a login."""

    def __init__(self, logins: AuthorizationCode, sessions: SessionPages, public_url: str) -> None:
        """`public_url` is the origin at which browsers reach the console; empty: that of each
        request.
        """
        self._logins = logins
        self._sessions = sessions
        self._public_url = public_url.rstrip("/")

    async def start(self, request: Request) -> Response:
        """Redirect to the provider."""
        state = LoginState.new(path_within(request.query_params.get("then", ROOT)))
        try:
            url = await self._logins.start_url(state, self._redirect_uri(request))
        except Unanswered as error:
            return _failed(str(error), "the identity provider does not answer; try again later")
        answer = RedirectResponse(url, 303)
        name = _cookie_name(request)
        answer.set_cookie(
            name,
            state.encoded(),
            max_age=COOKIE_S,
            path="/",
            secure=name == SECURE_COOKIE,
            httponly=True,
            samesite="lax",  # the provider's redirect back is a navigation from its site
        )
        return answer

    async def callback(self, request: Request) -> Response:
        """Complete a login, and redirect to where it began."""
        state = LoginState.decoded(request.cookies.get(_cookie_name(request), ""))
        query = request.query_params
        given = query.get("state", "")
        if state is None or not hmac.compare_digest(state.state.encode(), given.encode()):
            return _failed("state differs", "the login was started elsewhere or took too long")
        if "code" not in query:
            reason = query.get("error_description") or query.get("error") or "no code"
            return _failed(reason, "the identity provider refused the login")
        try:
            caller = await self._logins.complete(query["code"], state, self._redirect_uri(request))
        except (Unanswered, Unavailable) as error:
            return _failed(str(error), "the identity provider does not answer; try again later")
        except Refused as error:
            return _failed(str(error), "the identity provider refused the login")
        if not caller.roles:
            return _failed(
                f"{caller.name} has no role",
                "your account has no role on this platform; ask its operator for one",
            )
        answer = RedirectResponse(path_within(state.then), 303)
        name = _cookie_name(request)
        answer.delete_cookie(name, path="/", secure=name == SECURE_COOKIE, httponly=True)
        identity = Identity("oidc", caller.name, roles=caller.roles)
        await self._sessions.begin(request, identity, answer)
        return answer

    def _redirect_uri(self, request: Request) -> str:
        origin = self._public_url or f"{request.url.scheme}://{request.url.netloc}"
        return f"{origin}{OIDC_CALLBACK}"


def path_within(path: str) -> str:
    """Return a path of the console; its root for everything else, such as another site."""
    parts = urlsplit(path)
    is_own = path.startswith(ROOT) and not parts.scheme and not parts.netloc
    safe = is_own and path.isprintable() and "\\" not in path and len(path) <= THEN_LENGTH_MAX
    return path if safe else ROOT


def _cookie_name(request: Request) -> str:
    return SECURE_COOKIE if request.url.scheme == "https" else COOKIE


def _failed(reason: str, message: str) -> Response:
    log.info("console login refused", reason=reason[:500])
    return RedirectResponse(f"{LOGIN}?error={quote(message)}", 303)
