"""Connections and links of clients, for the tenants of their namespace.

A connection belongs to the namespace of its address space. Rates cover the time since the previous
listing, as far as that is recent; the node counts only totals.
"""

import asyncio
import json
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from enmasse.api.access.reviews import while_allowed
from enmasse.api.messages.send import address_of
from enmasse.api.platform import Platform
from enmasse.api.resources.queries import number
from enmasse.base.errors import Code, Fault, Invalid, Missing
from enmasse.engines import Connection, LinkStatistics
from enmasse.resources import API_VERSION, Address

PAGE_MAX = 500
"""Maximum connections of a page."""

WINDOW_MIN_S, WINDOW_MAX_S = 1.0, 60.0
LINKS_KEPT_MAX = 10_000
"""Maximum links whose last readings are kept; the one that was read longest ago is dropped."""

TRANSPORTS_OVER_TLS = ("amqps", "mqtts", "wss")

TRACE_FRAMES, TRACE_FRAMES_MAX = 200, 1000
"""Frames of a trace: default and maximum."""

TRACE_S, TRACE_MAX_S = 30, 120
"""Duration of a trace in seconds: default and maximum."""

_FRAME_MEMBERS = ("atMs", "direction", "frames")

Document = dict[str, Any]


class _Totals:
    """Totals of all connections at two moments, for rates that all readers share."""

    def __init__(self) -> None:
        self._samples: list[tuple[float, dict[int, Connection]]] = []

    def add(self, now_s: float, connections: Sequence[Connection]) -> None:
        """Record the totals, at most once per `WINDOW_MIN_S`."""
        if self._samples and now_s - self._samples[-1][0] < WINDOW_MIN_S:
            return
        self._samples = [*self._samples[-1:], (now_s, {one.id: one for one in connections})]

    def rates(self, now: Connection, now_s: float) -> tuple[float, float]:
        """Return deliveries from and to a client per second."""
        for then_s, connections in self._samples:
            before = connections.get(now.id)
            if before is not None and WINDOW_MIN_S <= now_s - then_s <= WINDOW_MAX_S:
                window_s = now_s - then_s
                return (
                    round((now.messages_in - before.messages_in) / window_s, 1),
                    round((now.messages_out - before.messages_out) / window_s, 1),
                )
        return 0.0, 0.0


class _Deliveries:
    """Deliveries of links at their last two readings, for rates that all readers share."""

    def __init__(self) -> None:
        self._readings: OrderedDict[tuple[int, str, str], list[tuple[float, int]]] = OrderedDict()

    def rate(self, link: LinkStatistics, now_s: float) -> float | None:
        """Record a reading; return deliveries per second since one before, None without one."""
        key = link.connection, link.role, link.name
        known = self._readings.setdefault(key, [])
        self._readings.move_to_end(key)
        if not known or now_s - known[-1][0] >= WINDOW_MIN_S:
            self._readings[key] = known = [*known[-1:], (now_s, link.deliveries)]
        while len(self._readings) > LINKS_KEPT_MAX:
            self._readings.popitem(last=False)
        then_s, deliveries = known[0]
        # A link that attached again under its name counts from zero.
        if not WINDOW_MIN_S <= now_s - then_s <= WINDOW_MAX_S or link.deliveries < deliveries:
            return None
        return round((link.deliveries - deliveries) / (now_s - then_s), 1)


