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
from enmasse.client.links import ClientDelivery
from enmasse.messaging import Start
from enmasse.native import decode_message
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

_HEAD_SECTIONS = (b"\0\x53\x70", b"\0\x53\x71", b"\0\x53\x72")
"""Descriptors of the sections that the node writes."""

_LIST0, _COMPOUND8 = b"\x45", (b"\xc0", b"\xc1")
"""Constructors (AMQP 1.0, part 1, 1.6.22 and 1.6.23); the others have four bytes of size."""

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
            async for delivery in _deliveries(receiver, wanted.limit):
                items.append(_shown(delivery, wanted.form))
                size, last = size + len(delivery.data), items[-1]["offset"]
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


async def _deliveries(receiver: Any, limit: int) -> AsyncIterator[ClientDelivery]:
    """Yield deliveries, until the stream has no more for a while."""
    deliveries = aiter(receiver)
    for _ in range(limit):
        try:
            async with asyncio.timeout(SILENCE_S):
                delivery = await anext(deliveries)
        except (StopAsyncIteration, TimeoutError):
            return
        delivery.settle()
        yield delivery


def _shown(delivery: ClientDelivery, form: Form) -> dict[str, Any]:
    size, message, problem = len(delivery.data), None, None
    try:
        message = delivery.message
        annotations = message.annotations
    except EnMasseError as error:
        # One such message must neither hide the others nor be left out.
        problem = error.message
        annotations = decode_message(head_of(delivery.data)).annotations
    shown: dict[str, Any] = {
        "offset": int(annotations.get(OFFSET, 0)),
        "partition": int(annotations.get(PARTITION, 0)),
        "bytes": size,
    }
    enqueued = annotations.get(ENQUEUED)
    if isinstance(enqueued, datetime):
        shown["enqueued"] = rfc3339(enqueued.astimezone(UTC))
    if problem is not None:
        shown["problem"] = problem
    elif message is not None and size <= SHOWN_BYTES_MAX:
        shown |= shown_message(message, form)
    return shown


def head_of(data: bytes) -> bytes:
    """Return the sections of an encoded message up to its annotations, which the node has written:
    header, delivery annotations and message annotations (AMQP 1.0, part 3, 3.2).
    """
    at = 0
    while data.startswith(_HEAD_SECTIONS, at):
        code, size = data[at + 3 : at + 4], data[at + 4 : at + 8]
        if code == _LIST0:
            at += 4
        elif code in _COMPOUND8:
            at += 5 + int.from_bytes(size[:1])
        else:
            at += 8 + int.from_bytes(size)
    return data[:at]
