"""Below an address space: its retained messages and its MQTT sessions."""

import base64
import binascii
import json
from typing import Any

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from enmasse.api.access.message_rights import MessagingUsers
from enmasse.api.messages.documents import fault
from enmasse.api.messages.operations import message_document
from enmasse.api.platform import Platform
from enmasse.api.resources.queries import number
from enmasse.base.errors import Code, Missing
from enmasse.engines import (
    MqttSession,
    Operation,
    SessionKind,
    SessionName,
    Slice,
    StoredMessage,
)
from enmasse.engines.protocol import SLICE_MESSAGES_MAX
from enmasse.messaging import Data
from enmasse.resources import API_VERSION

SESSIONS_MAX = 500
"""Maximum sessions of a page."""

Document = dict[str, Any]


class MqttPages:
    """The paths `addressspaces/NAME/retained` and `addressspaces/NAME/mqttsessions`."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._users = MessagingUsers(platform)

    async def retained(self, request: Request) -> Response:
        """The retained messages of a space whose topic matches `filter`; DELETE removes them.

        One request covers at most 1,000 messages; `continue` begins the next one.
        """
        query = request.query_params
        deletes = request.method == "DELETE"
        topic_filter = query.get("filter")
        if deletes and topic_filter is None:
            raise fault("filter", "is required: the topics to clear; '#' is all of them")
        part = Slice(
            limit=min(number(query, "limit") or SLICE_MESSAGES_MAX, SLICE_MESSAGES_MAX),
            topic_filter=topic_filter,
            after=query.get("continue"),
        )
        uid = f"{await self._space_uid(request)}/retained"
        operation = Operation.PURGE if deletes else Operation.PEEK
        done = await self._platform.engine.manage(uid, operation, part)
        metadata = {} if done.rest is None else {"continue": done.rest}
        if deletes:
            return JSONResponse(
                {
                    "kind": "RetainedMessageDeletion",
                    "apiVersion": API_VERSION,
                    "metadata": metadata,
                    "messages": done.messages,
                    "bytes": done.bytes,
                }
            )
        items = [_retained(one) for one in done.found if not _is_removal(one)]
        return JSONResponse(_list("RetainedMessageList", metadata, items))

    async def sessions(self, request: Request) -> Response:
        """The sessions of a space, by user and client id; DELETE ends the one of `clientId` and
        `user` (without it: of anonymous clients), and of `kind` and `link` for an AMQP client.
        """
        uid, query = await self._space_uid(request), request.query_params
        engine = self._platform.engine
        if request.method == "DELETE":
            name = _named(query)
            if not await engine.end_mqtt_session(uid, name):
                owner = "anonymous clients" if name.user is None else f"user {name.user!r}"
                raise Missing(
                    Code.RESOURCE_MISSING,
                    f"{owner}: {name.kind} session {name.client_id[:100]!r} not found",
                )
            return JSONResponse(_deleted(name.client_id))
        limit = min(number(query, "limit") or SESSIONS_MAX, SESSIONS_MAX)
        found, more = await engine.mqtt_sessions(uid, after=_start(query), limit=limit)
        metadata: Document = {"remainingItemCount": more}
        if more and found:
            metadata["continue"] = _token(found[-1])
        return JSONResponse(_list("MqttSessionList", metadata, [_session(one) for one in found]))

    async def _space_uid(self, request: Request) -> str:
        """Return the uid of the space of a request. Raises: Missing if it does not exist."""
        return (await self._users.space_of(request)).metadata.uid or ""


def _list(kind: str, metadata: Document, items: list[Document]) -> Document:
    return {"kind": kind, "apiVersion": API_VERSION, "metadata": metadata, "items": items}


def _deleted(name: str) -> Document:
    details = {"kind": "mqttsessions", "name": name}
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return status | {"details": details}


def _is_removal(one: StoredMessage) -> bool:
    """Whether a message removes that of its topic, and is about to expire."""
    body = None if one.message is None else one.message.body
    return isinstance(body, Data) and not body.content


def _retained(one: StoredMessage) -> Document:
    topic = None if one.message is None else one.message.properties.to
    return {"topic": topic} | message_document(one, "typed")


def _named(query: QueryParams) -> SessionName:
    """Return the session that a request names. Raises: Invalid."""
    client_id, kind = query.get("clientId"), query.get("kind", SessionKind.CLIENT)
    if not client_id:
        raise fault("clientId", "is required: the client id of the session")
    if kind not in set(SessionKind):
        raise fault("kind", f"is not one of {', '.join(SessionKind)}")
    link = query.get("link")
    if (link is not None) != (kind == SessionKind.WILL):
        raise fault("link", "is required for a will, and for nothing else")
    return SessionName(query.get("user"), client_id, SessionKind(kind), link)


def _session(one: MqttSession) -> Document:
    shown: Document = {
        "kind": one.name.kind,
        "clientId": one.name.client_id,
        "connected": one.connection is not None,
        "subscriptionCount": one.subscription_count,
        "subscriptions": [
            {"filter": each.filter, "qos": each.qos, "noLocal": each.no_local}
            for each in one.subscriptions
        ],
        # Without a time it does not end by itself.
        **({} if one.expiry_s is None else {"expirySeconds": one.expiry_s}),
    }
    if one.name.user is not None:
        shown["user"] = one.name.user
    if one.name.link is not None:
        shown["link"] = one.name.link
    if one.connection is not None:
        shown["connection"] = str(one.connection)
    if one.will is not None:
        shown["will"] = {
            "topic": one.will.topic,
            "qos": one.will.qos,
            "retain": one.will.retain,
            "delaySeconds": one.will.delay_s,
            "bytes": one.will.bytes,
        }
    return shown


def _token(last: MqttSession) -> str:
    return base64.urlsafe_b64encode(json.dumps(last.name).encode()).decode()


def _start(query: QueryParams) -> SessionName | None:
    token = query.get("continue")
    if token is None:
        return None
    try:
        user, client_id, kind, link = json.loads(base64.urlsafe_b64decode(token))
        name = SessionName(user, client_id, SessionKind(kind), link)
    except (binascii.Error, ValueError, TypeError):
        raise fault("continue", "is not a continue token") from None
    if not (
        isinstance(client_id, str) and isinstance(user, str | None) and isinstance(link, str | None)
    ):
        raise fault("continue", "is not a continue token")
    return name
