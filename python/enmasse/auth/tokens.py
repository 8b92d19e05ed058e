"""Bearer tokens: JWTs (RFC 7519) verified with the public keys of their issuer.

The service declares the algorithms, all asymmetric: the `alg` of a token only selects one of these
(RFC 8725, 3.1).
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jws import JWSRegistry

from enmasse.auth.grants import Grant, Refused, rights_of_groups, user_name
from enmasse.auth.keys import IssuerKeys
from enmasse.base.clock import Clock

CLOCKS_APART_S = 60.0
"""Maximum clock skew of the issuer; it applies to the start of a token's validity, never to its
expiry.
"""

_KEY_TYPES = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}


@dataclass(frozen=True, slots=True)
class Expected:
    """Required claims of a token, and the claim with the user name."""

    issuer: str
    audience: str | None
    """Required audience; None: any."""

    user_claim: str
    groups_claim: str
    algorithms: tuple[str, ...]


async def check(token: str, expected: Expected, keys: IssuerKeys, clock: Clock) -> Grant:
    """Return the identity of a token.

    Raises: Refused if it is invalid; Unanswered if the keys are unavailable.
    """
    claims, expires = await check_claims(token, expected, keys, clock)
    user = user_name(claims.get(expected.user_claim), f"claim {expected.user_claim!r}")
    groups = inside(claims, expected.groups_claim)
    rights = rights_of_groups(groups if isinstance(groups, list) else ())
    return Grant(user, rights, expires)


async def check_claims(
    token: str, expected: Expected, keys: IssuerKeys, clock: Clock
) -> tuple[Mapping[str, Any], datetime]:
    """Return the claims of a valid token, and its expiry.

    Raises: as `check`.
    """
    claims = await _verified(token, expected, keys)
    return claims, _check_claims(claims, expected, clock.now())


async def _verified(token: str, expected: Expected, keys: IssuerKeys) -> Mapping[str, Any]:
    """Return the claims of a token once its signature is verified."""
    registry = JWSRegistry(algorithms=list(expected.algorithms), strict_check_header=False)
    try:
        signed = jws.extract_compact(token.encode("ascii"), registry=registry)
    except (JoseError, ValueError):
        raise Refused("the token is not a signed JWT") from None
    header = signed.headers()
    algorithm, key_id = header.get("alg"), header.get("kid")
    if algorithm not in expected.algorithms:
        allowed = ", ".join(expected.algorithms)
        raise Refused(f"the token is signed by {str(algorithm)[:32]!r}, not by one of {allowed}")
    if key_id is not None and not isinstance(key_id, str):
        raise Refused("the key id of the token is not a string")
    key = await keys.find(key_id, frozenset({_KEY_TYPES[algorithm[:2]]}))
    try:
        verified = jws.deserialize_compact(token, key, registry=registry)
        claims = _object(verified.payload)
    except (JoseError, ValueError, RecursionError):
        raise Refused("the signature of the token is invalid") from None
    return claims


def _object(payload: bytes) -> Mapping[str, Any]:
    claims = json.loads(payload)
    if not isinstance(claims, dict):
        raise ValueError("no object")
    return claims


def _check_claims(claims: Mapping[str, Any], expected: Expected, now: datetime) -> datetime:
    """Return the expiry of the token.

    Raises: Refused if the issuer or audience is wrong, or the token has expired or is not valid
        yet.
    """
    if claims.get("iss") != expected.issuer:
        raise Refused(f"the issuer of the token is not {expected.issuer}")
    audience_claim = claims.get("aud")
    audiences: Iterable[object] = (
        audience_claim if isinstance(audience_claim, list) else (audience_claim,)
    )
    if expected.audience is not None and expected.audience not in audiences:
        raise Refused(f"the token is not for {expected.audience!r} (claim aud)")
    expires = _moment(claims, "exp")
    if expires is None:
        raise Refused("the token has no expiry (claim exp)")
    if expires <= now:
        raise Refused("the token has expired")
    begins = _moment(claims, "nbf")
    if begins is not None and (begins - now).total_seconds() > CLOCKS_APART_S:
        raise Refused("the token is not valid yet (claim nbf)")
    return expires


def _moment(claims: Mapping[str, Any], name: str) -> datetime | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Refused(f"claim {name!r} of the token is not a timestamp")
    try:
        return datetime.fromtimestamp(value, UTC)
    except (ValueError, OverflowError, OSError):
        raise Refused(f"claim {name!r} of the token is not a timestamp") from None


def inside(claims: Mapping[str, Any], path: str) -> object:
    """Return the claim with that name, or the nested claim of a dotted path."""
    if path in claims:
        return claims[path]
    found: object = claims
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found
