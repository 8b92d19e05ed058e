"""Token issuers: OpenID Connect with discovery, and realms of a Keycloak."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlsplit

from enmasse.auth.fetching import Fetch
from enmasse.auth.grants import Grant, Refused, Unanswered
from enmasse.auth.keys import IssuerKeys, public_keys
from enmasse.auth.tokens import Expected, check, check_claims
from enmasse.base.clock import Clock

DISCOVERY = "/.well-known/openid-configuration"
"""Path of the discovery document, which has the key URL (OpenID Connect Discovery 1.0, 4)."""


@dataclass(frozen=True, slots=True)
class Issuer:
    """An issuer, and how its tokens are checked."""

    expected: Expected
    jwks_uri: str | None = None
    """Key URL; None: from the discovery document."""

    ca: str | None = None
    """CA of its server certificate, PEM; None: the system's CAs."""

    login: "DirectLogin | None" = None
    """How to exchange a user name and password for a token; None: unsupported."""


@dataclass(frozen=True, slots=True)
class DirectLogin:
    """The resource owner password credentials grant (RFC 6749, 4.3); Keycloak calls it direct
    access.
    """

    endpoint: str
    client_id: str
    client_secret: str | None


class TokenChecker:
    """Checks the tokens of one issuer and caches its keys."""

    def __init__(self, issuer: Issuer, fetch: Fetch, clock: Clock) -> None:
        self._issuer = issuer
        self._fetch = fetch
        self._clock = clock
        self._keys = IssuerKeys(self._load_keys, clock, issuer.expected.issuer)

    async def token(self, token: str, user: str | None) -> Grant:
        """Return the identity of a token; it must equal `user` if that is given.

        Raises: Refused if it is invalid; Unanswered if that is unknown.
        """
        grant = await check(token, self._issuer.expected, self._keys, self._clock)
        if user is not None and user != grant.user:
            raise Refused(f"the token belongs to {grant.user!r}, not to {user!r}")
        return grant

    async def claims(self, token: str) -> tuple[Mapping[str, Any], datetime]:
        """Return the claims of a valid token, and its expiry.

        Raises: Refused if it is invalid; Unanswered if that is unknown.
        """
        return await check_claims(token, self._issuer.expected, self._keys, self._clock)

    async def password(self, user: str, password: str) -> Grant:
        """Return the identity for a user name and password, until the token expires.

        Raises: Refused if they are wrong; Unanswered if that is unknown.
        """
        login = self._issuer.login
        if login is None:
            raise Refused("the authentication service does not accept passwords")
        form = {
            "grant_type": "password",
            "client_id": login.client_id,
            "username": user,
            "password": password,
            "scope": "openid",
        }
        if login.client_secret is not None:
            form["client_secret"] = login.client_secret
        answer = await self._fetch(login.endpoint, form=form, ca=self._issuer.ca)
        document = answer.document()
        # Only these are about the user (RFC 6749, 5.2); other statuses leave the question open.
        if answer.status in (400, 401):
            error_text = str(
                document.get("error_description") or document.get("error") or "refused"
            )
            raise Refused(f"{login.endpoint}: {error_text[:200]}")
        token = document.get("access_token")
        if answer.status != 200 or not isinstance(token, str):
            raise Unanswered(f"{login.endpoint} answered with status {answer.status} and no token")
        grant = await check(token, self._issuer.expected, self._keys, self._clock)
        return replace(grant, renewable=True)

    async def check_keys(self) -> None:
        """Check that the issuer's keys are available, by fetching them.

        Raises: Unanswered if they are not, or none can verify a signature.
        """
        if not public_keys(await self._load_keys()):
            raise Unanswered(f"{self._issuer.expected.issuer} has no usable key")

    async def _load_keys(self) -> dict[str, Any]:
        uri = self._issuer.jwks_uri
        if uri is None:
            uri = self._discovered(
                await self._document(_discovery_url(self._issuer.expected.issuer))
            )
        document = await self._document(uri)
        if not isinstance(document.get("keys"), list):
            raise Unanswered(f"{uri} is not a JSON Web Key Set")
        return dict(document)

    def _discovered(self, document: Mapping[str, Any]) -> str:
        issuer = self._issuer.expected.issuer
        uri = document.get("jwks_uri")
        if document.get("issuer") != issuer or not isinstance(uri, str):
            raise Unanswered(
                f"{_discovery_url(issuer)} does not state the key URL of {issuer} (jwks_uri)"
            )
        own, other = urlsplit(issuer), urlsplit(uri)
        if other.scheme != "https" and (own.scheme, own.hostname) != (other.scheme, other.hostname):
            raise Unanswered(f"the key URL of {issuer} is not https")
        return uri

    async def _document(self, url: str) -> Mapping[str, Any]:
        answer = await self._fetch(url, ca=self._issuer.ca)
        if answer.status != 200:
            raise Unanswered(f"{url} answered with status {answer.status}")
        return answer.document()


def realm_of_keycloak(
    url: str,
    realm: str,
    *,
    audience: str | None,
    client_id: str,
    client_secret: str | None,
    ca: str | None,
) -> Issuer:
    """Return a realm of a Keycloak as an issuer: users by name, groups by path."""
    issuer = f"{url.rstrip('/')}/realms/{quote(realm, safe='')}"
    endpoint = f"{issuer}/protocol/openid-connect"
    return Issuer(
        Expected(
            issuer=issuer,
            audience=audience,
            user_claim="preferred_username",
            groups_claim="groups",
            algorithms=("RS256", "PS256", "ES256", "Ed25519"),
        ),
        jwks_uri=f"{endpoint}/certs",
        ca=ca,
        login=DirectLogin(f"{endpoint}/token", client_id, client_secret),
    )


def _discovery_url(issuer: str) -> str:
    return issuer.rstrip("/") + DISCOVERY
