"""The parties that a platform trusts: an issuer of tokens with its key server, and certificates of
clients.
"""

import datetime
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from joserfc import jws, jwt
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey

from enmasse.auth.fetching import Answer
from enmasse.auth.grants import Unanswered
from http_servers import Quiet, served_by

ISSUER = "https://issuer.example"
AUDIENCE = "default.default"
DISCOVERY = "/.well-known/openid-configuration"

Signing = RSAKey | ECKey | OKPKey
KEY = RSAKey.generate_key(2048, {"kid": "one", "use": "sig"})
"""Made once: it takes a while."""


FEDERATED_USER = """
apiVersion: enmasse.io/v1beta1
kind: MessagingUser
metadata: {name: default.alice}
spec:
  username: alice
  authentication: {type: federated}
  authorization: [{addresses: [orders], operations: [send, recv]}]
"""
"""The document of a user whose logins an issuer decides, with rights on `orders`."""

CLOSED_SPACE = """
apiVersion: admin.enmasse.io/v1beta1
kind: AuthenticationService
metadata: {{name: idp}}
spec: {{type: standard, standard: {{oidc: {{issuer: "{issuer}"}}}}}}
---
apiVersion: enmasse.io/v1beta1
kind: AddressSpace
metadata: {{name: default}}
spec: {{type: standard, authenticationService: {{name: idp}}}}
---
"""
"""The documents of a space into which tokens of an issuer let."""


class Issuer:
    """Signs tokens, and answers for its keys in place of a network."""

    def __init__(self, url: str = ISSUER, *keys: Signing) -> None:
        self.url = url
        self.keys: list[Signing] = list(keys) or [KEY]
        self.asked: list[str] = []
        self.silent = False
        self.more: list[dict[str, Any]] = []
        """Further keys that are published, as they stand."""

    def claims(self, **other: Any) -> dict[str, Any]:
        """Claims that are all right, but for these; one that is None is left out."""
        given = {
            "iss": self.url,
            "aud": AUDIENCE,
            "sub": "alice",
            "exp": int(time.time()) + 3600,
        }
        return {name: value for name, value in (given | other).items() if value is not None}

    def token(self, key: Signing | OctKey | None = None, **other: Any) -> str:
        """Return a token with these claims; `header` changes its head."""
        header = {"alg": "RS256", "kid": "one", **other.pop("header", {})}
        header = {name: value for name, value in header.items() if value is not None}
        registry = jws.JWSRegistry(algorithms=[header["alg"]])
        return jwt.encode(header, self.claims(**other), key or self.keys[0], registry=registry)

    def document(self, path: str) -> dict[str, Any]:
        """Return what is published at a path."""
        if path.endswith(DISCOVERY):
            return {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}
        return {"keys": [*(key.as_dict(private=False) for key in self.keys), *self.more]}

    async def fetch(
        self, url: str, *, form: Mapping[str, str] | None = None, ca: str | None = None
    ) -> Answer:
        """Answer as its server would."""
        self.asked.append(url)
        if self.silent:
            raise Unanswered(f"{url} does not answer")
        return Answer(200, json.dumps(self.document(url)).encode())


@contextmanager
def published(*keys: Signing) -> Iterator[Issuer]:
    """Publish an issuer's documents on this machine."""
    issuer = Issuer("", *keys)

    class Handler(Quiet):
        def do_GET(self) -> None:
            issuer.asked.append(self.path)
            body = json.dumps(issuer.document(self.path)).encode()
            self.answer(503 if issuer.silent else 200, body)

    with served_by(Handler) as issuer.url:
        yield issuer


def client_certificate(tls: Path, name: str) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    """A key and its certificate for a common name, signed by the CA of a platform, whose folder
    `tls` is."""
    issuer = x509.load_pem_x509_certificate((tls / "ca.crt").read_bytes())
    issuer_key = serialization.load_pem_private_key((tls / "ca.key").read_bytes(), password=None)
    assert isinstance(issuer_key, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage([x509.ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
        )
        .sign(issuer_key, hashes.SHA256())
    )
    return key, certificate


def written(
    folder: Path, name: str, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate
) -> dict[str, str]:
    """Write them as PEM; return their files, `certificate` and `key`."""
    pem, bare = serialization.Encoding.PEM, serialization.NoEncryption()
    files = {
        "certificate": certificate.public_bytes(pem),
        "key": key.private_bytes(pem, serialization.PrivateFormat.PKCS8, bare),
    }
    for kind, content in files.items():
        (folder / f"{name}.{kind}").write_bytes(content)
    return {kind: str(folder / f"{name}.{kind}") for kind in files}
