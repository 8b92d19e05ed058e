"""The `enmasse` of a release with a newer data format: `python next_release.py up ..`.

Everything else is that of this release. Its step moves the journal's segments, so that whoever does
not heed the format finds no messages.
"""

from pathlib import Path
from typing import Any

from enmasse.base import data_dir, data_format
from enmasse.cli import main

JOURNAL = "journal-2"


def move_journal(folder: Path) -> None:
    """Turn format 1 into format 2."""
    if (folder / "journal").exists():
        (folder / "journal").rename(folder / JOURNAL)


class NextDataDir(data_dir.DataDir):
    """A data folder of format 2."""

    def __init__(self, path: Path, **options: Any) -> None:
        super().__init__(path, **options)
        self.journal = path / JOURNAL


if __name__ == "__main__":
    data_format.FORMAT = 2
    data_format.UPGRADES = {1: move_journal}
    data_dir.DataDir = NextDataDir  # type: ignore[misc]
    main()
