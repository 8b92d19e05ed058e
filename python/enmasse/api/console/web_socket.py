"""Messaging from a page: AMQP over a WebSocket at the console's own origin.

A page first asks for a token of a messaging user, as an audited and CSRF-protected request, and
then opens the WebSocket with it. The bytes go to the node over a socket within the process that is
authenticated as that user: the page never has a password, and the node applies the user's rights.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence

import structlog
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.websockets import WebSocket, WebSocketDisconnect

from enmasse.api.access import reviews
from enmasse.api.access.message_rights import MessagingUsers
from enmasse.api.access.reviews import CALLER, PRESENT
from enmasse.api.console.paths import WEB_SOCKET
from enmasse.api.errors import error_response
from enmasse.api.http.bodies import object_body
from enmasse.api.messages.documents import parsed
from enmasse.api.platform import Platform
from enmasse.auth.connection_tokens import ConnectionGrant, ConnectionTokens
from enmasse.auth.roles import GROUP, Attributes, Caller
from enmasse.base.clock import rfc3339
from enmasse.base.errors import Code, Denied, EnMasseError, Fault, Invalid
from enmasse.resources import API_VERSION
from enmasse.resources.model import Model

log = structlog.get_logger(__name__)

SUBPROTOCOL = "amqp"
"""OASIS AMQP WebSocket Binding, 2.1."""

TOKEN_SUBPROTOCOL = "base64url.bearer.authorization.k8s.io."
"""Prefix of the subprotocol that carries the token, as in Kubernetes: a page cannot set headers of
a WebSocket, and a URL would be in logs.
"""

PART_BYTES = 32 << 10
"""Maximum bytes of a frame to the page."""

ENDED, REVOKED, GOING_AWAY = 1000, 1008, 1001
"""Close codes (RFC 6455, 7.4.1): the node closed, the right is gone, the platform stops."""


class TokenRequest(Model):
    """The body of a request for a token."""

    user: str | None = None
    """The user name of a MessagingUser of the space; absent: anonymous, in an open space."""


class MessagingPages:
    """The token and the WebSocket."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._users = MessagingUsers(platform)
        self._tokens = ConnectionTokens(platform.clock)

    async def token(self, request: Request) -> Response:
        """POST on `addressspaces/NAME/connectiontokens`: a token for one connection."""
        space = await self._users.space_of(request)
        asked: TokenRequest = parsed(await object_body(request), TokenRequest)
        if asked.user is None and not self._users.is_open(space):
            raise _fault(
                "user", "is required: the address space admits no anonymous client; name a user"
            )
        if asked.user is not None and self._users.find(space, asked.user) is None:
            raise _fault("user", f"no MessagingUser of the space has the user name {asked.user!r}")
        token, expires = self._tokens.issue(
            ConnectionGrant(
                holder=request.scope[CALLER].name,
                namespace=space.metadata.namespace,
                space=space.metadata.name,
                uid=space.metadata.uid or "",
                user=asked.user,
            )
        )
        document = {
            "kind": "ConnectionToken",
            "apiVersion": API_VERSION,
            "user": asked.user,
            "token": token,
            "expires": rfc3339(expires),
            "path": WEB_SOCKET,
            "protocols": [SUBPROTOCOL, f"{TOKEN_SUBPROTOCOL}{token}"],
        }
        return JSONResponse(document, 201)

    async def connect(self, socket: WebSocket) -> None:
        """Pass a WebSocket to the node."""
        caller: Caller = socket.scope[CALLER]
        grant = self._tokens.redeem(_token_of(socket.scope["subprotocols"]), caller.name)
        try:
            if grant is None or not _may(caller, grant):
                raise Denied(
                    Code.LOGIN_REFUSED,
                    "the token of the connection is wrong, used or expired; request another one",
                )
            space = self._users.space_named(grant.namespace, grant.space)
            if space.metadata.uid != grant.uid:
                raise Denied(Code.LOGIN_REFUSED, "the address space of the token was replaced")
            ours = self._platform.engine.connect(f"{grant.space}.{grant.namespace}", grant.user)
        except EnMasseError as error:
            await error_response(error)(socket.scope, socket.receive, socket.send)
            return
        reader, writer = await asyncio.open_connection(sock=ours)
        await socket.accept(subprotocol=SUBPROTOCOL)
        log.info("page connected", user=grant.user, space=grant.space, caller=caller.name)
        try:
            await self._relay(socket, reader, writer, grant)
        finally:
            writer.close()

    async def _relay(
        self,
        socket: WebSocket,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        grant: ConnectionGrant,
    ) -> None:
        """Pass bytes both ways until an end closes or the right is gone."""
        present: Callable[[], Caller | None] = socket.scope[PRESENT]

        async def revoked() -> tuple[int, str]:
            while (now := present()) is not None and _may(now, grant):
                if not self._platform.is_ready():
                    return GOING_AWAY, "the platform is stopping"
                await asyncio.sleep(reviews.CHECK_S)
            return REVOKED, "the session has ended or may no longer do this"

        async with asyncio.TaskGroup() as group:
            ends = [
                group.create_task(one)
                for one in (_from_page(socket, writer), _to_page(socket, reader), revoked())
            ]
            done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for one in ends:
                one.cancel()
        ended = done.pop().result()
        if ended is not None:
            # The page may have gone in the meantime.
            with contextlib.suppress(WebSocketDisconnect, RuntimeError):
                await socket.close(*ended)


async def _from_page(socket: WebSocket, writer: asyncio.StreamWriter) -> tuple[int, str] | None:
    """Write what the page sends. The page waits while the node does."""
    try:
        while True:
            message = await socket.receive()
            if message["type"] == "websocket.disconnect":
                return None
            if message.get("bytes") is None:
                return REVOKED, "AMQP is binary: the page sent a text frame"
            writer.write(message["bytes"])
            await writer.drain()
    except (ConnectionError, OSError):
        return ENDED, "the node closed the connection"


async def _to_page(socket: WebSocket, reader: asyncio.StreamReader) -> tuple[int, str] | None:
    """Send what the node writes. The node waits while the page does."""
    try:
        while part := await reader.read(PART_BYTES):
            await socket.send_bytes(part)
    except WebSocketDisconnect:
        return None
    except (ConnectionError, OSError):
        pass
    return ENDED, "the node closed the connection"


def _token_of(subprotocols: Sequence[str]) -> str:
    given = [one for one in subprotocols if one.startswith(TOKEN_SUBPROTOCOL)]
    return given[0].removeprefix(TOKEN_SUBPROTOCOL) if len(given) == 1 else ""


def _may(caller: Caller, grant: ConnectionGrant) -> bool:
    return caller.may(
        Attributes(
            "create", GROUP, "addressspaces", "connectiontokens", grant.namespace, grant.space
        )
    )


def _fault(field: str, problem: str) -> Invalid:
    fault = Fault(field, problem)
    return Invalid(Code.FIELD_INVALID, str(fault), faults=[fault])
