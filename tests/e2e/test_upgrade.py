"""A data folder between two releases, of which the newer one has another data format."""

import subprocess
import sys
from pathlib import Path

import pytest

import next_release
from platform_process import ENMASSE, Platform, running, up_command

pytestmark = pytest.mark.timeout(240)

NEXT = (sys.executable, Path(next_release.__file__))


def refusal(data: Path, *arguments: str, program: tuple[str | Path, ...] = (ENMASSE,)) -> str:
    """Start a release where it cannot start; return its line of error."""
    done = subprocess.run(
        up_command(data, *arguments, program=program), capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    return line


def content(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def received(platform: Platform) -> str:
    return platform.enmasse("receive", "queue", "--timeout", "1")


def test_data_upgrade_requires_its_option_and_is_undone_by_a_backup(tmp_path: Path) -> None:
    data, backup, restored = tmp_path / "data", tmp_path / "backup", tmp_path / "restored"
    with running(data) as before:
        before.enmasse("send", "queue", "--body", "kept", "--durable")
        before.enmasse("backup", str(backup))
    untouched = content(data)

    assert "--upgrade-data" in refusal(data, program=NEXT)
    assert content(data) == untouched, "the previous release can still use it"

    with running(data, "--upgrade-data", program=NEXT) as after:
        assert received(after) == "kept\n"
    with running(data, program=NEXT):
        pass  # the option is needed once

    upgraded = content(data)
    assert "has format 2, this version reads up to 1" in refusal(data)
    assert "has format 2" in refusal(data, "--upgrade-data")
    assert content(data) == upgraded, "a refused start changes nothing"

    subprocess.run([ENMASSE, "restore", backup, "--data", restored], check=True, timeout=60)
    with running(restored) as again:
        assert received(again) == "kept\n"
