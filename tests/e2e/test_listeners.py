"""Listeners besides plain ports: a Unix socket, and connections of proxies."""

import json
import shutil
import socket
import ssl
import stat
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from mqtt_client import device_at
from platform_process import Platform, running, up_command
from proton_client import PASSWORD, TIMEOUT_S, address, document, user

pytestmark = pytest.mark.timeout(120)

HAPROXY = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
CLIENT = "192.0.2.7"
"""The address that the proxy states (RFC 5737)."""


def header(command: int = 1) -> bytes:
    """A header of the PROXY protocol, version 2: TCP over IPv4, from CLIENT, with one TLV."""
    addresses = socket.inet_aton(CLIENT) + socket.inet_aton("198.51.100.1")
    block = addresses + (4711).to_bytes(2) + (1883).to_bytes(2) + b"\x04\x00\x01x"
    return b"\r\n\r\n\0\r\nQUIT\n" + bytes((0x20 | command, 0x11)) + len(block).to_bytes(2) + block


def connect(client_id: str, user_name: str = "", password: str = "") -> bytes:
    """CONNECT of MQTT 3.1.1 with clean session."""
    fields = [text for text in (client_id, user_name, password) if text]
    flags = 0xC2 if user_name else 2
    body = b"\0\x04MQTT\x04" + bytes((flags, 0, 0))
    body += b"".join(len(text).to_bytes(2) + text.encode() for text in fields)
    return bytes((0x10, len(body))) + body


def answer(connection: socket.socket) -> bytes:
    """The CONNACK of 3.1.1, or what comes before the end of the stream."""
    received = b""
    while len(received) < 4 and (more := connection.recv(4 - len(received))):
        received += more
    return received


ACCEPTED, NOT_AUTHORIZED = b"\x20\x02\0\0", 4


def connection_of(platform: Platform, client_id: str) -> dict[str, Any]:
    """The listed connection of a client."""
    items = json.loads(platform.enmasse("get", "connections", "-o", "json"))["items"]
    (found,) = [one for one in items if one["container"] == client_id]
    return dict(found)


def mosquitto(program: str, path: Path, *arguments: str) -> list[str]:
    return [program, "--unix", str(path), "-V", "5", "-q", "1", *arguments]


def test_mosquitto_uses_the_unix_socket_until_the_platform_stops(tmp_path: Path) -> None:
    path = tmp_path / "mqtt.sock"
    with running(tmp_path / "data", "--mqtt-socket", str(path)) as platform:
        mode = path.stat().st_mode
        assert stat.S_ISSOCK(mode) and stat.S_IMODE(mode) == 0o660
        report = json.loads((platform.data / "endpoint.json").read_text())
        assert report["sockets"] == {"mqtt": str(path)}
        with device_at(platform) as over_tcp:
            over_tcp.subscribe("readings/#", 1)
            subprocess.run(
                mosquitto("mosquitto_pub", path, "-t", "readings/1", "-m", "21"),
                check=True,
                timeout=TIMEOUT_S,
            )
            assert over_tcp.take(1) == [("readings/1", b"21")]
            with closing(socket.socket(socket.AF_UNIX)) as local:
                local.settimeout(TIMEOUT_S)
                local.connect(str(path))
                local.sendall(connect("local"))
                assert answer(local) == ACCEPTED
                listed = connection_of(platform, "local")
                assert listed["transport"] == "mqtt-unix"
                assert listed["peer"] is None
        trail = json.loads(platform.enmasse("audit", "--logins", "-o", "json"))["items"]
        assert "mqtt-unix" in {one.get("transport") for one in trail}
    assert not path.exists()


