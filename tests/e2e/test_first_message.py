"""`make run`: the first message, and the text that is printed."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from platform_process import LISTENERS, running

RUN = Path(__file__).parent.parent.parent / "scripts" / "run.py"
PORTS = [part for name in LISTENERS for part in (f"--{name}-port", "0")]

pytestmark = pytest.mark.timeout(300)


def once(data: Path, *arguments: str | Path) -> str:
    """Start, try a first message, stop; return the output."""
    done = subprocess.run(
        [sys.executable, RUN, "--once", "--data", data, *PORTS, *arguments],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=240,
    )
    return done.stdout


def test_run_script_passes_a_first_message(tmp_path: Path) -> None:
    said = once(tmp_path)
    assert "a first message has crossed it" in said
    for name in LISTENERS:
        assert f"  {name:6} 127.0.0.1:" in said


def test_run_script_restarts_with_changed_resources(tmp_path: Path) -> None:
    with running(tmp_path) as up:
        up.enmasse("create", "addressspace", "shop")
        up.enmasse("create", "user", "alice", "--password", "wonderland")
        up.enmasse("create", "address", "orders", "--type", "anycast", "--space", "shop")
    assert "a first message has crossed it" in once(tmp_path), "shop is open"
    with running(tmp_path) as up:
        up.enmasse("delete", "address", "orders", "--space", "shop")
    assert "no open address space has an anycast address" in once(tmp_path)


@pytest.mark.parametrize("listener", ["amqp", "http"])
def test_run_script_skips_the_first_message_without_a_listener(
    tmp_path: Path, listener: str
) -> None:
    assert f"--{listener}-port is off" in once(tmp_path, f"--{listener}-port", "off")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_signal_to_the_run_script_stops_the_platform(
    tmp_path: Path, number: signal.Signals
) -> None:
    command = [sys.executable, RUN, "--data", tmp_path, *PORTS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while not (line := process.stdout.readline()).startswith("EnMasse is up"):
            assert line, f"it ended with {process.wait(10)}"
        process.send_signal(number)
        # The pipe ends when the platform, which also has it, has ended.
        process.stdout.read()
        assert process.wait(60) == 0
    assert not (tmp_path / "endpoint.json").exists()
