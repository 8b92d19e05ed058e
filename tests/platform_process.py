"""A platform that runs as a user would start it."""

import base64
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ENMASSE = Path(sys.executable).with_name("enmasse")
LISTENERS = ("amqp", "amqps", "ws", "wss", "mqtt", "mqtts", "http", "https")
FREE_PORTS: dict[str, Any] = {f"{name}_port": 0 for name in LISTENERS}
"""Settings by which each listener takes a free port."""

NO_PORTS: dict[str, Any] = dict.fromkeys(FREE_PORTS, "off")
"""Settings without listeners."""

STOP_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Platform:
    """A running `enmasse up`."""

    process: subprocess.Popen[str]
    data: Path
    endpoints: dict[str, dict[str, Any]]

    def port(self, listener: str = "amqp") -> int:
        return int(self.endpoints[listener]["port"])

    def url(self, listener: str = "amqp") -> str:
        place = self.endpoints[listener]
        return f"{listener}://{place['host']}:{place['port']}"

    @property
    def environment(self) -> dict[str, str]:
        """The environment in which the command line finds this platform."""
        return os.environ | {"ENMASSE_DATA": str(self.data)}

    def space(self, name: str = "default") -> dict[str, Any]:
        """An address space as it is."""
        found: dict[str, Any] = json.loads(self.enmasse("get", "addressspace", name, "-o", "json"))
        return found

    def authority(self, space: str = "default") -> str:
        """Whom clients of a space trust, as its status says; PEM."""
        return base64.b64decode(self.space(space)["status"]["caCert"]).decode()

    def peak_bytes(self) -> int:
        """The most memory the process ever had resident."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        (line,) = [line for line in status.splitlines() if line.startswith("VmHWM")]
        return int(line.split()[1]) * 1024

    def kill(self) -> None:
        """End the process at once, as `kill -9` does."""
        self.process.kill()
        self.process.wait(STOP_TIMEOUT_S)

    def say(self, *arguments: str) -> int:
        """Run one command against this platform; return how it ended."""
        command = [ENMASSE, *arguments]
        return subprocess.run(command, env=self.environment, timeout=60.0).returncode

    def enmasse(self, *arguments: str, timeout_s: float = 60.0) -> str:
        """Run one command against this platform; return what it printed."""
        done = subprocess.run(
            [ENMASSE, *arguments],
            env=self.environment,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            timeout=timeout_s,
        )
        return done.stdout


def up_command(
    data: Path, *arguments: str, program: Sequence[str | Path] = (ENMASSE,)
) -> list[str | Path]:
    """The command that starts the platform on free ports; of two equal options the last holds."""
    ports = [part for name in LISTENERS for part in (f"--{name}-port", "0")]
    return [*program, "up", "--data", data, "--output", "json", *ports, *arguments]


@contextmanager
def running(
    data: Path,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    ends: Collection[int | None] = (None, 0, -signal.SIGKILL),
    log: Path | None = None,
    program: Sequence[str | Path] = (ENMASSE,),
) -> Iterator[Platform]:
    """Start `enmasse up` on free ports and wait until it says that it is ready.

    `environment` is added to that of the test; `ends` is how it may have ended (None: not yet).
    `program` is another `enmasse` than that of this environment.
    Its log goes to the file `log`, by default to the test's stderr. Only the file is fit to be read
    while the process runs: pytest truncates what it captures after it has read it, and with that
    drops each line written in between.
    """
    with ExitStack() as stack:
        stderr = stack.enter_context(log.open("ab")) if log else None
        process = stack.enter_context(
            subprocess.Popen(
                up_command(data, *arguments, program=program),
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                env=os.environ | dict(environment or {}),
            )
        )
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, f"`enmasse up` ended with {process.wait(STOP_TIMEOUT_S)} before ready"
            yield Platform(process, data, json.loads(line)["endpoints"])
            assert process.poll() in ends, f"`enmasse up` ended with {process.returncode}"
        finally:
            process.terminate()
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                raise


Start = Callable[..., Platform]
"""Starts a platform with these arguments to `enmasse up`."""


class Node:
    """A platform that is killed and started again, on its data and at its port."""

    def __init__(self, data: Path, arguments: Collection[str]) -> None:
        self._data = data
        self._life = ExitStack()
        self._platform = self._life.enter_context(running(data, *arguments))
        self.url = self._platform.url()
        self._port = str(self._platform.port())

    def kill_and_start(self) -> None:
        self._platform.kill()
        self._life.close()
        self._platform = self._life.enter_context(running(self._data, "--amqp-port", self._port))

    def close(self) -> None:
        self._life.close()


@contextmanager
def mortal_node(folder: Path, documents: Collection[str]) -> Iterator[Node]:
    """Start a node that has these documents, and stop it at the end."""
    path = folder / "documents.yaml"
    path.write_text("---\n".join(documents))
    with closing(Node(folder / "data", ["-f", str(path)])) as node:
        yield node
