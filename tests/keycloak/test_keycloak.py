"""Authentication by a running Keycloak: a realm for each space, and groups that give rights."""

import asyncio
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest

from enmasse.base.errors import Denied, EnMasseError
from enmasse.client import connect
from enmasse.client.connection import Connection
from enmasse.messaging import Accepted, Message, Value
from keycloak.server import keycloak, realm, token
from platform_process import Platform, running
from proton_client import address

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
    """Whether a user may send to an address. Retries when the platform asks for it, because a
    Keycloak that has just started is slow at the first logins."""
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


async def test_keycloak_users_groups_and_tokens_are_authorized(tmp_path: Path) -> None:
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


REALMS = """
apiVersion: v1
kind: Secret
metadata: {{name: kc-admin, namespace: enmasse-infra}}
stringData: {{admin.username: admin, admin.password: {password}}}
---
apiVersion: admin.enmasse.io/v1beta1
kind: AuthenticationService
metadata: {{name: keycloak, namespace: enmasse-infra}}
spec: {{type: keycloak, keycloak: {{url: "{url}", credentialsSecret: {{name: kc-admin}}}}}}
---
apiVersion: enmasse.io/v1beta1
kind: AddressSpace
metadata: {{name: default}}
spec: {{type: standard, authenticationService: {{name: keycloak}}}}
---
"""

LIFESPAN_S = 20
"""Lifespan of access tokens of the realm; a revocation takes effect within it."""


class Administrator:
    """An administrator of a Keycloak."""

    def __init__(self, url: str) -> None:
        self._url = url

    def ask(self, method: str, path: str, document: object = None) -> httpx2.Response:
        form = {"grant_type": "password", "client_id": "admin-cli"}
        form |= {"username": "admin", "password": "admin"}
        where = f"{self._url}/realms/master/protocol/openid-connect/token"
        own = httpx2.post(where, data=form, timeout=60).json()["access_token"]
        return httpx2.request(
            method,
            f"{self._url}/admin/realms{path}",
            json=document,
            headers={"authorization": f"Bearer {own}"},
            timeout=60,
        )

    def change(self, method: str, path: str, document: object = None) -> str:
        """Change something; return the path of a created resource."""
        answer = self.ask(method, path, document)
        assert answer.status_code in (201, 204), answer.text
        return answer.headers.get("location", "").partition("/admin/realms")[2]

    def group(self, realm_name: str, name: str) -> str:
        """Return the id of a group."""
        listed = self.ask("GET", f"/{realm_name}/groups").json()
        return str(next(one["id"] for one in listed if one["name"] == name))


def wait_for(platform: Platform, condition: str, *what: str) -> None:
    platform.enmasse(
        *("wait", *what, f"--for={condition}", f"--timeout={PATIENCE_S}s"),
        timeout_s=PATIENCE_S + 60,
    )


async def test_keycloak_realm_follows_its_space_and_disabled_users_disconnect(
    tmp_path: Path,
) -> None:
    service = ("authenticationservice/keycloak", "-n", "enmasse-infra")
    with keycloak(tmp_path) as url:
        admin, declared = Administrator(url), tmp_path / "space.yaml"
        declared.write_text(REALMS.format(url=url, password="guessed") + address("orders"))
        with running(tmp_path / "data", "-f", str(declared)) as up:
            wait_for(up, "jsonpath={.status.phase}=Configuring", *service)
            said = up.enmasse("describe", *service)
            assert "set admin.username and admin.password" in said
            assert "guessed" not in said
            declared.write_text(REALMS.format(url=url, password="admin") + address("orders"))
            up.enmasse("apply", "-f", str(declared))
            wait_for(up, "condition=Ready", *service)
            realm_name = "default-default"
            admin.change("PUT", f"/{realm_name}", {"accessTokenLifespan": LIFESPAN_S})
            credential = {"type": "password", "value": PASSWORD, "temporary": False}
            person = {"username": "alice", "enabled": True, "email": "alice@example.com"}
            person |= {"firstName": "A", "lastName": "L", "credentials": [credential]}
            alice = admin.change("POST", f"/{realm_name}/users", person)
            groups = [
                f"{alice}/groups/{admin.group(realm_name, name)}"
                for name in ("send_%23", "recv_%23")
            ]
            for membership in groups:
                admin.change("PUT", membership)
            by_password = f"amqp://alice:{PASSWORD}@{up.url().removeprefix('amqp://')}"
            login = {"mechanisms": ["PLAIN"], "hostname": "default"}
            assert await sends(by_password, "orders", mechanisms=["PLAIN"])
            async with asyncio.timeout(PATIENCE_S), connect(by_password, **login) as session:
                async with session.sender("orders") as sender:
                    with pytest.raises(Denied, match='may not receive from "orders"'):
                        async with session.receiver("orders") as receiver:
                            admin.change("DELETE", groups[1])
                            async for delivery in receiver:
                                delivery.settle()
                    admin.change("PUT", alice, {"enabled": False})
                    with pytest.raises(Denied, match="no longer accepted"):
                        while True:
                            await sender.send(Message(body=Value("over")))
            up.enmasse("delete", "addressspace", "default", "--force")
            deadline = time.monotonic() + PATIENCE_S
            while admin.ask("GET", f"/{realm_name}").status_code != 404:
                assert time.monotonic() < deadline, "the realm was not deleted with its space"
