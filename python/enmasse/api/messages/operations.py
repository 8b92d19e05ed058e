"""Operations on the stored messages of an address: purge, peek, move, copy, redrive.

One request processes one slice of at most 1,000 messages. A response with `continue` means that
there are more: repeat the request with that value to continue after the slice.
"""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from pydantic import Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from enmasse.api.http.bodies import object_body
from enmasse.api.messages import dead_letters, streams
from enmasse.api.messages.documents import Form, MessageDocument, fault, parsed, shown_message
from enmasse.api.messages.send import address_of
from enmasse.api.platform import Platform
from enmasse.base.clock import rfc3339
from enmasse.base.errors import Code, Conflict, Invalid
from enmasse.engines import Operation, Slice, SliceDone, StoredMessage
from enmasse.engines.protocol import SLICE_MESSAGES_MAX
from enmasse.resources import API_VERSION, Address
from enmasse.resources.model import Model

_HOLDS_MESSAGES = ("queue", "subscription", "deadletter")
SOURCES: dict[Operation, tuple[str, ...]] = {
    Operation.PURGE: _HOLDS_MESSAGES,
    Operation.PEEK: _HOLDS_MESSAGES,
    Operation.MOVE: _HOLDS_MESSAGES,
    Operation.COPY: _HOLDS_MESSAGES,
    Operation.REDRIVE: ("deadletter",),
}
"""The address types that support an operation."""

TARGETS = ("queue", "topic")
"""The address types that can be the destination of move and copy."""

WITH_TARGET = (Operation.MOVE, Operation.COPY)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_MS = 253_402_300_799_000
"""The last second of the year 9999; a later moment is shown as this one."""


class Edit(Model):
    """An edited message."""

    message: MessageDocument


class OperationRequest(Model):
    """The body of a request."""

    selector: str | None = None
    """Process only messages that match this JMS selector."""

    filter: str | None = None
    """Process only messages that match this SQL filter expression, instead of a selector."""

    id: Annotated[int, Field(strict=True, ge=0)] | None = None
    """Process only the message with this id."""

    edit: Edit | None = None
    """Of redrive with `id`: the message to send in place of the dead letter."""

    form: Form = "plain"
    """How peek shows messages."""

    limit: Annotated[int, Field(strict=True, ge=1)] | None = None
    """Maximum number of messages."""

    dry_run: Annotated[bool, Field(strict=True)] = False
    """Only count the messages that would be processed."""

    to: str | None = None
    """The destination address of move or copy."""

    continue_: Annotated[str | None, Field(alias="continue")] = None
    """The value of `continue` in the previous response."""


