"""POST on `addresses/NAME/send`: a message that an administrator sends."""

import asyncio
from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from enmasse.api.http.bodies import object_body
from enmasse.api.messages.documents import MessageDocument, fault, parsed
from enmasse.api.platform import Platform
from enmasse.base.errors import Code, Invalid, Missing, Unavailable
from enmasse.base.ids import new_uid
from enmasse.messaging import Accepted, Message, Outcome, Rejected
from enmasse.messaging.outcome import name_of
from enmasse.resources import API_VERSION, Address, Key
from enmasse.resources.model import Model

TIMEOUT_S = 10.0
"""Maximum wait for credit and outcomes."""

COUNT_MAX = 100
TYPES = ("anycast", "multicast", "queue", "topic")


class SendRequest(Model):
    """The body of a request."""

    message: MessageDocument
    count: Annotated[int, Field(strict=True, ge=1, le=COUNT_MAX)] = 1
    """How many messages; each gets a message-id of its own unless one is given."""


class SendHandler:
    """Sends messages through a session within the process."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform

    async def send(self, request: Request) -> Response:
        """Send a message and return the outcome of the last one."""
        address = await address_of(self._platform, request)
        if address.spec.type not in TYPES:
            raise Invalid(
                Code.OPERATION_UNFIT,
                f"send does not support addresses of type {address.spec.type}, only"
                f" {', '.join(TYPES)}",
            )
        wanted: SendRequest = parsed(await object_body(request), SendRequest)
        message = wanted.message.message()
        if wanted.count > 1 and message.properties.message_id is not None:
            raise fault("count", "must be 1 for a message with a message_id")
        outcomes = await self._sent(address, message, wanted.count)
        return JSONResponse(_shown(address, outcomes))

    async def _sent(self, address: Address, message: Message, count: int) -> list[Outcome]:
        space = f"{address.space}.{address.metadata.namespace}"
        outcomes: list[Outcome] = []
        try:
            async with asyncio.timeout(TIMEOUT_S):
                async with self._platform.engine.session(space) as session:
                    async with session.sender(address.name) as sender:
                        for _ in range(count):
                            outcomes.append(await sender.send(_identified(message)))
                            if not isinstance(outcomes[-1], Accepted):
                                break
        except TimeoutError:
            raise Unavailable(
                Code.RECEIVER_ABSENT,
                f"{address.spec.address!r} did not accept the message within {TIMEOUT_S:g} s: no"
                " consumer is ready, or it is full",
            ) from None
        return outcomes


async def address_of(platform: Platform, request: Request) -> Address:
    """Return the address of a request.

    Raises: Missing if it does not exist.
    """
    key = Key("Address", request.path_params["namespace"], request.path_params["name"])
    await platform.store.refresh()
    address = platform.store.get(key)
    if not isinstance(address, Address):
        raise Missing(Code.RESOURCE_MISSING, f"there is no {key}")
    return address


def _identified(message: Message) -> Message:
    if message.properties.message_id is not None:
        return message
    return replace(message, properties=replace(message.properties, message_id=new_uid()))


def _shown(address: Address, outcomes: list[Outcome]) -> dict[str, Any]:
    last = outcomes[-1]
    accepted = sum(isinstance(one, Accepted) for one in outcomes)
    shown: dict[str, Any] = {
        "kind": "MessageOperation",
        "apiVersion": API_VERSION,
        "operation": "send",
        "address": address.spec.address,
        "messages": accepted,
        "outcome": name_of(last),
    }
    if isinstance(last, Rejected):
        shown |= {"condition": last.condition, "description": last.description}
    return shown
