"""Building and calling the client programs of `clients/`."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from platform_process import Platform

SOURCES = Path(__file__).parent / "clients"
CACHE = Path(__file__).parent.parent.parent / ".cache" / "interop"
BUILD_TIMEOUT_S = 1200
CALL_TIMEOUT_S = 110
STORE_PASSWORD = "interop"
QUICK = ("python", "javascript", "aiomqtt", "mosquitto", "mqttjs")


def _shell(*command: str | Path, cwd: Path, **environment: str) -> None:
    subprocess.run(
        command, cwd=cwd, env=os.environ | environment, check=True, timeout=BUILD_TIMEOUT_S
    )


def _nothing(source: Path, built: Path) -> None:
    """Python's client needs no build: the `test` extra installed its library."""


def _npm(source: Path, built: Path) -> None:
    for name in ("package.json", "package-lock.json"):
        shutil.copy(source / name, built / name)
    _shell("npm", "ci", "--no-audit", "--no-fund", "--loglevel=error", cwd=built)


def _maven(source: Path, built: Path) -> None:
    _shell("mvn", "-q", "-B", "package", f"-Dbuild.folder={built}", cwd=source)


def _go(source: Path, built: Path) -> None:
    _shell("go", "build", "-o", built / "client", ".", cwd=source)


def _cargo(source: Path, built: Path) -> None:
    _shell("cargo", "build", "--locked", "--quiet", cwd=source, CARGO_TARGET_DIR=str(built))


def _pip(source: Path, built: Path) -> None:
    _shell(sys.executable, "-m", "venv", "--clear", built / "venv", cwd=source)
    install = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    _shell(built / "venv/bin/python", *install, "-r", source / "requirements.txt", cwd=source)


@dataclass(frozen=True)
class Client:
    """A foreign library, and the program that drives it."""

    name: str
    library: str
    build: Callable[[Path, Path], None]
    command: tuple[str, ...]
    """`{source}` and `{built}` stand for the program's folder and for what its build left."""

    mechanisms: tuple[str, ...] = ()
    """SASL mechanisms the library has; NONE: it can leave the SASL layer out."""

    websocket: bool = False

    virtual_host: bool = False
    """Whether the library can name a virtual host in `sasl-init`."""

    queues: bool = False
    """Whether the program has the scenarios of queues."""

    def prepare(self) -> None:
        """Build the program, unless it was built from the same sources before."""
        source, built = SOURCES / self.name, CACHE / self.name
        digest = hashlib.sha256()
        for path in sorted(source.rglob("*")):
            if path.is_file() and "node_modules" not in path.parts:
                digest.update(str(path.relative_to(source)).encode() + path.read_bytes())
        stamp = built / "built-from"
        if stamp.exists() and stamp.read_text() == digest.hexdigest():
            return
        built.mkdir(parents=True, exist_ok=True)
        self.build(source, built)
        stamp.write_text(digest.hexdigest())

    def call(self, scenario: str, **options: Any) -> dict[str, Any]:
        """Run one scenario; return the program's answer."""
        places = {"source": str(SOURCES / self.name), "built": str(CACHE / self.name)}
        command = [part.format(**places) for part in self.command]
        done = subprocess.run(
            [*command, scenario, json.dumps(options)],
            env=os.environ | {"NODE_PATH": f"{places['built']}/node_modules"},
            stdout=subprocess.PIPE,
            text=True,
            timeout=CALL_TIMEOUT_S,
        )
        assert done.returncode == 0, f"{self.library} failed at {scenario}; see its stderr"
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer


JAVA = ("java", "-cp", "{built}/client.jar:{built}/lib/*", "Client")
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")

CLIENTS = {
    client.name: client
    for client in (
        Client(
            "python",
            "python-qpid-proton",
            _nothing,
            (sys.executable, "{source}/client.py"),
            ("NONE", "ANONYMOUS", "PLAIN", "EXTERNAL", *SCRAM),
        ),
        Client(
            "javascript",
            "rhea",
            _npm,
            ("node", "{source}/client.js"),
            ("NONE", "ANONYMOUS", "PLAIN", "EXTERNAL"),
            websocket=True,
            virtual_host=True,
            queues=True,
        ),
        Client(
            "java",
            "Qpid JMS",
            _maven,
            JAVA,
            ("NONE", "ANONYMOUS", "PLAIN", "EXTERNAL", *SCRAM),
            websocket=True,
            virtual_host=True,
            queues=True,
        ),
        Client(
            "go",
            "go-amqp",
            _go,
            ("{built}/client",),
            ("NONE", "ANONYMOUS", "PLAIN", "EXTERNAL"),
            queues=True,
        ),
        Client(
            "rust",
            "fe2o3-amqp",
            _cargo,
            ("{built}/debug/client",),
            ("NONE", "ANONYMOUS", "PLAIN", "EXTERNAL", *SCRAM),
            virtual_host=True,
        ),
    )
}


MQTT_CLIENTS = {
    client.name: client
    for client in (
        Client("aiomqtt", "aiomqtt, paho-mqtt", _nothing, (sys.executable, "{source}/client.py")),
        Client("mosquitto", "libmosquitto", _nothing, (sys.executable, "{source}/client.py")),
        Client("mqttjs", "MQTT.js", _npm, ("node", "{source}/client.js"), websocket=True),
        Client(
            "hivemq",
            "HiveMQ",
            _maven,
            JAVA,
        ),
    )
}


AZURE = Client(
    "azure", "azure-servicebus, uamqp", _pip, ("{built}/venv/bin/python", "{source}/client.py")
)
"""Senders only: it runs no scenario of the other clients."""


def parameters(clients: Iterable[Client]) -> list[Any]:
    """The clients as parameters: those that need a build of their own are slow."""
    slow = [pytest.mark.slow, pytest.mark.timeout(1200)]
    return [
        pytest.param(client, id=client.name, marks=() if client.name in QUICK else slow)
        for client in clients
    ]


def prepared(clients: Iterable[Client]) -> Any:
    """A fixture of a module: each of the clients in turn, built."""

    @pytest.fixture(scope="module", params=parameters(clients))
    def client(request: pytest.FixtureRequest) -> Client:
        chosen: Client = request.param
        chosen.prepare()
        return chosen

    return client


def place(platform: Platform, listener: str = "amqp") -> dict[str, Any]:
    """The options that lead a client to this listener."""
    # By name: proton checks a certificate against host names only, never against addresses.
    options: dict[str, Any] = {"host": "localhost", "port": platform.port(listener)}
    if listener.startswith("ws"):
        options["websocket"] = True
    if listener in ("amqps", "wss", "mqtts"):
        authority = platform.data / "tls" / "ca.crt"
        options |= {"tls": True, "ca": str(authority), **java_truststore(authority)}
    return options


def java_truststore(authority: Path) -> dict[str, str]:
    """The authority once more, in the form that Java wants."""
    store = authority.with_suffix(".p12")
    if not store.exists():
        certificate = x509.load_pem_x509_certificate(authority.read_bytes())
        store.write_bytes(
            pkcs12.serialize_java_truststore(
                [pkcs12.PKCS12Certificate(certificate, b"ca")],
                serialization.BestAvailableEncryption(STORE_PASSWORD.encode()),
            )
        )
    return {"truststore": str(store), "store_password": STORE_PASSWORD}
