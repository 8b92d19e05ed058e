"""The CA made at first start, and the node's certificate signed by it.

    DIR/tls/ca.crt ca.key       the CA, for ten years; who trusts ca.crt trusts the whole node
    DIR/tls/tls.crt tls.key     the node's, with its CA behind it; renewed before it runs out

A node's certificate of another CA is the owner's own and is left as it is.
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
    """PEM files for a TLS listener, and the CA for its clients."""

    ca: Path
    certificate: Path
    key: Path
    is_own: bool = False
    """Whether the certificate is the owner's, of another CA."""


def ensure_certificates(folder: Path, names: Sequence[str], clock: Clock) -> TlsFiles:
    """Return files that are valid for `names` (host names and addresses), making what is missing.

    A certificate of ours names exactly `names`; when they change it is made anew for the same key.
    Raises: Unavailable if a file is there that cannot be read as what it should be, or one half of
        a pair without the other: it may be the owner's own and is never replaced.
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
            f"{folder} holds a key or certificate that cannot be read or written ({error});"
            " restore it, or remove it and a new one is made",
        ) from None
    return TlsFiles(folder / "ca.crt", certificate_file, key_file, is_own)


def ensure_authority(folder: Path, now: datetime) -> Authority:
    """Return the node's authority, made where there is none that lasts.

    One that may not sign authorities is given a certificate by which it may, for the same key: what
    it has signed stays good.
    Raises: ValueError if a file cannot be read as what it should be.
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
    """Return the key of a certificate of ours that lasts: a change of names needs no new one, and
    one file that is replaced in one step is a pair at every moment."""
    if not certificate_file.exists():
        return None
    certificate = x509.load_pem_x509_certificate(certificate_file.read_bytes())
    key = serialization.load_pem_private_key(key_file.read_bytes(), password=None)
    fits = certificate.public_key() == key.public_key()
    lasts = signing.holds(certificate, authority, now)
    return key if lasts and fits and isinstance(key, signing.Key) else None


def _refuse_half(certificate: Path, key: Path) -> None:
    for present, absent in ((certificate, key), (key, certificate)):
        if present.exists() and not absent.exists():
            raise Unavailable(
                Code.DATA_UNUSABLE,
                f"{absent} is missing beside {present.name}; restore it, or remove {present.name}"
                " too and a new pair is made",
            )


def _write_chain(file: Path, chain: Sequence[x509.Certificate]) -> None:
    write_private(file, signing.chain_pem(chain))
    file.chmod(0o644)
