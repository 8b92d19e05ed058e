"""A run of a pipeline that is killed, or ends, and is started again as an init system does it."""

import contextlib
import os
import random
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from enmasse.pipeline.live import database
from enmasse.pipeline.paths import read
from pipeline_runs import open_pipeline
from platform_process import ENMASSE

END_TIMEOUT_S = 900.0
STARTS_MAX = 10
DYING = Path(__file__).with_name("kill_at_call.py")
UNAVAILABLE = 7
MARKS = {
    "jvm": b"org.apache.spark.deploy.SparkSubmit",
    # plans the batches of a query, and is not replaced by Spark
    "planner": b"python_streaming_source_runner",
    "worker": b"pyspark.daemon",
}

FATAL = ("driver", "jvm")
"""Whose death an init system mends; that of all others the run does."""


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
    """Keeps a run alive as an init system would; the first dies where `dying` says, if it does."""

    def __init__(self, file: Path, *words: str | Path, dying: Sequence[str] = ()) -> None:
        self._words = ["pipeline", "run", "-f", file, "--output", "json", *words]
        self.starts = 0
        self._said = file.with_suffix(".stderr")
        _, paths = read(file)
        # live state is looked at before the first run has made its folder
        paths.state.mkdir(parents=True, exist_ok=True)
        _, _, self._live = open_pipeline(file)
        self._start([sys.executable, DYING, *dying] if dying else [ENMASSE])

    def _start(self, program: Sequence[str | Path] = (ENMASSE,)) -> None:
        assert self.starts < STARTS_MAX, self.said()
        with self._said.open("ab") as said:
            self._run = subprocess.Popen(
                [*program, *self._words], stdout=subprocess.PIPE, stderr=said, text=True
            )
        assert self._run.stdout is not None
        # from its first line on it may be stopped
        self._run.stdout.readline()
        self.starts += 1

    def until(self, messages: int) -> None:
        """Return when so many messages are in; a run that has ended is started again."""
        while sum(row["messages"] for row in self._live.rows(database.PROGRESS)) < messages:
            assert self._run.stdout is not None
            if not self._run.stdout.readline():
                self.goes_down()

    def goes_down(self) -> None:
        """Wait until the run has ended, and start it again.

        One that is not killed itself says why it ended, in a line.
        """
        code = self._waited()
        said = self.said()
        assert code in (UNAVAILABLE, -signal.SIGKILL), said
        assert code != UNAVAILABLE or said.splitlines()[-1].startswith("enmasse: "), said
        self._start()

    def said(self) -> str:
        """Return what the run that is there, or was the last, has said on stderr."""
        return self._said.read_text()

    def kill(self, victim: str, dice: random.Random) -> None:
        """Kill the driver, its JVM, or a Python process of that."""
        found = sorted(below(self._run.pid, MARKS[victim])) if victim in MARKS else [self._run.pid]
        with contextlib.suppress(ProcessLookupError):
            os.kill(dice.choice(found), signal.SIGKILL)
        if victim in FATAL:
            self.goes_down()

    def stop(self) -> None:
        """End the run as `enmasse pipeline stop` does."""
        self._run.terminate()
        assert self._waited() == 0, self.said()

    def close(self) -> None:
        self._run.kill()
        self._waited()
        self._live.close()

    def _waited(self) -> int:
        code = self._run.wait(END_TIMEOUT_S)
        if self._run.stdout is not None:
            self._run.stdout.close()
        return code
