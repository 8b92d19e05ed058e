"""A pipeline, its node and its database are killed at moments that a seed says: all is exact.

Spark's part is played by `batch_engine`, which hands batches over again as Spark does: a process
starts at once, and there is time for many schedules. `test_kills` and `test_deaths` have Spark.
"""

import json
import multiprocessing
import os
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import batch_engine
from enmasse.base.clock import SystemClock
from enmasse.messaging import Message
from enmasse.pipeline import live
from piping import document, judged, message, opened, told_once
from postgres_server import PostgresServer
from publishing import Log
from running import Node

pytestmark = pytest.mark.timeout(1500)
SCHEDULES = int(os.environ.get("ENMASSE_PIPELINE_KILLS", "5"))
KILLS = 4
"""Kills of one schedule."""
WAVE = 120
"""Messages that come between two kills."""
DEVICES = 6
SECONDS_MAX = 1.5
START_TIMEOUT_S = 120.0
DETECTORS: list[dict[str, Any]] = [
    {"name": "hot", "metric": "temperature", "threshold": {"above": 40}, "cooldown": 0},
    {"name": "jump", "metric": "temperature", "rate": {"above": 40, "per": "10s"}, "cooldown": 0},
]
PROCESSES = multiprocessing.get_context("forkserver")
# what takes seconds to import is imported once
PROCESSES.set_forkserver_preload(["enmasse.pipeline.batches", "enmasse.pipeline.incidents"])


def wave(dice: random.Random, first: int, begin: int) -> Iterator[Message]:
    """Readings a second apart, a few of them late, twice, or none."""
    for number in range(first, first + WAVE):
        device = f"d{number % DEVICES}"
        fields = {"device": device, "time": begin + number - dice.choice([0] * 9 + [7])}
        fields["temperature"] = dice.choice([20.0, 21.5, 22.0, 45.0])
        body = b"{" if dice.random() < 0.02 else json.dumps(fields).encode()
        yield message(number, body)


def killed(
    file: Path, kill: dict[str, Any] | None, strike: Callable[[], None] | None = None
) -> bool:
    """Run until all is done; return whether the process was killed before.

    `strike` kills something else, when the process is at work for so many `seconds`.
    """
    opened = PROCESSES.Event()
    own = kill if strike is None else None
    process = PROCESSES.Process(target=batch_engine.run, args=(file, own, opened))
    process.start()
    if strike is not None and kill is not None:
        assert opened.wait(START_TIMEOUT_S)
        process.join(kill["seconds"])
        strike()
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0


def chosen(dice: random.Random) -> dict[str, Any]:
    """What is to be killed, and when: the process at a call, or anything at any moment."""
    victim = dice.choice(["process", "process", "process", "node", "database"])
    if victim != "process":
        return {"victim": victim, "seconds": dice.uniform(0.0, SECONDS_MAX)}
    if dice.random() < 0.3:
        return {"seconds": dice.uniform(0.0, SECONDS_MAX)}
    point = dice.choice(list(batch_engine.POINTS))
    return {"point": point, "count": dice.randrange(1, 8), "after": dice.random() < 0.5}


def found_by(file: Path) -> dict[str, Any]:
    """Live state without what depends on how messages fell into batches."""
    _, _, db = opened(file)
    with closing(db):
        incidents = [row | {"number": 0} for row in db.rows(live.ANOMALIES)]
        tables = {table.name: db.rows(table) for table in (live.LATEST, live.USAGE)}
        return tables | {"anomalies": sorted(incidents, key=lambda row: row["id"])}


@pytest.mark.parametrize("seed", range(SCHEDULES))
def test_whatever_is_killed_every_figure_is_exact(
    node: Node, mortal_database: PostgresServer, tmp_path: Path, seed: int
) -> None:
    dice = random.Random(seed)
    log = Log(node.url, f"in{seed}")
    strikes = {"node": node.kill_and_start, "database": mortal_database.kill_and_start}
    # SQLite lives and dies with the process
    live_state = [mortal_database.live_state(tmp_path) if seed % 2 else {} for _ in range(2)]
    detectors = [one | {"alertAddress": f"out{seed}"} for one in DETECTORS]
    tables = {"compactEvery": 3, "keep": "1s"}
    file = document(tmp_path / "p", log, detectors=detectors, tables=tables, live=live_state[0])
    begin = int(SystemClock().now().timestamp()) - 7200
    sent, kills = 0, []
    for _ in range(KILLS):
        sent += log.publish(wave(dice, sent, begin))
        kill = chosen(dice)
        kills.append((kill, killed(file, kill, strikes.get(kill.get("victim", "")))))
    assert not killed(file, None), kills
    judged(file, sent)
    told_once(file, node.url, f"out{seed}")
    # the same messages in one go, by a process that nobody kills
    whole = document(
        tmp_path / "whole", log, detectors=DETECTORS, tables=tables, live=live_state[1]
    )
    assert not killed(whole, None)
    assert found_by(file) == found_by(whole), kills
