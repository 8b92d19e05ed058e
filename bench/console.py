"""Consoles beside traffic: what 100 open lists cost a node that passes 20,000 messages a second.

    .venv/bin/python bench/console.py [--seconds 20] [--rounds 3] [--consoles 100] [--rows 50]
    .venv/bin/python bench/console.py --lists [--addresses 10000 100000] [--data DIR] [--prepare]

Each console follows the live values of 50 addresses every 2 s. Rounds without and with consoles
alternate. Goals: every row is at most 3 s old, all consoles share one sampling, they take at most
20 % of a core, and the messages per second are at least 0.97 of those without.

With `--lists` the first page and the last page of a list, sorted by a live value and filtered, are
timed beside consoles with open lists, which ask for their page again every few seconds, as the page
of the console does. Goals: 1 s at 10,000 addresses, 2 s at 100,000. `--data` keeps the platform's
folder, and a folder that has them is used as it is; `--prepare` stops there.

Client and server share the machine. `cargo build --release -p enmasse-load` builds the load tool.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx2
import servers
from cases import Report

from run import load

RATE = 20_000
AGE_MAX_S, CORE_MAX, RATIO_MIN = 3.0, 0.20, 0.97
PERIOD_S = 2.0
BASE = "/apis/enmasse.io/v1beta1"
SPACE = f"{BASE}/namespaces/shop"
LIST_GOALS_S = {10_000: 1.0, 100_000: 2.0}
CREATE_AT_ONCE = 64
READY_TRIES = 1500
STORE = "resources.db"
FILLED = 50
"""Queues with messages."""

OF_SPACE = {"fieldSelector": "metadata.space=shop", "statistics": "true"}
"""What the page of a space asks for in each list."""

LIST_S = 5.0
"""Interval at which an open list asks for its page again."""


@dataclass
class Platform:
    """A running platform."""

    server: servers.Server
    url: str
    headers: dict[str, str]


@contextmanager
def platform(folder: Path) -> Iterator[Platform]:
    """Start `enmasse up` on free ports."""
    enmasse = Path(sys.executable).with_name("enmasse")
    ports = [word for name in ("amqp", "http") for word in (f"--{name}-port", "0")]
    none = [word for name in ("amqps", "ws", "wss", "mqtt", "mqtts", "https")
            for word in (f"--{name}-port", "off")]  # fmt: skip
    command = [enmasse, "up", "--data", folder, "--output", "json", *ports, *none]
    command += ["--namespace-resources-max", "200000"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert process.stdout is not None
        places = json.loads(process.stdout.readline())["endpoints"]
        token = (folder / "token").read_text().strip()
        amqp = f"amqp://127.0.0.1:{places['amqp']['port']}"
        yield Platform(
            servers.Server("EnMasse", amqp, [process.pid]),
            f"http://127.0.0.1:{places['http']['port']}",
            {"Authorization": f"Bearer {token}"},
        )
    finally:
        servers.stop(process)


async def declare(place: Platform, count: int) -> None:
    """Declare a space with queues, and wait until the last one is served."""
    async with client(place) as http:
        space = {"type": "standard", "plan": "standard-unlimited"}
        await create(http, f"{SPACE}/addressspaces", "AddressSpace", "shop", space)
        limit = asyncio.Semaphore(CREATE_AT_ONCE)

        async def one(number: int) -> None:
            async with limit:
                name = f"q{number:06}"
                spec = {"type": "queue", "address": name}
                await create(http, f"{SPACE}/addresses", "Address", f"shop.{name}", spec)

        async with asyncio.TaskGroup() as group:
            for number in range(count):
                group.create_task(one(number))
        await until_served(http, count)


async def until_served(http: httpx2.AsyncClient, count: int) -> None:
    """Wait until the last of `count` queues is served."""
    last = f"{SPACE}/addresses/shop.q{count - 1:06}"
    for _ in range(READY_TRIES):
        if (await http.get(last)).json().get("status", {}).get("isReady"):
            return
        await asyncio.sleep(0.2)
    raise servers.Unavailable(f"{last} is not ready")


def multiply(folder: Path, count: int) -> None:
    """Make `count` queues of the one in the store of a platform that does not run.

    Declaring 100,000 by the API takes many minutes, and is not what is measured here.
    """
    with closing(sqlite3.connect(folder / STORE)) as store, store:
        row = (
            "select version, document from resources where kind = 'Address' and namespace = 'shop'"
        )
        ((version, document),) = store.execute(row).fetchall()
        uid = json.loads(document)["metadata"]["uid"]
        for number in range(1, count):
            own = document.replace(uid, str(uuid.UUID(int=number)))
            for text in ("shop.q", '"q'):
                own = own.replace(f"{text}000000", f"{text}{number:06}")
            key = ("Address", "shop", f"shop.q{number:06}")
            store.execute("insert into resources values (?, ?, ?, ?, ?)", (*key, version, own))


async def prepare(folder: Path, count: int) -> None:
    """Make a folder with a platform of `count` queues, unless it is there."""
    if (folder / STORE).exists():
        return
    with platform(folder) as place:
        await declare(place, 1)
    multiply(folder, count)


async def fill(place: Platform, count: int) -> None:
    """Store messages in some queues, so that live values differ."""
    async with client(place) as http:
        await until_served(http, count)
        for number in range(0, count, count // FILLED):
            message = {"message": {"body": "x"}, "count": 1 + number % 7}
            for _ in range(READY_TRIES):
                answer = await http.post(f"{SPACE}/addresses/shop.q{number:06}/send", json=message)
                if answer.status_code != 504:
                    break
            if answer.status_code != 200:
                raise servers.Unavailable(answer.text)


async def create(
    http: httpx2.AsyncClient, path: str, kind: str, name: str, spec: dict[str, Any]
) -> None:
    """Create a resource."""
    document = {
        "apiVersion": "enmasse.io/v1beta1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "shop"},
        "spec": spec,
    }
    answer = await http.post(path, json=document)
    if answer.status_code not in (201, 409):
        raise servers.Unavailable(answer.text)


def client(place: Platform) -> httpx2.AsyncClient:
    """A client of the API, with a connection for each console."""
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
    return httpx2.AsyncClient(
        base_url=place.url, headers=place.headers, limits=limits, timeout=60, trust_env=False
    )


@dataclass
class Seen:
    """What consoles have seen."""

    ages_s: list[float] = field(default_factory=list)
    """Age of the rows of each console at the moment before the next ones came."""

    numbers: set[int] = field(default_factory=set)
    """Numbers of samples."""

    rows: int = 0


async def follow(http: httpx2.AsyncClient, rows: int, first: int, seen: Seen) -> None:
    """One console, until it is cancelled."""
    query = [("follow", "true"), ("interval", str(int(PERIOD_S)))]
    query += [("address", f"shop.q{(first + number) % 1000:06}") for number in range(rows)]
    async with http.stream("GET", f"{SPACE}/samples", params=query) as events:
        if events.status_code != 200:
            raise servers.Unavailable(f"the stream answered {events.status_code}")
        shown_s: float | None = None
        async for line in events.aiter_lines():
            if line.startswith("id:"):
                seen.numbers.add(int(line[3:]))
            if not line.startswith("data:"):
                continue
            document, now_s = json.loads(line[5:]), time.time()
            if shown_s is not None:
                seen.ages_s.append(now_s - shown_s)
            shown_s = datetime.fromisoformat(document["time"]).timestamp()
            seen.rows = len(document["addresses"])


async def show_list(http: httpx2.AsyncClient, rows: int, first: int) -> None:
    """The list of one console, until it is cancelled."""
    query = OF_SPACE | {"sortBy": "-deliveredRate", "limit": str(rows)}
    while True:
        page = query | {"offset": str(first % 1000)}
        answer = await http.get(f"{SPACE}/addresses", params=page, headers={"X-Background": "1"})
        if answer.status_code != 200:
            raise servers.Unavailable(answer.text)
        await asyncio.sleep(LIST_S)


async def with_consoles(
    place: Platform, consoles: int, rows: int, work: Any, *, has_lists: bool = False
) -> tuple[Any, Seen]:
    """Run blocking work beside consoles."""
    seen = Seen()
    async with client(place) as http:
        tasks = [
            asyncio.ensure_future(follow(http, rows, 10 * number, seen))
            for number in range(consoles)
        ]
        if has_lists:
            tasks += [
                asyncio.ensure_future(show_list(http, rows, 50 * number))
                for number in range(consoles)
            ]
        try:
            await asyncio.sleep(PERIOD_S)
            result = (
                await work()
                if asyncio.iscoroutinefunction(work)
                else (await asyncio.to_thread(work))
            )
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
    failed = [one for one in ended if isinstance(one, Exception)]
    if failed:
        raise failed[0]
    return result, seen


def traffic(place: Platform, seconds: float) -> tuple[float, float]:
    """Return messages and seconds of a processor, both per second."""
    begun, used = time.monotonic(), servers.cpu_s(place.server.pids)
    options = {"address": "anycast", "rate": str(RATE), "duration": str(seconds)}
    report: Report = load(place.server, options)
    passed = time.monotonic() - begun
    return float(report["messages_per_s"]), (servers.cpu_s(place.server.pids) - used) / passed


async def beside(arguments: argparse.Namespace) -> None:
    """Measure traffic without and with consoles, alternating."""
    rates: dict[bool, list[float]] = {False: [], True: []}
    cores: dict[bool, list[float]] = {False: [], True: []}
    ages: list[float] = []
    samples = 0
    with tempfile.TemporaryDirectory(prefix="enmasse-console-") as folder:
        with platform(Path(folder)) as place:
            await declare(place, 1000)
            for _ in range(arguments.rounds):
                for has_consoles in (False, True):
                    count = arguments.consoles if has_consoles else 0
                    (rate, core), seen = await with_consoles(
                        place, count, arguments.rows, lambda: traffic(place, arguments.seconds)
                    )
                    rates[has_consoles].append(rate)
                    cores[has_consoles].append(core)
                    ages += seen.ages_s
                    samples = max(samples, len(seen.numbers))
                    assert not has_consoles or seen.rows == arguments.rows
    ratio = statistics.median(rates[True]) / statistics.median(rates[False])
    core = statistics.median(cores[True]) - statistics.median(cores[False])
    oldest = max(ages)
    expected = (arguments.seconds + 2 * PERIOD_S) / PERIOD_S + 2
    print(f"load of the machine: {os.getloadavg()[0]:.1f}; {arguments.consoles} consoles")
    for name, figure, is_reached in (
        (f"messages/s, ratio (goal {RATIO_MIN})", ratio, ratio >= RATIO_MIN),
        (f"cores of consoles (goal {CORE_MAX})", core, core <= CORE_MAX),
        (f"oldest row, s (goal {AGE_MAX_S})", oldest, oldest <= AGE_MAX_S),
        (f"samples of a round (one sampling: {expected:.0f})", samples, samples <= expected),
    ):
        print(f"| {name} | {figure:.2f} | {'reached' if is_reached else 'short'} |")


async def lists(arguments: argparse.Namespace) -> None:
    """Time lists beside consoles."""
    queries: dict[str, dict[str, str]] = {
        "first rows, by rate": {"sortBy": "-enqueuedRate", "limit": "50"},
        "first rows, by stored messages": {"sortBy": "-stored", "limit": "50"},
        "filtered": {"sortBy": "-stored", "contains": "q0009", "limit": "50"},
        "last page": {"sortBy": "-stored", "limit": "50"},
    }
    for count in arguments.addresses:
        with tempfile.TemporaryDirectory(prefix="enmasse-console-") as folder:
            kept = arguments.data / str(count) if arguments.data else Path(folder)
            await prepare(kept, count)
            begun = time.monotonic()
            with platform(kept) as place:
                await fill(place, count)
                print(f"{count:,} addresses served after {time.monotonic() - begun:.0f} s")
                if arguments.prepare:
                    continue

                async def timed(count: int = count) -> dict[str, list[float]]:
                    found: dict[str, list[float]] = {}
                    async with client(place) as http:
                        for _ in range(arguments.rounds * 3):
                            for name, query in queries.items():
                                last = {"offset": str(count - 50)} if name == "last page" else {}
                                begin = time.monotonic()
                                asked = OF_SPACE | query | last
                                answer = await http.get(f"{SPACE}/addresses", params=asked)
                                assert len(answer.json()["items"]) == 50, answer.text[:500]
                                found.setdefault(name, []).append(time.monotonic() - begin)
                                # The next one meets another sample.
                                await asyncio.sleep(PERIOD_S)
                    return found

                found, seen = await with_consoles(
                    place, arguments.consoles, arguments.rows, timed, has_lists=True
                )
                goal = LIST_GOALS_S.get(count, 2.0)
                for name, times in found.items():
                    slowest = max(times)
                    reached = "reached" if slowest <= goal else "short"
                    middle = statistics.median(times)
                    print(f"| {count:,} | {name} | {middle:.2f} s | {slowest:.2f} s | {reached} |")
                print(f"load of the machine: {os.getloadavg()[0]:.1f}; {len(seen.numbers)} samples")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--consoles", type=int, default=100)
    parser.add_argument("--rows", type=int, default=50)
    parser.add_argument("--lists", action="store_true", help="time lists instead")
    parser.add_argument("--addresses", type=int, nargs="+", default=[10_000])
    parser.add_argument("--data", type=Path, help="keep the platforms with --lists here")
    parser.add_argument("--prepare", action="store_true", help="only declare the addresses")
    arguments = parser.parse_args()
    asyncio.run(lists(arguments) if arguments.lists else beside(arguments))


if __name__ == "__main__":
    main()
