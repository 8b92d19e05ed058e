"""API callers by the tokens of an issuer (OpenID Connect): a claim of the token has their roles.

A value of the claim is a role in all namespaces, or in one: `tenant-edit`, `tenant-edit:shop`. A
leading `/` (groups of Keycloak) and a configured prefix are ignored. Other values grant nothing.
"""

import base64
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import structlog

from enmasse.auth.fetching import Fetch
from enmasse.auth.grants import Refused, Unanswered, user_name
from enmasse.auth.issuers import Issuer, TokenChecker
from enmasse.auth.roles import Caller
from enmasse.auth.tokens import inside
from enmasse.base.clock import Clock
from enmasse.base.errors import Code, Unavailable
from enmasse.resources.api_token import EVERYWHERE, Role
from enmasse.resources.model import label

log = structlog.get_logger(__name__)

NAME_PREFIX = "oidc:"
"""Prefix of the names of such callers, so that none equals the name of an API token."""

FEDERATED_ROLES: tuple[Role, ...] = ("service-admin", "tenant-edit", "tenant-view")

TOKEN_BYTES_MAX = 16 << 10


@dataclass(frozen=True, slots=True)
class Claims:
    """The claims that identify a caller."""

    user: str = "preferred_username"
    roles: str = "groups"
    """A claim, or the dotted path of a nested one, with a list of values."""

    roles_prefix: str = ""


class TokenBearers:
    """Identifies callers by the tokens of one issuer."""

    def __init__(self, issuer: Issuer, claims: Claims, fetch: Fetch, clock: Clock) -> None:
        self._checker = TokenChecker(issuer, fetch, clock)
        self._claims = claims
        self._clock = clock

    def is_for(self, authorization: str) -> bool:
        """Whether a header carries a JWT rather than an API token."""
        scheme, _, token = authorization.partition(" ")
        return scheme.lower() == "bearer" and is_jwt(token.strip())

    async def caller(self, authorization: str) -> Caller | None:
        """Return the bearer of a token; None if it is invalid.

        Raises: Unavailable if the issuer does not answer.
        """
        return await self.caller_of_token(authorization.partition(" ")[2].strip())

    async def caller_of_token(self, token: str, nonce: str | None = None) -> Caller | None:
        """Return the person of a token, which must have the nonce if one is given; None if it is
        invalid.

        Raises: Unavailable if the issuer does not answer.
        """
        try:
            claims, expires = await self._checker.claims(token)
            if nonce is not None and claims.get("nonce") != nonce:
                raise Refused("the token has another nonce than the login")
            user = user_name(
                claims.get(self._claims.user) or claims.get("sub"), f"claim {self._claims.user!r}"
            )
        except Refused as error:
            log.info("token refused", reason=str(error))
            return None
        except Unanswered as error:
            log.warning("token not checked", reason=str(error))
            raise Unavailable(
                Code.NOT_AVAILABLE,
                "the token cannot be checked because its issuer does not answer; try again",
                retry_after_s=5.0,
            ) from None
        roles = roles_of(inside(claims, self._claims.roles), self._claims.roles_prefix)
        return Caller(f"{NAME_PREFIX}{user}", roles, expires, is_federated=True)

    def still(self, caller: Caller) -> Callable[[], Caller | None]:
        """Return the check of a caller later on: its token has not expired."""

        def check() -> Caller | None:
            ended = caller.expires is not None and caller.expires <= self._clock.now()
            return None if ended else caller

        return check


def is_jwt(token: str) -> bool:
    """Whether a text has the form of a signed JWT (RFC 7515, 7.1)."""
    head, _, rest = token.partition(".")
    if rest.count(".") != 1 or len(token) > TOKEN_BYTES_MAX:
        return False
    try:
        header = json.loads(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4)))
    except (ValueError, RecursionError):
        return False
    return isinstance(header, dict) and "alg" in header


def roles_of(values: object, prefix: str = "") -> dict[Role, frozenset[str]]:
    """Return the namespaces by role in the values of a claim."""
    found: dict[Role, set[str]] = {}
    for value in _texts(values):
        name, _, namespace = value.removeprefix("/").removeprefix(prefix).partition(":")
        role = next((one for one in FEDERATED_ROLES if one == name), None)
        if role is None or not value.removeprefix("/").startswith(prefix):
            continue
        try:
            found.setdefault(role, set()).add(label(namespace) if namespace else EVERYWHERE)
        except ValueError:
            continue
    return {role: frozenset(where) for role, where in found.items() if where}


def _texts(values: object) -> Iterable[str]:
    listed = values if isinstance(values, list) else [values]
    return (one for one in listed if isinstance(one, str))
