"""The guard of the API: authentication, hosts and limits."""

from typing import Any

import anyio
import anyio.lowlevel
import httpx2
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Message, Receive, Scope, Send

from asgi_platform import ADDRESSES, TOKEN, Served
from enmasse.api.access import guard
from enmasse.api.access.guard import BODY_BYTES_MAX, Guard
from enmasse.api.access.identification import Identification
from enmasse.api.trail.audit import WHO
from enmasse.auth.roles import OWNER_CALLER, Caller
from enmasse.base.errors import Code

NO_SESSIONS: Any = None
"""Requests of these tests have tokens."""

GOOD = {"Authorization": f"Bearer {TOKEN}"}


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_health_needs_no_authentication(served: Served, path: str) -> None:
    async with served.client(peer="192.0.2.1") as http:
        assert (await http.get(path)).status_code == 200


async def test_metrics_need_a_loopback_peer_or_the_token(served: Served) -> None:
    async with served.client() as http:
        assert (await http.get("/metrics")).status_code == 200
    async with served.client(peer="::1") as http:
        assert (await http.get("/metrics")).status_code == 200
    async with served.client(peer="192.0.2.1") as http:
        assert (await http.get("/metrics")).status_code == 401
        assert (await http.get("/metrics", headers=GOOD)).status_code == 200


@pytest.mark.parametrize("authorization", [None, "Bearer wrong", "Basic dGhlLXRva2Vu", "the-token"])
async def test_resources_need_the_token(served: Served, authorization: str | None) -> None:
    headers = {"Authorization": authorization} if authorization else {}
    async with served.client() as http:
        answer = await http.get(ADDRESSES, headers=headers)
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert answer.json()["reason"] == "Unauthorized"
    assert TOKEN not in answer.text


async def test_wrong_tokens_throttle_their_source_but_not_a_token_known_from_it(
    served: Served,
) -> None:
    wrong = {"Authorization": "Bearer ci.wrong"}
    async with served.client(peer="192.0.2.1") as http:
        assert (await http.get(ADDRESSES, headers=GOOD)).status_code == 200
        tried = [(await http.get(ADDRESSES, headers=wrong)).status_code for _ in range(7)]
        assert tried == [401] * 5 + [429] * 2
        refused = await http.get(ADDRESSES, headers=wrong)
        assert refused.headers["Retry-After"] == "1"
        assert "wrong tokens" in refused.json()["message"]
        unnamed = {"Authorization": "Bearer wrong"}
        tried = [(await http.get(ADDRESSES, headers=unnamed)).status_code for _ in range(6)]
        assert tried == [401] * 5 + [429]
        assert (await http.get(ADDRESSES, headers=GOOD)).status_code == 200, "a known token"
        assert (await http.get(ADDRESSES)).status_code == 401, "no token is no failed attempt"
    async with served.client(peer="192.0.2.2") as http:
        tried = [(await http.get(ADDRESSES, headers=unnamed)).status_code for _ in range(6)]
        assert tried == [401] * 5 + [429]
        assert (await http.get(ADDRESSES, headers=GOOD)).status_code == 429, "not known here"
    async with served.client() as http:
        for _ in range(7):
            await http.get(ADDRESSES, headers=unnamed)
        assert (await http.get(ADDRESSES, headers=GOOD)).status_code == 200, "a local peer"


async def test_health_is_served_beyond_the_request_limit(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "REQUESTS_MAX", 0)
    async with served.client() as http:
        refused = await http.get(ADDRESSES, headers=GOOD)
        assert refused.status_code == 429
        assert refused.headers["Retry-After"] == "1"
        assert (await http.get("/healthz")).status_code == 200


async def test_unknown_path_without_a_token_returns_401(served: Served) -> None:
    async with served.client() as http:
        assert (await http.get("/nothing")).status_code == 401


@pytest.mark.parametrize("host", ["127.0.0.1:8080", "[::1]:8080", "localhost", "MQ.example.com:1"])
async def test_host_header_accepts_ip_addresses_and_configured_names(
    served: Served, host: str
) -> None:
    async with served.client() as http:
        assert (await http.get("/healthz", headers={"Host": host})).status_code == 200


@pytest.mark.parametrize("host", ["evil.example.com", "localhost.evil.com:8080", "", "[evil]"])
async def test_unknown_host_header_is_forbidden(served: Served, host: str) -> None:
    async with served.client() as http:
        answer = await http.get("/metrics", headers={"Host": host, **GOOD})
    assert answer.status_code == 403
    assert answer.json()["reason"] == "Forbidden"


