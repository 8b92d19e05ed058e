"""Building Kubernetes' own programs from their Go modules, once for every version of them, and
calling kubectl."""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCES = Path(__file__).parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "enmasse"
FETCH_TIMEOUT_S = 900
BUILD_TIMEOUT_S = 3000
"""Ten minutes on two cores that have nothing else to do."""

CALL_TIMEOUT_S = 60


class Said(NamedTuple):
    """What a call of kubectl printed, and how it ended."""

    code: int
    out: str
    err: str


class Kubectl:
    """kubectl with the kubeconfig of one platform."""

    def __init__(self, program: Path, kubeconfig: Path, home: Path) -> None:
        self._command = [str(program), "--cache-dir", str(home / "cache")]
        self._environment = os.environ | {"KUBECONFIG": str(kubeconfig), "HOME": str(home)}

    def __call__(self, *arguments: str, stdin: str | None = None, editor: str = "") -> str:
        """Run one command that succeeds; return what it printed."""
        said = self.say(*arguments, stdin=stdin, editor=editor)
        assert said.code == 0, f"kubectl {' '.join(arguments)}: {said.out}{said.err}"
        return said.out

    def say(self, *arguments: str, stdin: str | None = None, editor: str = "") -> Said:
        """Run one command, however it ends."""
        done = subprocess.run(
            [*self._command, *arguments],
            input=stdin,
            env=self._environment | {"KUBE_EDITOR": editor},
            capture_output=True,
            text=True,
            timeout=CALL_TIMEOUT_S,
        )
        return Said(done.returncode, done.stdout, done.stderr)

    def popen(self, *arguments: str) -> subprocess.Popen[str]:
        """Start one command whose output is read as it comes."""
        return subprocess.Popen(
            [*self._command, *arguments], env=self._environment, stdout=subprocess.PIPE, text=True
        )


def build(name: str = "kubectl") -> Path:
    """Return a program built from the sources here; the first time takes minutes.

    Skips the test where it cannot be built: without Go, without its modules, or in the time there
    is; Go keeps what it has fetched and compiled, and goes on from there the next time.
    """
    source = SOURCES / name
    parts = sorted(source.iterdir())
    digest = hashlib.sha256(b"".join(part.read_bytes() for part in parts)).hexdigest()[:16]
    program = CACHE / name / digest / name
    program.parent.mkdir(parents=True, exist_ok=True)
    with open(program.parent / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            _build(name, source, program)
    return program


def _build(name: str, source: Path, program: Path) -> None:
    if shutil.which("go") is None:
        pytest.skip(f"{name} cannot be built: there is no Go here")
    fetched = _go(name, FETCH_TIMEOUT_S, source, "mod", "download")
    if fetched.returncode != 0:
        pytest.skip(f"{name} cannot be built: its modules cannot be had: {fetched.stderr}")
    beside = program.with_name(f"{name}.new")
    command = ("build", "-trimpath", "-ldflags", _flags(source), "-o", str(beside), ".")
    done = _go(name, BUILD_TIMEOUT_S, source, *command)
    assert done.returncode == 0, done.stderr
    beside.rename(program)


def _go(
    name: str, timeout_s: float, folder: Path, *arguments: str
) -> subprocess.CompletedProcess[str]:
    """Run a command of Go; it skips the test if that takes too long."""
    command = ["go", *arguments]
    try:
        return subprocess.run(
            command, cwd=folder, stderr=subprocess.PIPE, text=True, timeout=timeout_s
        )
    except subprocess.TimeoutExpired:
        pytest.skip(
            f"{name} is not built: go {arguments[0]} has not ended in {timeout_s:.0f} s;"
            " run this again, it goes on from there"
        )


def _flags(source: Path) -> str:
    """Return what tells a program its version: without it it fails to compare it with others'."""
    text = (source / "go.mod").read_text()
    found = re.search(r"k8s\.io/(kubectl v0|kubernetes v1)\.(\d+)\.(\d+)\n", text)
    assert found is not None
    own = "k8s.io/component-base/version"
    version = f"v1.{found[2]}.{found[3]}"
    return f"-s -w -X {own}.gitVersion={version} -X {own}.gitMajor=1 -X {own}.gitMinor={found[2]}"
