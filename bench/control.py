"""The cost of the control plane: addresses through the API until they are Active, one more, idling,
memory, the effect on messages, and a restart with them.

    .venv/bin/python bench/control.py [--addresses 10000] [--spaces 1] [--clients 8]

Client and platform share the machine. The script starts a platform of its own on loopback. The
effect on messages is measured if `cargo build --release -p enmasse-load` has built the load tool.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import httpx2

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from platform_process import Platform, running

BASE = "/apis/enmasse.io/v1beta1/namespaces/default"
ONE_MORE = 100
"""Addresses made one after the other, for the time from create to Active."""

IDLE_S = 10.0
SETTLE_S = 2.0
"""Time for the work that the last of them caused."""

POLL_S = 0.1
LATENCY_S = 8
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", Path(__file__).parents[1] / "target"))
TOOL = TARGET / "release" / "enmasse-load"
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def document(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    """Return a resource of a name and a spec."""
    head = {"apiVersion": "enmasse.io/v1beta1", "kind": kind}
    return head | {"metadata": {"name": name}, "spec": spec}


def address(space: str, number: int) -> dict[str, Any]:
    """Return the address of a number; every fourth is a queue."""
    type_ = "queue" if number % 4 == 0 else "anycast"
    return document("Address", f"{space}.a{number}", {"type": type_, "address": f"a{number}"})


class Api:
    """A client of one platform."""

    def __init__(self, platform: Platform) -> None:
        token = (platform.data / "token").read_text().strip()
        self.http = httpx2.AsyncClient(
            base_url=platform.url("http"),
            headers={"Authorization": f"Bearer {token}"},
            timeout=120.0,
        )

    async def create(self, plural: str, body: dict[str, Any]) -> str:
        """Create a resource and return its version."""
        answer = await self.http.post(f"{BASE}/{plural}", json=body)
        answer.raise_for_status()
        return str(answer.json()["metadata"]["resourceVersion"])

    async def all_active(self) -> bool:
        """Whether every address is Active."""
        parameters = {"fieldSelector": "status.phase!=Active", "limit": "1"}
        answer = await self.http.get(f"{BASE}/addresses", params=parameters)
        answer.raise_for_status()
        return not answer.json()["items"]

    async def until_active(self, name: str, version: str) -> None:
        """Return once an address made at a version is Active."""
        parameters = {
            "watch": "true",
            "resourceVersion": version,
            "fieldSelector": f"metadata.name={name},status.phase=Active",
        }
        async with self.http.stream("GET", f"{BASE}/addresses", params=parameters) as answer:
            async for line in answer.aiter_lines():
                if json.loads(line)["type"] in ("ADDED", "MODIFIED"):
                    return


def cpu_s(pid: int) -> float:
    """Return the processor time a process has used, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def memory_mib(pid: int) -> float:
    """Return the memory of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


async def each(clients: int, bodies: Iterable[tuple[str, dict[str, Any]]], api: Api) -> None:
    """Create resources, `clients` requests at a time."""
    waiting = iter(bodies)

    async def client() -> None:
        for plural, body in waiting:
            await api.create(plural, body)

    await asyncio.gather(*(client() for _ in range(clients)))


async def until_settled(api: Api) -> float:
    """Return the seconds until every address is Active."""
    while True:
        if await api.all_active():
            return time.monotonic()
        await asyncio.sleep(POLL_S)


async def message_latency(platform: Platform) -> str:
    """Return the latency of messages through one anycast address, 1,000 a second."""
    tool = await asyncio.create_subprocess_exec(
        *(TOOL, "--url", platform.url(), "--address", "anycast", "--hostname", "default"),
        *("--rate", "1000", "--duration", str(LATENCY_S), "--warmup", "1"),
        stdout=asyncio.subprocess.PIPE,
    )
    tool_output, _ = await tool.communicate()
    latency = json.loads(tool_output)["latency"]
    return ", ".join(f"{name} {latency[f'{name}_us'] / 1000:.2f} ms" for name in ("p50", "p99"))


async def one_more(api: Api, space: str, numbers: Iterable[int]) -> list[float]:
    """Create addresses one after the other; return how long each took until it was Active."""
    took = []
    for number in numbers:
        body = address(space, number)
        start = time.monotonic()
        version = await api.create("addresses", body)
        await api.until_active(body["metadata"]["name"], version)
        took.append(time.monotonic() - start)
    return sorted(took)


async def latency_during_creation(platform: Platform, api: Api, space: str, first: int) -> None:
    """Print the latency of messages while addresses are created one after the other."""
    print(f"messages without changes: {await message_latency(platform)}")
    changing = asyncio.ensure_future(one_more(api, space, count(first)))
    print(f"messages while addresses are created: {await message_latency(platform)}")
    changing.cancel()
    await asyncio.gather(changing, return_exceptions=True)


async def measure(platform: Platform, arguments: argparse.Namespace) -> None:
    """Fill a platform, and print the cost."""
    api, pid = Api(platform), platform.process.pid
    addresses, clients = arguments.addresses, arguments.clients
    empty = memory_mib(pid)
    spaces = [f"s{number}" for number in range(arguments.spaces)]
    declared = (document("AddressSpace", name, {"type": "standard"}) for name in spaces)
    await each(clients, (("addressspaces", one) for one in declared), api)
    print(f"{len(spaces)} spaces: {memory_mib(pid) - empty:.1f} MiB")
    began, cpu, own = time.monotonic(), cpu_s(pid), time.process_time()
    bodies = (address(spaces[number % len(spaces)], number) for number in range(addresses))
    await each(clients, (("addresses", body) for body in bodies), api)
    created = time.monotonic() - began
    ready = await until_settled(api) - began
    print(f"created through the API in {created:.1f} s, all Active in {ready:.1f} s")
    used, own = cpu_s(pid) - cpu, time.process_time() - own
    print(f"processor time of it: {used:.1f} s, and {own:.1f} s of the client")
    took = await one_more(api, spaces[0], range(addresses, addresses + ONE_MORE))
    p99 = took[int(len(took) * 0.99) - 1]
    print(f"one more, create to Active: p50 {statistics.median(took):.3f} s, p99 {p99:.3f} s")
    await asyncio.sleep(SETTLE_S)
    idle = cpu_s(pid)
    await asyncio.sleep(IDLE_S)
    print(f"idle: {(cpu_s(pid) - idle) / IDLE_S:.1%} of a core, {memory_mib(pid):.0f} MiB")
    if TOOL.exists():
        await latency_during_creation(platform, api, spaces[0], addresses + ONE_MORE)
    print(f"load average of the machine: {os.getloadavg()[0]:.1f}")
    await api.http.aclose()


def main() -> None:
    """Measure by the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--addresses", type=int, default=10_000)
    parser.add_argument("--spaces", type=int, default=1)
    parser.add_argument("--clients", type=int, default=8)
    arguments = parser.parse_args()
    with ExitStack() as stack:
        data = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        with running(data) as platform:
            asyncio.run(measure(platform, arguments))
        began = time.monotonic()
        with running(data) as platform:
            took, cpu = time.monotonic() - began, cpu_s(platform.process.pid)
            print(f"restart until ready: {took:.1f} s, {cpu:.1f} s of processor time")


if __name__ == "__main__":
    main()
