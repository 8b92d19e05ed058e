"""The cost of creating addresses on a leader and through a stand-by, and its ratio to a checkout.

    .venv/bin/python bench/control_baseline.py --against DIR [--addresses 10000] [--rounds 3]

`DIR` is a checkout with a built core; both run with the packages of this one. The rounds alternate
between both, so that drift of the machine hits both alike. The leader alone has SQLite; with the
stand-by it has PostgreSQL, and addresses are created through the stand-by.
"""

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from control import Api, address, cpu_s, document, each, until_settled
from platform_process import Platform, running
from postgres_server import PostgresServer, postgres_server

HERE = Path(__file__).parents[1]
Costs = dict[str, list[float]]


async def create(through: Platform, leader: Platform, arguments: argparse.Namespace) -> Costs:
    """Create addresses; return the elapsed seconds, and processor seconds by process."""
    api = Api(through)
    await api.create("addressspaces", document("AddressSpace", "s0", {"type": "standard"}))
    pids = {"leader": leader.process.pid, "stand-by": through.process.pid}
    if through is leader:
        del pids["stand-by"]
    before = {name: cpu_s(pid) for name, pid in pids.items()}
    began = time.monotonic()
    bodies = (("addresses", address("s0", number)) for number in range(arguments.addresses))
    await each(arguments.clients, bodies, api)
    created = time.monotonic() - began
    active = await until_settled(api) - began
    used = {f"CPU of the {name}": [cpu_s(pid) - before[name]] for name, pid in pids.items()}
    await api.http.aclose()
    return {"created": [created], "all Active": [active], **used}


@contextmanager
def platforms(
    checkout: Path, folder: Path, postgres: PostgresServer | None
) -> Iterator[tuple[Platform, Platform]]:
    """Run a platform of a checkout, and with a database also a stand-by; yield the process that
    receives requests, and the leader.
    """
    environment = {"PYTHONPATH": str(checkout / "python")}
    if postgres is not None:
        environment["ENMASSE_STORE"] = postgres.new_database()
    with ExitStack() as stack:
        one = stack.enter_context(running(folder / "one", environment=environment))
        other = one
        if postgres is not None:
            other = stack.enter_context(
                running(folder / "other", environment=environment | {"ENMASSE_NODE_NAME": "other"})
            )
        yield other, one


def measure(
    checkout: Path, postgres: PostgresServer | None, arguments: argparse.Namespace
) -> Costs:
    """Return the costs of one round."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        with platforms(checkout, Path(folder), postgres) as (through, leader):
            return asyncio.run(create(through, leader, arguments))


def compare(what: str, postgres: PostgresServer | None, arguments: argparse.Namespace) -> None:
    """Print the medians of both checkouts and their ratios."""
    found: dict[Path, Costs] = {HERE: {}, arguments.against: {}}
    for turn in range(arguments.rounds):
        for checkout in [*found][:: 1 if turn % 2 else -1]:
            for name, seconds in measure(checkout, postgres, arguments).items():
                found[checkout].setdefault(name, []).extend(seconds)
    own, other = found[HERE], found[arguments.against]
    for name in own:
        one, base = statistics.median(own[name]), statistics.median(other[name])
        print(f"{what}, {name}: {one:.1f} s, was {base:.1f} s, ratio {one / base:.2f}", flush=True)
    print(f"load average of the machine: {os.getloadavg()[0]:.1f}", flush=True)


def main() -> None:
    """Measure by the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", type=Path, required=True)
    parser.add_argument("--addresses", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    compare("leader", None, arguments)
    with postgres_server() as postgres:
        compare("stand-by", postgres, arguments)


if __name__ == "__main__":
    main()
