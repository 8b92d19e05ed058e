"""A process that writes resources to a file until killed: `FILE NAME`.

Each write is several addresses. Its number is printed once the store has taken it.
"""

import asyncio
import sys
from itertools import count
from pathlib import Path

import doubles
from enmasse.base.clock import SystemClock
from enmasse.resources import Address
from enmasse.store.sqlite import SqliteStore

TOGETHER = 5
"""Addresses of one write."""


def batch(name: str, number: int) -> list[Address]:
    return [doubles.address(f"default.{name}-{number}-{one}") for one in range(TOGETHER)]


async def _main() -> None:
    file, name = sys.argv[1:]
    store = await SqliteStore.open(Path(file), SystemClock())
    for number in count():
        await store.put(batch(name, number))
        print(number, flush=True)


if __name__ == "__main__":
    asyncio.run(_main())
