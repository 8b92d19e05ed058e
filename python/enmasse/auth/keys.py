"""The public keys of a token issuer, fetched on demand and cached.

An unknown key id may belong to a new key, so the keys are fetched again, at most once per
`UNKNOWN_KEY_PAUSE_S` and one fetch at a time.
"""

import asyncio
import base64
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from joserfc.errors import JoseError
from joserfc.jwk import ECKey, JWKRegistry, OKPKey, RSAKey

from enmasse.auth.grants import Refused, Unanswered
from enmasse.base.clock import Clock

PublicKey = RSAKey | ECKey | OKPKey

_PUBLIC_KINDS = ("RSA", "EC", "OKP")

FRESH_S = 600.0
"""Cache time of keys, so that a withdrawn key expires."""

STALE_S = 24 * 3600.0
"""How long cached keys stay in use while the issuer does not respond."""

UNKNOWN_KEY_PAUSE_S = 30.0
"""Minimum time between fetches."""

RETRY_PAUSE_S = 3.0
"""Minimum time after a failed fetch."""

KEYS_MAX = 64
"""Maximum keys per issuer; the rest is ignored."""

RSA_BITS_MIN = 2048
"""Minimum RSA key length (RFC 7518, 3.3)."""


class IssuerKeys:
    """The keys of one issuer."""

    def __init__(
        self, load: Callable[[], Awaitable[dict[str, Any]]], clock: Clock, name: str
    ) -> None:
        """Cache the result of `load`, a JWK set (RFC 7517, 5); `name` is the issuer in messages."""
        self._load = load
        self._clock = clock
        self._name = name
        self._keys: Sequence[PublicKey] = ()
        self._fetched_at: float | None = None
        self._not_before = float("-inf")
        self._fetching = asyncio.Lock()

    async def find(self, key_id: str | None, key_types: frozenset[str]) -> PublicKey:
        """Return the key with that id, or the only suitable key if a token has no key id.

        Raises: Refused if there is none; Unanswered if the issuer does not respond.
        """
        if self._age_s() > FRESH_S:
            await self._refresh(needed=self._age_s() > STALE_S)
        found = self._look_up(key_id, key_types)
        if found is None:
            await self._refresh(needed=False)
            found = self._look_up(key_id, key_types)
        if found is None:
            named = "no key id" if key_id is None else f"the key id {key_id[:64]!r}"
            raise Refused(f"the token has {named}, which matches no key of {self._name}")
        return found

    def _look_up(self, key_id: str | None, key_types: frozenset[str]) -> PublicKey | None:
        fitting = [key for key in self._keys if key.key_type in key_types]
        if key_id is None:
            return fitting[0] if len(fitting) == 1 else None
        return next((key for key in fitting if key.kid == key_id), None)

    def _age_s(self) -> float:
        if self._fetched_at is None:
            return float("inf")
        return self._clock.monotonic() - self._fetched_at

    async def _refresh(self, *, needed: bool) -> None:
        """Fetch the keys, unless a fetch was attempted recently.

        Raises: Unanswered if they are required and unavailable.
        """
        asked_at = self._clock.monotonic()
        async with self._fetching:
            if self._fetched_at is not None and self._fetched_at >= asked_at:
                return
            if asked_at < self._not_before:
                if needed:
                    raise Unanswered(f"the keys of {self._name} could not be fetched")
                return
            try:
                document = await self._load()
            except Unanswered:
                self._not_before = self._clock.monotonic() + RETRY_PAUSE_S
                if needed:
                    raise
                return
            self._keys = public_keys(document)
            self._fetched_at = self._clock.monotonic()
            self._not_before = self._fetched_at + UNKNOWN_KEY_PAUSE_S


def public_keys(document: dict[str, Any]) -> list[PublicKey]:
    """Return the keys of a JWK set that can verify signatures.

    A symmetric key in a public document would let anyone sign. Such keys, keys for other uses, and
    short or malformed keys are skipped.
    """
    listed = document.get("keys")
    found: list[PublicKey] = []
    for one in listed if isinstance(listed, list) else ():
        if not isinstance(one, dict) or one.get("use", "sig") != "sig" or len(found) == KEYS_MAX:
            continue
        try:
            if one.get("kty") == "RSA" and _bits(one["n"]) < RSA_BITS_MIN:
                continue
            key = JWKRegistry.import_key(one) if one.get("kty") in _PUBLIC_KINDS else None
        except (JoseError, ValueError, TypeError, KeyError, AttributeError):
            continue
        if isinstance(key, RSAKey | ECKey | OKPKey):
            found.append(key)
    return found


def _bits(modulus: str) -> int:
    """Return the bit length of a base64url number (RFC 7518, 6.3.1.1)."""
    padded = modulus + "=" * (-len(modulus) % 4)
    return int.from_bytes(base64.urlsafe_b64decode(padded)).bit_length()
