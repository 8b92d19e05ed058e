"""Streams to read in tests, and how messages get into them."""

import asyncio
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from enmasse.client import connect
from enmasse.messaging import Data, Message, Properties
from enmasse.pipeline.connector import options as option_table
from enmasse.pipeline.connector import reading
from enmasse.pipeline.connector.ranges import Slice

UNDER_WAY_MAX = 500


@dataclass(frozen=True)
class Log:
    """A stream at a server."""

    url: str
    address: str

    def publish(self, messages: Iterable[Message]) -> int:
        """Send messages and wait until all are accepted; return how many."""
        return asyncio.run(self._publish(list(messages)))

    async def _publish(self, messages: list[Message]) -> int:
        async with connect(self.url) as session, session.sender(self.address) as sender:
            for first in range(0, len(messages), UNDER_WAY_MAX):
                part = messages[first : first + UNDER_WAY_MAX]
                for outcome in [await sender.post(message) for message in part]:
                    await outcome
        return len(messages)

    def bodies(self) -> list[Any]:
        """Return the bodies of all messages, decoded as JSON."""
        given = {"url": self.url, "address": self.address, "columns": "body"}
        options = option_table.read(given)
        return [
            json.loads(body)
            for number, part in reading.state(options).partitions.items()
            for batch in reading.batches(options, Slice(number, 0, part.next, None))
            for body in batch.column("body").to_pylist()
        ]


def readings(first: int, count: int) -> list[Message]:
    """Readings of three devices, numbered by their values."""
    return [
        Message(
            body=Data([json.dumps({"device": f"d{number % 3}", "value": number}).encode()]),
            properties=Properties(message_id=str(number), content_type="application/json"),
        )
        for number in range(first, first + count)
    ]


def drained(url: str, address: str) -> list[Message]:
    """Receive and accept all messages of a queue."""

    async def receive() -> list[Message]:
        async with connect(url) as session, session.receiver(address) as receiver:
            await receiver.drain()
            found = []
            async for delivery in receiver:
                delivery.settle()
                found.append(delivery.message)
            return found

    return asyncio.run(receive())
