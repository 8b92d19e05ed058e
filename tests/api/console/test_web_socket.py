"""Messaging from a page of the console."""

import asyncio
import base64
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    RejectConnection,
    Request,
    TextMessage,
)

from asgi_platform import SPACES, TOKEN, USERS, Served, bearer
from browsers import SESSION, Browser
from enmasse.api.access import reviews
from enmasse.api.http.server import Server, bind
from enmasse.auth.connection_tokens import UNUSED_OF_ONE_MAX
from enmasse.resources import Key
from enmasse.resources.api_token import TOKENS_NAMESPACE
from tokens import token_secret

pytestmark = pytest.mark.anyio
TOKENS = f"{SPACES}/shop/connectiontokens"
USER = {
    "kind": "MessagingUser",
    "apiVersion": "enmasse.io/v1beta1",
    "metadata": {"name": "shop.alice", "namespace": "default"},
    "spec": {
        "username": "alice",
        "authentication": {"type": "password", "password": base64.b64encode(b"secret").decode()},
        "authorization": [{"operations": ["send"], "addresses": ["orders"]}],
    },
}


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reviews, "CHECK_S", 0.05)


@pytest.fixture(autouse=True)
async def shop(served: Served) -> AsyncIterator[None]:
    space = {
        "kind": "AddressSpace",
        "apiVersion": "enmasse.io/v1beta1",
        "metadata": {"name": "shop", "namespace": "default"},
        "spec": {"type": "standard", "plan": "standard-unlimited"},
    }
    answer = await served.http.post(SPACES, json=space)
    assert answer.status_code == 201, answer.text
    answer = await served.http.post(USERS, json=USER)
    assert answer.status_code == 201, answer.text
    await served.settle()
    yield
    for _, _, far in served.engine.connected:
        far.close()


class Page:
    """The WebSocket of a page, byte by byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._protocol = WSConnection(ConnectionType.CLIENT)

    async def send(self, event: Event) -> None:
        self._writer.write(self._protocol.send(event))
        await self._writer.drain()

    async def event(self) -> Event:
        """Return the next event; the peer's end without one is a close."""
        async with asyncio.timeout(5):
            while True:
                for event in self._protocol.events():
                    return event
                self._protocol.receive_data(await self._reader.read(4096) or None)


@asynccontextmanager
async def listening(served: Served) -> AsyncIterator[int]:
    """Serve on a free port."""
    listener = bind("127.0.0.1", 0)
    server = Server(served.app, listener)
    running = asyncio.ensure_future(server.run_until_stopped())
    yield listener.getsockname()[1]
    server.stop()
    async with asyncio.timeout(5):
        await running


@asynccontextmanager
async def opening(
    port: int, token: str, headers: dict[str, str], path: str = "/console/ws"
) -> AsyncIterator[tuple[Page, Event]]:
    """Open a WebSocket; yields it and the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    page = Page(reader, writer)
    wanted = ["amqp", f"base64url.bearer.authorization.k8s.io.{token}"]
    extra = [(name.encode(), value.encode()) for name, value in headers.items()]
    await page.send(Request(f"127.0.0.1:{port}", path, subprotocols=wanted, extra_headers=extra))
    yield page, await page.event()
    writer.close()


def from_page(page: Browser, port: int, **changed: str) -> dict[str, str]:
    """The headers that a browser sends from the console's page."""
    (cookie,) = (f"{one.name}={one.value}" for one in page.http.cookies.jar)
    return {"Cookie": cookie, "Origin": f"http://127.0.0.1:{port}"} | changed


async def token_of(page: Browser, **given: Any) -> str:
    answer = await page.send("POST", TOKENS, json={"user": "alice"} | given)
    assert answer.status_code == 201, answer.text
    token: str = answer.json()["token"]
    return token


async def received(far: socket.socket, count: int) -> bytes:
    far.setblocking(False)
    loop, found = asyncio.get_running_loop(), b""
    async with asyncio.timeout(5):
        while len(found) < count and (part := await loop.sock_recv(far, 65536)):
            found += part
    return found


async def test_bytes_reach_the_node_as_the_user_and_return(served: Served, tenant: Browser) -> None:
    async with listening(served) as port:
        headers, token = from_page(tenant, port), await token_of(tenant)
        async with opening(port, token, headers) as (page, answer):
            assert isinstance(answer, AcceptConnection) and answer.subprotocol == "amqp"
            space, user, far = served.engine.connected[-1]
            assert (space, user) == ("shop.default", "alice")
            sent = os.urandom(100_000)
            await page.send(BytesMessage(sent))
            assert await received(far, len(sent)) == sent
            far.sendall(b"AMQP\0\1\0\0")
            event = await page.event()
            assert isinstance(event, BytesMessage) and bytes(event.data) == b"AMQP\0\1\0\0"
            far.close()
            closed = await page.event()
            assert isinstance(closed, CloseConnection) and closed.code == 1000


