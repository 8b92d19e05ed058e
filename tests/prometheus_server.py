"""A real Prometheus on loopback."""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2

PROMETHEUS = shutil.which("prometheus")
START_TIMEOUT_S = 30.0


@contextmanager
def prometheus_server(folder: Path, config: str = "") -> Iterator[str]:
    """Run Prometheus over the data in `folder`; yields its URL."""
    assert PROMETHEUS is not None, "run: make setup-interop"
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    file = folder / "prometheus.yml"
    file.write_text(config)
    with subprocess.Popen(
        [
            PROMETHEUS,
            *("--config.file", file, "--storage.tsdb.path", folder / "data"),
            *("--web.listen-address", f"127.0.0.1:{port}", "--storage.tsdb.retention.time=10y"),
            "--log.level=error",
        ]
    ) as process:
        url = f"http://127.0.0.1:{port}"
        try:
            _await_ready(url)
            yield url
        finally:
            process.terminate()


def _await_ready(url: str) -> None:
    end_s = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            if httpx2.get(f"{url}/-/ready", timeout=2).status_code == 200:
                return
        except httpx2.HTTPError:
            pass
        assert time.monotonic() < end_s, "Prometheus did not start"
        time.sleep(0.05)
