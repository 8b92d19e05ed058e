"""A CA and the certificates it signs: ECDSA P-256, X.509 (RFC 5280)."""

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CA_VALIDITY = timedelta(days=3650)
VALIDITY = timedelta(days=397)
"""Longest validity of a server certificate that common clients accept."""

RENEW_BEFORE = timedelta(days=90)
"""A certificate with less remaining validity is renewed: a process may run for months."""

_CLOCK_SKEW = timedelta(hours=1)
_FOR_SERVERS = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])

UNREADABLE = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    x509.InvalidVersion,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)
"""Raised for a malformed certificate or key of another party, also when a part of it is parsed
later.
"""

Key = ec.EllipticCurvePrivateKey
Certificate = x509.Certificate


@dataclass(frozen=True, slots=True)
class Authority:
    """A CA: a private key and its self-signed certificate."""

    key: Key
    certificate: Certificate

    @property
    def ends(self) -> datetime:
        """Expiry of everything it has signed."""
        return self.certificate.not_valid_after_utc


def new_key() -> Key:
    """Return a new private key."""
    return ec.generate_private_key(ec.SECP256R1())


def new_authority(name: str, now: datetime, *, signs_authorities: bool = False) -> Authority:
    """Return a new CA, valid for ten years; `name` has at most 64 characters."""
    key = new_key()
    return renewed_authority(key, name, now, signs_authorities=signs_authorities)


def renewed_authority(
    key: Key, name: str, now: datetime, *, signs_authorities: bool = False
) -> Authority:
    """Return a CA with an existing key, valid for ten years."""
    subject = _name(name)
    certificate = (
        _builder(subject, subject, key.public_key(), now, now + CA_VALIDITY)
        .add_extension(
            x509.BasicConstraints(ca=True, path_length=1 if signs_authorities else 0),
            critical=True,
        )
        .add_extension(_usage(certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return Authority(key, certificate)


def signs_authorities(authority: Authority) -> bool:
    """Whether certificates signed by this CA may be CAs themselves."""
    found = authority.certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
    return bool(found.ca) and (found.path_length is None or found.path_length > 0)


def issue(
    authority: Authority, key: Key, subject: str, names: Sequence[str], now: datetime
) -> Certificate:
    """Return a server certificate for `names` (host names and IP addresses), valid for 397 days at
    most and never longer than its CA.
    """
    issuer = authority.certificate.subject
    ends = min(now + VALIDITY, authority.ends)
    return (
        _builder(_name(subject), issuer, key.public_key(), now, ends)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(certificates=False), critical=True)
        .add_extension(_FOR_SERVERS, critical=False)
        .add_extension(
            x509.SubjectAlternativeName([alternative(name) for name in names]), critical=False
        )
        .add_extension(_issuer_key(authority), critical=False)
        .sign(authority.key, hashes.SHA256())
    )


def cross_signed(authority: Authority, signer: Authority, now: datetime) -> Certificate:
    """Return a cross certificate: clients that trust `signer` then trust a CA for server
    certificates. It is not valid for client certificates, which log in, and does not outlive either
    CA.
    """
    ends = min(authority.ends, signer.ends)
    subject, issuer = authority.certificate.subject, signer.certificate.subject
    return (
        _builder(subject, issuer, authority.key.public_key(), now, ends)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(certificates=True), critical=True)
        .add_extension(_FOR_SERVERS, critical=False)
        .add_extension(_issuer_key(signer), critical=False)
        .sign(signer.key, hashes.SHA256())
    )


def renewal(certificate: Certificate) -> datetime:
    """Return the renewal time of a certificate: after two thirds of its validity."""
    begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return begins + (ends - begins) * 2 / 3


def is_current(certificate: Certificate, authority: Certificate, now: datetime) -> bool:
    """Whether a certificate is signed by a CA and is not due for renewal."""
    if certificate.not_valid_after_utc - now < RENEW_BEFORE:
        return False
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, ValueError):
        return False
    return True


def names(certificate: Certificate) -> set[x509.GeneralName]:
    """Return the extended key usages of a certificate; empty if absent."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return set()
    return set(found.value)


def alternative(name: str) -> x509.GeneralName:
    """Return a host name or an IP address as a general name."""
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def read_authority(certificate_pem: str, key_pem: str) -> Authority:
    """Return a CA from PEM texts.

    Raises: UNREADABLE if one is malformed, or they do not match.
    """
    held = Authority(
        read_key(key_pem.encode()), x509.load_pem_x509_certificate(certificate_pem.encode())
    )
    if held.certificate.public_key() != held.key.public_key():
        raise ValueError("the key does not belong to the certificate")
    return held


def chain_pem(chain: Iterable[Certificate]) -> str:
    """Return certificates as concatenated PEM."""
    return "".join(one.public_bytes(serialization.Encoding.PEM).decode() for one in chain)


def key_pem(key: Key) -> str:
    """Return a private key as unencrypted PEM."""
    form = serialization.PrivateFormat.PKCS8
    encryption = serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, form, encryption).decode()


def read_key(pem: bytes) -> Key:
    """Return the key of a PEM text.

    Raises: ValueError if it is not an elliptic-curve key.
    """
    key = serialization.load_pem_private_key(pem, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("not an elliptic curve key")
    return key


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: object,
    now: datetime,
    ends: datetime,
) -> x509.CertificateBuilder:
    assert isinstance(key, ec.EllipticCurvePublicKey)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(ends - _CLOCK_SKEW)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _issuer_key(authority: Authority) -> x509.AuthorityKeyIdentifier:
    return x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())


def _usage(*, certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not certificates,
        key_cert_sign=certificates,
        crl_sign=certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])
