"""`scripts/setup.sh`: a missing prerequisite is reported in one line."""

import os
import subprocess
from pathlib import Path

import pytest

SETUP = Path(__file__).parent.parent / "scripts" / "setup.sh"
RUSTUP_SAYS = "error: rustup could not choose a version of %s to run, because one wasn't specified"


@pytest.mark.parametrize(
    ("rustc", "cargo", "said"),
    [
        (f'echo "{RUSTUP_SAYS % "rustc"}" >&2; exit 1', "exit 1", "rustup default stable"),
        ("echo rustc 1.50.0", "exit 1", "rustup default stable"),
        ("echo rustc 1.50.0", "echo cargo 1.50.0", "this is 1.50.0; run: rustup update stable"),
    ],
    ids=["no toolchain", "no cargo", "old"],
)
def test_unusable_toolchain_fails_with_a_one_line_remedy(
    tmp_path: Path, rustc: str, cargo: str, said: str
) -> None:
    for name, does in (("rustc", rustc), ("cargo", cargo)):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\n{does}\n")
        program.chmod(0o755)
    done = subprocess.run(
        [SETUP, "run"],
        env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    (line,) = (done.stdout + done.stderr).splitlines()
    assert line.startswith("setup: ")
    assert said in line


PROTON = """#!/bin/sh
case "$*" in *extended*) test -e built ;; esac
"""
UV = """#!/bin/sh
echo "$*" >> asked
case "$*" in *"--reinstall-package python-qpid-proton"*) {rebuilds} ;; esac
"""


@pytest.mark.parametrize(
    ("before", "rebuilds", "code"),
    [(True, "exit 1", 0), (False, "touch built", 0), (False, "exit 0", 1)],
    ids=["has SASL", "cached without", "without again"],
)
def test_proton_without_sasl_is_rebuilt_without_the_cache(
    tmp_path: Path, before: bool, rebuilds: str, code: int
) -> None:
    """Runs only the `environment` function of the script, with stubs for its programs."""
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name, does in (("python", PROTON), ("uv", UV.format(rebuilds=rebuilds))):
        (programs / name).write_text(does)
        (programs / name).chmod(0o755)
    if before:
        (tmp_path / "built").touch()
    functions = SETUP.read_text().partition("\ncase $level in")[0]
    script = tmp_path / "scripts" / "setup.sh"
    script.parent.mkdir()
    script.write_text(f"{functions}\nenvironment\n")
    done = subprocess.run(["bash", script, "dev"], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    asked = (tmp_path / "asked").read_text()
    assert ("--no-cache" in asked) is not before
