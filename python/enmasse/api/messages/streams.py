"""Messages of a stream by offset or time, read through a session within the process.

A read ends after the requested messages, at the end of the stream, and after `SILENCE_S` without a
message: an end is not announced to a reader.
"""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from enmasse.api.messages.documents import Form, fault, parsed, shown_message
from enmasse.api.platform import Platform
from enmasse.base.clock import rfc3339
from enmasse.base.errors import EnMasseError
from enmasse.messaging import Message, Start
from enmasse.resources import Address
from enmasse.resources.model import Model

LIMIT_DEFAULT = 50
LIMIT_MAX = 1000
BYTES_MAX = 1 << 20
"""Maximum bytes of messages in a response; at least one message."""

SILENCE_S = 0.5
TIMEOUT_S = 10.0
SHOWN_BYTES_MAX = 65_536
"""A larger message is shown without its body."""

OFFSET, PARTITION, ENQUEUED = "x-stream-offset", "x-opt-partition", "x-opt-enqueued-time"


class StreamStart(Model):
    """Where a read begins: one member."""

    offset: Annotated[int, Field(strict=True, ge=0)] | None = None
    time: datetime | None = None
    position: Literal["first", "last"] | None = None


class StreamPeek(Model):
    """The body of a request."""

    from_: Annotated[StreamStart, Field(alias="from")] = StreamStart(position="first")
    partition: Annotated[int, Field(strict=True, ge=0)] | None = None
    limit: Annotated[int, Field(strict=True, ge=1, le=LIMIT_MAX)] = LIMIT_DEFAULT
    form: Form = "plain"
    continue_: Annotated[str | None, Field(alias="continue")] = None


def is_stream(address: Address) -> bool:
    """Whether an address is a stream."""
    return address.spec.type == "topic" and address.spec.retention is not None


async def peek(platform: Platform, address: Address, body: dict[str, Any]) -> dict[str, Any]:
    """Return messages of a stream, oldest first."""
    wanted: StreamPeek = parsed(body, StreamPeek)
    partition, start = _start_of(wanted, address.spec.partitions or 1)
    space = f"{address.space}.{address.metadata.namespace}"
    items: list[dict[str, Any]] = []
    size, last = 0, 0
    async with platform.engine.session(space) as session:
        opened = session.receiver(address.name, count=wanted.limit, start=Start(start, partition))
        async with opened as receiver:
            async for message, message_bytes in _messages(receiver, wanted.limit):
                items.append(_shown(message, message_bytes, wanted.form))
                size, last = size + message_bytes, items[-1]["offset"]
                if size >= BYTES_MAX:
                    break
    shown: dict[str, Any] = {"messages": len(items), "bytes": size, "items": items}
    # Several partitions have no common order that a later read could continue.
    is_full = len(items) == wanted.limit or size >= BYTES_MAX
    if is_full and partition is not None:
        shown["continue"] = f"{partition}.{last + 1}"
    return shown


def _start_of(
    wanted: StreamPeek, partitions: int
) -> tuple[int | None, int | datetime | Literal["first", "last"]]:
    """Return the partition and the start of a read.

    Raises: Invalid if they do not fit together or the stream.
    """
    partition = 0 if partitions == 1 and wanted.partition is None else wanted.partition
    if partition is not None and partition >= partitions:
        raise fault("partition", f"must be below {partitions}, the partitions of the stream")
    if wanted.continue_ is not None:
        within, dot, offset = wanted.continue_.partition(".")
        if not (dot and within.isdecimal() and offset.isdecimal() and len(offset) <= 18):
            raise fault("continue", "is not a value of an earlier answer")
        return int(within), int(offset)
    start = wanted.from_
    given = [one for one in (start.offset, start.time, start.position) if one is not None]
    if len(given) != 1:
        raise fault("from", "must have one of offset, time and position")
    if start.offset is not None and partition is None:
        raise fault("partition", "is required with an offset: the stream has several")
    if start.time is not None and start.time.tzinfo is None:
        raise fault("from.time", "needs a time zone, such as 2027-01-31T08:00:00Z")
    return partition, given[0]


async def _messages(receiver: Any, limit: int) -> AsyncIterator[tuple[Message, int]]:
    """Yield messages with their sizes, until the stream has no more for a while."""
    deliveries = aiter(receiver)
    for _ in range(limit):
        try:
            async with asyncio.timeout(SILENCE_S):
                delivery = await anext(deliveries)
        except (StopAsyncIteration, TimeoutError):
            return
        delivery.settle()
        try:
            yield delivery.message, len(delivery.data)
        except EnMasseError:
            continue


def _shown(message: Message, size: int, form: Form) -> dict[str, Any]:
    annotations = message.annotations
    enqueued = annotations.get(ENQUEUED)
    shown: dict[str, Any] = {
        "offset": int(annotations.get(OFFSET, 0)),
        "partition": int(annotations.get(PARTITION, 0)),
        "bytes": size,
    }
    if isinstance(enqueued, datetime):
        shown["enqueued"] = rfc3339(enqueued.astimezone(UTC))
    if size <= SHOWN_BYTES_MAX:
        shown |= shown_message(message, form)
    return shown
