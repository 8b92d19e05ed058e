"""The CA made at first start, and the server's certificate signed by it.

    DIR/tls/ca.crt ca.key       the CA, for ten years; clients are told to trust ca.crt
    DIR/tls/tls.crt tls.key     the server's, with its CA behind it; renewed before it runs out

All keys are ECDSA P-256. A server's certificate of another CA is the owner's own and is left as it
is.
"""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from enmasse.base.clock import Clock
from enmasse.base.data_dir import write_private
from enmasse.base.errors import Code, Unavailable

CA_VALIDITY = timedelta(days=3650)
VALIDITY = timedelta(days=397)
"""Longest validity of a server's certificate that common clients accept."""

RENEW_BEFORE = timedelta(days=90)
"""A certificate with less than this left is made anew at start: a process may run for months."""

_CLOCK_SKEW = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files for a TLS listener, and the CA for its clients."""

    ca: Path
    certificate: Path
    key: Path


def ensure_certificates(folder: Path, names: Sequence[str], clock: Clock) -> TlsFiles:
    """Return files that are valid for `names` (host names and addresses), making what is missing.

    A certificate of ours names exactly `names`; when they change it is made anew for the same key.
    Raises: Unavailable if a file is there that cannot be read as what it should be, or one half of
        a pair without the other: it may be the owner's own and is never replaced.
    """
    for certificate_name, key_name in (("ca.crt", "ca.key"), ("tls.crt", "tls.key")):
        _refuse_half(folder / certificate_name, folder / key_name)
    files = TlsFiles(folder / "ca.crt", folder / "tls.crt", folder / "tls.key")
    now = clock.now()
    try:
        authority = _ensure_authority(folder, now)
        if not _serves(files, names, authority.certificate, now):
            key = _kept_key(files, authority.certificate, now)
            if key is None:
                key = ec.generate_private_key(ec.SECP256R1())
                _write_key(files.key, key)
            certificate = _issue(authority, key, names, now)
            _write_chain(files.certificate, [certificate, authority.certificate])
    except ValueError as error:
        raise Unavailable(
            Code.DATA_UNUSABLE,
            f"{folder} holds a key or certificate that cannot be read ({error});"
            " restore it, or remove it and a new one is made",
        ) from None
    return files


@dataclass(frozen=True, slots=True)
class _Authority:
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate


def _refuse_half(certificate: Path, key: Path) -> None:
    for present, absent in ((certificate, key), (key, certificate)):
        if present.exists() and not absent.exists():
            raise Unavailable(
                Code.DATA_UNUSABLE,
                f"{absent} is missing beside {present.name}; restore it, or remove {present.name}"
                " too and a new pair is made",
            )


def _ensure_authority(folder: Path, now: datetime) -> _Authority:
    certificate_file, key_file = folder / "ca.crt", folder / "ca.key"
    if certificate_file.exists() and key_file.exists():
        certificate = x509.load_pem_x509_certificate(certificate_file.read_bytes())
        key = serialization.load_pem_private_key(key_file.read_bytes(), password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError("ca.key is not an elliptic curve key")
        lasts = certificate.not_valid_after_utc - now > VALIDITY
        if lasts and certificate.public_key() == key.public_key():
            return _Authority(key, certificate)
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("EnMasse CA")
    certificate = (
        _builder(name, name, key, now, CA_VALIDITY)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    _write_key(key_file, key)
    _write_chain(certificate_file, [certificate])
    return _Authority(key, certificate)


def _issue(
    authority: _Authority, key: ec.EllipticCurvePrivateKey, names: Sequence[str], now: datetime
) -> x509.Certificate:
    issuer = authority.certificate
    return (
        _builder(_name("EnMasse node"), issuer.subject, key, now, VALIDITY)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.SubjectAlternativeName([_alternative(name) for name in names]), critical=False
        )
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()),
            critical=False,
        )
        .sign(authority.key, hashes.SHA256())
    )


def _serves(
    files: TlsFiles, names: Sequence[str], authority: x509.Certificate, now: datetime
) -> bool:
    """Whether there is a certificate of the owner's, or one of ours that lasts and fits."""
    if not files.certificate.exists():
        return False
    certificate, _ = _read_pair(files)
    if certificate.issuer != authority.subject:
        return True  # the owner's own
    if _kept_key(files, authority, now) is None:
        return False
    held = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {_alternative(name) for name in names} == set(held)


def _kept_key(
    files: TlsFiles, authority: x509.Certificate, now: datetime
) -> ec.EllipticCurvePrivateKey | None:
    """Return the key of a certificate of ours that lasts: a change of names needs no new one, and
    one file that is replaced in one step is a pair at every moment."""
    if not files.certificate.exists():
        return None
    certificate, key = _read_pair(files)
    lasts = certificate.not_valid_after_utc - now >= RENEW_BEFORE
    fits = certificate.public_key() == key.public_key() and _signed(certificate, authority)
    return key if lasts and fits and isinstance(key, ec.EllipticCurvePrivateKey) else None


def _read_pair(files: TlsFiles) -> tuple[x509.Certificate, PrivateKeyTypes]:
    certificate = x509.load_pem_x509_certificate(files.certificate.read_bytes())
    return certificate, serialization.load_pem_private_key(files.key.read_bytes(), password=None)


def _signed(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except InvalidSignature:
        return False
    return True


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    now: datetime,
    validity: timedelta,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now - _CLOCK_SKEW + validity)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


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


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _write_key(file: Path, key: ec.EllipticCurvePrivateKey) -> None:
    form = serialization.PrivateFormat.PKCS8
    encryption = serialization.NoEncryption()
    write_private(file, key.private_bytes(serialization.Encoding.PEM, form, encryption))


def _write_chain(file: Path, chain: Sequence[x509.Certificate]) -> None:
    write_private(file, b"".join(one.public_bytes(serialization.Encoding.PEM) for one in chain))
    file.chmod(0o644)
