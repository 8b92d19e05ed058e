"""The platform as it is shipped: a wheel in an environment of its own, a container, a service."""

import base64
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from platform_process import running

ROOT = Path(__file__).parent.parent.parent
UV = Path(sys.executable).with_name("uv")
CONTAINERFILE = ROOT / "deploy" / "container" / "Containerfile"
UNIT = ROOT / "deploy" / "systemd" / "enmasse.service"
EXPOSURE_MAX = 20
"""Highest exposure of the unit in tenths of the scale of `systemd-analyze security`, 0 to 10."""

# Packaging reuses the compiled code of the tests, but links and compresses.
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def packages() -> tuple[Path, Path]:
    """The wheel and the source distribution of `make wheel`."""
    subprocess.run(["make", "wheel"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    (wheel,) = (ROOT / "build" / "wheels").glob("*.whl")
    (sdist,) = (ROOT / "build" / "wheels").glob("*.tar.gz")
    return wheel, sdist


@pytest.fixture(scope="module")
def installed(packages: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`enmasse` of a bare environment that has the wheel and what it requires, nothing else."""
    folder = tmp_path_factory.mktemp("installed")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    install = [UV, "pip", "install", "--quiet", "--python", folder / "bin" / "python"]
    lock = ["--constraint", ROOT / "requirements.lock"]
    subprocess.run([*install, *lock, packages[0]], check=True)
    return folder / "bin" / "enmasse"


def first_message(program: Path, data: Path) -> str:
    """Send a message by a program and receive it; return the output of the receiver."""
    elsewhere = {"cwd": data, "text": True, "timeout": 60.0, "check": True}
    send = [program, "send", "queue", "--body", "first", "--data", data]
    subprocess.run(send, stdout=subprocess.DEVNULL, **elsewhere)
    receive = [program, "receive", "queue", "--count", "1", "--data", data]
    return str(subprocess.run(receive, stdout=subprocess.PIPE, **elsewhere).stdout)


def test_installed_wheel_passes_a_first_message(installed: Path, tmp_path: Path) -> None:
    with running(tmp_path, program=(installed,)):
        assert first_message(installed, tmp_path) == "first\n"


def test_wheel_supports_every_python_since_3_11_and_has_no_leftovers(
    packages: tuple[Path, Path],
) -> None:
    assert re.fullmatch(r"enmasse-[\d.]+-cp311-abi3-manylinux_\d+_\d+_\w+\.whl", packages[0].name)
    with zipfile.ZipFile(packages[0]) as wheel:
        names = wheel.namelist()
    (native,) = (name for name in names if name.endswith(".so"))
    assert native == "enmasse/_native.abi3.so"
    assert "enmasse/py.typed" in names
    assert not [name for name in names if "__pycache__" in name]


def test_sdist_contains_every_build_input(packages: tuple[Path, Path], tmp_path: Path) -> None:
    with tarfile.open(packages[1]) as sdist:
        sdist.extractall(tmp_path, filter="data")
    (folder,) = tmp_path.iterdir()
    assert not list(folder.rglob("*.so")), "build outputs are not sources"
    for name in ("pyproject.toml", "Cargo.lock", "LICENSE", "README.md"):
        assert (folder / name).is_file(), name
    resolve = ["cargo", "metadata", "--locked", "--offline", "--format-version", "1"]
    manifest = ["--manifest-path", folder / "crates" / "binding" / "Cargo.toml"]
    done = subprocess.run([*resolve, *manifest], check=True, stdout=subprocess.PIPE)
    local = [one for one in json.loads(done.stdout)["packages"] if one["source"] is None]
    assert all(Path(one["manifest_path"]).is_relative_to(folder) for one in local)


@dataclass
class Image:
    """The result of the steps of a Containerfile in an empty folder."""

    root: Path
    environment: dict[str, str]
    entrypoint: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)

    def step(self, keyword: str, rest: str) -> None:
        """Carry out one instruction; those that only describe the image change nothing here."""
        if keyword == "COPY":
            *sources, to = shlex.split(rest)
            target = self.root / to.lstrip("/")
            target.mkdir(parents=True, exist_ok=True)
            for pattern in sources:
                for file in ROOT.glob(pattern):
                    shutil.copy(file, target)
        elif keyword == "RUN":
            command = ["bash", "-ec", rest]
            subprocess.run(command, env=self.environment, cwd=self.root, check=True)
        elif keyword in ("ARG", "ENV"):
            for one in shlex.split(rest):
                name, _, value = one.partition("=")
                expanded = re.sub(r"\$(\w+)", lambda hit: self.environment[hit[1]], value)
                self.environment.setdefault(name, expanded)
                if keyword == "ENV":
                    self.environment[name] = expanded
        elif keyword == "ENTRYPOINT":
            self.entrypoint = json.loads(rest)
        elif keyword == "CMD":
            self.command = json.loads(rest)
        else:
            assert keyword in ("FROM", "USER", "VOLUME", "EXPOSE"), keyword


@pytest.fixture
def image(packages: tuple[Path, Path], tmp_path: Path) -> Image:
    """The steps of the Containerfile, in an empty folder and with an empty environment."""
    environment = {"ROOT": str(tmp_path), "PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    # The package index is a setting of the machine.
    environment |= {name: one for name, one in os.environ.items() if name.startswith("PIP_")}
    made = Image(tmp_path, environment)
    text = re.sub(r"^#.*\n", "", CONTAINERFILE.read_text(), flags=re.MULTILINE)
    for line in text.replace("\\\n", " ").splitlines():
        if line.strip():
            made.step(*line.split(None, 1))
    return made


USER = """
apiVersion: user.enmasse.io/v1beta1
kind: MessagingUser
metadata: {{name: default.alice}}
spec:
  username: alice
  authentication: {{type: password, password: {password}}}
  authorization: [{{addresses: ["*"], operations: [send, recv]}}]
"""


def test_container_image_starts_a_platform_that_requires_users(
    image: Image,
) -> None:
    data = Path(image.environment["ENMASSE_DATA"])
    assert data.is_relative_to(image.root)
    assert list((image.root / "build").glob("*")) == [], "build inputs must be removed"
    program = shutil.which(image.entrypoint[0], path=image.environment["PATH"])
    assert program is not None and Path(program).is_relative_to(image.root)
    assert image.command == ["up"]
    with running(data, program=(program,), environment=image.environment) as up:
        assert {place["host"] for place in up.endpoints.values()} == {"0.0.0.0"}
        document = image.root / "alice.yaml"
        password = base64.b64encode(b"wonderland").decode()
        document.write_text(USER.format(password=password))
        ours = {"env": image.environment, "text": True, "timeout": 60.0}
        subprocess.run([program, "apply", "-f", document], check=True, **ours)
        refused = subprocess.run([program, "send", "queue", "--body", "x"], **ours)
        assert refused.returncode == 4, "anonymous clients must be refused"
        url = ["--url", f"amqp://alice:wonderland@127.0.0.1:{up.port()}"]
        subprocess.run([program, "send", "queue", "--body", "first", *url], check=True, **ours)


@contextmanager
def service_manager(folder: Path) -> Iterator[tuple[socket.socket, dict[str, str]]]:
    """A notification socket like that of systemd, and the environment that names it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(folder / "notify"))
        listener.settimeout(60)
        yield listener, {"NOTIFY_SOCKET": str(folder / "notify")}


def test_service_manager_is_notified_of_ready_status_and_stopping(
    tmp_path: Path,
) -> None:
    with service_manager(tmp_path) as (listener, environment):
        with running(tmp_path / "data", environment=environment) as up:
            ready = listener.recv(4096).decode().splitlines()
            assert ready[0] == "READY=1"
            assert ready[1].startswith("STATUS=leader; ")
            assert f"amqp {up.port()}" in ready[1] and f"http {up.port('http')}" in ready[1]
            up.process.terminate()
            assert listener.recv(4096).startswith(b"STOPPING=1\n")


@pytest.fixture
def unit(installed: Path, tmp_path: Path) -> Path:
    """The unit with the program where it is installed here."""
    path = tmp_path / UNIT.name
    path.write_text(UNIT.read_text().replace("/opt/enmasse/bin/enmasse", str(installed)))
    return path


def test_systemd_analyze_verify_accepts_the_unit(unit: Path) -> None:
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_exposure_of_the_systemd_unit_is_below_its_limit(unit: Path) -> None:
    judge = ["systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSURE_MAX}", unit]
    done = subprocess.run(judge, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-200:]