async def test_a_token_opens_one_connection_and_only_for_its_holder(
    served: Served, tenant: Browser, owner: Browser
) -> None:
    async with listening(served) as port:
        token = await token_of(tenant)
        async with opening(port, token, from_page(owner, port)) as (_, answer):
            assert isinstance(answer, RejectConnection) and answer.status_code == 401
        # The attempt of another person has used it up.
        async with opening(port, token, from_page(tenant, port)) as (_, answer):
            assert isinstance(answer, RejectConnection) and answer.status_code == 401
        token = await token_of(tenant)
        for accepted in (True, False):
            async with opening(port, token, from_page(tenant, port)) as (_, answer):
                assert isinstance(answer, AcceptConnection) == accepted


async def test_an_expired_and_a_surplus_token_are_refused(served: Served, tenant: Browser) -> None:
    async with listening(served) as port:
        expired = await token_of(tenant)
        served.clock.advance(61)
        surplus = await token_of(tenant)
        for _ in range(UNUSED_OF_ONE_MAX):
            await token_of(tenant)
        for token in (expired, surplus, "", "made-up"):
            async with opening(port, token, from_page(tenant, port)) as (_, answer):
                assert isinstance(answer, RejectConnection) and answer.status_code == 401


@pytest.mark.parametrize("origin", ["http://evil.example", "http://127.0.0.1:1", "null", None])
async def test_a_foreign_origin_is_refused(
    served: Served, tenant: Browser, origin: str | None
) -> None:
    async with listening(served) as port:
        headers, token = from_page(tenant, port), await token_of(tenant)
        if origin is None:
            del headers["Origin"]
        else:
            headers["Origin"] = origin
        async with opening(port, token, headers) as (_, answer):
            assert isinstance(answer, RejectConnection) and answer.status_code == 403
        assert not served.engine.connected


async def test_no_session_and_a_foreign_host_are_refused(served: Served, tenant: Browser) -> None:
    async with listening(served) as port:
        token = await token_of(tenant)
        async with opening(port, token, {"Origin": f"http://127.0.0.1:{port}"}) as (_, answer):
            assert isinstance(answer, RejectConnection) and answer.status_code == 401


async def test_other_paths_ignore_the_upgrade(served: Served, tenant: Browser) -> None:
    async with listening(served) as port:
        headers = from_page(tenant, port)
        async with opening(port, "", headers, "/console/session") as (_, answer):
            assert isinstance(answer, RejectConnection) and answer.status_code == 200


async def test_a_client_with_a_bearer_token_connects(served: Served) -> None:
    async with listening(served) as port:
        owner = served.client()
        owner.headers["Authorization"] = f"Bearer {TOKEN}"
        token = (await owner.post(TOKENS, json={"user": "alice"})).json()["token"]
        async with opening(port, token, {"Authorization": f"Bearer {TOKEN}"}) as (_, answer):
            assert isinstance(answer, AcceptConnection)


@pytest.mark.parametrize("end", ["logout", "role", "token"])
async def test_the_connection_ends_with_the_session(
    served: Served, tenant: Browser, end: str
) -> None:
    async with listening(served) as port:
        headers, token = from_page(tenant, port), await token_of(tenant)
        async with opening(port, token, headers) as (page, answer):
            assert isinstance(answer, AcceptConnection)
            if end == "logout":
                assert (await tenant.send("DELETE", SESSION)).status_code == 204
            elif end == "role":
                await served.store.put([token_secret("ci.x", tenant_view="default")])
            else:
                await served.store.delete([Key("Secret", TOKENS_NAMESPACE, "ci")])
            closed = await page.event()
            assert isinstance(closed, CloseConnection) and closed.code == 1008
            assert await received(served.engine.connected[-1][2], 1) == b""


async def test_a_text_frame_ends_the_connection(served: Served, tenant: Browser) -> None:
    async with listening(served) as port:
        headers, token = from_page(tenant, port), await token_of(tenant)
        async with opening(port, token, headers) as (page, _):
            await page.send(TextMessage("AMQP"))
            closed = await page.event()
            assert isinstance(closed, CloseConnection) and closed.code == 1008


@pytest.mark.parametrize(
    ("role", "status"), [("tenant_edit", 201), ("tenant_view", 403), ("service_admin", 403)]
)
async def test_only_editors_get_tokens(served: Served, role: str, status: int) -> None:
    async with await bearer(served, "one.x", **{role: "*"}) as client:
        assert (await client.post(TOKENS, json={"user": "alice"})).status_code == status


@pytest.mark.parametrize("user", ["undeclared", "", None])
async def test_an_unknown_user_is_named(served: Served, tenant: Browser, user: str | None) -> None:
    answer = await tenant.send("POST", TOKENS, json={"user": user})
    assert answer.status_code == 422, answer.text
    assert answer.json()["details"]["causes"][0]["field"] == "user"


async def test_a_token_needs_the_csrf_token(tenant: Browser) -> None:
    assert (await tenant.http.post(TOKENS, json={"user": "alice"})).status_code == 403
