"""Certificates that tenants bring: whether one can be shown, and if not, why. Pure."""

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
"""Characters of a chain and of a key, each: a handshake and a status carry the chain. Four
certificates of RSA with 4096 bits have some 9,000."""

RSA_BITS_MAX = 4096
"""A handshake with a longer key keeps all clients of a node waiting for tens of milliseconds."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """A certificate with its chain and its key."""

    chain: tuple[Certificate, ...]
    """The server's own first."""

    chain_pem: str
    key_pem: str = field(repr=False)

    @property
    def begins(self) -> datetime:
        """When all of it holds."""
        return max(one.not_valid_before_utc for one in self.chain)

    @property
    def ends(self) -> datetime:
        """When it, or what it rests on, does not hold any more."""
        return min(one.not_valid_after_utc for one in self.chain)

    def untimely(self, now: datetime) -> str | None:
        """Return why it does not hold now, if so, and the mend."""
        if self.ends <= now:
            return f"has a certificate that ended on {self.ends:%Y-%m-%d}; renew it"
        if self.begins > now:
            return f"has a certificate that holds from {self.begins:%Y-%m-%d %H:%M} UTC on only"
        return None

    @property
    def authorities(self) -> list[Certificate]:
        """The authorities in it; one that is signed by itself is its own."""
        return [one for one in self.chain if _is_authority(one) or _is_its_own(one)]


def read_bundle(chain_pem: str | None, key_pem: str | None) -> Bundle:
    """Return a bundle that can be shown, in its time.

    Raises: Invalid, saying what is wrong with it and the mend; no key is in the message.
    """
    if not chain_pem or not key_pem:
        raise _wrong("has no tls.crt and tls.key; write both, as PEM")
    if max(len(chain_pem), len(key_pem)) > PEM_LENGTH_MAX:
        raise _wrong(f"has more than {PEM_LENGTH_MAX} characters in tls.crt or tls.key; shorten it")
    try:
        chain = tuple(x509.load_pem_x509_certificates(chain_pem.encode()))
    except UNREADABLE:
        raise _wrong("has a tls.crt that is no certificate in PEM; write it anew") from None
    try:
        # Whether the primes of RSA are some is looked at by the node, once the length is known:
        # with long ones it takes minutes.
        key = serialization.load_pem_private_key(
            key_pem.encode(), password=None, unsafe_skip_rsa_key_validation=True
        )
    except UNREADABLE:
        raise _wrong("has a tls.key that is no key in PEM without a password; write it") from None
    if isinstance(key, rsa.RSAPrivateKey) and key.key_size > RSA_BITS_MAX:
        raise _wrong(
            f"has an RSA key of {key.key_size} bits, {RSA_BITS_MAX} at most are taken; use ECDSA"
        )
    try:
        belongs = chain[0].public_key() == key.public_key()
    except UNREADABLE:
        raise _wrong("has a tls.crt with a key of a kind that is not known; use ECDSA") from None
    if not belongs:
        raise _wrong("has a tls.key that does not belong to the first certificate of tls.crt")
    if not _is_for_servers(chain[0]):
        raise _wrong("has a certificate that is not for servers; ask for extended usage serverAuth")
    for signed, signer in zip(chain, chain[1:], strict=False):
        try:
            signed.verify_directly_issued_by(signer)
        except (InvalidSignature, *UNREADABLE):
            raise _wrong(
                "has certificates of which one is not signed by the next; order them"
            ) from None
    return Bundle(chain, chain_pem, key_pem)


def covers(certificate: Certificate, host: str) -> bool:
    """Whether a certificate names a host; `*.` stands for one label (RFC 6125, 6.4.3)."""
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


def _is_its_own(certificate: Certificate) -> bool:
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
