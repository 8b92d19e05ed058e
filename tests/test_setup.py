"""`scripts/setup.sh`: what is missing is one line."""

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
def test_a_toolchain_that_is_no_use_is_one_line(
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