@pytest.mark.parametrize(
    ("scheme", "peer", "server", "status"),
    [
        ("http", "192.0.2.1", "192.0.2.7", 403),
        ("http", "127.0.0.1", "127.0.0.1", 200),
        ("http", "::ffff:127.0.0.1", "[::ffff:127.0.0.1]", 200),
        ("http", "::ffff:192.0.2.1", "[::ffff:192.0.2.7]", 403),
        # A local peer by its external address: no other host can have this source address.
        ("http", "192.0.2.7", "192.0.2.7", 200),
        ("https", "192.0.2.1", "192.0.2.7", 200),
    ],
)
async def test_exposed_plaintext_listener_serves_only_local_peers(
    scheme: str, peer: str, server: str, status: int
) -> None:
    callers: Any = Known({"o": OWNER_CALLER})
    for exposed, expected in ((True, status), (False, 200)):
        door = Guard(
            PlainTextResponse("ok"),
            callers=callers,
            identification=Identification(callers, NO_SESSIONS, None),
            hosts=[],
            exposed=exposed,
        )
        transport = httpx2.ASGITransport(door, client=(peer, 1))
        async with httpx2.AsyncClient(
            transport=transport, base_url=f"{scheme}://{server}", headers={"Authorization": "o"}
        ) as http:
            answers = [await http.get(path) for path in ("/version", "/metrics")]
            health = [await http.get(path) for path in ("/healthz", "/readyz")]
        assert {one.status_code for one in answers} == {expected}
        assert {one.status_code for one in health} == {200}
        if expected == 403:
            assert answers[0].json()["details"]["code"] == Code.TLS_REQUIRED
            assert "--insecure" in answers[0].json()["message"]


async def test_body_size_is_bounded_with_and_without_content_length(served: Served) -> None:
    body = b"x" * (BODY_BYTES_MAX + 1)
    told = await served.http.post(ADDRESSES, content=body)
    assert told.status_code == 413

    async def untold():  # type: ignore[no-untyped-def]
        for start in range(0, len(body), 65536):
            yield body[start : start + 65536]

    counted = await served.http.post(ADDRESSES, content=untold())
    assert counted.status_code == 413
    assert counted.json()["reason"] == "RequestEntityTooLarge"
    odd = await served.http.get(ADDRESSES, headers={"Content-Length": "many"})
    assert odd.status_code == 413


async def test_requests_of_one_token_are_bounded_and_the_owner_has_a_reserve(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "REQUESTS_MAX", 6)
    monkeypatch.setattr(guard, "RESERVED", 1)
    monkeypatch.setattr(guard, "REQUESTS_OF_ONE_MAX", 3)
    held, going = anyio.Event(), []

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        going.append(scope[WHO])
        await held.wait()

    callers = {name: Caller(name, {"tenant-view": frozenset({"default"})}) for name in "ab"} | {
        "o": OWNER_CALLER
    }
    known: Any = Known(callers)
    identification = Identification(known, NO_SESSIONS, None)
    door = Guard(application, callers=known, identification=identification, hosts=["localhost"])
    refused: list[str] = []

    async def ask(name: str) -> None:
        scope = {
            "type": "http", "method": "GET", "path": ADDRESSES, "client": ("127.0.0.1", 1),
            "query_string": b"",
            "headers": [(b"host", b"localhost"), (b"authorization", name.encode())],
        }  # fmt: skip

        async def answered(message: Message) -> None:
            if message.get("status") == 429:
                refused.append(name)

        await door(scope, nothing, answered)

    async with anyio.create_task_group() as tasks:
        for name in "aaaabbboo":
            tasks.start_soon(ask, name)
        while len(going) + len(refused) < 9:
            await anyio.lowlevel.checkpoint()
        held.set()
    assert sorted(refused) == ["a", "b", "o"]
    assert len(going) == 6


async def nothing() -> Message:
    return {"type": "http.disconnect"}


class Known:
    """Callers by their `Authorization` header."""

    def __init__(self, callers: dict[str, Caller]) -> None:
        self.callers = callers

    def bearer(self, authorization: str | None) -> Caller | None:
        return self.callers[authorization or ""]

    def authenticate(self, authorization: str | None, source: str) -> Caller | None:
        return self.bearer(authorization)
