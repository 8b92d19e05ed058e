"""A run of a pipeline that is killed, or ends, and is started again as an init system does it."""

import contextlib
import os
import random
import signal
import subprocess
from pathlib import Path

from enmasse.pipeline import live
from enmasse.pipeline.places import read
from piping import opened
from running import ENMASSE

END_TIMEOUT_S = 120.0
STARTS_MAX = 10
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

    def __init__(self, file: Path, *words: str | Path) -> None:
        self._words = [ENMASSE, "pipeline", "run", "-f", file, "--output", "json", *words]
        self.starts = 0
        self._said = file.with_suffix(".stderr")
        _, places = read(file)
        # live state is looked at before the first run has made its folder
        places.state.mkdir(parents=True, exist_ok=True)
        _, _, self._live = opened(file)
        self._start()

    def _start(self) -> None:
        assert self.starts < STARTS_MAX, self._said.read_text()
        with self._said.open("wb") as said:
            self._run = subprocess.Popen(
                self._words, stdout=subprocess.PIPE, stderr=said, text=True
            )
        self.starts += 1

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
