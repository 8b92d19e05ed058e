"""Who may ask for what: the Host header, the bearer of a token and their roles, the size of the
body, how many. Plain ASGI.

A page in a browser on this machine can reach a loopback port. It cannot know the token; and a page
that has made its own name resolve to this machine (DNS rebinding) sends that name as Host, which is
refused. An IP address as Host cannot be such a name.
"""

import ipaddress
from collections import Counter
from collections.abc import Collection
from functools import partial

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from enmasse.api.access import CALLER, STILL, forbidden
from enmasse.api.attributes import attributes_of
from enmasse.api.audit import AS, WHO
from enmasse.api.errors import error_response
from enmasse.api.impersonation import Impersonating, acting
from enmasse.api.requests import TURN
from enmasse.api.turns import Turns
from enmasse.auth.callers import Callers
from enmasse.auth.roles import OWNER_CALLER, Caller
from enmasse.base.errors import Code, Denied, EnMasseError, Exhausted
from enmasse.base.hosts import is_loopback

BODY_BYTES_MAX = 1 << 20
"""Largest request body. A resource has some hundred bytes; Kubernetes allows 3 MiB."""

REQUESTS_MAX = 512
"""Requests answered at one time, watches included. One more is refused; health pages never are."""

REQUESTS_OF_ONE_MAX = 128
"""Of these, those of one token. The owner of the platform has no such bound."""

RESERVED = 64
"""Of these, those that only the owner of the platform gets."""

OPEN_PATHS = frozenset({"/healthz", "/readyz", "/readyz/messaging"})
"""Paths that say nothing about tenants: anybody may ask."""

LOCALLY_OPEN_PATHS = frozenset({"/metrics"})
"""Paths that anybody on this machine may ask; they name addresses, so others need the token."""


class Guard:
    """Lets a request through to the application, or answers why not."""

    def __init__(
        self, app: ASGIApp, *, callers: Callers, hosts: Collection[str], exposed: bool = False
    ) -> None:
        """Guard `app`. `hosts` are the names under which this server may be asked; `exposed`: other
        machines reach it, and what they say in clear text is refused."""
        self._app = app
        self._callers = callers
        self._exposed = exposed
        self._hosts = {host.lower() for host in hosts}
        self._running: Counter[str] = Counter()
        self._turns = Turns()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if (error := self._refusal(scope, headers)) is not None:
            await error_response(error, error.context)(scope, receive, send)
            return
        who = scope.get(WHO, "")
        self._running[who] += 1
        try:
            await self._app(scope, _bounded(receive), send)
        finally:
            self._running[who] -= 1
            if not self._running[who]:
                del self._running[who]

    def _refusal(self, scope: Scope, headers: Headers) -> EnMasseError | None:
        host = headers.get("host", "")
        if not self._is_ours(host):
            return Denied(
                Code.HOST_REFUSED,
                f"this server is not called {host!r}; use its address or localhost",
            )
        # Of the two, the transfer coding counts (RFC 9112, section 6.3).
        chunked = "transfer-encoding" in headers
        length = "0" if chunked else headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > BODY_BYTES_MAX:
            return _too_large()
        path = scope["path"]
        if path in OPEN_PATHS:
            return None
        if self._exposed and scope["scheme"] == "http" and not _is_local(scope):
            return Denied(
                Code.TLS_REQUIRED,
                "other machines are answered over TLS only: ask the port of --https-port, or start"
                " the platform with --insecure",
            )
        open_here = path in LOCALLY_OPEN_PATHS and _is_local(scope)
        try:
            caller = self._caller(headers)
        except EnMasseError as error:
            return error
        if caller is None and not open_here:
            return Denied(
                Code.TOKEN_REQUIRED,
                "send `Authorization: Bearer TOKEN`; TOKEN is in the file `token` of the data"
                " folder, or what `enmasse token create` has printed",
            )
        if caller is not None:
            asked = attributes_of(scope)
            by = caller.by if isinstance(caller, Impersonating) else caller
            scope[WHO], scope[CALLER] = by.name, caller
            if by is not caller:
                scope[AS] = caller.name
            scope[TURN] = partial(self._turns.run, by.name)
            scope[STILL] = lambda: (now := self._caller(headers)) and now.may(asked)
            if not open_here and not caller.may(asked):
                return forbidden(caller, asked)
        return self._crowded(caller)

    def _caller(self, headers: Headers) -> Caller | None:
        """Return who asks; None: nobody who is known.

        Raises: Denied or Invalid if it would ask as somebody else and may not.
        """
        caller = self._callers.bearer(headers.get("authorization"))
        return acting(caller, headers, self._callers) if caller is not None else None

    def _crowded(self, caller: Caller | None) -> EnMasseError | None:
        """Return what is told when there is no room for one more request of a caller."""
        running, room, whose = self._running.total(), REQUESTS_MAX, ""
        if caller is not OWNER_CALLER:
            room -= RESERVED
            of_one = self._running[caller.name if caller else ""]
            if of_one >= REQUESTS_OF_ONE_MAX:
                running, room, whose = of_one, REQUESTS_OF_ONE_MAX, " of this token"
        if running < room:
            return None
        return Exhausted(
            Code.LIMIT_REACHED,
            f"{running} requests{whose} are being answered; try again when one has ended",
            retry_after_s=1.0,
        )

    def _is_ours(self, host: str) -> bool:
        name = host.rpartition("]")[0].lstrip("[") if host.startswith("[") else host
        name = name.partition(":")[0] if name.count(":") == 1 else name
        return name.lower() in self._hosts or _is_address(name)


def _is_local(scope: Scope) -> bool:
    """Whether the peer is on this machine: on loopback, or at the address that it has asked."""
    peer, own = ((scope.get(name) or ("", 0))[0] for name in ("client", "server"))
    return is_loopback(peer) or (peer == own and _is_address(peer))


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _bounded(receive: Receive) -> Receive:
    """Count a body that does not say its length."""
    received = 0

    async def bounded() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > BODY_BYTES_MAX:
            raise _too_large()
        return message

    return bounded


def _too_large() -> Exhausted:
    return Exhausted(
        Code.REQUEST_TOO_LARGE, f"the request body must have at most {BODY_BYTES_MAX} bytes"
    )
