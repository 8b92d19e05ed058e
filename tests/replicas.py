"""Several users of one database or cluster: stores in this process, and writers in others.

As a program it is such a writer: `replicas.py URL NAME COUNT` makes, changes and deletes COUNT
addresses of its own, tries again what the database refuses, and prints how many changes it made.
"""

import asyncio
import gc
import subprocess
import sys
import warnings
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import doubles
from doubles import TestClock
from enmasse.base.clock import Clock, SystemClock
from enmasse.base.errors import Conflict, Unavailable
from enmasse.resources import Address, Resource
from enmasse.resources.conditions import ready_status
from enmasse.store import Event, Store
from enmasse.store.kubernetes import KubernetesStore
from enmasse.store.postgres import PostgresStore

PATIENCE_S = 60
Shared = PostgresStore | KubernetesStore


async def open_shared(url: str, clock: Clock | None = None) -> Shared:
    kind = KubernetesStore if url.startswith("kubernetes:") else PostgresStore
    return await kind.open(url, clock or SystemClock())


@asynccontextmanager
async def opened(url: str, clock: Clock | None = None) -> AsyncIterator[Shared]:
    """A store that follows what others write."""
    store = await open_shared(url, clock)
    following = asyncio.ensure_future(store.follow())
    try:
        yield store
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await store.close()
        del following, store
        with warnings.catch_warnings():
            # Of a connection that was just being made only the collector lets go.
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()


def writer(url: str, name: str, count: int) -> subprocess.Popen[str]:
    """Start a writer in a process of its own."""
    return subprocess.Popen(
        [sys.executable, __file__, url, name, str(count)],
        stdout=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": str(Path(__file__).parent)},
    )


def address(name: str, team: str = "north") -> Address:
    return doubles.address(f"default.{name}", labels={"team": team})


def active(made: Resource) -> Address:
    """What was made, with the status of one that is served."""
    assert isinstance(made, Address)
    now = TestClock().now()
    return made.with_status(
        ready_status(made.status, phase="Active", reason="Served", generation=1, now=now)
    )


async def taken(events: AsyncIterator[Event], count: int) -> list[Event]:
    """Wait for the next events."""
    async with asyncio.timeout(PATIENCE_S):
        return [await anext(events) for _ in range(count)]


async def until(condition: Callable[[], object], store: Store) -> None:
    """Wait until something is so of a store that follows others."""
    async with asyncio.timeout(PATIENCE_S):
        since = store.version
        while not condition():
            try:
                async for event in store.watch(since):
                    since = event.version
                    if condition():
                        break
            except Conflict:
                since = store.version


async def until_done(step: object, *arguments: object) -> None:
    """Do a step again and again until the database takes it."""
    assert callable(step)
    while True:
        try:
            await step(*arguments)
            return
        except Unavailable:
            await asyncio.sleep(0)


async def write(store: Shared, name: str, count: int) -> int:
    """Make, change and delete addresses; return how many changes that was."""
    for number in range(count):
        one = f"{name}-{number}"
        await until_done(store.put, [address(one)])
        await until_done(store.put, [address(one, "south")])
        if number % 2:
            await until_done(store.delete, [address(one).key])
    return 2 * count + count // 2


async def _main() -> None:
    url, name, count = sys.argv[1:]
    store = await open_shared(url)
    print(await write(store, name, int(count)))
    await store.close()


if __name__ == "__main__":
    asyncio.run(_main())
