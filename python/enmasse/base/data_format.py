"""The format of a data folder: one number for the layout of everything in it.

A version reads and writes one format, `FORMAT`. It refuses a folder of any other format without
changing it, so that the previous version can still use it. A folder of an older format is converted
only on request (`enmasse up --upgrade-data`), with one step per format in between. To go back,
restore a backup. A change of `FORMAT` needs its step here and a line in CHANGELOG.md.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from enmasse.base.errors import Code, Invalid

FORMAT = 1

UPGRADES: Mapping[int, Callable[[Path], None]] = {}
"""The step from each older format to the next one, given the data folder.

A step is repeated after a crash within it, so it must be idempotent."""


def format_of(folder: Path) -> int | None:
    """Return the format of a folder; None for a new folder.

    Raises: Invalid if the format is not a number.
    """
    file = folder / "format"
    text = file.read_text().strip() if file.exists() else ""
    if not text:
        return None
    if not text.isdecimal():
        raise _too_new(folder, text)
    return int(text)


def check(folder: Path, *, upgrade: bool) -> None:
    """Check that this version can use a folder, without changing it.

    Raises: Invalid for another format; with `upgrade` an older one is accepted.
    """
    found = format_of(folder)
    if found is None or found == FORMAT:
        return
    if found > FORMAT:
        raise _too_new(folder, str(found))
    if not upgrade:
        raise Invalid(
            Code.DATA_TOO_OLD,
            f"data folder {folder} has format {found}, this version uses format {FORMAT}; take a"
            " backup with the version that wrote it, then start once with --upgrade-data",
        )


def steps(folder: Path) -> list[tuple[int, Callable[[Path], None]]]:
    """Return the steps that convert a folder to this version's format, each with the resulting
    format.
    """
    found = format_of(folder)
    return [] if found is None else [(one + 1, UPGRADES[one]) for one in range(found, FORMAT)]


def _too_new(folder: Path, found: str) -> Invalid:
    return Invalid(
        Code.DATA_TOO_NEW,
        f"data folder {folder} has format {found}, this version reads up to {FORMAT};"
        " use the newer version, or restore a backup taken before its upgrade into another folder",
    )
