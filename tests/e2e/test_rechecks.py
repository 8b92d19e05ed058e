"""Clients of an external authentication service are rechecked while they are connected."""

import asyncio
from pathlib import Path

import pytest

from authentication_server import authenticator
from enmasse.base.errors import Denied
from enmasse.client import connect
from enmasse.messaging import Accepted, Message, Value
from platform_process import running
from proton_client import address

pytestmark = [pytest.mark.timeout(120), pytest.mark.anyio]

WAIT_S = 60.0

DOCUMENTS = """
apiVersion: admin.enmasse.io/v1beta1
kind: AuthenticationService
metadata: {{name: ldap}}
spec: {{type: external, external: {{host: 127.0.0.1, port: {port}, recheckSeconds: 6}}}}
---
apiVersion: enmasse.io/v1beta1
kind: AddressSpace
metadata: {{name: default}}
spec: {{type: standard, authenticationService: {{name: ldap}}}}
---
"""


async def test_T_AU_3_right_or_user_revoked_by_an_external_service_ends_links(
    tmp_path: Path,
) -> None:
    with authenticator() as known:
        known.passwords = {"alice": "wonderland"}
        known.authz = {"orders": ["send", "recv"], "news": ["recv"]}
        declared = tmp_path / "space.yaml"
        text = DOCUMENTS.format(port=known.port)
        declared.write_text(text + "---\n".join([address("orders"), address("news")]))
        with running(tmp_path / "data", "-f", str(declared)) as up:
            place = up.url().removeprefix("amqp://")
            url = f"amqp://alice:wonderland@{place}"
            async with asyncio.timeout(WAIT_S), connect(url, mechanisms=["PLAIN"]) as session:
                async with session.sender("orders") as sender:
                    with pytest.raises(Denied, match='may not receive from "news"'):
                        async with session.receiver("news") as receiver:
                            known.authz = {"orders": ["send"]}
                            async for delivery in receiver:
                                delivery.settle()
                    # The other link is not affected.
                    assert await sender.send(Message(body=Value("on"))) == Accepted()
                    known.passwords = {}
                    with pytest.raises(Denied, match="no longer accepted; log in again"):
                        while True:
                            await sender.send(Message(body=Value("on")))
