"""Validation of certificates that tenants provide. Pure."""

import itertools
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

from enmasse.auth.authority import UNREADABLE, Certificate
from enmasse.base.errors import Code, Invalid

PEM_LENGTH_MAX = 16 * 1024
"""Maximum characters of the chain and of the key: handshakes and a status carry the chain. Four RSA
certificates with 4096 bits have about 9,000.
"""

RSA_BITS_MAX = 4096
"""A handshake with a longer key delays all clients of a node by tens of milliseconds."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """A certificate with its chain and key."""

    chain: tuple[Certificate, ...]
    """The server certificate first."""

    chain_pem: str
    key_pem: str = field(repr=False)

    @property
    def begins(self) -> datetime:
        """Start of the validity of the whole chain."""
        return max(one.not_valid_before_utc for one in self.chain)

    @property
    def ends(self) -> datetime:
        """End of the validity of the chain."""
        return min(one.not_valid_after_utc for one in self.chain)

    def validity_problem(self, now: datetime) -> str | None:
        """Return why it is not valid now, with the remedy; None if it is valid."""
        if self.ends <= now:
            return f"has a certificate that expired on {self.ends:%Y-%m-%d}; renew it"
        if self.begins > now:
            return f"has a certificate that is not valid before {self.begins:%Y-%m-%d %H:%M} UTC"
        return None

    @property
    def authorities(self) -> list[Certificate]:
        """The CAs in it; a self-signed certificate is its own CA."""
        return [one for one in self.chain if _is_authority(one) or _is_self_signed(one)]


def read_bundle(chain_pem: str | None, key_pem: str | None) -> Bundle:
    """Return a validated bundle.

    Raises: Invalid with the reason and the remedy; the message contains no key.
    """
    if not chain_pem or not key_pem:
        raise _wrong("has no tls.crt and tls.key; write both, as PEM")
    if max(len(chain_pem), len(key_pem)) > PEM_LENGTH_MAX:
        raise _wrong(f"has more than {PEM_LENGTH_MAX} characters in tls.crt or tls.key; shorten it")
    try:
        chain = tuple(x509.load_pem_x509_certificates(chain_pem.encode()))
    except UNREADABLE:
        raise _wrong("has a tls.crt that is not a PEM certificate; replace it") from None
    try:
        # The node verifies RSA primes once the key length is known: with long keys that takes
        # minutes.
        key = serialization.load_pem_private_key(
            key_pem.encode(), password=None, unsafe_skip_rsa_key_validation=True
        )
    except UNREADABLE:
        raise _wrong("has a tls.key that is not an unencrypted PEM key; replace it") from None
    if isinstance(key, rsa.RSAPrivateKey) and key.key_size > RSA_BITS_MAX:
        raise _wrong(
            f"has an RSA key of {key.key_size} bits; the maximum is {RSA_BITS_MAX}. Use ECDSA"
        )
    try:
        belongs = chain[0].public_key() == key.public_key()
    except UNREADABLE:
        raise _wrong("has a tls.crt with an unsupported key type; use ECDSA") from None
    if not belongs:
        raise _wrong("has a tls.key that does not belong to the first certificate of tls.crt")
    if not _is_for_servers(chain[0]):
        raise _wrong(
            "has a certificate that is not a server certificate;"
            " request extended key usage serverAuth"
        )
    for signed, signer in itertools.pairwise(chain):
        try:
            signed.verify_directly_issued_by(signer)
        except (InvalidSignature, *UNREADABLE):
            raise _wrong(
                "has a chain in which one certificate is not signed by the next; reorder it"
            ) from None
    return Bundle(chain, chain_pem, key_pem)


def covers(certificate: Certificate, host: str) -> bool:
    """Whether a certificate contains a host; `*.` stands for one label (RFC 6125, 6.4.3)."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (x509.ExtensionNotFound, *UNREADABLE):
        return False
    return _is_among(host.lower(), {name.lower() for name in _dns_names(found.value)})


def _dns_names(names: x509.SubjectAlternativeName) -> list[str]:
    return names.get_values_for_type(x509.DNSName)


def _is_among(host: str, names: Collection[str]) -> bool:
    _, dot, rest = host.partition(".")
    return host in names or (dot + rest != "" and f"*.{rest}" in names)


def _is_authority(certificate: Certificate) -> bool:
    try:
        found = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    except (x509.ExtensionNotFound, *UNREADABLE):
        return False
    return bool(found.value.ca)


def _is_self_signed(certificate: Certificate) -> bool:
    try:
        return certificate.issuer == certificate.subject
    except UNREADABLE:
        return False


def _is_for_servers(certificate: Certificate) -> bool:
    try:
        found = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage)
    except x509.ExtensionNotFound:
        return True
    except UNREADABLE:
        return False
    return ExtendedKeyUsageOID.SERVER_AUTH in found.value


def _wrong(reason: str) -> Invalid:
    return Invalid(Code.FIELD_INVALID, reason)
