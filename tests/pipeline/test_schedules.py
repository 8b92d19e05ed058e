"""Results are exact after a pipeline, its node or its database is killed at seeded moments.

`batch_engine` replaces Spark and repeats batches as Spark does: a process starts at once, so that
many schedules fit into one run. `test_kills` and `test_deaths` use Spark.
"""

import json
import multiprocessing
import os
import random
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import batch_engine
from enmasse.base.clock import SystemClock
from enmasse.messaging import Message
from enmasse.pipeline.live import database
from enmasse.pipeline.paths import read
from pipeline_runs import check_alerts, check_tables, document, message, open_pipeline, rows
from platform_process import Node
from postgres_server import PostgresServer
from published_streams import Log

pytestmark = pytest.mark.timeout(1500)
SCHEDULES = int(os.environ.get("ENMASSE_PIPELINE_KILLS", "1"))
KILLS = 4
"""Kills of one schedule."""
WAVE = 120
"""Messages published before each kill."""
DEVICES = 6
SECONDS_MAX = 1.5
START_TIMEOUT_S = 120.0
DETECTORS: list[dict[str, Any]] = [
    {"name": "hot", "metric": "temperature", "threshold": {"above": 40}, "cooldown": 0},
    {"name": "jump", "metric": "temperature", "rate": {"above": 40, "per": "10s"}, "cooldown": 0},
]
PROCESSES = multiprocessing.get_context("forkserver")
# importing these modules takes seconds: the fork server imports them once
PROCESSES.set_forkserver_preload(
    ["enmasse.pipeline.ingest.batches", "enmasse.pipeline.live.alerts"]
)


def wave(dice: random.Random, first: int, begin: int) -> Iterator[Message]:
    """Readings a second apart; a few are late, and a few bodies are not JSON."""
    for number in range(first, first + WAVE):
        device = f"d{number % DEVICES}"
        fields = {"device": device, "time": begin + number - dice.choice([0] * 9 + [7])}
        fields["temperature"] = dice.choice([20.0, 21.5, 22.0, 45.0])
        body = b"{" if dice.random() < 0.02 else json.dumps(fields).encode()
        yield message(number, body)


def killed(
    file: Path,
    kill: dict[str, Any] | None,
    strike: Callable[[], None] | None = None,
    forwarded: str | None = None,
) -> bool:
    """Run until every batch is done; return whether the process was killed first.

    `strike` kills another process once this one has worked for `seconds`.
    """
    opened = PROCESSES.Event()
    own = kill if strike is None else None
    process = PROCESSES.Process(target=batch_engine.run, args=(file, own, opened, forwarded))
    process.start()
    if strike is not None and kill is not None:
        assert opened.wait(START_TIMEOUT_S)
        process.join(kill["seconds"])
        strike()
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0


def random_kill(dice: random.Random, points: Sequence[str]) -> dict[str, Any]:
    """A random kill: the process at a call of one of `points`, or any victim at any moment."""
    victim = dice.choice(["process", "process", "process", "node", "database"])
    if victim != "process":
        return {"victim": victim, "seconds": dice.uniform(0.0, SECONDS_MAX)}
    if dice.random() < 0.3:
        return {"seconds": dice.uniform(0.0, SECONDS_MAX)}
    point = dice.choice(points)
    return {"point": point, "count": dice.randrange(1, 8), "after": dice.random() < 0.5}


def live_state_of(file: Path) -> dict[str, Any]:
    """Live state without the fields that depend on the division into batches."""
    _, _, db = open_pipeline(file)
    with closing(db):
        incidents = [row | {"number": 0} for row in db.rows(database.ANOMALIES)]
        tables = {table.name: db.rows(table) for table in (database.LATEST, database.USAGE)}
        return tables | {"anomalies": sorted(incidents, key=lambda row: row["id"])}


def check_forwarded_once(file: Path, log: Log) -> None:
    """Check that each message is once at the address or in the table of rejected rows."""
    paths = read(file)[1]
    held = rows(paths, "bronze").select(["partition", "offset", "body"]).to_pylist()
    wanted = [([one["partition"], one["offset"]], one["body"] == b"{") for one in held]
    sent = log.bodies()
    assert sorted(sent) == sorted(place for place, is_bad in wanted if not is_bad)
    bad = sorted(place for place, is_bad in wanted if is_bad)
    lost = rows(paths, "rejected")["body"].to_pylist() if bad else []
    assert sorted(json.loads(body) for body in lost) == bad


