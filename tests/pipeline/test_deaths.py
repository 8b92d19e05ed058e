"""`enmasse pipeline run` while the processes around it and in it are killed: all is exact.

What is killed, in which order and after how many batches, a seed says.
"""

import contextlib
import os
import random
import signal
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
END_TIMEOUT_S = 120.0
UNAVAILABLE = 7
JVM, WORKER = b"org.apache.spark.deploy.SparkSubmit", b"pyspark.daemon"


def below(pid: int, mark: bytes) -> list[int]:
    """The processes below one whose command line has a mark."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes()
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                if parent == pid:
                    found += [int(entry.name)] if mark in words else []
                    found += below(int(entry.name), mark)
    return found


class Supervisor:
    """Keeps a run alive as an init system would."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._said = file.with_suffix(".stderr")
        _, _, self._live = opened(file)
        self._start()

    def _start(self) -> None:
        words = [ENMASSE, "pipeline", "run", "-f", self._file, "--output", "json"]
        with self._said.open("wb") as said:
            self._run = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=said, text=True)

    def until(self, messages: int) -> None:
        """Return when so many messages are in; a run that has ended is started again."""
        while sum(row["messages"] for row in self._live.rows(live.PROGRESS)) < messages:
            assert self._run.stdout is not None
            if not self._run.stdout.readline():
                self._ended()
                self._start()

    def _ended(self) -> None:
        """A run that is not killed itself says why it ended, in a line."""
        code = self._waited()
        said = self._said.read_text()
        assert code in (UNAVAILABLE, -signal.SIGKILL), said
        assert code != UNAVAILABLE or said.splitlines()[-1].startswith("enmasse: "), said

    def kill(self, victim: str, dice: random.Random) -> None:
        """Kill the driver, its JVM, or a Python worker of that."""
        marks = {"jvm": JVM, "worker": WORKER}
        found = sorted(below(self._run.pid, marks[victim])) if victim in marks else [self._run.pid]
        with contextlib.suppress(ProcessLookupError):
            os.kill(dice.choice(found), signal.SIGKILL)

    def stop(self) -> None:
        """End the run as `enmasse pipeline stop` does."""
        self._run.terminate()
        assert self._waited() == 0, self._said.read_text()

    def close(self) -> None:
        self._run.kill()
        self._waited()
        self._live.close()

    def _waited(self) -> int:
        code = self._run.wait(END_TIMEOUT_S)
        if self._run.stdout is not None:
            self._run.stdout.close()
        return code


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
