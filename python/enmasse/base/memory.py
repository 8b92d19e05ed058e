"""The memory that the process may use, and settings that are a share of it.

`/proc/meminfo` is not read: systemd's `ProcSubset=pid` hides it.
"""

import os
import re
from pathlib import Path, PurePosixPath

UNKNOWN_BYTES = 4 << 30
"""Assumed memory of a machine whose memory is unknown."""

_SIZE = re.compile(r"(\d{1,15})\s*(|[KMGT]i?B?|B)", re.IGNORECASE)
_SHARE = re.compile(r"(\d{1,2})\s*%")


def memory_bytes(root: Path = Path("/")) -> int:
    """Return the memory of the machine, or the limit of the process's control group."""
    try:
        machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        machine = 0
    bounds = _bounds_of_groups(root)
    return min([machine if machine > 0 else UNKNOWN_BYTES, *bounds])


def _bounds_of_groups(root: Path) -> list[int]:
    """Return the limits of the process's control groups and of their parents."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        number, controllers, group = line.split(":", 2)
        if number == "0":  # version 2
            base, name = root / "sys/fs/cgroup", "memory.max"
        elif "memory" in controllers.split(","):
            base, name = root / "sys/fs/cgroup/memory", "memory.limit_in_bytes"
        else:
            continue
        within = PurePosixPath(group.lstrip("/"))
        for folder in (within, *within.parents):
            found.append(_number(base / folder / name))
    return [one for one in found if one]


def _number(file: Path) -> int:
    """Return the number in a file; 0 if it is absent or unlimited (`max`)."""
    try:
        text = file.read_text().strip()
    except OSError:
        return 0
    return int(text) if text.isdecimal() else 0


def share_bytes(text: str, memory: int) -> int:
    """Return the bytes of a size such as `512MiB`, or of a share of the memory such as `25%`.

    Raises: ValueError if the text is neither.
    """
    if share := _SHARE.fullmatch(text.strip()):
        return memory * int(share[1]) // 100
    if size := _SIZE.fullmatch(text.strip()):
        power = "BKMGT".index((size[2] or "B")[0].upper())
        return int(size[1]) << (10 * power)
    raise ValueError("must be a size, such as 512MiB, or a share of the memory, such as 25%")
