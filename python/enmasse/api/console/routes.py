"""Constructs the console of a platform: identification of its people, and its routes."""

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from starlette.routing import BaseRoute, Route, WebSocketRoute

from enmasse.api.access.identification import Identification
from enmasse.api.console import paths
from enmasse.api.console.files import ConsoleFiles
from enmasse.api.console.oidc import OidcPages
from enmasse.api.console.sessions import SessionPages
from enmasse.api.console.web_socket import MessagingPages
from enmasse.api.history.prometheus import Prometheus
from enmasse.api.platform import Platform
from enmasse.auth.authorization_code import AuthorizationCode, Provider
from enmasse.auth.bearers import Claims, TokenBearers
from enmasse.auth.callers import Callers
from enmasse.auth.fetching import Fetch, fetch
from enmasse.auth.issuers import Issuer
from enmasse.auth.sessions import Lifetimes, Sessions
from enmasse.auth.tokens import Expected
from enmasse.base.clock import Clock
from enmasse.resources import API_VERSION

CONNECTION_TOKENS = (
    f"/apis/{API_VERSION}/namespaces/{{namespace}}/addressspaces/{{name}}/connectiontokens"
)
ALGORITHMS = ("RS256", "PS256", "ES256", "Ed25519")


@dataclass(frozen=True, slots=True)
class Federation:
    """An identity provider whose users are people of the console and callers of the API."""

    provider: Provider
    audience: str
    """Required audience of access tokens at the API."""

    claims: Claims = field(default_factory=Claims)


@dataclass(frozen=True, slots=True)
class ConsoleOptions:
    """Settings of the console."""

    lifetimes: Lifetimes = field(default_factory=Lifetimes)
    federation: Federation | None = None
    public_url: str = ""
    """Origin of the console for the identity provider; empty: that of each request."""

    prometheus: Prometheus | None = None
    """Where past values come from; None: the platform's own history."""

    fetch: Fetch = fetch
    files: ConsoleFiles = field(default_factory=ConsoleFiles)


class Console:
    """The console of one platform."""

    def __init__(self, platform: Platform, callers: Callers, options: ConsoleOptions) -> None:
        self.sessions = Sessions(
            platform.store, platform.admission, callers, platform.clock, options.lifetimes
        )
        federation, clock = options.federation, platform.clock
        provider = urlsplit(federation.provider.issuer).hostname if federation else None
        self._pages = SessionPages(platform, callers, self.sessions, provider)
        self._messaging = MessagingPages(platform)
        self._files = options.files
        self._oidc: OidcPages | None = None
        bearers = None
        if federation is not None:
            bearers = _bearers(federation, federation.audience, options.fetch, clock)
            people = _bearers(federation, federation.provider.client_id, options.fetch, clock)
            # The provider itself has just given this token to us, whatever its audience.
            given = _bearers(federation, None, options.fetch, clock)
            logins = AuthorizationCode(federation.provider, people, given, options.fetch, clock)
            self._oidc = OidcPages(logins, self._pages, options.public_url)
        self.identification = Identification(callers, self.sessions, bearers)

    def routes(self) -> list[BaseRoute]:
        """Return its routes; files come last, because they are every other path."""
        pages = self._pages
        oidc = []
        if self._oidc is not None:
            oidc = [
                Route(paths.OIDC_START, self._oidc.start),
                Route(paths.OIDC_CALLBACK, self._oidc.callback),
            ]
        return [
            Route(paths.LOGIN_METHODS, pages.methods),
            Route(paths.SESSION, pages.session, methods=["GET", "POST", "DELETE"]),
            Route(paths.CODES, pages.codes, methods=["POST"]),
            *oidc,
            Route(CONNECTION_TOKENS, self._messaging.token, methods=["POST"]),
            WebSocketRoute(paths.WEB_SOCKET, self._messaging.connect),
            Route("/", self._files.root),
            Route(paths.ROOT.rstrip("/"), self._files.root),
            Route(f"{paths.ROOT}{{path:path}}", self._files.file),
        ]


def _bearers(
    federation: Federation, audience: str | None, fetch: Fetch, clock: Clock
) -> TokenBearers:
    expected = Expected(
        issuer=federation.provider.issuer,
        audience=audience,
        user_claim=federation.claims.user,
        groups_claim=federation.claims.roles,
        algorithms=ALGORITHMS,
    )
    issuer = Issuer(expected, ca=federation.provider.ca)
    return TokenBearers(issuer, federation.claims, fetch, clock)
