"""`enmasse pipeline run` while the processes around it and in it are killed: all is exact.

What is killed, in which order and after how many batches, a seed says.
"""

import contextlib
import os
import random
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from enmasse.base.clock import SystemClock
from enmasse.pipeline import demo, live
from piping import document, judged, message, opened
from postgres_server import PostgresServer, postgres_server
from publishing import Log
from running import ENMASSE, Node, mortal_node
from stream_documents import SPACE, stream
from supervising import Supervisor

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3000)]
SCHEDULES = max(1, int(os.environ.get("ENMASSE_PIPELINE_KILLS", "5")) // 25)
"""Of real processes of Spark; `test_schedules` has the many, without Spark."""
DETECTOR: dict[str, Any] = {
    "name": "hot",
    "metric": "temperature",
    "threshold": {"above": 48.5},
    "cooldown": 0,
}
VICTIMS = ("driver", "jvm", "worker", "node", "database")
WAVE = 300
ROWS_MAX = 60


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    names = [f"{kind}{seed}" for seed in range(SCHEDULES) for kind in ("in", "out")]
    documents = [SPACE, *(stream(name) for name in names)]
    with mortal_node(tmp_path_factory.mktemp("deaths"), documents) as started:
        yield started


@pytest.fixture(scope="module")
def database() -> Iterator[PostgresServer]:
    """A server of its own: it is killed."""
    with postgres_server() as found:
        yield found


@pytest.mark.parametrize("seed", range(SCHEDULES))
def test_whoever_is_killed_every_figure_is_exact(
    node: Node, database: PostgresServer, tmp_path: Path, seed: int
) -> None:
    dice = random.Random(seed)
    log = Log(node.url, f"in{seed}")
    file = document(
        tmp_path / "p",
        log,
        {"maxRows": ROWS_MAX},
        detectors=[DETECTOR | {"alertAddress": f"out{seed}"}],
        live={"url": database.new_database()},
        trigger="100ms",
    )
    begin = int(SystemClock().now().timestamp()) - 7200
    sent = 0
    with contextlib.closing(Supervisor(file)) as run:
        for victim in dice.sample(VICTIMS, len(VICTIMS)):
            wave = [message(sent + one, time=begin + sent + one) for one in range(WAVE)]
            # the first batch is under way, or the last one, or one in between
            moment = sent + dice.randrange(1, WAVE)
            sent += log.publish(wave)
            run.until(moment)
            if victim == "node":
                node.kill_and_start()
            elif victim == "database":
                database.kill_and_start()
            else:
                run.kill(victim, dice)
        run.until(sent)
        run.stop()
    judged(file, sent)
    proved = subprocess.run(
        [ENMASSE, "pipeline", "reconcile", "-f", file],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert proved.returncode == 0, proved.stdout + proved.stderr
    _, _, db = opened(file)
    with contextlib.closing(db):
        ids = [row["id"] for row in db.rows(live.ANOMALIES)]
    # 49 comes every 50 messages, each time of another device
    assert len(ids) == sent // 50
    told = Counter(alert["id"] for alert in demo.received(node.url, f"out{seed}", "{}"))
    assert told == Counter(ids)