@pytest.mark.parametrize("seed", range(SCHEDULES))
def test_all_counts_are_exact_after_kills(
    node: Node, mortal_database: PostgresServer, tmp_path: Path, seed: int
) -> None:
    dice = random.Random(seed)
    # every third seed reads a queue, whose messages cannot be read a second time
    is_queue = seed % 3 == 2
    log = Log(node.url, f"{'queue' if is_queue else 'in'}{seed}")
    points = [*batch_engine.POINTS, *batch_engine.SINK_POINTS]
    points += batch_engine.SPOOL_POINTS if is_queue else []
    source = {"spool": "spool"} if is_queue else {}
    strikes = {"node": node.kill_and_start, "database": mortal_database.kill_and_start}
    # SQLite runs in the process and is killed with it
    live_state = [mortal_database.live_state(tmp_path) if seed % 2 else {} for _ in range(2)]
    detectors = [one | {"alertAddress": f"out{seed}"} for one in DETECTORS]
    tables = {"compactEvery": 3, "keep": "1s"}
    spec: dict[str, Any] = {"tables": tables, "live": live_state[0]}
    file = document(tmp_path / "p", log, source, detectors=detectors, **spec)
    begin = int(SystemClock().now().timestamp()) - 7200
    sent, kills = 0, []
    for _ in range(KILLS):
        sent += log.publish(wave(dice, sent, begin))
        kill = random_kill(dice, points)
        strike = strikes.get(kill.get("victim", ""))
        kills.append((kill, killed(file, kill, strike, f"on{seed}")))
    assert not killed(file, None, forwarded=f"on{seed}"), kills
    check_tables(file, sent, has_gold=False)
    check_alerts(file, node.url, f"out{seed}")
    check_forwarded_once(file, Log(node.url, f"on{seed}"))
    if is_queue:
        return
    # the same messages in one run without kills
    spec["live"] = live_state[1]
    whole = document(tmp_path / "whole", log, detectors=DETECTORS, **spec)
    assert not killed(whole, None)
    assert live_state_of(file) == live_state_of(whole), kills


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True])
def test_results_are_exact_after_a_kill_at_each_spool_and_sink_commit(
    node: Node, tmp_path: Path, after: bool
) -> None:
    number = SCHEDULES + after
    dice, log = random.Random(number), Log(node.url, f"queue{number}")
    file = document(tmp_path / "p", log, {"spool": "spool"})
    begin = int(SystemClock().now().timestamp()) - 7200
    sent = 0
    for point in [*batch_engine.SPOOL_POINTS, "deliver", "keep rejected"]:
        sent += log.publish(wave(dice, sent, begin))
        kill = {"point": point, "count": 1, "after": after}
        assert killed(file, kill, forwarded=f"on{number}"), point
    assert not killed(file, None, forwarded=f"on{number}")
    check_tables(file, sent, has_gold=False)
    check_forwarded_once(file, Log(node.url, f"on{number}"))


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True])
def test_results_are_exact_after_a_kill_at_each_live_state_step(
    node: Node, mortal_database: PostgresServer, tmp_path: Path, after: bool
) -> None:
    """Kills around staging, around publication and around the commit of a batch: each incident is
    reported once."""
    number = SCHEDULES + after
    dice, log = random.Random(number), Log(node.url, f"in{number}")
    detectors = [one | {"alertAddress": f"out{number}"} for one in DETECTORS]
    live_state = [mortal_database.live_state(tmp_path / name) for name in ("some", "all")]
    file = document(tmp_path / "p", log, detectors=detectors, live=live_state[0])
    begin = int(SystemClock().now().timestamp()) - 7200
    sent = 0
    for point in ("stage", "publish", "within commit", "commit"):
        sent += log.publish(wave(dice, sent, begin))
        assert killed(file, {"point": point, "count": 1, "after": after}), point
    assert not killed(file, None)
    check_tables(file, sent, has_gold=False)
    assert check_alerts(file, node.url, f"out{number}")
    whole = document(tmp_path / "whole", log, detectors=DETECTORS, live=live_state[1])
    assert not killed(whole, None)
    assert live_state_of(file) == live_state_of(whole)
