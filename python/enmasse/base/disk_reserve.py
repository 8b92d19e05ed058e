"""Reserved space on the disk of the data folder, so that the platform starts when it is full.

Only a running platform can receive or purge messages, and a start writes to the disk: the log of
the database, a few small files. The reserve is a file. A start on a full disk deletes it; a start
or a stop with enough space creates it again.
"""

import os
from pathlib import Path

RESERVE_BYTES = 8 << 20
"""More bytes than a start writes."""


def free_bytes(folder: Path) -> int:
    """Return the free bytes of a folder's file system for a process without privileges."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def adjust(reserve: Path) -> None:
    """Delete the reserve if the disk is full; create it if twice its size is free."""
    free = free_bytes(reserve.parent)
    if free < RESERVE_BYTES and reserve.exists():
        reserve.unlink()
        # Imported here: a logger costs commands, which import this module, 0.1 s of CPU.
        import structlog

        log = structlog.get_logger(__name__)
        log.warning("disk full: released the reserve", folder=str(reserve.parent))
    elif free > 2 * RESERVE_BYTES and not reserve.exists():
        descriptor = os.open(reserve, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, RESERVE_BYTES)
        except OSError:
            # Without a reserve only a start on a full disk fails.
            reserve.unlink()
        finally:
            os.close(descriptor)
