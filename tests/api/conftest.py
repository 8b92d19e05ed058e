"""A served platform for each test."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from asgi_platform import Served, serving
from enmasse.base.rotated import RotatedFile


@pytest.fixture
def trail(tmp_path: Path) -> Iterator[RotatedFile]:
    """The audit trail of the platform."""
    file = RotatedFile(tmp_path / "audit.log", file_bytes_max=1 << 20, files=2)
    yield file
    file.close()


@pytest.fixture
def logins(tmp_path: Path) -> Iterator[RotatedFile]:
    """The trail of logins of the platform."""
    file = RotatedFile(tmp_path / "logins.log", file_bytes_max=1 << 20, files=2)
    yield file
    file.close()


@pytest.fixture
async def served(trail: RotatedFile, logins: RotatedFile) -> AsyncIterator[Served]:
    async with serving(trail, logins) as platform:
        yield platform
