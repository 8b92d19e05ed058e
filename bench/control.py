"""What the control plane costs: addresses through the API until they are Active, one more, idling,
memory, and a restart with them.

    .venv/bin/python bench/control.py [--addresses 10000] [--spaces 1] [--clients 8]

Client and platform share the machine. A platform of its own is started, on loopback.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from running import Platform, running

BASE = "/apis/enmasse.io/v1beta1/namespaces/default"
ONE_MORE = 100
"""Addresses made one after the other, for the time from create to Active."""

IDLE_S = 10.0
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

    async def active(self) -> int:
        """How many addresses are Active."""
        parameters = {"fieldSelector": "status.phase=Active", "limit": "1"}
        answer = await self.http.get(f"{BASE}/addresses", params=parameters)
        answer.raise_for_status()
        # What remains is not told of a selection, so the pages are counted.
        page = answer.json()
        count = len(page["items"])
        while continued := page["metadata"].get("continue"):
            parameters = {"continue": continued}
            answer = await self.http.get(f"{BASE}/addresses", params=parameters)
            page = answer.json()
            count += len(page["items"])
        return count

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


async def fill(api: Api, spaces: list[str], count: int, clients: int) -> None:
    """Create addresses, `clients` requests at a time, evenly over the spaces."""
    numbers = iter(range(count))

    async def client() -> None:
        for number in numbers:
            await api.create("addresses", address(spaces[number % len(spaces)], number))

    await asyncio.gather(*(client() for _ in range(clients)))


async def measure(platform: Platform, arguments: argparse.Namespace) -> None:
    """Fill a platform, and print what it cost."""
    api, pid = Api(platform), platform.process.pid
    before = await api.active()
    spaces = [f"s{number}" for number in range(arguments.spaces)]
    for name in spaces:
        await api.create("addressspaces", document("AddressSpace", name, {"type": "standard"}))
    began, cpu = time.monotonic(), cpu_s(pid)
    await fill(api, spaces, arguments.addresses, arguments.clients)
    created = time.monotonic() - began
    while (count := await api.active()) < before + arguments.addresses:
        print(f"  {count} active", file=sys.stderr)
    ready = time.monotonic() - began
    print(f"created through the API in {created:.1f} s, all Active in {ready:.1f} s")
    print(f"processor time of it: {cpu_s(pid) - cpu:.1f} s")
    took = []
    for number in range(ONE_MORE):
        body = address(spaces[0], arguments.addresses + number)
        start = time.monotonic()
        version = await api.create("addresses", body)
        await api.until_active(body["metadata"]["name"], version)
        took.append(time.monotonic() - start)
    took.sort()
    p99 = took[int(len(took) * 0.99) - 1]
    print(f"one more, create to Active: p50 {statistics.median(took):.3f} s, p99 {p99:.3f} s")
    idle = cpu_s(pid)
    await asyncio.sleep(IDLE_S)
    print(f"idle: {(cpu_s(pid) - idle) / IDLE_S:.1%} of a core, {memory_mib(pid):.0f} MiB")
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
