"""The handshake with an external service, over real sockets."""

from pathlib import Path

import pytest

from authentication_server import authenticator
from enmasse.auth.external import Server, ask
from enmasse.auth.grants import Refused, Unanswered

pytestmark = pytest.mark.anyio


async def test_external_service_returns_the_user_and_its_rights() -> None:
    with authenticator() as known:
        known.passwords = {"alice@corp": "p:ä/@ word"}
        known.authz = {"orders": ["send", "recv"], "news/#": ["recv", "mend"]}
        known.groups = ["manage"]
        server = Server("127.0.0.1", known.port, "default-shop", secure=False)
        grant = await ask(server, "PLAIN", "alice@corp", "p:ä/@ word")
        assert grant.user == "alice@corp"
        assert {right.pattern: right.operations for right in grant.rights} == {
            "orders": ("send", "recv"),
            "news/#": ("recv",),
            "#": ("manage",),
        }
        assert known.asked == [("PLAIN", "default-shop")]
        with pytest.raises(Refused):
            await ask(server, "PLAIN", "alice@corp", "guess")
        with pytest.raises(Refused, match="PLAIN"):
            await ask(server, "OAUTHBEARER", None, "token")


async def test_external_service_is_queried_over_verified_tls_only(tmp_path: Path) -> None:
    with authenticator(tmp_path) as known:
        known.passwords = {"alice": "right"}
        authority = (tmp_path / "ca.crt").read_text()
        server = Server("localhost", known.port, "realm", ca=authority)
        assert (await ask(server, "PLAIN", "alice", "right")).user == "alice"
        for careless in (
            Server("localhost", known.port, "realm"),
            Server("127.0.0.1", known.port, "realm", ca=authority),
        ):
            with pytest.raises(Unanswered):
                await ask(careless, "PLAIN", "alice", "right")
        assert len(known.asked) == 1, "no password was sent to an unverified server"


async def test_unreachable_external_service_is_unanswered_not_refused() -> None:
    with authenticator() as known:
        port = known.port
    with pytest.raises(Unanswered):
        await ask(Server("127.0.0.1", port, "realm", secure=False), "PLAIN", "alice", "right")
