"""What the tests of the commands may ask for."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cli_platform import Obeying
from doubles import deadletter, queue, space


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Obeying]:
    """A platform with a queue `orders` and its dead letter `dead`, in a thread of its own."""
    resources = [space(), deadletter(), queue(deadletter="dead")]
    with Obeying.running(tmp_path, resources) as platform:
        yield platform


@pytest.fixture(autouse=True)
def no_contexts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of contexts, which are nobody's own here."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("ENMASSE_CONTEXT", raising=False)
    return tmp_path / "config" / "enmasse"
