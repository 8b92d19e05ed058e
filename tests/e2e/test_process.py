"""`enmasse up` as a process: output, refusals and signals. Contracts, section 1."""

import signal
import socket
import subprocess
from contextlib import closing
from pathlib import Path

import httpx2
import pytest
from proton import Message
from proton.utils import BlockingConnection

from platform_process import ENMASSE, LISTENERS, Platform, running

# Each test starts processes of a few seconds of CPU, maybe on a machine that is busy.
pytestmark = pytest.mark.timeout(120)

OFF = [part for name in LISTENERS for part in (f"--{name}-port", "off")]


def refused(*arguments: str | Path) -> str:
    """Start `enmasse up` where it cannot start; return its one line of error."""
    done = subprocess.run(
        [ENMASSE, "up", "--output", "json", *OFF, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, lines
    return lines[0]


def test_process_accepts_connections_on_every_listener(platform: Platform) -> None:
    assert set(platform.endpoints) == set(LISTENERS)
    for place in platform.endpoints.values():
        socket.create_connection((place["host"], place["port"]), timeout=20).close()


def test_healthz_and_readyz_return_200(platform: Platform) -> None:
    for page in ("healthz", "readyz"):
        assert httpx2.get(f"{platform.url('http')}/{page}").status_code == 200


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_signal_ends_the_process_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    with running(tmp_path) as up, closing(BlockingConnection(up.url())) as connection:
        connection.create_receiver("anycast")
        up.process.send_signal(number)
        assert up.process.wait(5) == 0
        assert up.process.stdout is not None
        assert up.process.stdout.read() == "", "stdout carries one line and nothing after"


def test_only_enabled_listeners_are_open(tmp_path: Path) -> None:
    names = ("amqps", "ws", "wss", "mqtt", "mqtts", "https")
    off = [part for name in names for part in (f"--{name}-port", "off")]
    with running(tmp_path, *off) as up:
        assert set(up.endpoints) == {"amqp", "http"}


def test_start_names_a_used_tcp_port(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert str(port) in refused("--data", tmp_path, "--amqp-port", str(port))


def test_a_bad_document_is_named_with_its_field(tmp_path: Path) -> None:
    document = tmp_path / "bad.yaml"
    document.write_text(
        "apiVersion: enmasse.io/v1beta1\nkind: Address\n"
        "metadata: {name: default.orders}\nspec: {address: orders, type: anycats}\n"
    )
    line = refused("--data", tmp_path / "data", "-f", document)
    assert "bad.yaml" in line and "spec.type" in line and "anycats" in line


def test_a_data_folder_belongs_to_one_process(platform: Platform) -> None:
    assert str(platform.data) in refused("--data", platform.data)


def test_a_newer_data_folder_is_refused(tmp_path: Path) -> None:
    with running(tmp_path) as up:
        assert up.endpoints
    (tmp_path / "format").write_text("999\n")
    assert "999" in refused("--data", tmp_path)


def test_the_soft_limit_of_open_files_is_raised(platform: Platform) -> None:
    limits = Path(f"/proc/{platform.process.pid}/limits").read_text()
    (line,) = [line for line in limits.splitlines() if line.startswith("Max open files")]
    soft, hard = line.split()[3:5]
    assert soft == hard


def test_logs_go_to_stderr_as_json_lines(tmp_path: Path) -> None:
    ports = [part for name in LISTENERS for part in (f"--{name}-port", "0")]
    command = [ENMASSE, "up", "--data", tmp_path, "--output", "json", *ports]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith('{"ready": true')
        process.terminate()
        _, logs = process.communicate(timeout=60)
    assert logs
    assert all(line.startswith("{") for line in logs.splitlines())


def test_shutdown_closes_connections_with_connection_forced(tmp_path: Path) -> None:
    with running(tmp_path) as up, closing(BlockingConnection(up.url())) as connection:
        sender = connection.create_sender("anycast")
        up.process.terminate()
        with pytest.raises(Exception, match="amqp:connection:forced"):
            sender.send(Message(body="too late"), timeout=10)
