"""A real Prometheus on loopback."""

import shutil
import socket
import subprocess
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path


@contextmanager
def prometheus_server(folder: Path, config: str = "") -> Iterator[str]:
    """Run Prometheus over the data in `folder`; yields its URL."""
    assert shutil.which("prometheus"), "Prometheus is not installed; run: make setup-interop"
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    file = folder / "prometheus.yml"
    file.write_text(config)
    command = [
        *("prometheus", "--config.file", file, "--storage.tsdb.path", folder / "data"),
        *("--web.listen-address", f"127.0.0.1:{port}", "--storage.tsdb.retention.time=10y"),
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = _until_ready(process.stderr)
        # It must not wait for a reader of its log.
        draining = threading.Thread(target=lambda: deque(said, maxlen=0))
        draining.start()
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            draining.join()


def _until_ready(log: Iterable[str]) -> Iterator[str]:
    """Read the log until it serves; return the rest."""
    lines = iter(log)
    heard: list[str] = []
    for line in lines:
        heard.append(line)
        if "ready to receive web requests" in line:
            return lines
    raise AssertionError("Prometheus has ended: " + "".join(heard[-20:]))