class ConnectionPages:
    """The paths of connections in a namespace, and of links at an address."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._totals = _Totals()
        self._deliveries = _Deliveries()

    async def several(self, request: Request) -> Response:
        """The connections of a namespace, of one space or at one address, by number."""
        namespace, query = request.path_params["namespace"], request.query_params
        found = await self._within(namespace)
        if (space := query.get("space")) is not None:
            found = [one for one in found if one.space == f"{space}.{namespace}"]
        if (address := query.get("address")) is not None:
            at = await self._attached(namespace, space, address)
            found = [one for one in found if one.id in at]
        after = _start(query.get("continue"))
        found = [one for one in found if one.id > after]
        limit = min(number(query, "limit") or PAGE_MAX, PAGE_MAX)
        page = found[:limit]
        metadata: Document = {"remainingItemCount": len(found) - len(page)}
        if len(found) > len(page):
            metadata["continue"] = str(page[-1].id)
        document = {
            "kind": "ConnectionList",
            "apiVersion": API_VERSION,
            "metadata": metadata,
            "items": [self._shown(one) for one in page],
        }
        self._totals.add(self._platform.clock.monotonic(), found)
        return JSONResponse(document)

    async def one(self, request: Request) -> Response:
        """One connection with its links; DELETE closes it."""
        connection = await self._named(request)
        if request.method == "DELETE":
            await self._platform.engine.close_connection(connection.id)
            details = {"kind": "connections", "name": str(connection.id)}
            return JSONResponse(
                {
                    "kind": "Status",
                    "apiVersion": "v1",
                    "metadata": {},
                    "status": "Success",
                    "details": details,
                }
            )
        links, _ = await self._platform.engine.links(connection=connection.id)
        names = self._names(request.path_params["namespace"])
        shown = self._shown(connection)
        return JSONResponse(
            shown | {"links": [self._link(one, connection, names) for one in links]}
        )

    async def trace(self, request: Request) -> Response:
        """The next frames of a connection as server-sent events, without payloads and secrets."""
        connection, query = await self._named(request), request.query_params
        frames = min(number(query, "frames") or TRACE_FRAMES, TRACE_FRAMES_MAX)
        seconds = min(number(query, "seconds") or TRACE_S, TRACE_MAX_S)
        lines = while_allowed(request, self._frames(connection.id, frames, seconds))
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(lines, media_type="text/event-stream", headers=headers)

    async def _frames(self, connection: int, count: int, seconds: int) -> AsyncIterator[str]:
        yield ": tracing\n\n"
        ends = asyncio.get_running_loop().time() + seconds
        reason = "frames"
        # Closed here, so that the trace ends with its reader.
        async with aclosing(self._platform.engine.frames(connection)) as traced:
            try:
                for _ in range(count):
                    async with asyncio.timeout_at(ends):
                        event = await anext(traced)
                    data = json.dumps({name: event.get(name) for name in _FRAME_MEMBERS})
                    yield f"event: frame\ndata: {data}\n\n"
            except TimeoutError:
                reason = "seconds"
        yield f'event: end\ndata: {{"reason": "{reason}"}}\n\n'

    async def links(self, request: Request) -> Response:
        """The links at an address."""
        address = await address_of(self._platform, request)
        links, more = await self._platform.engine.links(address_uid=address.metadata.uid or "")
        by_id = {one.id: one for one in await self._within(request.path_params["namespace"])}
        names = {address.metadata.uid or "": address.name}
        items = [
            self._link(one, by_id[one.connection], names)
            for one in links
            if one.connection in by_id
        ]
        return JSONResponse(
            {
                "kind": "LinkList",
                "apiVersion": API_VERSION,
                "metadata": {"remainingItemCount": more},
                "items": items,
            }
        )

    async def _within(self, namespace: str) -> list[Connection]:
        """Return the connections of a namespace."""
        every = await self._platform.engine.connections()
        return [one for one in every if one.space and _namespace(one.space) == namespace]

    async def _named(self, request: Request) -> Connection:
        """Return the connection of a request.

        Raises: Missing if the namespace has none with that number.
        """
        text = request.path_params["id"]
        for one in await self._within(request.path_params["namespace"]):
            if str(one.id) == text:
                return one
        raise Missing(Code.CONNECTION_MISSING, f"connection {text[:20]!r} not found")

    async def _attached(self, namespace: str, space: str | None, address: str) -> set[int]:
        """Return the connections with a link at an address.

        Raises: Missing if there is no such address.
        """
        uids = [
            one.metadata.uid or ""
            for one in self._platform.store.list("Address", namespace)
            if isinstance(one, Address) and one.name == address and space in (None, one.space)
        ]
        if not uids:
            raise Missing(Code.RESOURCE_MISSING, f"address {address!r} not found")
        found: set[int] = set()
        for uid in uids:
            links, _ = await self._platform.engine.links(address_uid=uid)
            found |= {one.connection for one in links}
        return found

    def _names(self, namespace: str) -> dict[str, str]:
        """Return the names of the addresses of a namespace by uid."""
        listed = self._platform.store.list("Address", namespace)
        return {one.metadata.uid or "": one.name for one in listed if isinstance(one, Address)}

    def _link(self, one: LinkStatistics, connection: Connection, names: dict[str, str]) -> Document:
        rate = self._deliveries.rate(one, self._platform.clock.monotonic())
        shown = _link(one, connection, names)
        return shown if rate is None else shown | {"deliveriesPerSecond": rate}

    def _shown(self, one: Connection) -> Document:
        name, _, namespace = (one.space or "").partition(".")
        rate_in, rate_out = self._totals.rates(one, self._platform.clock.monotonic())
        shown: Document = {
            "kind": "Connection",
            "apiVersion": API_VERSION,
            "metadata": {"name": str(one.id), "namespace": namespace},
            "id": str(one.id),
            "namespace": namespace,
            "space": name,
            "user": one.user,
            "container": one.container,
            "peer": one.peer,
            "product": one.product,
            "transport": one.transport,
            "protocol": "MQTT" if one.transport.startswith("mqtt") else "AMQP 1.0",
            "tls": one.transport in TRANSPORTS_OVER_TLS,
            "linkCount": one.links,
            "messagesIn": one.messages_in,
            "bytesIn": one.bytes_in,
            "messagesOut": one.messages_out,
            "bytesOut": one.bytes_out,
            "messagesInPerSecond": rate_in,
            "messagesOutPerSecond": rate_out,
        }
        return {member: value for member, value in shown.items() if value is not None}


def _link(one: LinkStatistics, connection: Connection, names: dict[str, str]) -> Document:
    known = [names[uid] for uid in one.addresses if uid in names]
    shown: Document = {
        "connection": str(one.connection),
        "name": one.name,
        "role": one.role,
        "address": known[0] if len(known) == 1 else None,
        "addresses": known,
        "user": connection.user,
        "container": connection.container,
        "credit": one.credit,
        "unsettled": one.unsettled,
        "deliveries": one.deliveries,
        "outcomes": one.outcomes._asdict() if one.outcomes is not None else None,
    }
    return {member: value for member, value in shown.items() if value is not None}


def _namespace(space: str) -> str:
    """Return the namespace of a full name, `NAME.NAMESPACE`; names have no dots."""
    return space.partition(".")[2]


def _start(token: str | None) -> int:
    if token is None:
        return -1
    if not token.isascii() or not token.isdecimal() or len(token) > 18:
        fault = Fault("continue", "is not a continue token")
        raise Invalid(Code.REQUEST_INVALID, str(fault), faults=[fault])
    return int(token)
