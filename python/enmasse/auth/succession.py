"""The CAs of an address space over time: the signing one, and those that clients should trust.

A CA is valid for ten years. One year before its expiry it gets a successor, and both are published.
After 30 days, in which clients fetch it, the successor signs. The former stays published until it
expires. Pure, apart from key generation.
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
"""A CA with less remaining validity gets a successor."""

PUBLISHED_BEFORE = timedelta(days=30)
"""How long a successor is published before it signs."""

NAME_LENGTH_MAX = 44
"""Maximum characters of the space's name in the name of its CA; a common name has at most 64."""

CERTIFICATE, KEY = "ca.crt", "ca.key"
NEXT_CERTIFICATE, NEXT_KEY = "next.crt", "next.key"
FORMER = "former.crt"


@dataclass(frozen=True, slots=True)
class Succession:
    """The CAs of one space."""

    current: Authority
    """The signing CA."""

    following: Authority | None = None
    """Published, not signing yet."""

    former: Certificate | None = None
    """The former signing CA, still valid."""

    @property
    def trusted(self) -> list[Certificate]:
        """The CAs that clients should trust, the signing one first."""
        following = [self.following.certificate] if self.following else []
        return [self.current.certificate, *following, *([self.former] if self.former else [])]

    @property
    def next_step(self) -> datetime:
        """Latest time of the next transition."""
        if self.following is None:
            step = self.current.ends - SUCCESSOR_BEFORE
        else:
            step = min(_published_since(self.following) + PUBLISHED_BEFORE, self.current.ends)
        return min(step, self.former.not_valid_after_utc) if self.former else step

    def texts(self) -> dict[str, str]:
        """Return PEM texts by name, for a Secret."""
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
    """Return the succession of `texts`.

    Raises: UNREADABLE if a text is missing or malformed.
    """
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
    """Return the present CAs of a space, given the former ones.

    `space` is its full name. Unchanged CAs are the same objects.
    """
    if held is None:
        return Succession(_new(space, now))
    current, following, former = held.current, held.following, held.former
    if following is None and current.ends - now < SUCCESSOR_BEFORE:
        following = _new(space, now)
    # An expired CA leaves no time for publishing a successor first.
    if following is not None and (
        now >= _published_since(following) + PUBLISHED_BEFORE or current.ends - now <= timedelta()
    ):
        current, following, former = following, None, current.certificate
    if former is not None and former.not_valid_after_utc <= now:
        former = None
    same = (current, following, former) == (held.current, held.following, held.former)
    return held if same else Succession(current, following, former)


def _new(space: str, now: datetime) -> Authority:
    """Return a new CA with a unique name: clients look CAs up by name."""
    key = signing.new_key()
    spki = serialization.PublicFormat.SubjectPublicKeyInfo
    digest = hashlib.sha256(key.public_key().public_bytes(serialization.Encoding.DER, spki))
    name = f"{space[:NAME_LENGTH_MAX]} CA {digest.hexdigest()[:8]}"
    return signing.renewed_authority(key, name, now)


def _published_since(authority: Authority) -> datetime:
    """Return since when it has been published."""
    return authority.certificate.not_valid_before_utc
