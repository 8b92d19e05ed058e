"""The CA created at first start, and the node's certificate signed by it.

    DIR/tls/ca.crt ca.key       the CA, valid for ten years; trusting it trusts the whole node
    DIR/tls/tls.crt tls.key     the node's certificate with its CA; renewed before it expires

A node certificate of another CA belongs to the operator and is never changed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from enmasse.auth import authority as signing
from enmasse.auth.authority import VALIDITY, Authority
from enmasse.base.clock import Clock
from enmasse.base.data_dir import write_private
from enmasse.base.errors import Code, Unavailable

CA_NAME = "EnMasse CA"


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files of a TLS listener, and the CA for its clients."""

    ca: Path
    certificate: Path
    key: Path
    is_own: bool = False
    """Whether the certificate is the operator's, signed by another CA."""


def ensure_certificates(folder: Path, names: Sequence[str], clock: Clock) -> TlsFiles:
    """Return files valid for `names` (host names and IP addresses), creating missing ones.

    Our own certificate contains exactly `names`; when they change it is reissued for the same key.

    Raises: Unavailable if a file is malformed, or one file of a pair is missing: it may belong to
        the operator and is never replaced.
    """
    for certificate_name, key_name in (("ca.crt", "ca.key"), ("tls.crt", "tls.key")):
        _refuse_half(folder / certificate_name, folder / key_name)
    certificate_file, key_file = folder / "tls.crt", folder / "tls.key"
    now = clock.now()
    is_own = False
    try:
        authority = ensure_authority(folder, now)
        if certificate_file.exists():
            held = x509.load_pem_x509_certificate(certificate_file.read_bytes())
            is_own = held.issuer != authority.certificate.subject
        if not is_own:
            _ensure_own_names(certificate_file, key_file, names, authority, now)
    except (OSError, *signing.UNREADABLE) as error:
        raise Unavailable(
            Code.DATA_UNUSABLE,
            f"{folder}: cannot read or write a key or certificate ({error});"
            " restore it, or delete it to have a new one created",
        ) from None
    return TlsFiles(folder / "ca.crt", certificate_file, key_file, is_own)


def ensure_authority(folder: Path, now: datetime) -> Authority:
    """Return the CA of the node, creating it unless there is a valid one.

    A CA that may not sign CAs gets a new certificate for the same key that allows it; what it
    signed stays valid.

    Raises: ValueError if a file is malformed.
    """
    certificate_file, key_file = folder / "ca.crt", folder / "ca.key"
    if certificate_file.exists() and key_file.exists():
        certificate = x509.load_pem_x509_certificate(certificate_file.read_bytes())
        held = Authority(signing.read_key(key_file.read_bytes()), certificate)
        lasts = held.ends - now > VALIDITY
        if lasts and certificate.public_key() == held.key.public_key():
            if signing.signs_authorities(held):
                return held
            renewed = signing.renewed_authority(held.key, CA_NAME, now, signs_authorities=True)
            _write_chain(certificate_file, [renewed.certificate])
            return renewed
    made = signing.new_authority(CA_NAME, now, signs_authorities=True)
    write_private(key_file, signing.key_pem(made.key))
    _write_chain(certificate_file, [made.certificate])
    return made


def _ensure_own_names(
    certificate_file: Path,
    key_file: Path,
    names: Sequence[str],
    authority: Authority,
    now: datetime,
) -> None:
    key = _kept_key(certificate_file, key_file, authority.certificate, now)
    wanted = {signing.alternative(name) for name in names}
    if key is not None:
        held = x509.load_pem_x509_certificate(certificate_file.read_bytes())
        if signing.names(held) == wanted:
            return
    else:
        key = signing.new_key()
        write_private(key_file, signing.key_pem(key))
    certificate = signing.issue(authority, key, "EnMasse node", names, now)
    _write_chain(certificate_file, [certificate, authority.certificate])


def _kept_key(
    certificate_file: Path, key_file: Path, authority: x509.Certificate, now: datetime
) -> signing.Key | None:
    """Return the key of our own certificate: a change of names keeps the key, so replacing one file
    leaves a matching pair at every moment.
    """
    if not certificate_file.exists():
        return None
    certificate = x509.load_pem_x509_certificate(certificate_file.read_bytes())
    key = serialization.load_pem_private_key(key_file.read_bytes(), password=None)
    fits = certificate.public_key() == key.public_key()
    lasts = signing.is_current(certificate, authority, now)
    return key if lasts and fits and isinstance(key, signing.Key) else None


def _refuse_half(certificate: Path, key: Path) -> None:
    for present, absent in ((certificate, key), (key, certificate)):
        if present.exists() and not absent.exists():
            raise Unavailable(
                Code.DATA_UNUSABLE,
                f"{absent} is missing, but {present.name} exists; restore it, or"
                f" delete {present.name} to have a new pair created",
            )


def _write_chain(file: Path, chain: Sequence[x509.Certificate]) -> None:
    write_private(file, signing.chain_pem(chain))
    file.chmod(0o644)
