"""One run: the platform up and down by a seed, the load beside it, and the judgement."""

import random
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import httpx2

from platform_process import Platform, running, up_command
from prove.history import History, Kill
from prove.judge import judge
from prove.load import ADDRESSES, DEAD, ONCE, ORDERS, PAYMENTS, Load
from prove.report import Run

ALIVE_S = (0.1, 3.0)
"""How long the platform lives at least and at most."""
EARLY_S = (0.02, 0.6)
"""The same of one that is killed while it starts."""
EARLY = 0.3
"""Share of deaths that are followed by such a one."""
STUCK_S = 20.0
"""How long the end may go without progress."""

SPECS = {
    ORDERS: f"{{type: queue, deadletter: {DEAD}}}",
    PAYMENTS: (
        f"{{type: queue, deadletter: {DEAD}, messageRedelivery: {{maximumDeliveryAttempts: 3}}}}"
    ),
    ONCE: "{type: queue, duplicateDetection: {}}",
    DEAD: "{type: deadletter}",
}
STORED = re.compile(r"^enmasse_address_stored_messages{.*} (\S+)$", re.MULTILINE)


def documents(durability: str = "disk") -> str:
    """What is declared, with one durability for all."""
    parts = [
        "apiVersion: enmasse.io/v1beta1\nkind: AddressSpace\n"
        "metadata: {name: default}\nspec: {type: standard}\n"
    ]
    for name in ADDRESSES:
        spec = SPECS.get(name, "{type: queue}").replace(
            "{", f"{{address: {name}, durability: {durability}, ", 1
        )
        parts.append(
            "apiVersion: enmasse.io/v1beta1\nkind: Address\n"
            f"metadata: {{name: default.{name}}}\nspec: {spec}\n"
        )
    return "---\n".join(parts)


def prove(
    folder: Path,
    seconds: float,
    seed: int,
    durability: str = "disk",
    death: Callable[[Platform], None] = Platform.kill,
) -> Run:
    """Run load for so long, with deaths by the seed, drain, and judge.

    The platform has its data in `platform` below the folder. A death ends its process.
    """
    declared = folder / "addresses.yaml"
    declared.write_text(documents(durability))
    history = History()
    load = Load(history, seed, seconds)
    load.start()
    try:
        left_over = _live_and_die(load, declared, seconds, random.Random(seed), death)
    finally:
        load.stop()
    return Run(
        seed=seed,
        seconds=seconds,
        command=f'make prove ARGS="--seconds {seconds:g} --seed {seed}"',
        judged=judge(history.events),
        events=history.events,
        kills=history.kills,
        left_over=left_over,
    )


def _live_and_die(
    load: Load,
    declared: Path,
    seconds: float,
    chance: random.Random,
    death: Callable[[Platform], None],
) -> int:
    """Start and kill until the time is over; drain; return how many messages are left."""
    data = declared.with_name("platform")
    port = "0"
    killed_s: float | None = None
    while True:
        with running(data, "--amqp-port", port, "-f", str(declared)) as up:
            if killed_s is not None:
                load.history.kills.append(Kill(killed_s, load.now_s()))
            port = str(up.port())
            load.port = up.port()
            alive_s = chance.uniform(*ALIVE_S)
            if load.now_s() + alive_s >= seconds:
                load.over.wait(max(0.0, seconds - load.now_s()))
                return _drain(load, up)
            load.over.wait(alive_s)
            killed_s = load.now_s()
            load.port = None
            death(up)
        if chance.random() < EARLY:
            _start_and_kill(data, declared, port, chance.uniform(*EARLY_S))


def _start_and_kill(data: Path, declared: Path, port: str, after_s: float) -> None:
    """Kill a platform that has not said yet that it is ready."""
    command = up_command(data, "--amqp-port", port, "-f", str(declared))
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            process.wait(after_s)
        except subprocess.TimeoutExpired:
            process.kill()


def _drain(load: Load, up: Platform) -> int:
    """Take everything; return what the platform says it stores when nothing comes any more."""
    load.draining = True
    left, since = stored(up), time.monotonic()
    while left > 0 or not load.quiet:
        if load.over.wait(0.2) or time.monotonic() - since > STUCK_S:
            break
        now = stored(up)
        if now != left:
            left, since = now, time.monotonic()
    return left


def stored(up: Platform) -> int:
    """How many messages the platform says it stores."""
    text = httpx2.get(f"{up.url('http')}/metrics", timeout=20).text
    return sum(int(float(count)) for count in STORED.findall(text))
