"""Checks of a certificate that a tenant supplies."""

import random
import ssl
from datetime import UTC, datetime, timedelta

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from enmasse.auth import authority as signing
from enmasse.auth.bundles import covers, read_bundle
from enmasse.base.errors import Invalid

NOW = datetime(2026, 11, 1, tzinfo=UTC)


def test_certificate_names_and_wildcards_cover_hosts_as_in_clients() -> None:
    authority = signing.new_authority("some", NOW)
    names = ["a.example.com", "*.b.example.com"]
    certificate = signing.issue(authority, signing.new_key(), "one", names, NOW)
    covered = ["a.example.com", "A.example.com", "x.b.example.com"]
    assert all(covers(certificate, host) for host in covered)
    for host in ("b.example.com", "x.y.b.example.com", "example.com", "shop"):
        assert not covers(certificate, host)
    assert not covers(authority.certificate, "some")


@pytest.mark.parametrize("kind", list(trustme.KeyType))
def test_certificate_of_an_intermediate_ca_is_read_with_its_chain(kind: trustme.KeyType) -> None:
    authority = trustme.CA(key_type=kind).create_child_ca(key_type=kind)
    issued = authority.issue_cert("shop.example.com", key_type=kind)
    chain = b"".join(one.bytes() for one in issued.cert_chain_pems).decode()
    bundle = read_bundle(chain, issued.private_key_pem.bytes().decode())
    assert covers(bundle.chain[0], "shop.example.com") and len(bundle.chain) == 2
    assert bundle.authorities == [bundle.chain[1]]
    assert "PRIVATE" not in repr(bundle)


def test_self_signed_certificate_is_its_own_authority() -> None:
    key = signing.new_key()
    alone = signing.renewed_authority(key, "shop", NOW)
    bundle = read_bundle(signing.chain_pem([alone.certificate]), signing.key_pem(key))
    assert bundle.authorities == [alone.certificate]
    assert bundle.validity_problem(NOW) is None
    assert "not valid before" in (bundle.validity_problem(NOW - timedelta(days=1)) or "")
    assert "expired on 2036" in (bundle.validity_problem(NOW + timedelta(days=3651)) or "")


def test_client_certificate_is_rejected_as_a_server_certificate() -> None:
    key = signing.new_key()
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "alice")])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, NOW, NOW + timedelta(days=1))
        .add_extension(x509.ExtendedKeyUsage([x509.ExtendedKeyUsageOID.CLIENT_AUTH]), True)
        .sign(key, hashes.SHA256())
    )
    with pytest.raises(Invalid, match="not a server certificate"):
        read_bundle(signing.chain_pem([certificate]), signing.key_pem(key))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.filterwarnings("ignore:Parsed a serial number")
def test_mutated_certificate_is_rejected_or_fully_readable(seed: int) -> None:
    """Any other exception than Invalid would block the reconciler for all spaces."""
    drawn, key = random.Random(seed), signing.new_key()
    authority = signing.new_authority("some", NOW)
    leaf = signing.issue(authority, key, "one", ["a.example.com", "*.b.example.com"], NOW)
    own = signing.renewed_authority(key, "shop", NOW).certificate
    chain, refused = signing.chain_pem([authority.certificate]), 0
    for _ in range(1500):
        der = bytearray(drawn.choice([leaf, own]).public_bytes(serialization.Encoding.DER))
        kinds = [0x0C, 0x13, 0x1E, 0x82, 0xA0, 0xA3, drawn.randrange(256)]
        der[drawn.randrange(len(der))] = drawn.choice(kinds)
        pem = ssl.DER_cert_to_PEM_cert(bytes(der)) + drawn.choice(["", chain])
        try:
            bundle = read_bundle(pem, signing.key_pem(key))
        except Invalid:
            refused += 1
            continue
        bundle.validity_problem(NOW)
        covers(bundle.chain[0], "x.example.com")
        signing.chain_pem(bundle.authorities)
    assert 0 < refused < 1500


def test_certificate_of_an_invalid_version_is_rejected() -> None:
    key = signing.new_key()
    own = signing.renewed_authority(key, "shop", NOW).certificate
    der = own.public_bytes(serialization.Encoding.DER)
    version_3, version_2 = b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x01"
    odd = ssl.DER_cert_to_PEM_cert(der.replace(version_3, version_2, 1))
    with pytest.raises(Invalid, match="not a PEM certificate"):
        read_bundle(odd, signing.key_pem(key))


def test_oversized_rsa_key_or_bundle_is_rejected_before_use() -> None:
    p, q, e = 2**2203 - 1, 2**2281 - 1, 65537
    d = pow(e, -1, (p - 1) * (q - 1))
    exponents = rsa.rsa_crt_dmp1(d, p), rsa.rsa_crt_dmq1(d, q), rsa.rsa_crt_iqmp(p, q)
    numbers = rsa.RSAPrivateNumbers(p, q, d, *exponents, rsa.RSAPublicNumbers(e, p * q))
    key = numbers.private_key(unsafe_skip_rsa_key_validation=True)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "shop")])
    until = NOW + timedelta(days=1)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, NOW, until)
    chain = signing.chain_pem([builder.sign(key, hashes.SHA256())])
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    pem = key.private_bytes(serialization.Encoding.PEM, form, plain).decode()
    with pytest.raises(Invalid, match="RSA key of 4484 bits; the maximum is 4096"):
        read_bundle(chain, pem)
    # The size of the key is checked before the match with the certificate.
    own = signing.renewed_authority(signing.new_key(), "shop", NOW).certificate
    with pytest.raises(Invalid, match="RSA key of 4484 bits"):
        read_bundle(signing.chain_pem([own]), pem)
    with pytest.raises(Invalid, match="more than 16384 characters"):
        read_bundle(chain * 60, pem)
