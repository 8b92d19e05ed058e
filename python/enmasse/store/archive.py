"""A backup in one file: a gzipped tar that is written while the platform runs. A restore reads and
verifies all of it first.

    resources.jsonl   a resource a line, as stored
    journal/NAME      the files of the journal
    private/NAME      secret files of the data folder, on request
    manifest.json     last: what is valid, with sizes and checksums

The journal is copied while it is in use. The copy must equal the state after a crash at some
moment, from which the journal can recover. Changed files are therefore copied again, until only the
file being written has changed and no file was added or removed. The copy then contains everything
stored before it began. If an entry name occurs several times, the manifest selects one.
"""

import gzip
import hashlib
import json
import os
import re
import stat
import tarfile
import zlib
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

from enmasse.base import data_format
from enmasse.base.clock import Clock
from enmasse.base.errors import Code, Invalid, Missing, Unavailable
from enmasse.resources import Resource
from enmasse.store.rows import resource_of, text_of

FORMAT = 1
"""Format of the archive. Newer formats are refused."""

CHUNK_BYTES = 1 << 20
"""Bytes per read."""

STEP_BYTES = 1 << 16
"""Bytes per read of a file that is being written."""

RECENT_NS = 10_000_000_000
"""A file changed more recently than this may still be written to."""

TICK_NS = 20_000_000
"""Two changes within this time may have equal timestamps."""

ROUNDS_MAX = 50
"""Maximum passes over changed files. One pass usually copies one or two files."""

RESOURCES, MANIFEST = "resources.jsonl", "manifest.json"
JOURNAL, PRIVATE = "journal/", "private/"

_NAME = re.compile(r"(journal|private)/[A-Za-z0-9_][A-Za-z0-9._-]*")
_BLOCK = tarfile.BLOCKSIZE
Document = dict[str, Any]


class Contents(NamedTuple):
    """The content of a backup."""

    resources: Sequence[Resource]
    journal: Path
    private: Sequence[Path]
    about: Document
    """Metadata of the manifest: time, origin, stored messages."""


class Manifest(NamedTuple):
    """The manifest of a backup."""

    about: Document
    entries: dict[str, Document]
    """By name: entry number, bytes, SHA-256."""


class _Mark(NamedTuple):
    """A fingerprint that changes whenever the file changes."""

    inode: int
    bytes: int
    changed_ns: int
    change_token: object
    """None, or a fresh value if a very recent change could be invisible."""


def write(contents: Contents, clock: Clock) -> Generator[bytes, None, None]:
    """Yield the bytes of a backup. It reads lazily and blocks; run it in a thread.

    Raises: Unavailable if the journal grows faster than it can be copied; OSError.
    """
    pack = _Pack()
    lines = "".join(f"{text_of(one)}\n" for one in contents.resources).encode()
    yield from pack.add(RESOURCES, len(lines), [lines])
    for file in contents.private:
        content = file.read_bytes()
        yield from pack.add(f"{PRIVATE}{file.name}", len(content), [content])
    yield from _journal(pack, contents.journal, clock)
    yield from pack.end(contents.about)


