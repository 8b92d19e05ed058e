"""Each address space has its own authority, and a tenant may provide a certificate."""

import base64
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from proton import ConnectionException, Message, SSLDomain
from proton.utils import BlockingConnection

from doubles import document
from enmasse.auth import authority as signing
from enmasse.auth.authority import Authority, Certificate
from platform_process import Platform, Start

# Connections wait up to 30 s, and starting takes seconds of CPU.
pytestmark = pytest.mark.timeout(240)

HOST = "north.example.com"
TENANTS = signing.new_authority("the tenant's", datetime.now(UTC))


def brought() -> tuple[str, str]:
    """A chain and a key of the tenant's for its host."""
    key = signing.new_key()
    certificate = signing.issue(TENANTS, key, "north", [HOST], datetime.now(UTC))
    return signing.chain_pem([certificate]), signing.key_pem(key)


def encoded(pem: str) -> str:
    return base64.b64encode(pem.encode()).decode()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    chain, key = brought()
    cert = {"provider": "certBundle", "tlsCert": encoded(chain), "tlsKey": encoded(key)}
    expose = {"type": "route", "routeHost": HOST, "routeServicePort": "amqps"}
    endpoint = {"name": "messaging", "service": "messaging", "cert": cert, "expose": expose}
    documents = [
        document("AddressSpace", "north", {"type": "standard", "endpoints": [endpoint]}),
        document("AddressSpace", "south", {"type": "standard"}),
        *(
            document("Address", f"{space}.orders", {"address": "orders", "type": "queue"})
            for space in ("north", "south")
        ),
    ]
    path = tmp_path_factory.mktemp("documents") / "spaces.yaml"
    path.write_text(yaml.safe_dump_all(documents))
    return path


@pytest.fixture(scope="module")
def spaces(start_platform: Start, file: Path) -> Platform:
    return start_platform("-f", file)


@contextmanager
def connected(
    platform: Platform,
    folder: Path,
    name: str,
    trusted: str,
    listener: str = "amqps",
    credentials: tuple[str, str] | None = None,
) -> Iterator[BlockingConnection]:
    """A client that requests a server by name and trusts only these authorities; it may have a
    certificate chain and its key."""
    authorities = folder / "trusted.crt"
    authorities.write_text(trusted)
    domain = SSLDomain(SSLDomain.MODE_CLIENT)
    domain.set_trusted_ca_db(str(authorities))
    domain.set_peer_authentication(SSLDomain.VERIFY_PEER_NAME)
    if credentials is not None:
        files = folder / "own.crt", folder / "own.key"
        for one, text in zip(files, credentials, strict=True):
            one.write_text(text)
        domain.set_credentials(*map(str, files), None)
    connection = BlockingConnection(
        platform.url(listener), timeout=30, ssl_domain=domain, virtual_host=name
    )
    with closing(connection):
        yield connection


def test_client_that_trusts_one_space_reaches_only_that_space(
    spaces: Platform, tmp_path: Path
) -> None:
    authorities = {space: spaces.authority(space) for space in ("north", "south")}
    assert authorities["north"] != authorities["south"]
    for space, authority in authorities.items():
        with connected(spaces, tmp_path, f"{space}.default", authority) as client:
            client.create_sender("orders").send(Message(body=f"for the {space}"))
            receiver = client.create_receiver("orders")
            assert receiver.receive(30).body == f"for the {space}"
            receiver.accept()
    for name, authority in (
        ("north.default", authorities["south"]),
        ("south.default", authorities["north"]),
        ("localhost", authorities["north"]),
    ):
        with (
            pytest.raises(ConnectionException, match="certificate verify failed"),
            connected(spaces, tmp_path, name, authority),
        ):
            raise AssertionError(f"{name} is trusted through another authority")


def test_tenant_certificate_is_served_for_its_route_host(spaces: Platform, tmp_path: Path) -> None:
    authority = signing.chain_pem([TENANTS.certificate])
    with connected(spaces, tmp_path, HOST, authority) as client:
        assert client.create_receiver("orders").link.remote_source.address == "orders"
    with (
        pytest.raises(ConnectionException, match="certificate verify failed"),
        connected(spaces, tmp_path, "south.default", authority),
    ):
        raise AssertionError("another space serves the certificate of a tenant")


def alice(signer: Authority, *between: Certificate) -> tuple[str, str]:
    """A chain and a key of a client."""
    key, now = signing.new_key(), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "alice")])
    issuer, until = signer.certificate.subject, now + timedelta(days=1)
    certificate = (
        x509.CertificateBuilder(issuer, name, key.public_key(), 1, now, until)
        .add_extension(x509.ExtendedKeyUsage([x509.ExtendedKeyUsageOID.CLIENT_AUTH]), False)
        .sign(signer.key, hashes.SHA256())
    )
    return signing.chain_pem([certificate, *between]), signing.key_pem(key)


def test_client_certificate_must_be_signed_by_the_node_authority(
    spaces: Platform, tmp_path: Path
) -> None:
    tls = spaces.data / "tls"
    node = signing.read_authority((tls / "ca.crt").read_text(), (tls / "ca.key").read_text())
    infra = ("-n", "enmasse-infra", "-o", "json")
    data = json.loads(spaces.enmasse("get", "secret", "north.default.ca", *infra))["data"]
    kept = [base64.b64decode(data[name]).decode() for name in ("ca.crt", "ca.key")]
    space, trusted = signing.read_authority(*kept), spaces.authority("north")
    with connected(spaces, tmp_path, "north.default", trusted, credentials=alice(node)) as client:
        client.create_receiver("orders")
    between = signing.cross_signed(space, node, datetime.now(UTC))
    own = alice(space, between)
    with (
        pytest.raises(ConnectionException),
        connected(spaces, tmp_path, "north.default", trusted, credentials=own) as client,
    ):
        client.create_receiver("orders")


def test_commands_trust_the_authority_of_the_space(spaces: Platform) -> None:
    to, of = spaces.url("amqps"), spaces.url("wss")
    spaces.enmasse("send", "orders", "--space", "north", "--url", to, "--body", "hello")
    received = spaces.enmasse("receive", "orders", "--space", "north", "--url", of, "--count", "1")
    assert "hello" in received