def test_socket_of_a_dead_process_is_replaced_and_one_in_use_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mqtt.sock"
    option = ("--mqtt-socket", str(path))
    with running(tmp_path / "one", *option) as platform:
        platform.kill()
    assert path.exists(), "a killed process removes nothing"
    with running(tmp_path / "one", *option):
        second = subprocess.run(
            up_command(tmp_path / "two", *option), capture_output=True, text=True, timeout=60
        )
        assert second.returncode == 1
        assert str(path) in second.stderr and "another process listens" in second.stderr
        with closing(socket.socket(socket.AF_UNIX)) as local:
            local.connect(str(path))
            local.sendall(connect("first"))
            assert answer(local) == ACCEPTED, "the first process still serves its socket"


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A platform with a user, behind a proxy on this machine."""
    folder = tmp_path_factory.mktemp("proxied")
    documents = document(folder, address("readings", "topic"), user("alice", "readings"))
    option = ("--proxy-protocol", "127.0.0.0/8, 2001:db8::/32", "-f", documents)
    with running(folder / "data", *option) as platform:
        yield platform


def through(platform: Platform, listener: str, first: bytes) -> socket.socket:
    """A connection to a listener whose first bytes are these."""
    place = platform.endpoints[listener]
    connection = socket.create_connection((place["host"], place["port"]), timeout=TIMEOUT_S)
    connection.sendall(first)
    return connection


def over_tls(platform: Platform, connection: socket.socket) -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=platform.data / "tls" / "ca.crt")
    context.check_hostname = False
    return context.wrap_socket(connection)


def test_connection_over_tls_is_that_of_the_client_of_the_proxy(proxied: Platform) -> None:
    with over_tls(proxied, through(proxied, "mqtts", header())) as connection:
        connection.sendall(connect("behind", "alice", PASSWORD))
        assert answer(connection) == ACCEPTED
        assert connection_of(proxied, "behind")["peer"] == f"{CLIENT}:4711"
    trail = json.loads(proxied.enmasse("audit", "--logins", "-o", "json"))["items"]
    assert CLIENT in {one["from"] for one in trail if one["who"] == "alice"}


def test_password_of_another_machine_needs_tls_although_the_proxy_is_on_this_one(
    proxied: Platform,
) -> None:
    with through(proxied, "mqtt", header() + connect("remote", "alice", PASSWORD)) as connection:
        assert answer(connection)[3:] == bytes((NOT_AUTHORIZED,))
    # LOCAL: the proxy itself.
    with through(proxied, "mqtt", header(0) + connect("local", "alice", PASSWORD)) as connection:
        assert answer(connection) == ACCEPTED
        assert connection_of(proxied, "local")["peer"].startswith("127.0.0.1:")


@pytest.mark.parametrize("listener", ["amqp", "amqps", "ws", "wss", "mqtt", "mqtts"])
def test_connection_without_the_header_is_closed(proxied: Platform, listener: str) -> None:
    with through(proxied, listener, connect("plain")) as connection:
        assert connection.recv(1) == b""


def test_header_of_a_peer_that_is_not_listed_is_refused(platform: Platform) -> None:
    with through(platform, "mqtt", header() + connect("forged")) as connection:
        assert connection.recv(1) == b""
    with device_at(platform, "unproxied"):
        assert connection_of(platform, "unproxied")["peer"].startswith("127.0.0.1:")


def configuration(listener: int, place: dict[str, Any], option: str) -> str:
    """TCP from an inherited descriptor to a listener of the platform."""
    return (
        "global\n  maxconn 100\n"
        "defaults\n  mode tcp\n  timeout connect 10s\n  timeout client 60s\n  timeout server 60s\n"
        f"frontend devices\n  bind fd@{listener}\n  default_backend platform\n"
        f"backend platform\n  server node {place['host']}:{place['port']} {option}\n"
    )


@contextmanager
def haproxy(folder: Path, place: dict[str, Any], option: str) -> Iterator[int]:
    """HAProxy on a port that listens before the process starts, so clients need not wait for it."""
    assert HAPROXY, "HAProxy is not installed; run: make setup-dev"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        file = folder / "haproxy.cfg"
        file.write_text(configuration(listener.fileno(), place, option))
        command = [HAPROXY, "-db", "-f", str(file)]
        process = subprocess.Popen(command, pass_fds=[listener.fileno()])
        try:
            yield listener.getsockname()[1]
        finally:
            process.terminate()
            process.wait(TIMEOUT_S)


def test_client_behind_haproxy_is_listed_with_its_own_address(
    proxied: Platform, tmp_path: Path
) -> None:
    with (
        haproxy(tmp_path, proxied.endpoints["mqtt"], "send-proxy-v2") as port,
        socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as client,
    ):
        client.sendall(connect("behind", "alice", PASSWORD))
        assert answer(client) == ACCEPTED
        # Not the port from which HAProxy has connected.
        own = f"127.0.0.1:{client.getsockname()[1]}"
        assert connection_of(proxied, "behind")["peer"] == own


def test_connections_of_haproxy_without_headers_are_closed(
    proxied: Platform, tmp_path: Path
) -> None:
    with (
        haproxy(tmp_path, proxied.endpoints["mqtt"], "") as port,
        socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as client,
    ):
        client.sendall(connect("bare", "alice", PASSWORD))
        assert answer(client) == b""
