"""Logins of the reader beneath Spark at a platform that requires authentication."""

import asyncio
import base64
from collections.abc import Iterator
from pathlib import Path

import pytest

from enmasse.base.errors import Denied, Invalid
from enmasse.client import connect
from enmasse.messaging import Accepted, Data, Message
from enmasse.pipeline.connector import options as option_table
from enmasse.pipeline.connector import reading
from enmasse.pipeline.connector.ranges import Slice
from platform_process import Platform, running
from stream_documents import stream
from token_issuer import CLOSED_SPACE, Issuer, client_certificate, published, written

pytestmark = pytest.mark.timeout(180)
PASSWORD = "correct horse"
MESSAGES = 3

USER = """
apiVersion: enmasse.io/v1beta1
kind: MessagingUser
metadata: {{name: default.alice}}
spec:
  username: alice
  authentication: {{type: password, password: {password}}}
  authorization: [{{addresses: [readings], operations: [send, recv]}}]
---
"""


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with published() as running_one:
        yield running_one


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory, issuer: Issuer) -> Iterator[Platform]:
    """A closed space with a stream of three messages."""
    folder = tmp_path_factory.mktemp("logins")
    password = base64.b64encode(PASSWORD.encode()).decode()
    declared = folder / "declared.yaml"
    parts = [
        CLOSED_SPACE.format(issuer=issuer.url),
        USER.format(password=password),
        stream("readings"),
    ]
    declared.write_text("".join(parts))
    with running(folder / "data", "-f", str(declared)) as up:
        asyncio.run(fill(up, issuer.token()))
        yield up


async def fill(platform: Platform, token: str) -> None:
    async with connect(platform.url(), token=token) as session:
        async with session.sender("readings") as sender:
            for number in range(MESSAGES):
                assert await sender.send(Message(body=Data([b"%d" % number]))) == Accepted()


def count(**chosen: str) -> int:
    """Return the number of messages that a reader with these options finds."""
    options = option_table.read({"address": "readings", "columns": "offset"} | chosen)
    found = 0
    for partition, one in reading.state(options).partitions.items():
        part = Slice(partition, 0, one.next, None)
        found += sum(batch.num_rows for batch in reading.batches(options, part))
    return found


@pytest.mark.parametrize("listener", ["amqp", "amqps", "wss"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_spark_reader_logs_in_with_a_password_by_every_mechanism(
    platform: Platform, listener: str, mechanism: str
) -> None:
    login = {"user": "alice", "password": PASSWORD, "saslMechanisms": mechanism}
    trusted = str(platform.data / "tls" / "ca.crt")
    assert count(url=platform.url(listener), tlsCa=trusted, **login) == MESSAGES
    with pytest.raises(Denied):
        count(url=platform.url(listener), tlsCa=trusted, **login | {"password": "wrong"})


@pytest.mark.parametrize("mechanism", ["OAUTHBEARER", "XOAUTH2"])
def test_spark_reader_rereads_a_changed_token_file(
    platform: Platform, issuer: Issuer, tmp_path: Path, mechanism: str
) -> None:
    file = tmp_path / "token"
    file.write_text(issuer.token(aud="other.default"))
    asked = {"url": platform.url(), "tokenFile": str(file), "saslMechanisms": mechanism}
    with pytest.raises(Denied):
        count(**asked)
    file.write_text(issuer.token() + "\n")
    assert count(**asked) == MESSAGES
    assert count(url=platform.url(), token=issuer.token()) == MESSAGES


@pytest.mark.parametrize("listener", ["amqps", "wss"])
@pytest.mark.parametrize(
    "mechanisms", [{}, {"saslMechanisms": "EXTERNAL"}], ids=["any", "external"]
)
def test_spark_reader_logs_in_with_a_client_certificate(
    platform: Platform, tmp_path: Path, listener: str, mechanisms: dict[str, str]
) -> None:
    tls = platform.data / "tls"
    asked = {"url": platform.url(listener), "tlsCa": str(tls / "ca.crt")} | mechanisms

    def papers(name: str) -> dict[str, str]:
        files = written(tmp_path, name, *client_certificate(tls, name))
        return {"tlsCertificate": files["certificate"], "tlsKey": files["key"]}

    assert count(**asked, **papers("alice")) == MESSAGES
    # A valid certificate that names no user, and no certificate.
    for login in (papers("mallory"), {}):
        with pytest.raises(Denied):
            count(**asked, **login)
    with pytest.raises(Invalid, match="^option tlsKey is missing"):
        count(**asked, tlsCertificate=papers("alice")["tlsCertificate"])
