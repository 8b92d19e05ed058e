"""The CA and the server certificate."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme
from cryptography import x509

from doubles import TestClock
from enmasse.auth import authority as signing
from enmasse.auth.certificates import TlsFiles, ensure_authority, ensure_certificates
from enmasse.base.errors import Unavailable

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


@pytest.fixture
def clock() -> TestClock:
    return TestClock(datetime.now(UTC))


def serial(files: TlsFiles) -> int:
    return x509.load_pem_x509_certificate(files.certificate.read_bytes()).serial_number


def handshake(files: TlsFiles, name: str) -> None:
    """Run TLS between a server with these files and a client that trusts the CA and the name."""
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_context.load_cert_chain(files.certificate, files.key)
    client_context = ssl.create_default_context(cafile=str(files.ca))
    client_context.verify_flags |= ssl.VERIFY_X509_STRICT
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = server_context.wrap_bio(to_server, to_client, server_side=True)
    client = client_context.wrap_bio(to_client, to_server, server_hostname=name)
    waiting = [client, server]
    for _ in range(10):
        for side in list(waiting):
            try:
                side.do_handshake()
                waiting.remove(side)
            except ssl.SSLWantReadError:
                pass
    assert not waiting


@pytest.mark.parametrize("name", LOOPBACK_NAMES)
def test_T_EP_1_clients_that_trust_the_ca_accept_the_server(
    tmp_path: Path, clock: TestClock, name: str
) -> None:
    handshake(ensure_certificates(tmp_path, LOOPBACK_NAMES, clock), name)


def test_keys_have_mode_0600_and_certificates_mode_0644(tmp_path: Path, clock: TestClock) -> None:
    files = ensure_certificates(tmp_path, LOOPBACK_NAMES, clock)
    modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}
    assert modes == {"ca.crt": 0o644, "ca.key": 0o600, "tls.crt": 0o644, "tls.key": 0o600}
    assert files.ca.parent == tmp_path


def test_second_start_keeps_keys_and_certificates(tmp_path: Path, clock: TestClock) -> None:
    first = ensure_certificates(tmp_path, LOOPBACK_NAMES, clock)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert ensure_certificates(tmp_path, LOOPBACK_NAMES, clock) == first
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_T_EP_1_certificate_near_expiry_is_renewed_by_the_same_ca(
    tmp_path: Path, clock: TestClock
) -> None:
    files = ensure_certificates(tmp_path, LOOPBACK_NAMES, clock)
    authority, first = files.ca.read_bytes(), serial(files)
    clock.moment += timedelta(days=300)
    assert serial(ensure_certificates(tmp_path, LOOPBACK_NAMES, clock)) == first
    clock.moment += timedelta(days=10)
    assert serial(ensure_certificates(tmp_path, LOOPBACK_NAMES, clock)) != first
    assert files.ca.read_bytes() == authority


def test_ca_near_expiry_is_replaced_together_with_what_it_signed(
    tmp_path: Path, clock: TestClock
) -> None:
    files = ensure_certificates(tmp_path, LOOPBACK_NAMES, clock)
    authority, first = files.ca.read_bytes(), serial(files)
    clock.moment += timedelta(days=3300)
    ensure_certificates(tmp_path, LOOPBACK_NAMES, clock)
    assert files.ca.read_bytes() != authority
    assert serial(files) != first


def test_added_host_name_issues_a_new_certificate(tmp_path: Path, clock: TestClock) -> None:
    files = ensure_certificates(tmp_path, LOOPBACK_NAMES, clock)
    first = serial(files)
    ensure_certificates(tmp_path, (*LOOPBACK_NAMES, "mq.example.com", "192.0.2.7"), clock)
    assert serial(files) != first
    handshake(files, "mq.example.com")
    handshake(files, "192.0.2.7")


def test_changed_host_names_are_signed_for_the_same_key(tmp_path: Path, clock: TestClock) -> None:
    files = ensure_certificates(tmp_path, (*LOOPBACK_NAMES, "shop", "shop.default"), clock)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    handshake(files, "shop")
    handshake(files, "shop.default")
    ensure_certificates(tmp_path, (*LOOPBACK_NAMES, "bar"), clock)
    changed = {file.name for file in tmp_path.iterdir() if file.read_bytes() != before[file.name]}
    assert changed == {"tls.crt"}
    handshake(files, "bar")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(files, "shop")


def test_certificate_that_does_not_match_its_key_or_ca_is_replaced(
    tmp_path: Path, clock: TestClock
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    other = ensure_certificates(elsewhere, LOOPBACK_NAMES, clock)
    files = ensure_certificates(tmp_path, LOOPBACK_NAMES, clock)
    files.certificate.write_bytes(other.certificate.read_bytes())
    ensure_certificates(tmp_path, LOOPBACK_NAMES, clock)
    handshake(files, "localhost")
    (tmp_path / "ca.key").write_bytes((elsewhere / "ca.key").read_bytes())
    ensure_certificates(tmp_path, LOOPBACK_NAMES, clock)
    handshake(files, "localhost")


def test_T_EP_1_certificate_of_the_operator_is_never_replaced(
    tmp_path: Path, clock: TestClock
) -> None:
    authority = trustme.CA()
    own = authority.issue_cert("mq.example.com")
    own.cert_chain_pems[0].write_to_path(str(tmp_path / "tls.crt"))
    own.private_key_pem.write_to_path(str(tmp_path / "tls.key"))
    files = ensure_certificates(tmp_path, LOOPBACK_NAMES, clock)
    assert files.certificate.read_bytes() == own.cert_chain_pems[0].bytes()


@pytest.mark.parametrize("file", ["ca.crt", "ca.key", "tls.crt", "tls.key"])
def test_incomplete_key_pair_is_an_error_and_is_never_replaced(
    tmp_path: Path, clock: TestClock, file: str
) -> None:
    ensure_certificates(tmp_path, LOOPBACK_NAMES, clock)
    (tmp_path / file).unlink()
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with pytest.raises(
        Unavailable, match=rf"{file} is missing, but .* exists; restore it, or delete"
    ):
        ensure_certificates(tmp_path, LOOPBACK_NAMES, clock)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


@pytest.mark.parametrize("file", ["ca.crt", "ca.key", "tls.crt", "tls.key"])
def test_unreadable_tls_file_is_an_error_with_a_remedy(
    tmp_path: Path, clock: TestClock, file: str
) -> None:
    ensure_certificates(tmp_path, LOOPBACK_NAMES, clock)
    (tmp_path / file).write_text("nonsense")
    with pytest.raises(Unavailable, match="restore it, or delete it"):
        ensure_certificates(tmp_path, LOOPBACK_NAMES, clock)


def test_ca_that_may_not_sign_authorities_is_renewed_with_the_same_key(
    tmp_path: Path, clock: TestClock
) -> None:
    old = signing.new_authority("EnMasse CA", clock.now())
    (tmp_path / "ca.crt").write_text(signing.chain_pem([old.certificate]))
    (tmp_path / "ca.key").write_text(signing.key_pem(old.key))
    served = signing.issue(old, signing.new_key(), "EnMasse node", ["localhost"], clock.now())
    renewed = ensure_authority(tmp_path, clock.now())
    assert signing.signs_authorities(renewed) and not signing.signs_authorities(old)
    served.verify_directly_issued_by(renewed.certificate)
    assert ensure_authority(tmp_path, clock.now()).certificate == renewed.certificate