class OperationHandlers:
    """The paths below an address."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform

    async def dead_letters(self, request: Request) -> Response:
        """Return the dead letters of an address by cause and origin."""
        address = await address_of(self._platform, request)
        _check_source(address, Operation.PEEK)
        body = await object_body(request)
        shown = await dead_letters.summary(self._platform, address, body, _moment)
        return JSONResponse(_head("deadletters", address) | shown)

    def handler(self, operation: Operation) -> Callable[[Request], Awaitable[Response]]:
        """Return the handler of POST on `addresses/NAME/OPERATION`."""

        async def handle(request: Request) -> Response:
            return await self._operate(request, operation)

        return handle

    async def _operate(self, request: Request, operation: Operation) -> Response:
        address = await address_of(self._platform, request)
        body = await object_body(request)
        if operation is Operation.PEEK and streams.is_stream(address):
            found = await streams.peek(self._platform, address, body)
            return JSONResponse(_head("peek", address) | found)
        wanted: OperationRequest = parsed(body, OperationRequest)
        _check_source(address, operation)
        _check_edit(wanted, operation)
        part = Slice(
            limit=min(wanted.limit or SLICE_MESSAGES_MAX, SLICE_MESSAGES_MAX),
            selector=wanted.selector,
            filter=wanted.filter,
            message=wanted.id,
            edited=wanted.edit.message.message("edit.message") if wanted.edit else None,
            dry_run=wanted.dry_run,
            to=self._target(address, operation, wanted.to),
            after=wanted.continue_,
        )
        done = await self._platform.engine.manage(address.metadata.uid or "", operation, part)
        if wanted.edit is not None and done.messages == 0:
            raise Conflict(
                Code.MESSAGE_GONE,
                f"message {wanted.id} is no dead letter here that can be redriven: it is gone, a"
                " consumer holds it, or its origin does not exist; list again",
            )
        return JSONResponse(_shown(address, operation, part, done, wanted.form))

    def _target(self, address: Address, operation: Operation, name: str | None) -> str | None:
        """Return the uid of the destination address."""
        if operation not in WITH_TARGET:
            if name is not None:
                raise fault("to", f"is not a field of {operation}; remove it")
            return None
        if name is None:
            raise fault("to", "is required: the destination address")
        for other in self._platform.store.list("Address", address.metadata.namespace):
            if isinstance(other, Address) and other.space == address.space:
                if other.spec.address != name:
                    continue
                if other.spec.type not in TARGETS:
                    able = " and ".join(TARGETS)
                    raise fault(
                        "to",
                        f"{name!r} is of type {other.spec.type}; the"
                        f" destination must be of type {able}",
                    )
                if other.key == address.key:
                    raise fault("to", f"{name!r} is the source address; name another")
                return other.metadata.uid
        raise fault("to", f"address {name!r} not found in address space {address.space!r}")


def _check_edit(wanted: OperationRequest, operation: Operation) -> None:
    if wanted.selector is not None and wanted.filter is not None:
        raise fault("filter", "excludes selector; give one of them")
    if wanted.id is not None and wanted.continue_ is not None:
        raise fault("continue", "is not for a single message; omit it")
    if wanted.edit is None:
        return
    if operation is not Operation.REDRIVE:
        raise fault("edit", f"is not a field of {operation}; remove it")
    if wanted.id is None:
        raise fault("id", "is required with edit: the message to replace")


def _check_source(address: Address, operation: Operation) -> None:
    if address.spec.type not in SOURCES[operation]:
        able = ", ".join(SOURCES[operation])
        raise Invalid(
            Code.OPERATION_UNFIT,
            f"{operation} does not support addresses of type {address.spec.type}, only {able}",
        )


def _head(operation: str, address: Address) -> dict[str, Any]:
    return {
        "kind": "MessageOperation",
        "apiVersion": API_VERSION,
        "operation": operation,
        "address": address.spec.address,
    }


def _shown(
    address: Address, operation: Operation, part: Slice, done: SliceDone, form: Form
) -> dict[str, Any]:
    shown: dict[str, Any] = _head(str(operation), address) | {
        "dryRun": part.dry_run,
        "messages": done.messages,
        "bytes": done.bytes,
    }
    if operation is Operation.PEEK:
        shown["items"] = [message_document(one, form) for one in done.found]
    if done.rest is not None:
        shown["continue"] = done.rest
    return shown


def message_document(one: StoredMessage, form: Form) -> dict[str, Any]:
    """Return a stored message as responses show it."""
    shown: dict[str, Any] = {
        "id": one.id,
        "state": one.state,
        "bytes": one.bytes,
        "enqueued": _moment(one.enqueued_ms),
        "attempts": one.attempts,
    }
    for name, moment_ms in (("expires", one.expires_ms), ("due", one.due_ms)):
        if moment_ms is not None:
            shown[name] = _moment(moment_ms)
    if one.message is not None:
        shown |= shown_message(one.message, form)
    if one.problem is not None:
        shown["problem"] = one.problem
    return shown


def _moment(moment_ms: int) -> str:
    return rfc3339(_EPOCH + timedelta(milliseconds=min(moment_ms, _LAST_MS)))
