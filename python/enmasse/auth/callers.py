"""Identifies API callers by bearer token: the owner's token, or one described by a Secret.

A token contains the name of its Secret, so the lookup is direct and happens per request: a deleted
or changed Secret takes effect at once. Comparison takes equal time for a wrong token and for an
unknown name.
"""

import hashlib
import hmac

from enmasse.auth.roles import OWNER_CALLER, Caller
from enmasse.auth.token import is_bearer_of
from enmasse.base.clock import Clock
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

_NOBODY = "0" * 64


class Callers:
    """Identifies callers by their `Authorization` header."""

    def __init__(self, store: Store, own_token: str, clock: Clock) -> None:
        """Identify callers by a store; the bearer of `own_token` is the owner of the platform."""
        self._store = store
        self._own_token = own_token
        self._clock = clock

    def bearer(self, authorization: str | None) -> Caller | None:
        """Return the sender of an `Authorization` header; None if unknown."""
        if is_bearer_of(self._own_token, authorization):
            return OWNER_CALLER
        scheme, _, token = (authorization or "").partition(" ")
        token = token.strip()
        name = token.rpartition(".")[0]
        secret = self._store.get(Key("Secret", TOKENS_NAMESPACE, name))
        known = _NOBODY
        if isinstance(secret, Secret) and secret.type == TOKEN_TYPE:
            known = secret.text(DIGEST) or _NOBODY
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


def caller_of(secret: Secret) -> Caller:
    """Return the caller that the Secret of a token describes."""
    roles = {role: namespaces(text) for role in ROLES if (text := secret.text(role))}
    until = secret.text(EXPIRES)
    return Caller(secret.metadata.name, roles, expiry(until) if until else None)
