"""What the heartbeats of many nodes cost declared writes on PostgreSQL.

    .venv/bin/python bench/node_heartbeats.py [--nodes 100] [--seconds 10] [--rounds 5]

Single declared writes, one after another, with and without heartbeats, alternating. The nodes are
simulated by another process: each sends what a real one sends, with 100 exceptions, and a leader
reads and reports all of them. Prints medians of writes/s and their ratio, with the disk's
synchronisation and without it, where heartbeats have the largest share of the work.
"""

import argparse
import asyncio
import contextlib
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace

import doubles
from enmasse.base.clock import SystemClock
from enmasse.control.reconcilers.nodes import NodeObserver, Nodes
from enmasse.control.work_queue import WorkQueue
from enmasse.store.database import Link, Place
from enmasse.store.node_table import BEAT_S, NodeTable
from enmasse.store.nodes import EXCEPTIONS_MAX, AddressProofs, Heartbeat, Identity
from enmasse.store.postgres import PostgresStore
from postgres_server import PostgresServer, postgres_server

CONNECTIONS = 20
"""Connections that the simulated nodes share: the server allows 100."""

PROOFS = AddressProofs(
    "0" * 64, {f"{number:032x}": "NotOpened" for number in range(EXCEPTIONS_MAX)}, EXCEPTIONS_MAX
)


async def beat(url: str, nodes: int) -> None:
    """Send the heartbeats of all nodes and observe them as a leader does, until killed."""
    place, clock = Place(url), SystemClock()
    tables = [NodeTable(place, Link(place)) for _ in range(CONNECTIONS)]
    store = await PostgresStore.open(url, clock)
    observer = NodeObserver(store, Nodes(clock, WorkQueue()), clock)

    async def node(number: int) -> None:
        table = tables[number % CONNECTIONS]
        identity = Identity(f"node-{number}", f"uid-{number}", 1, "mark")
        await table.claim(None, identity, "here")
        said = Heartbeat(role="standby", zone="east", version="1.0", proofs=PROOFS)
        await clock.sleep(BEAT_S * number / nodes)
        while True:
            await table.beat(identity, replace(said, connections=number))
            await clock.sleep(BEAT_S)

    async with asyncio.TaskGroup() as tasks:
        for number in range(nodes):
            tasks.create_task(node(number))
        tasks.create_task(observer.run())
        print("beating", flush=True)


@contextlib.contextmanager
def beating(url: str, nodes: int) -> Iterator[None]:
    """Simulate nodes in another process."""
    process = subprocess.Popen(
        [sys.executable, __file__, "--beat", url, "--nodes", str(nodes)], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        process.stdout.readline()
        time.sleep(BEAT_S)  # Until each has sent one.
        yield
    finally:
        process.kill()
        process.wait()


async def writes_per_second(url: str, seconds: float) -> float:
    """Return the rate of single declared writes."""
    store = await PostgresStore.open(url, SystemClock())
    count, began = 0, time.monotonic()
    while (elapsed_s := time.monotonic() - began) < seconds:
        await store.put([doubles.address(f"default.a{count % 100}", labels={"n": str(count)})])
        count += 1
    await store.close()
    return count / elapsed_s


def measure(server: PostgresServer, arguments: argparse.Namespace) -> None:
    """Print the rates with and without heartbeats, and their ratio."""
    url = server.new_database()
    asyncio.run(writes_per_second(url, 1.0))
    found: dict[bool, list[float]] = {True: [], False: []}
    for turn in range(arguments.rounds):
        for has_nodes in (True, False)[:: 1 if turn % 2 else -1]:
            with beating(url, arguments.nodes) if has_nodes else contextlib.nullcontext():
                found[has_nodes].append(asyncio.run(writes_per_second(url, arguments.seconds)))
    beating_rate, alone = statistics.median(found[True]), statistics.median(found[False])
    print(
        f"{arguments.nodes} nodes: {beating_rate:.0f} writes/s, without {alone:.0f},"
        f" ratio {beating_rate / alone:.2f}",
        flush=True,
    )


def main() -> None:
    """Measure by the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--beat", metavar="URL", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.beat:
        asyncio.run(beat(arguments.beat, arguments.nodes))
        return
    with postgres_server() as server:
        for synchronised in ("on", "off"):
            server.execute(f"alter system set fsync = {synchronised}")
            server.execute("select pg_reload_conf()")
            print(f"fsync {synchronised}:", end=" ")
            measure(server, arguments)
        print(f"load average of the machine: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
