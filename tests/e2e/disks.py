"""Disks that fail as real ones do: file systems whose power can be cut, and failing syncs."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest


def need(*tools: str) -> None:
    """Leave the test out where it cannot run: it needs root and these tools."""
    if os.geteuid() != 0:
        pytest.skip("mounting, and tracing another process, need root")
    if missing := [tool for tool in tools if shutil.which(tool) is None]:
        pytest.skip(f"missing: {', '.join(missing)}; `make setup-interop` installs them")


def _run(*command: str | Path) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=60)


@dataclass(frozen=True)
class Disk:
    """A file system in a file, mounted."""

    image: Path
    mount: Path

    def attach(self) -> None:
        """Mount it; what its journal has is replayed."""
        _run("mount", "-o", "loop", self.image, self.mount)

    def detach(self) -> None:
        """Unmount it; nothing may be open on it."""
        _run("umount", self.mount)

    def lose_power(self) -> None:
        """Nothing reaches the disk any more; what was not synced is gone when mounted again. The
        tool is `xfs_io`, whatever the file system."""
        _run("xfs_io", "-x", "-c", "shutdown", self.mount)

    @contextmanager
    def stalled(self) -> Iterator[None]:
        """No write comes back meanwhile, and none fails."""
        _run("fsfreeze", "-f", self.mount)
        try:
            yield
        finally:
            _run("fsfreeze", "-u", self.mount)


@contextmanager
def disk(kind: str, size_mib: int, folder: Path, mount: Path) -> Iterator[Disk]:
    """Make a file system (`xfs` of 300 MiB at least, or `ext4`) in the folder, and mount it."""
    need(f"mkfs.{kind}", "mount")
    image = folder / f"{kind}.img"
    with image.open("wb") as file:
        file.truncate(size_mib << 20)
    _run(f"mkfs.{kind}", "-q", image)
    mount.mkdir()
    made = Disk(image, mount)
    made.attach()
    try:
        yield made
    finally:
        made.detach()


SYNCS = "fsync,fdatasync"
READS = "pread64,preadv,read"


@contextmanager
def failing(calls: str, which: str, pid: int, *files: Path) -> Iterator[None]:
    """Let system calls of a process on files fail; `which` of each thread: `3`, `1..2`, `51+`."""
    need("strace")
    inject = f"inject={calls}:error=EIO:when={which}"
    paths = [part for file in files for part in ("-P", str(file))]
    command = ["strace", "-f", "-p", str(pid), "-e", f"trace={calls}", "-e", inject, *paths]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as tracer:
        assert tracer.stderr is not None
        line = tracer.stderr.readline()
        assert "attached" in line, line
        try:
            yield
        finally:
            tracer.terminate()
            tracer.stderr.read()
