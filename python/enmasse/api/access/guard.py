"""Checks requests: Host header, bearer token and roles, body size, concurrency. Plain ASGI.

A web page on this machine can reach a loopback port but does not know the token. A page that makes
its own name resolve to this machine (DNS rebinding) sends that name as Host, which is refused. An
IP address as Host cannot be such a name.
"""

import ipaddress
from collections import Counter
from collections.abc import Collection
from functools import partial

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from enmasse.api.access.identification import (
    SESSION,
    WEB_SOCKET_METHOD,
    Identification,
    Identified,
    InSession,
)
from enmasse.api.access.impersonation import Impersonating, acting
from enmasse.api.access.reviews import CALLER, PRESENT, STILL, forbidden
from enmasse.api.console.paths import is_console, is_public
from enmasse.api.errors import error_response
from enmasse.api.http.attributes import attributes_of
from enmasse.api.http.bodies import TURN
from enmasse.api.http.body_turns import BodyTurns
from enmasse.api.trail.audit import AS, WHO
from enmasse.auth.callers import Callers
from enmasse.auth.roles import OWNER_CALLER, Caller
from enmasse.base.errors import Code, Denied, EnMasseError, Exhausted
from enmasse.base.hosts import is_loopback

BODY_BYTES_MAX = 1 << 20
"""Maximum request body. A resource has some hundred bytes; Kubernetes allows 3 MiB."""

REQUESTS_MAX = 512
"""Maximum concurrent requests, watches included. Health pages are exempt."""

REQUESTS_OF_ONE_MAX = 128
"""Maximum per token. The owner is exempt."""

RESERVED = 64
"""Slots reserved for the owner."""

OPEN_PATHS = frozenset({"/healthz", "/readyz", "/readyz/messaging"})
"""Public paths, which reveal nothing about tenants."""

LOCALLY_OPEN_PATHS = frozenset({"/metrics"})
"""Paths without a token on this machine; they contain address names, so other machines need one."""


class Guard:
    """Passes a request to the application or refuses it."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        callers: Callers,
        identification: Identification,
        hosts: Collection[str],
        exposed: bool = False,
    ) -> None:
        """Guard `app`. `hosts` are the accepted host names; `exposed`: other machines can connect,
        and their clear-text requests are refused.
        """
        self._app = app
        self._callers = callers
        self._identification = identification
        self._exposed = exposed
        self._hosts = {host.lower() for host in hosts}
        self._running: Counter[str] = Counter()
        self._turns = BodyTurns()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check one request."""
        if scope["type"] == "websocket":
            scope["method"] = WEB_SOCKET_METHOD
        elif scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if (error := await self._refusal(scope, headers)) is not None:
            await error_response(error, error.context)(scope, receive, send)
            return
        counted = _counted(scope)
        self._running[counted] += 1
        try:
            await self._app(scope, _bounded(receive), send)
        finally:
            self._running[counted] -= 1
            if not self._running[counted]:
                del self._running[counted]

    async def _refusal(self, scope: Scope, headers: Headers) -> EnMasseError | None:
        """Return the refusal of a request, or None. Cheap and public checks come first."""
        if (error := self._unfit(scope, headers)) is not None:
            return error
        path = scope["path"]
        if path in OPEN_PATHS:
            return None
        if self._exposed and scope["scheme"] in ("http", "ws") and not _is_local(scope):
            return Denied(
                Code.TLS_REQUIRED,
                "the API serves other machines over TLS only: use the port of"
                " --https-port, or start the platform with --insecure",
            )
        if is_public(scope["method"], path):
            return self._limit_reached(scope, None)
        open_here = path in LOCALLY_OPEN_PATHS and _is_local(scope)
        try:
            identified = await self._identification.of(scope, headers)
            caller = self._acting(identified, headers)
        except EnMasseError as error:
            return error
        if identified is None or caller is None:
            return self._limit_reached(scope, None) if open_here else _unknown()
        asked = attributes_of(scope)
        by = caller.by if isinstance(caller, Impersonating) else caller
        scope[WHO], scope[CALLER] = by.name, caller
        if by is not caller:
            scope[AS] = caller.name
        if identified.session is not None:
            scope[SESSION] = identified.session
        scope[TURN] = partial(self._turns.run, by.name)
        scope[PRESENT] = lambda: self._present(identified, headers)
        scope[STILL] = lambda: (now := self._present(identified, headers)) and now.may(asked)
        if not open_here and not is_console(path) and not caller.may(asked):
            return forbidden(caller, asked)
        return self._limit_reached(scope, caller)

    def _unfit(self, scope: Scope, headers: Headers) -> EnMasseError | None:
        """Return the refusal of a request for another host, or with a body above the limit."""
        host = headers.get("host", "")
        if not self._is_ours(host):
            return Denied(
                Code.HOST_REFUSED,
                f"this server does not have the name {host!r}; use its address or localhost",
            )
        # Transfer-Encoding overrides Content-Length (RFC 9112, 6.3).
        chunked = "transfer-encoding" in headers
        length = "0" if chunked else headers.get("content-length", "0")
        return None if length.isdecimal() and int(length) <= BODY_BYTES_MAX else _too_large()

    def _acting(self, identified: Identified | None, headers: Headers) -> Caller | None:
        """Return the effective caller.

        Raises: Denied or Invalid if it requests an impersonation without the right.
        """
        return acting(identified.caller, headers, self._callers) if identified else None

    def _present(self, identified: Identified, headers: Headers) -> Caller | None:
        """Return the effective caller with its present rights; None once it has none."""
        now = identified.still()
        return acting(now, headers, self._callers) if now is not None else None

    def _limit_reached(self, scope: Scope, caller: Caller | None) -> EnMasseError | None:
        """Return the refusal if the limit of concurrent requests is reached, or None."""
        running, room, whose = self._running.total(), REQUESTS_MAX, ""
        if caller is not OWNER_CALLER:
            room -= RESERVED
            of_one = self._running[_counted(scope)]
            if of_one >= REQUESTS_OF_ONE_MAX:
                running, room, whose = of_one, REQUESTS_OF_ONE_MAX, " of this token"
        if running < room:
            return None
        return Exhausted(
            Code.LIMIT_REACHED,
            f"{running} requests{whose} are in progress; try again later",
            retry_after_s=1.0,
        )

    def _is_ours(self, host: str) -> bool:
        name = host.rpartition("]")[0].lstrip("[") if host.startswith("[") else host
        name = name.partition(":")[0] if name.count(":") == 1 else name
        return name.lower() in self._hosts or _is_address(name)


def _counted(scope: Scope) -> str:
    """Return who a request counts for: each session of a person for itself."""
    within: InSession | None = scope.get(SESSION)
    return within.record.key.name if within is not None else str(scope.get(WHO, ""))


def _unknown() -> Denied:
    return Denied(
        Code.TOKEN_REQUIRED,
        "send `Authorization: Bearer TOKEN`, with the token from the"
        " file `token` of the data folder or from `enmasse token"
        " create`",
    )


def _is_local(scope: Scope) -> bool:
    """Whether the peer is on this machine: on loopback, or at the address that it connected to."""
    peer, own = ((scope.get(name) or ("", 0))[0] for name in ("client", "server"))
    return is_loopback(peer) or (peer == own and _is_address(peer))


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _bounded(receive: Receive) -> Receive:
    """Count the bytes of a body without Content-Length."""
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
