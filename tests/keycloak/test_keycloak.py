"""A real Keycloak checks who comes in: a realm for each space, groups as the original had them."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from enmasse.base.errors import Denied, EnMasseError
from enmasse.client import connect
from enmasse.client.connection import Connection
from enmasse.messaging import Accepted, Message, Value
from exchanging import address
from keycloak.server import keycloak, realm, token
from running import running

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800), pytest.mark.anyio]

PASSWORD = "wonderland"
PATIENCE_S = 300

DOCUMENTS = """
apiVersion: admin.enmasse.io/v1beta1
kind: AuthenticationService
metadata: {{name: keycloak}}
spec: {{type: keycloak, keycloak: {{url: "{url}"}}}}
---
apiVersion: enmasse.io/v1beta1
kind: AddressSpace
metadata: {{name: default}}
spec: {{type: standard, authenticationService: {{name: keycloak}}}}
---
"""


async def sends(url: str, name: str, **login: Any) -> bool:
    """Whether one may send to an address. Who is told to try again later does so: a Keycloak that
    has only just started takes its time for the first logins."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                async with connect(url, hostname="default", **login) as session:
                    return await may_send(session, name)
            except EnMasseError as error:
                if "try again later" not in error.message:
                    raise


async def may_send(session: Connection, name: str) -> bool:
    try:
        async with session.sender(name) as sender:
            return await sender.send(Message(body=Value("over"))) == Accepted()
    except Denied:
        return False


async def test_users_groups_and_tokens_of_a_keycloak(tmp_path: Path) -> None:
    users = {"alice": ["send_orders", "recv_orders"], "bob": ["send_a%2Fb", "monitor"]}
    realms = [
        realm("default-default", users, PASSWORD),
        realm("default-other", {"mallory": ["send_#"], "alice": ["send_#"]}, PASSWORD),
    ]
    with keycloak(tmp_path, *realms) as url:
        declared = tmp_path / "space.yaml"
        named = [address("orders"), address("a", "topic")]
        declared.write_text(DOCUMENTS.format(url=url) + "---\n".join(named))
        with running(tmp_path / "data", "-f", str(declared)) as up:
            place = up.url().removeprefix("amqp://")
            by_password = f"amqp://alice:{PASSWORD}@{place}"
            assert await sends(by_password, "orders", mechanisms=["PLAIN"])
            assert not await sends(by_password, "a/b", mechanisms=["PLAIN"])
            own = token(url, "default-default", "bob", PASSWORD)
            for mechanism in ("OAUTHBEARER", "XOAUTH2"):
                assert await sends(up.url(), "a/b", token=own, mechanisms=[mechanism])
            assert not await sends(up.url(), "orders", token=own)
            foreign = token(url, "default-other", "mallory", PASSWORD)
            for refused in (
                {"url": up.url(), "token": foreign},
                {"url": f"amqp://alice:guess@{place}", "mechanisms": ["PLAIN"]},
                {"url": f"amqp://mallory:{PASSWORD}@{place}", "mechanisms": ["PLAIN"]},
            ):
                with pytest.raises(EnMasseError, match="refused"):
                    await sends(name="orders", **refused)
