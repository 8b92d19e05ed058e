"""`enmasse pipeline run` gives exact results while its processes and its servers are killed.

A seed decides which process is killed, in which order and after how many batches. The first run
dies between two steps of a batch.
"""

import contextlib
import os
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from enmasse.base.clock import SystemClock
from kill_at_call import POINTS
from pipeline_runs import check_alerts, check_tables, document, message
from pipeline_supervisor import FATAL, Supervisor
from platform_process import ENMASSE, Node
from postgres_server import PostgresServer
from published_streams import Log

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3000)]
SCHEDULES = max(1, int(os.environ.get("ENMASSE_PIPELINE_KILLS", "5")) // 25)
"""Schedules with real processes of Spark; `test_schedules` runs many more, without Spark."""
DETECTOR: dict[str, Any] = {
    "name": "hot",
    "metric": "temperature",
    "threshold": {"above": 48.5},
    "cooldown": 0,
}
VICTIMS = ("driver", "jvm", "planner", "worker", "node", "database")
WAVE, ROWS_MAX = 180, 60


@pytest.mark.parametrize("seed", range(SCHEDULES))
def test_all_counts_are_exact_after_kills_of_processes(
    node: Node, mortal_database: PostgresServer, tmp_path: Path, seed: int
) -> None:
    dice = random.Random(seed)
    log = Log(node.url, f"in{seed}")
    file = document(
        tmp_path / "p",
        log,
        {"maxRows": ROWS_MAX},
        detectors=[DETECTOR | {"alertAddress": f"out{seed}"}],
        sinks=[{"name": "hot", "address": f"on{seed}", "where": "value > 48.5"}],
        tables={"compactEvery": 3},
        live=mortal_database.live_state(tmp_path),
        trigger="100ms",
    )
    begin = int(SystemClock().now().timestamp()) - 7200
    sent = 0

    def publish() -> int:
        numbers = range(sent, sent + WAVE)
        return log.publish(message(number, time=begin + number) for number in numbers)

    sent += publish()
    dying = [dice.choice(list(POINTS)), "1", dice.choice(["before", "after"])]
    with contextlib.closing(Supervisor(file, dying=dying)) as run:
        run.goes_down()
        for victim in dice.sample(VICTIMS, len(VICTIMS)):
            # any batch of this wave may be in progress at the kill
            moment = sent + dice.randrange(1, WAVE)
            sent += publish()
            run.until(moment)
            if victim == "node":
                node.kill_and_start()
            elif victim == "database":
                mortal_database.kill_and_start()
            else:
                run.kill(victim, dice)
            run.until(sent)
        # the other victims are replaced without a restart of the run
        assert run.starts == 2 + len(FATAL), run.said()
        run.stop()
    check_tables(file, sent, has_gold=False)
    proved = subprocess.run(
        [ENMASSE, "pipeline", "reconcile", "-f", file],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert proved.returncode == 0, proved.stdout + proved.stderr
    # every 50th message has the value 49, each time from another device
    assert len(check_alerts(file, node.url, f"out{seed}")) == sent // 50
    rows = Log(node.url, f"on{seed}").bodies()
    paths = {(row["partition"], row["offset"]) for row in rows}
    assert (len(rows), len(paths)) == (sent // 50, sent // 50)
