"""The authorities of an address space over time: who signs, and whom clients are told to trust.

An authority holds for ten years. A year before its end it gets a successor, and clients are told
both; 30 days later, when they have had the time to fetch it, the successor signs. The former stays
told until it ends. Pure, but for the keys that are made.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from enmasse.auth import authority as signing
from enmasse.auth.authority import Authority, Certificate

SUCCESSOR_BEFORE = timedelta(days=365)
"""An authority with less than this left has a successor."""

TOLD_FIRST = timedelta(days=30)
"""How long clients are told of a successor before it signs."""

NAME_LENGTH_MAX = 44
"""Characters of a space's name in that of its authority; a common name has 64 at most."""

CERTIFICATE, KEY = "ca.crt", "ca.key"
NEXT_CERTIFICATE, NEXT_KEY = "next.crt", "next.key"
FORMER = "former.crt"


@dataclass(frozen=True, slots=True)
class Succession:
    """The authorities of one space."""

    current: Authority
    """It signs."""

    following: Authority | None = None
    """It is told and does not sign yet."""

    former: Certificate | None = None
    """It signed before, and has not ended."""

    @property
    def trusted(self) -> list[Certificate]:
        """Those whom clients are told to trust, the one that signs first."""
        following = [self.following.certificate] if self.following else []
        return [self.current.certificate, *following, *([self.former] if self.former else [])]

    @property
    def next_step(self) -> datetime:
        """When something changes, if not before."""
        if self.following is None:
            step = self.current.ends - SUCCESSOR_BEFORE
        else:
            step = min(_told(self.following) + TOLD_FIRST, self.current.ends)
        return min(step, self.former.not_valid_after_utc) if self.former else step

    def texts(self) -> dict[str, str]:
        """Return it as PEM texts by name, for a Secret."""
        texts = {
            CERTIFICATE: signing.chain_pem([self.current.certificate]),
            KEY: signing.key_pem(self.current.key),
        }
        if self.following is not None:
            texts[NEXT_CERTIFICATE] = signing.chain_pem([self.following.certificate])
            texts[NEXT_KEY] = signing.key_pem(self.following.key)
        if self.former is not None:
            texts[FORMER] = signing.chain_pem([self.former])
        return texts


def from_texts(texts: Mapping[str, str]) -> Succession:
    """Return what `texts` gave. Raises: UNREADABLE if a text is missing or cannot be read."""
    if CERTIFICATE not in texts or KEY not in texts:
        raise ValueError(f"it has no {CERTIFICATE} and {KEY}")
    following = None
    if NEXT_CERTIFICATE in texts and NEXT_KEY in texts:
        following = signing.read_authority(texts[NEXT_CERTIFICATE], texts[NEXT_KEY])
    former = texts.get(FORMER)
    return Succession(
        current=signing.read_authority(texts[CERTIFICATE], texts[KEY]),
        following=following,
        former=x509.load_pem_x509_certificate(former.encode()) if former else None,
    )


def followed(held: Succession | None, space: str, now: datetime) -> Succession:
    """Return the authorities that a space has now, with those that it had before.

    `space` is its full name. What has not changed is the same object.
    """
    if held is None:
        return Succession(_new(space, now))
    current, following, former = held.current, held.following, held.former
    if following is None and current.ends - now < SUCCESSOR_BEFORE:
        following = _new(space, now)
    # One that has ended leaves nobody the time to be told.
    if following is not None and (
        now >= _told(following) + TOLD_FIRST or current.ends - now <= timedelta()
    ):
        current, following, former = following, None, current.certificate
    if former is not None and former.not_valid_after_utc <= now:
        former = None
    same = (current, following, former) == (held.current, held.following, held.former)
    return held if same else Succession(current, following, former)


def _new(space: str, now: datetime) -> Authority:
    """Return a new authority, whose name no other has: clients find it by that."""
    key = signing.new_key()
    spki = serialization.PublicFormat.SubjectPublicKeyInfo
    digest = hashlib.sha256(key.public_key().public_bytes(serialization.Encoding.DER, spki))
    name = f"{space[:NAME_LENGTH_MAX]} CA {digest.hexdigest()[:8]}"
    return signing.renewed_authority(key, name, now)


def _told(authority: Authority) -> datetime:
    """Return since when clients have been told."""
    return authority.certificate.not_valid_before_utc
