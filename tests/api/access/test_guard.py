"""Who is let in."""

import anyio
import anyio.lowlevel
import httpx2
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Message, Receive, Scope, Send

from asgi_platform import ADDRESSES, TOKEN, Served
from enmasse.api.access import guard
from enmasse.api.access.guard import BODY_BYTES_MAX, Guard
from enmasse.api.trail.audit import WHO
from enmasse.auth.roles import OWNER_CALLER, Caller
from enmasse.base.errors import Code

GOOD = {"Authorization": f"Bearer {TOKEN}"}


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_health_is_for_everybody(served: Served, path: str) -> None:
    async with served.client(peer="192.0.2.1") as http:
        assert (await http.get(path)).status_code == 200


async def test_metrics_are_for_this_machine_or_the_bearer(served: Served) -> None:
    async with served.client() as http:
        assert (await http.get("/metrics")).status_code == 200
    async with served.client(peer="::1") as http:
        assert (await http.get("/metrics")).status_code == 200
    async with served.client(peer="192.0.2.1") as http:
        assert (await http.get("/metrics")).status_code == 401
        assert (await http.get("/metrics", headers=GOOD)).status_code == 200


@pytest.mark.parametrize("authorization", [None, "Bearer wrong", "Basic dGhlLXRva2Vu", "the-token"])
async def test_resources_are_for_the_bearer_alone(
    served: Served, authorization: str | None
) -> None:
    headers = {"Authorization": authorization} if authorization else {}
    async with served.client() as http:
        answer = await http.get(ADDRESSES, headers=headers)
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert answer.json()["reason"] == "Unauthorized"
    assert TOKEN not in answer.text


async def test_wrong_tokens_make_their_source_wait_and_the_right_one_where_it_is_known_does_not(
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
        assert (await http.get(ADDRESSES, headers=GOOD)).status_code == 200, "known here"
        assert (await http.get(ADDRESSES)).status_code == 401, "without a token nothing is tried"
    async with served.client(peer="192.0.2.2") as http:
        tried = [(await http.get(ADDRESSES, headers=unnamed)).status_code for _ in range(6)]
        assert tried == [401] * 5 + [429]
        assert (await http.get(ADDRESSES, headers=GOOD)).status_code == 429, "unseen"
    async with served.client() as http:
        for _ in range(7):
            await http.get(ADDRESSES, headers=unnamed)
        assert (await http.get(ADDRESSES, headers=GOOD)).status_code == 200, "on this machine"


async def test_past_the_bound_of_requests_health_is_still_answered(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "REQUESTS_MAX", 0)
    async with served.client() as http:
        refused = await http.get(ADDRESSES, headers=GOOD)
        assert refused.status_code == 429
        assert refused.headers["Retry-After"] == "1"
        assert (await http.get("/healthz")).status_code == 200


async def test_even_a_path_that_is_not_there_tells_a_stranger_nothing(served: Served) -> None:
    async with served.client() as http:
        assert (await http.get("/nothing")).status_code == 401


@pytest.mark.parametrize("host", ["127.0.0.1:8080", "[::1]:8080", "localhost", "MQ.example.com:1"])
async def test_addresses_and_our_names_are_hosts(served: Served, host: str) -> None:
    async with served.client() as http:
        assert (await http.get("/healthz", headers={"Host": host})).status_code == 200


@pytest.mark.parametrize("host", ["evil.example.com", "localhost.evil.com:8080", "", "[evil]"])
async def test_a_name_made_to_point_here_is_refused(served: Served, host: str) -> None:
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
        # This machine, by an address that others ask too: no other can have it as its own.
        ("http", "192.0.2.7", "192.0.2.7", 200),
        ("https", "192.0.2.1", "192.0.2.7", 200),
    ],
)
async def test_in_clear_only_this_machine_is_answered_where_others_reach_the_port(
    scheme: str, peer: str, server: str, status: int
) -> None:
    callers = Known({"o": OWNER_CALLER})
    for exposed, expected in ((True, status), (False, 200)):
        door = Guard(
            PlainTextResponse("ok"),
            callers=callers,  # type: ignore[arg-type]
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


async def test_a_body_has_a_bound_told_or_not(served: Served) -> None:
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


async def test_one_token_takes_neither_all_places_nor_those_of_the_owner(
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
    door = Guard(application, callers=Known(callers), hosts=["localhost"])  # type: ignore[arg-type]
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
    """Callers by what they send."""

    def __init__(self, callers: dict[str, Caller]) -> None:
        self.callers = callers

    def bearer(self, authorization: str | None) -> Caller | None:
        return self.callers[authorization or ""]

    def asks(self, authorization: str | None, source: str) -> Caller | None:
        return self.bearer(authorization)
