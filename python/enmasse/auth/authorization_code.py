"""Logins of people at an OpenID provider: the authorization code flow with PKCE.

OpenID Connect Core 1.0, 3.1; PKCE is RFC 7636 with S256. The state of a login in progress is with
the browser, so that any process can complete it.
"""

import base64
import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urlsplit

from enmasse.auth.bearers import TokenBearers, is_jwt
from enmasse.auth.fetching import Fetch
from enmasse.auth.grants import Refused, Unanswered
from enmasse.auth.issuers import DISCOVERY
from enmasse.auth.roles import Caller
from enmasse.base.clock import Clock

SCOPE = "openid profile"
DISCOVERED_S = 600.0
"""Cache time of the provider's metadata."""

STATE_BYTES_MAX = 4096


@dataclass(frozen=True, slots=True)
class Provider:
    """An OpenID provider, and our client at it."""

    issuer: str
    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    ca: str | None = None


@dataclass(frozen=True, slots=True)
class LoginState:
    """A login in progress."""

    state: str
    nonce: str
    verifier: str = field(repr=False)
    then: str

    @classmethod
    def new(cls, then: str) -> "LoginState":
        """Return the state of a new login that ends at the path `then`."""
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        return cls(state, nonce, verifier, then)

    def encoded(self) -> str:
        """Return it as text for a cookie."""
        text = json.dumps([self.state, self.nonce, self.verifier, self.then])
        return base64.urlsafe_b64encode(text.encode()).decode()

    @classmethod
    def decoded(cls, text: str) -> "LoginState | None":
        """Return the state in a text, None if it is malformed."""
        if len(text) > STATE_BYTES_MAX:
            return None
        try:
            members = json.loads(base64.urlsafe_b64decode(text))
        except (ValueError, RecursionError):
            return None
        is_whole = isinstance(members, list) and len(members) == 4
        if not is_whole or not all(isinstance(one, str) for one in members):
            return None
        return cls(*members)

    def challenge(self) -> str:
        """Return the code challenge (RFC 7636, 4.2)."""
        digest = hashlib.sha256(self.verifier.encode()).digest()
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


class AuthorizationCode:
    """Logins at one provider."""

    def __init__(
        self,
        provider: Provider,
        people: TokenBearers,
        bearers: TokenBearers,
        fetch: Fetch,
        clock: Clock,
    ) -> None:
        """`people` checks ID tokens, `bearers` access tokens."""
        self.provider = provider
        self._people = people
        self._bearers = bearers
        self._fetch = fetch
        self._clock = clock
        self._found: Mapping[str, Any] = {}
        self._found_s = float("-inf")

    async def start_url(self, state: LoginState, redirect_uri: str) -> str:
        """Return the URL at the provider at which a login begins.

        Raises: Unanswered if the provider does not answer or lacks an endpoint.
        """
        endpoint = await self._endpoint("authorization_endpoint")
        query = {
            "response_type": "code",
            "client_id": self.provider.client_id,
            "redirect_uri": redirect_uri,
            "scope": SCOPE,
            "state": state.state,
            "nonce": state.nonce,
            "code_challenge": state.challenge(),
            "code_challenge_method": "S256",
        }
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}"

    async def complete(self, code: str, state: LoginState, redirect_uri: str) -> Caller:
        """Return the person of an authorization code.

        The roles are those of the ID token, or of the access token if the former has none.

        Raises: Refused if the provider or the tokens do not identify a person; Unanswered if the
            provider does not answer.
        """
        endpoint = await self._endpoint("token_endpoint")
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "client_id": self.provider.client_id,
            "code_verifier": state.verifier,
        }
        if self.provider.client_secret is not None:
            form["client_secret"] = self.provider.client_secret
        answer = await self._fetch(endpoint, form=form, ca=self.provider.ca)
        document = answer.document()
        id_token, access_token = (document.get(name) for name in ("id_token", "access_token"))
        if answer.status != 200 or not isinstance(id_token, str):
            error_text = str(document.get("error_description") or document.get("error") or "")
            raise Refused(f"{endpoint} refused the code: {error_text[:200] or answer.status}")
        person = await self._people.caller_of_token(id_token, state.nonce)
        if person is None:
            raise Refused("the ID token of the login is not valid")
        if not person.roles and isinstance(access_token, str) and is_jwt(access_token):
            bearer = await self._bearers.caller_of_token(access_token)
            if bearer is not None and bearer.name == person.name:
                person = bearer
        # The session has a lifetime of its own: tokens of a login last minutes.
        return Caller(person.name, person.roles, is_federated=True)

    async def _endpoint(self, name: str) -> str:
        now_s = self._clock.monotonic()
        if now_s - self._found_s > DISCOVERED_S:
            url = self.provider.issuer.rstrip("/") + DISCOVERY
            answer = await self._fetch(url, ca=self.provider.ca)
            document = answer.document()
            if answer.status != 200 or document.get("issuer") != self.provider.issuer:
                raise Unanswered(f"{url} does not describe {self.provider.issuer}")
            self._found, self._found_s = document, now_s
        endpoint = self._found.get(name)
        if not isinstance(endpoint, str):
            raise Unanswered(f"{self.provider.issuer} does not state its {name}")
        own, other = urlsplit(self.provider.issuer), urlsplit(endpoint)
        if other.scheme != "https" and (own.scheme, own.hostname) != (other.scheme, other.hostname):
            raise Unanswered(f"the {name} of {self.provider.issuer} is not https")
        return endpoint
