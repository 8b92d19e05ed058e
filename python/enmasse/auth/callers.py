"""Identifies API callers by bearer token: the owner's token, or one described by a Secret.

A token contains the name of its Secret, so the lookup is direct and happens per request: a deleted
or changed Secret takes effect at once. Comparison takes equal time for a wrong token and for an
unknown name.
"""

import hashlib
import hmac
from math import ceil

from enmasse.auth.guesses import Guesses
from enmasse.auth.roles import OWNER_CALLER, Caller
from enmasse.auth.token import is_bearer_of
from enmasse.base.clock import Clock
from enmasse.base.errors import Code, Exhausted
from enmasse.base.hosts import is_loopback
from enmasse.resources import Key, Secret
from enmasse.resources.api_token import (
    DIGEST,
    EXPIRES,
    ROLES,
    TOKEN_TYPE,
    TOKENS_NAMESPACE,
    expiry,
    namespaces,
)
from enmasse.store import Store

_NO_DIGEST = "0" * 64


class Callers:
    """Identifies callers by their `Authorization` header."""

    def __init__(self, store: Store, own_token: str, clock: Clock) -> None:
        """Identify callers by a store; the bearer of `own_token` is the owner of the platform."""
        self._store = store
        self._own_token = own_token
        self._clock = clock
        self._guesses = Guesses()

    def authenticate(self, authorization: str | None, source: str) -> Caller | None:
        """As `bearer`, for a request from a source address.

        Raises: Exhausted if the source must wait, because it or many sources sent wrong tokens of
            that name. The right token is always accepted from this machine and from a source that
            used it before.
        """
        if authorization is None:
            return None
        name, now_s = _name_of(authorization), self._clock.monotonic()
        attempt = self._guesses.begin(name, source, now_s)
        is_early = attempt.wait_s > 0
        trusted = attempt.known or is_loopback(source)
        caller = self.bearer(authorization) if trusted or not is_early else None
        if caller is not None:
            self._guesses.succeeded(name, source, now_s)
            return caller
        if is_early:
            raise Exhausted(
                Code.LIMIT_REACHED,
                "too many wrong tokens came from this address: wait, and check the token",
                retry_after_s=float(ceil(attempt.wait_s)),
            )
        self._guesses.failed(name, source, now_s)
        return None

    def bearer(self, authorization: str | None) -> Caller | None:
        """Return the sender of an `Authorization` header; None if unknown."""
        if is_bearer_of(self._own_token, authorization):
            return OWNER_CALLER
        scheme, _, token = (authorization or "").partition(" ")
        token = token.strip()
        name = token.rpartition(".")[0]
        secret = self._store.get(Key("Secret", TOKENS_NAMESPACE, name))
        known = _NO_DIGEST
        if isinstance(secret, Secret) and secret.type == TOKEN_TYPE:
            known = secret.text(DIGEST) or _NO_DIGEST
        given = hashlib.sha256(token.encode()).hexdigest()
        is_same = hmac.compare_digest(given, known)
        if not is_same or scheme.lower() != "bearer" or not isinstance(secret, Secret):
            return None
        if secret.faults():
            return None  # It was written to the cluster directly; admission would have refused it.
        caller = caller_of(secret)
        ended = caller.expires is not None and caller.expires <= self._clock.now()
        return None if ended else caller

    def named(self, name: str) -> Caller:
        """Return the caller with a name: the owner, the bearer of the token with that name, or a
        caller without rights.
        """
        if name == OWNER_CALLER.name:
            return OWNER_CALLER
        secret = self._store.get(Key("Secret", TOKENS_NAMESPACE, name))
        is_token = isinstance(secret, Secret) and secret.type == TOKEN_TYPE
        if not is_token or not isinstance(secret, Secret) or secret.faults():
            return Caller(name)
        return caller_of(secret)


def _name_of(authorization: str) -> str:
    """Return the name in front of a token's secret; empty for the owner's token, which has none."""
    return authorization.partition(" ")[2].strip().rpartition(".")[0]


def caller_of(secret: Secret) -> Caller:
    """Return the caller that the Secret of a token describes."""
    roles = {role: namespaces(text) for role in ROLES if (text := secret.text(role))}
    until = secret.text(EXPIRES)
    return Caller(secret.metadata.name, roles, expiry(until) if until else None)
