"""A multicast consumer that settles nothing: its cost to the sender and the other consumer.

    .venv/bin/python bench/stuck_consumer.py [--seconds 20] [--rounds 3]

A sender of unsettled messages and a consumer that accepts them run alone and together with a second
consumer that leaves all its deliveries unsettled, alternating, on one node. The goal: with it the
sender keeps 90 % of its rate. The settlement timeout (1 s) is part of the measured time.

The node has one worker: with two, the second consumer changes which worker owns the address and
which one the connections, and that alone costs a fifth of the rate.

`cargo build --release -p enmasse-load` builds the load tool.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import statistics
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import servers

from enmasse.client import connect
from run import load

ADDRESS = "multicast"
STUCK_CREDIT = 1_000
RATIO_MIN = 0.9


@contextlib.asynccontextmanager
async def stuck_consumer(server: servers.Server) -> AsyncIterator[None]:
    """A receiver with credit that never settles its deliveries."""
    async with (
        connect(server.url) as session,
        session.receiver(ADDRESS, credit=STUCK_CREDIT),
    ):
        yield


async def rate(server: servers.Server, seconds: float, *, stuck: bool) -> float:
    """Messages a second from one sender to one consumer that settles."""
    options = {
        "address": ADDRESS,
        "multicast": "true",
        "body": "100",
        "duration": str(seconds),
        # The consumer becomes overdue once in a run, which must be within the measured time.
        "warmup": "0",
    }
    async with contextlib.AsyncExitStack() as stack:
        if stuck:
            await stack.enter_async_context(stuck_consumer(server))
        report = await asyncio.to_thread(load, server, options)
    return float(report["messages_per_s"])


async def measure(server: servers.Server, seconds: float, rounds: int) -> dict[bool, list[float]]:
    """Rates without (False) and with (True) the stuck consumer, alternating."""
    rates: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(rounds):
        for stuck in (False, True):
            rates[stuck].append(await rate(server, seconds, stuck=stuck))
    return rates


def main() -> None:
    """Measure and print the medians and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    os.environ["ENMASSE_WORKERS"] = "1"
    with (
        tempfile.TemporaryDirectory(prefix="enmasse-stuck-") as folder,
        servers.node(Path(folder)) as node,
    ):
        rates = asyncio.run(measure(node, arguments.seconds, arguments.rounds))
    alone, beside = (statistics.median(rates[stuck]) for stuck in (False, True))
    print(f"alone {alone:,.0f} msg/s, beside {beside:,.0f} msg/s, ratio {beside / alone:.2f}")
    print("reached" if beside >= RATIO_MIN * alone else "short", f"of {RATIO_MIN:g}")


if __name__ == "__main__":
    main()
