"""Building kubectl from its Go module, once for every version of it, and calling it."""

import fcntl
import hashlib
import os
import re
import subprocess
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).parent / "kubectl"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "enmasse" / "kubectl"
BUILD_TIMEOUT_S = 1500
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


def build() -> Path:
    """Return a kubectl built from the sources here; the first time takes minutes."""
    parts = sorted(SOURCE.iterdir())
    digest = hashlib.sha256(b"".join(part.read_bytes() for part in parts)).hexdigest()[:16]
    program = CACHE / digest / "kubectl"
    program.parent.mkdir(parents=True, exist_ok=True)
    with open(program.parent / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            found = re.search(r"k8s\.io/kubectl v0\.(\d+\.\d+)", (SOURCE / "go.mod").read_text())
            assert found is not None
            # Without its version kubectl fails to compare it with the server's.
            version = f"-X k8s.io/component-base/version.gitVersion=v1.{found[1]}"
            beside = program.with_name("kubectl.new")
            subprocess.run(
                ["go", "build", "-trimpath", "-ldflags", f"-s -w {version}", "-o", beside, "."],
                cwd=SOURCE,
                check=True,
                timeout=BUILD_TIMEOUT_S,
            )
            beside.rename(program)
    return program
