"""Bearer tokens over AMQP, with a running issuer."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest
from joserfc.jwk import RSAKey

from enmasse.base.errors import Denied, EnMasseError, Unavailable
from enmasse.client import connect
from enmasse.messaging import Accepted, Message, Value
from interop.clients import CLIENTS, place
from platform_process import Platform, running
from proton_client import address
from token_issuer import CLOSED_SPACE, FEDERATED_USER, KEY, Issuer, published

pytestmark = pytest.mark.timeout(180)

WAIT_S = 60.0


def documents(folder: Path, issuer: Issuer) -> str:
    path = folder / "tokens.yaml"
    parts = [address("orders"), address("news"), FEDERATED_USER]
    path.write_text(CLOSED_SPACE.format(issuer=issuer.url) + "---\n".join(parts))
    return str(path)


async def exchange(platform: Platform, name: str, **login: Any) -> object:
    """Send a message to an address and receive it."""
    async with connect(platform.url(), **login) as session:
        async with session.sender(name) as sender:
            assert await sender.send(Message(body=Value("over"))) == Accepted()
        async with session.receiver(name, count=1) as receiver:
            async for delivery in receiver:
                delivery.settle()
                return delivery.message.body
    raise AssertionError("no message arrived")


@pytest.mark.anyio
async def test_valid_token_logs_in_with_the_rights_of_its_user_and_groups(
    tmp_path: Path,
) -> None:
    stranger = RSAKey.generate_key(2048, {"kid": "one"})
    log = tmp_path / "log"
    with published() as issuer:
        declared = documents(tmp_path, issuer)
        with running(tmp_path / "data", "--log-level", "debug", "-f", declared, log=log) as up:
            token = issuer.token()
            for mechanism in ("OAUTHBEARER", "XOAUTH2"):
                said = await exchange(up, "orders", token=token, mechanisms=[mechanism])
                assert said == Value("over")
            with pytest.raises(Denied, match='"alice" may not send to "news"'):
                await exchange(up, "news", token=token)
            grouped = issuer.token(groups=["send_news", "recv_news"])
            assert await exchange(up, "news", token=grouped) == Value("over")
            # Without a cache, four logins would send two requests each, besides health checks.
            assert len(issuer.asked) < 8, "the keys must be cached"
            refused = {
                "expired": issuer.token(exp=int(time.time()) - 1),
                "aud": issuer.token(aud="other.default"),
                "signature": issuer.token(stranger),
            }
            for count, (why, bad) in enumerate(refused.items(), 1):
                with pytest.raises(Denied, match="invalid_token"):
                    await exchange(up, "orders", token=bad)
                assert why in refusals(log, count)[-1]["reason"]
        for text in (token, grouped, *refused.values()):
            signature = text.rpartition(".")[2]
            assert signature not in log.read_text()


def refusals(log: Path, count: int) -> list[dict[str, Any]]:
    """Wait until the log has `count` refused logins, and return them."""
    deadline = time.monotonic() + WAIT_S
    while True:
        whole = log.read_text().rpartition("\n")[0]
        records = (json.loads(line) for line in whole.splitlines() if line.startswith("{"))
        found = [record for record in records if record.get("event") == "login-refused"]
        if len(found) >= count:
            return found
        assert time.monotonic() < deadline, f"{len(found)} of {count} refused logins are in the log"


@pytest.mark.anyio
async def test_connection_is_closed_when_its_token_expires(tmp_path: Path) -> None:
    with (
        published() as issuer,
        running(tmp_path / "data", "-f", documents(tmp_path, issuer)) as up,
    ):
        ends = time.time() + 5
        async with connect(up.url(), token=issuer.token(exp=int(ends))) as session:
            async with asyncio.timeout(WAIT_S):
                with pytest.raises(EnMasseError, match="expired") as ended:
                    async with session.receiver("orders") as receiver:
                        async for delivery in receiver:
                            delivery.settle()
            assert isinstance(ended.value, Denied)
            assert int(ends) - 1 < time.time(), "the connection ended too early"


@pytest.mark.anyio
async def test_login_with_a_silent_issuer_asks_to_retry_later(tmp_path: Path) -> None:
    with published() as issuer:
        issuer.silent = True
        with running(tmp_path / "data", "-f", documents(tmp_path, issuer)) as up:
            with pytest.raises((Denied, Unavailable), match="try again later"):
                await exchange(up, "orders", token=issuer.token())


def test_javascript_client_logs_in_with_a_token(tmp_path: Path) -> None:
    client = CLIENTS["javascript"]
    client.prepare()
    with (
        published(KEY) as issuer,
        running(tmp_path / "data", "-f", documents(tmp_path, issuer)) as up,
    ):
        options = {"mechanism": "XOAUTH2", "user": "alice", "count": 10, "size": 10}
        for listener in ("amqp", "amqps"):
            answer = client.call(
                "exchange",
                address="orders",
                settled=False,
                token=issuer.token(),
                **options,
                **place(up, listener),
            )
            assert (answer["received"], answer["intact"]) == (10, True)
        expired = issuer.token(exp=1)
        answer = client.call("exchange", address="orders", token=expired, **options, **place(up))
        assert "refused" in answer
