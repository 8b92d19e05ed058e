"""Streams that tests read, and how messages get into them."""

import asyncio
import json
from collections.abc import Iterable
from dataclasses import dataclass

from enmasse.client import connect
from enmasse.messaging import Data, Message, Properties

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


def readings(first: int, count: int) -> list[Message]:
    """Readings of three devices, numbered by their values."""
    return [
        Message(
            body=Data([json.dumps({"device": f"d{number % 3}", "value": number}).encode()]),
            properties=Properties(message_id=str(number), content_type="application/json"),
        )
        for number in range(first, first + count)
    ]
