"""A standalone cluster of Spark on loopback, from the package that tests have anyway.

Its workers start a Python that has no packages at all: what executors import has to travel.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
EXECUTOR = "CoarseGrainedExecutorBackend"
STOP_TIMEOUT_S = 30.0
CLEANUP = ("enabled=true", "interval=10", "appDataTtl=10")
"""Workers delete the folders of applications that have ended, after seconds."""
PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"


def home() -> Path:
    """Where Spark is installed."""
    spec = find_spec("pyspark")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent


@contextmanager
def spark_process(
    said: Path, ready: str, words: list[str], environment: Mapping[str, str]
) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Start a program of Spark; yield it and what `ready` found once it has said so."""
    command = [home() / "bin" / "spark-class", *words]
    with said.open("wb") as file:
        process = subprocess.Popen(
            command, stdout=file, stderr=file, start_new_session=True, env=dict(environment)
        )
    try:
        with subprocess.Popen(
            ["tail", "-n", "+1", f"--pid={process.pid}", "-F", said],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as tail:
            assert tail.stdout is not None
            try:
                lines = (re.search(ready, line) for line in tail.stdout)
                found = next((one for one in lines if one), None)
            finally:
                tail.kill()
        assert found is not None, f"it ended before it was ready: {said.read_text()[-2000:]}"
        yield process, found[1]
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@dataclass(frozen=True)
class Cluster:
    """A running master with workers."""

    master: str
    folder: Path

    def executors(self) -> list[int]:
        """Return the executors of this cluster that live now."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                try:
                    words = (entry / "cmdline").read_bytes()
                    runs_here = Path(os.readlink(entry / "cwd")).is_relative_to(self.folder)
                except OSError:
                    continue
                if EXECUTOR.encode() in words and b"java" in words.split(b"\0")[0] and runs_here:
                    found.append(int(entry.name))
        return found


@contextmanager
def cluster(folder: Path, workers: int) -> Iterator[Cluster]:
    """Start a master and workers of one core each, and stop them at the end."""
    bare = folder / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    assert (bare / "bin" / PYTHON).exists()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {
        "PATH": f"{bare / 'bin'}:{os.environ['PATH']}",
        "SPARK_HOME": str(home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        # bounds of the daemons themselves; an executor has 1 GiB
        "SPARK_DAEMON_MEMORY": "256m",
        # each start of an executor unpacks the package of the pipeline: hundreds of megabytes
        "SPARK_WORKER_OPTS": " ".join(f"-Dspark.worker.cleanup.{one}" for one in CLEANUP),
    }
    ports = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
    with ExitStack() as stack:
        _, master = stack.enter_context(
            spark_process(
                folder / "master.log",
                r"Starting Spark master at (spark://127\.0\.0\.1:\d+)",
                [MASTER, *ports],
                environment,
            )
        )
        for number in range(workers):
            words = ["--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"w{number}")]
            stack.enter_context(
                spark_process(
                    folder / f"worker{number}.log",
                    r"(Successfully registered) with master",
                    [WORKER, *ports, *words, master],
                    environment,
                )
            )
        yield Cluster(master, folder)
