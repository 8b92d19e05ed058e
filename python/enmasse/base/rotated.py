"""A rotating line file, readable by its owner only."""

import contextlib
import os
from pathlib import Path


class RotatedFile:
    """Lines in `path`; `path.1` is the previous file, and so on.

    Bounds: `files` files of `file_bytes_max` plus one line each; the oldest is deleted. A line is
    in the page cache when `append` returns: it survives the process, but not necessarily a power
    failure.
    """

    def __init__(self, path: Path, *, file_bytes_max: int, files: int) -> None:
        self._path = path
        self._file_bytes_max = file_bytes_max
        self._files = files
        self._descriptor: int | None = None
        self._size = 0

    def append(self, line: str) -> None:
        """Append one line.

        Raises: OSError if the disk fails; the line is then absent or incomplete.
        """
        data = f"{line}\n".encode()
        if self._descriptor is not None and self._size + len(data) > self._file_bytes_max:
            self._rotate()
        if self._descriptor is None:
            self._open()
        assert self._descriptor is not None
        self._size += os.write(self._descriptor, data)

    def last(self, count: int) -> list[str]:
        """Return the last `count` lines, oldest first.

        Raises: OSError if the disk fails.
        """
        found: list[str] = []
        for number in range(self._files):
            if len(found) >= count:
                break
            with contextlib.suppress(FileNotFoundError):
                text = self._numbered(number).read_text(encoding="utf-8", errors="replace")
                found = text.splitlines() + found
        return found[-count:] if count else []

    def close(self) -> None:
        """Close the file; `append` opens it again."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._descriptor = os.open(self._path, flags, 0o600)
        os.fchmod(self._descriptor, 0o600)
        self._size = os.fstat(self._descriptor).st_size

    def _rotate(self) -> None:
        self.close()
        for number in reversed(range(self._files - 1)):
            with contextlib.suppress(FileNotFoundError):
                self._numbered(number).replace(self._numbered(number + 1))
        if self._files == 1:
            self._path.unlink(missing_ok=True)

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}") if number else self._path
