"""Room kept back on the disk of the data folder, so that the platform starts when it is full.

Messages can only be received or purged from a platform that runs, and a start writes: the log of
the database, a few small files. The reserve is a file that is given up at a start that finds the
disk full, and made again at a start or a stop that finds room.
"""

import os
from pathlib import Path

RESERVE_BYTES = 8 << 20
"""More than a start writes."""


def free_bytes(folder: Path) -> int:
    """Return how much a process without privileges may still write there."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def balance(reserve: Path) -> None:
    """Give the reserve up if the disk is full; make it if there is twice the room for it."""
    free = free_bytes(reserve.parent)
    if free < RESERVE_BYTES and reserve.exists():
        reserve.unlink()
        # Commands import this module and never come here: a logger costs them 0.1 s of CPU.
        import structlog

        log = structlog.get_logger(__name__)
        log.warning("disk full: released the reserve", folder=str(reserve.parent))
    elif free > 2 * RESERVE_BYTES and not reserve.exists():
        descriptor = os.open(reserve, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, RESERVE_BYTES)
        except OSError:
            # Without a reserve everything but a start on a full disk goes on.
            reserve.unlink()
        finally:
            os.close(descriptor)
