"""Packages and jars of single tests, fetched once and kept in the user's cache.

They are too large, or of too little use to others, for the environment of all tests.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from brokers import CACHE

TIMEOUT_S = 900
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"


def packages(name: str, *requirements: str) -> Path:
    """Return a folder for PYTHONPATH with Python packages; skip the test if they are unavailable.

    `name` identifies the folder, so it has the versions.
    """
    folder, draft = CACHE / name, CACHE / f"{name}.{os.getpid()}"
    if not folder.is_dir():
        uv = Path(sys.executable).with_name("uv")
        to = ["--quiet", "--python", sys.executable, "--target", draft]
        _fetch([uv, "pip", "install", *to, *requirements])
        draft.rename(folder)
    return folder


def jars(name: str, *artifacts: str) -> list[Path]:
    """Return jars of Maven artifacts, as `packages` does packages."""
    folder, draft = CACHE / name, CACHE / f"{name}.{os.getpid()}"
    if not folder.is_dir():
        for artifact in artifacts:
            named = [f"-Dartifact={artifact}", f"-DoutputDirectory={draft}"]
            _fetch(["mvn", "-q", "-B", COPY, *named])
        draft.rename(folder)
    return sorted(folder.glob("*.jar"))


def _fetch(command: list[str | Path]) -> None:
    CACHE.mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"{command[-1]} is unavailable: {error}")
    if done.returncode:
        pytest.skip(f"{command[-1]} is unavailable: {(done.stdout + done.stderr)[-500:]}")
