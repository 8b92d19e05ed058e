"""`make run`: the first message arrives, and the text says where things are."""

import subprocess
import sys
from pathlib import Path

import pytest

from running import LISTENERS

RUN = Path(__file__).parent.parent.parent / "scripts" / "run.py"


@pytest.mark.timeout(150)
def test_the_first_message_arrives(tmp_path: Path) -> None:
    ports = [part for name in LISTENERS for part in (f"--{name}-port", "0")]
    done = subprocess.run(
        [sys.executable, RUN, "--once", "--data", tmp_path, *ports],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=120,
    )
    assert "a first message has crossed it" in done.stdout
    for name in LISTENERS:
        assert f"  {name:6} 127.0.0.1:" in done.stdout