class _Pack:
    """A tar archive being written."""

    def __init__(self) -> None:
        self.entries: dict[str, Document] = {}
        self._count = 0
        # Fast compression: most bytes of a journal are client data, the rest zeros.
        self._zip = zlib.compressobj(1, zlib.DEFLATED, 16 + zlib.MAX_WBITS)

    def add(self, name: str, size: int, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Add a file; pad with zeros if it became shorter than `size`."""
        digest, left = hashlib.sha256(), size
        yield self._zip.compress(_head(name, size))
        for chunk in chunks:
            chunk = chunk[:left]
            digest.update(chunk)
            left -= len(chunk)
            yield self._zip.compress(chunk)
        while left:
            zeros = bytes(min(left, CHUNK_BYTES))
            digest.update(zeros)
            left -= len(zeros)
            yield self._zip.compress(zeros)
        yield self._zip.compress(bytes(-size % _BLOCK))
        self.entries[name] = {"entry": self._count, "bytes": size, "sha256": digest.hexdigest()}
        self._count += 1

    def end(self, about: Document) -> Iterator[bytes]:
        """Add the manifest and close the archive."""
        formats = {"format": FORMAT, "dataFormat": data_format.FORMAT}
        manifest = formats | about | {"entries": self.entries}
        text = json.dumps(manifest, indent=1).encode()
        yield from self.add(MANIFEST, len(text), [text])
        yield self._zip.compress(bytes(2 * _BLOCK)) + self._zip.flush()


def _head(name: str, size: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, 0o600
    return info.tobuf(tarfile.GNU_FORMAT)


def _journal(pack: _Pack, folder: Path, clock: Clock) -> Iterator[bytes]:
    copied: dict[str, _Mark] = {}
    for _ in range(ROUNDS_MAX):
        before = _marks(folder, clock)
        todo = [name for name in sorted(before) if copied.get(name) != before[name]]
        for name in todo:
            try:
                yield from _file(pack, folder / name, clock)
            except FileNotFoundError:
                # The file was recycled; the next pass copies its successor.
                continue
            copied[name] = before[name]
        after = _marks(folder, clock)
        changed = {name for name, mark in after.items() if before.get(name) != mark}
        if _files(before) == _files(after) and len(changed) <= 1 and changed <= set(todo):
            for name in list(pack.entries):
                if name.startswith(JOURNAL) and name.removeprefix(JOURNAL) not in after:
                    del pack.entries[name]
            return
    raise Unavailable(
        Code.NOT_AVAILABLE,
        "the journal grows faster than it can be copied; try again at lower traffic",
    )


def _file(pack: _Pack, path: Path, clock: Clock) -> Iterator[bytes]:
    with open(path, "rb") as file:
        status = os.fstat(file.fileno())
        size = status.st_size
        chunks: Iterable[bytes]
        if _now_ns(clock) - status.st_mtime_ns < RECENT_NS:
            chunks = _read_backwards(file.fileno(), size)
        else:
            chunks = iter(lambda: file.read(CHUNK_BYTES), b"")
        yield from pack.add(f"{JOURNAL}{path.name}", size, chunks)


def _read_backwards(descriptor: int, size: int) -> list[bytes]:
    """Read a growing file backwards, so that concurrent writes end up after the bytes read and
    leave no gap before them. The bound is 64 MiB, the size of a segment.
    """
    steps = [
        os.pread(descriptor, STEP_BYTES, at)
        for at in range((size - 1) // STEP_BYTES * STEP_BYTES, -1, -STEP_BYTES)
    ]
    return steps[::-1]


def _marks(folder: Path, clock: Clock) -> dict[str, _Mark]:
    marks = {}
    with os.scandir(folder) as found:
        for entry in found:
            try:
                status = os.stat(entry.path, follow_symlinks=False)
            except FileNotFoundError:
                continue
            if stat.S_ISREG(status.st_mode):
                change_token = _now_ns(clock) - status.st_mtime_ns < TICK_NS
                marks[entry.name] = _Mark(
                    status.st_ino,
                    status.st_size,
                    status.st_mtime_ns,
                    object() if change_token else None,
                )
    return marks


def _files(marks: dict[str, _Mark]) -> dict[str, int]:
    return {name: mark.inode for name, mark in marks.items()}


def _now_ns(clock: Clock) -> int:
    return int(clock.now().timestamp() * 1_000_000_000)


class Archive:
    """A backup to read."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def check(self) -> Manifest:
        """Read and verify the whole archive, and return its manifest.

        Raises: Invalid (BACKUP_UNREADABLE) if it is damaged, truncated, not a backup or of a newer
            version; Missing if the file does not exist.
        """
        found: dict[tuple[str, int], tuple[int, str]] = {}
        text = b""
        for number, name, content in self._entries():
            digest, size = hashlib.sha256(), 0
            for chunk in content:
                digest.update(chunk)
                size += len(chunk)
                if name == MANIFEST:
                    text += chunk
            found[name, number] = (size, digest.hexdigest())
        manifest = self._manifest(text)
        for name, entry in manifest.entries.items():
            if found.get((name, entry["entry"])) != (entry["bytes"], entry["sha256"]):
                raise self._unreadable(f"{name} in it is damaged")
        return manifest

    def resources(self, manifest: Manifest) -> list[Resource]:
        """Return the resources.

        Raises: Invalid if this version does not know one of them.
        """
        number = manifest.entries[RESOURCES]["entry"]
        for at, _, content in self._entries():
            if at == number:
                lines = b"".join(content).decode().splitlines()
                return [resource_of(line) for line in lines]
        raise self._unreadable(f"it has no {RESOURCES}")

    def unpack(self, manifest: Manifest, folder: str, to: Path) -> None:
        """Extract the files of a folder into an existing folder, readable by the owner only.

        Raises: OSError.
        """
        wanted = {
            entry["entry"]: name.removeprefix(folder)
            for name, entry in manifest.entries.items()
            if name.startswith(folder)
        }
        for number, _, content in self._entries():
            if number not in wanted:
                continue
            with open(to / wanted[number], "wb", opener=_privately) as file:
                for chunk in content:
                    file.write(chunk)
                file.flush()
                os.fsync(file.fileno())

    def _entries(self) -> Iterator[tuple[int, str, Iterator[bytes]]]:
        with self._damage():
            with gzip.open(self._path) as whole, tarfile.open(fileobj=whole, mode="r|") as tar:
                for number, info in enumerate(tar):
                    content = tar.extractfile(info)
                    if content is None:
                        raise self._unreadable(f"{info.name} in it is not a regular file")
                    yield number, info.name, self._chunks(content)
                # Read to the end: the checksum of the whole archive is there.
                while whole.read(CHUNK_BYTES):
                    pass

    def _chunks(self, content: IO[bytes]) -> Iterator[bytes]:
        with self._damage():
            while chunk := content.read(CHUNK_BYTES):
                yield chunk

    @contextmanager
    def _damage(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise Missing(Code.NOT_FOUND, f"file {self._path} not found") from None
        except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise self._unreadable(str(error) or "it ends too early") from None

    def _manifest(self, text: bytes) -> Manifest:
        try:
            about = json.loads(text)
            entries = about.pop("entries")
            form = about.pop("format")
            data_form = about.pop("dataFormat", 1)
            names = [name for name in entries if name != RESOURCES]
            if form == FORMAT and RESOURCES in entries and all(map(_NAME.fullmatch, names)):
                self._check_data_format(data_form)
                return Manifest(about, entries)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise self._unreadable("it has no manifest") from None
        raise self._unreadable(f"it has format {form}; this version reads {FORMAT}")

    def _check_data_format(self, found: object) -> None:
        """Check that the messages have the format of this version: a restore converts nothing."""
        if found != data_format.FORMAT:
            raise Invalid(
                Code.BACKUP_UNREADABLE,
                f"{self._path} is of data format {found}, this version uses {data_format.FORMAT};"
                " restore it with the version that made it, then start this one with"
                " --upgrade-data",
            )

    def _unreadable(self, why: str) -> Invalid:
        return Invalid(Code.BACKUP_UNREADABLE, f"{self._path} is not a complete backup: {why}")


def _privately(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_EXCL | os.O_CLOEXEC, 0o600)
