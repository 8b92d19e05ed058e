"""A pipeline whose processes and servers are killed while messages arrive, and the checks after it.

A seed decides which process is killed, in which order and after how many messages. The first run
ends between two steps of a batch.
"""

import contextlib
import os
import random
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from enmasse.base.clock import SystemClock
from kill_at_call import POINTS
from pipeline_runs import check_alerts, check_tables, document, message
from pipeline_supervisor import FATAL, MARKS, Supervisor, below
from platform_process import ENMASSE, Node
from postgres_server import PostgresServer
from published_streams import Log
from spark_cluster import Cluster

DETECTOR: dict[str, Any] = {
    "name": "hot",
    "metric": "temperature",
    "threshold": {"above": 48.5},
    "cooldown": 0,
}
LOCAL = ("driver", "jvm", "planner", "worker", "node", "database")
REMOTE = ("driver", "executor", "planner", "worker", "node", "database")
"""The victims of a run with Spark in its own JVM, and of one with executors on a cluster."""
WAVE, ROWS_MAX, INCIDENT_EVERY = 180, 60, 50
"""Messages for each kill and of a batch at most; every so-manyth message begins an incident."""


@dataclass(frozen=True)
class Place:
    """The servers of a schedule, and the cluster, if executors are to run there."""

    node: Node
    database: PostgresServer
    cluster: Cluster | None = None
    package: Path | None = None

    @property
    def victims(self) -> Sequence[str]:
        return LOCAL if self.cluster is None else REMOTE

    def words(self) -> list[str | Path]:
        """Return the options of a command that uses Spark."""
        if self.cluster is None or self.package is None:
            return []
        return ["--master", self.cluster.master, "--package", self.package]

    def kill(self, victim: str, run: Supervisor, dice: random.Random) -> None:
        """Kill a process or a server; a server starts again."""
        if victim == "node":
            self.node.kill_and_start()
        elif victim == "database":
            self.database.kill_and_start()
        elif self.cluster is None or victim in ("driver", "planner"):
            run.kill(victim, dice)
        else:
            found = executors = self.cluster.executors()
            if victim == "worker":
                found = [pid for one in executors for pid in below(one, MARKS["worker"])]
            with contextlib.suppress(ProcessLookupError):
                os.kill(dice.choice(sorted(found)), signal.SIGKILL)


def run_schedule(
    place: Place, folder: Path, seed: int, kills: int, addresses: Mapping[str, str]
) -> dict[str, Any]:
    """Run a pipeline through this number of kills; check all results; return what happened.

    `addresses` are the streams `in` of messages, `out` of alerts and `on` of forwarded rows.
    """
    dice = random.Random(seed)
    log = Log(place.node.url, addresses["in"])
    file = document(
        folder,
        log,
        {"maxRows": ROWS_MAX},
        detectors=[DETECTOR | {"alertAddress": addresses["out"]}],
        sinks=[{"name": "hot", "address": addresses["on"], "where": "value > 48.5"}],
        tables={"compactEvery": 3},
        live=place.database.live_state(folder.parent / f"{folder.name}-secret"),
        trigger="100ms",
    )
    begin = int(SystemClock().now().timestamp()) - 7200
    sent = 0

    def publish() -> int:
        numbers = range(sent, sent + WAVE)
        return log.publish(message(number, time=begin + number) for number in numbers)

    sent += publish()
    dying = [dice.choice(list(POINTS)), "1", dice.choice(["before", "after"])]
    victims = [victim for _ in range(kills) for victim in dice.sample(place.victims, len(LOCAL))]
    with contextlib.closing(Supervisor(file, *place.words(), dying=dying)) as run:
        run.goes_down()
        for victim in victims[: kills - 1]:
            # any batch of this wave may be in progress at the kill
            moment = sent + dice.randrange(1, WAVE)
            sent += publish()
            run.until(moment)
            place.kill(victim, run, dice)
            run.until(sent)
        # the other victims are replaced without a restart of the run
        fatal = sum(victim in FATAL for victim in victims[: kills - 1])
        assert run.starts == 2 + fatal, run.said()
        run.stop()
    _command(place, "run", file, "--once")
    _command(place, "reconcile", file)
    check_tables(file, sent)
    incidents = len(check_alerts(file, place.node.url, addresses["out"]))
    rows = Log(place.node.url, addresses["on"]).bodies()
    positions = {(row["partition"], row["offset"]) for row in rows}
    # each time from another device
    wanted = sent // INCIDENT_EVERY
    assert (incidents, len(rows), len(positions)) == (wanted, wanted, wanted)
    killed = [f"driver {dying[2]} {dying[0]}", *victims[: kills - 1]]
    return {"seed": seed, "killed": killed, "messages": sent, "incidents": incidents}


def _command(place: Place, what: str, file: Path, *more: str) -> None:
    done = subprocess.run(
        [ENMASSE, "pipeline", what, "-f", file, *place.words(), *more],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
