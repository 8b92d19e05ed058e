"""The spool of a queue: a folder with messages from their settlement to the commit of their batch.

`NNN-MMM.messages` has the messages of offsets NNN to MMM (exclusive), written once and synced
before they are settled. The commit of a batch deletes its files; `NNN-MMM.ids` keeps the identities
of the last messages, to recognize redelivered ones. `spool.json` has the uid, and one process at a
time holds `lock`. The native core defines the content of files (`crates/client/src/spool.rs`).
"""

import errno
import fcntl
import json
import logging
import os
import re
import secrets
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from enmasse.base.errors import Conflict, Exhausted, Invalid, Missing, Unavailable
from enmasse.native import pack_ids
from enmasse.pipeline.connector.reading import Retry, retry_for

log = logging.getLogger("enmasse.pipeline")

FORMAT = 1
ID_BYTES = 16
IDS_FILES_MAX = 16
"""Files of identities; more of them are merged into one."""
LOCK_WAIT_S = 10.0
"""How long an ended query may take to release its spool."""
IDENTITY, LOCK = "spool.json", "lock"
NAME = re.compile(r"(\d{20})-(\d{20})\.(messages|ids)")
FULL = (errno.ENOSPC, errno.EDQUOT)
CLOSED = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST)


@dataclass(frozen=True)
class Queue:
    """The queue of a spool."""

    address: str
    space: str | None = None
    servers: list[str] = field(default_factory=list)
    """`HOST:PORT` of each."""

    @property
    def named(self) -> str:
        """The address, and its space if there is one."""
        return self.address if self.space is None else f"{self.address} of space {self.space}"


@dataclass(frozen=True)
class Part:
    """A file of messages `first` to `next` (exclusive), and their identities."""

    path: Path
    first: int
    next: int
    size: int
    ids: bytes = b""


@contextmanager
def translated_errors(folder: Path) -> Iterator[None]:
    """Translate errors of the file system into ones that name the option and the remedy."""
    try:
        yield
    except OSError as error:
        text = f"option spool: {folder}: {error.strerror}"
        if error.errno in FULL:
            raise Exhausted(
                "E5000", f"{text}; received messages were returned to the queue: free some space"
            ) from error
        if error.errno in CLOSED:
            raise Invalid("E1003", f"{text}; name a writable folder") from error
        raise Unavailable("E6004", text) from error


def parse_name(name: str) -> tuple[int, int, str] | None:
    """Return the first offset, the one after the last and the kind of a file."""
    match = NAME.fullmatch(name)
    return (int(match[1]), int(match[2]), match[3]) if match else None


@dataclass(frozen=True)
class Extent:
    """The number of messages that a spool has had, and the spans that are still in it."""

    next: int
    spans: list[tuple[int, int]]
    announced_space: str | None = None


def extent(folder: Path) -> Extent:
    """Return the extent of a spool, without its lock. Raises Missing if there is none."""
    try:
        identity = json.loads((folder / IDENTITY).read_text())
        base = int(identity["base"])
        found = [named for name in os.listdir(folder) if (named := parse_name(name))]
    except FileNotFoundError:
        raise Missing("E3000", f"{folder} is not a spool: no query has used it yet") from None
    spans = sorted((first, after) for first, after, kind in found if kind == "messages")
    end = max([base, *(after for _, after, _ in found)])
    return Extent(end, spans, identity.get("announced"))


class Spool:
    """See the module. `load` must be called first."""

    def __init__(
        self, folder: Path, of: Queue, *, fails_on_loss: bool, retry: Retry | None = None
    ) -> None:
        """Lock the folder, and create it if necessary.

        Raises Conflict if another process has it or it belongs to another address or space, Invalid
        if it cannot be used, Exhausted if its disk is full. Logs a warning if the queue is at other
        servers than before.
        """
        self.folder = folder
        self._fails_on_loss = fails_on_loss
        self._parts: list[Part] = []
        self._identities: list[Part] = []
        with translated_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = self._locked(retry or retry_for(LOCK_WAIT_S))
            try:
                self._identity = self._identified(of)
            except BaseException:
                self._lock.close()
                raise

    @property
    def uid(self) -> str:
        """The id of this spool: 32 hexadecimal digits."""
        return str(self._identity["uid"])

    @property
    def announced_space(self) -> str | None:
        """The address space that the server announced, if the options name none."""
        return self._identity.get("announced")

    def announce(self, space: str | None) -> None:
        """Record the address space that the server announced; None is ignored."""
        if space is not None and space != self.announced_space:
            self._identity["announced"] = space
            self._write(IDENTITY, json.dumps(self._identity).encode())

    @property
    def first(self) -> int:
        """Offset of the first message in the spool."""
        return self._parts[0].first if self._parts else self.next

    @property
    def next(self) -> int:
        """Offset of the next message."""
        last = self._parts[-1] if self._parts else None
        return last.next if last else self.committed

    @property
    def committed(self) -> int:
        """Offset before which messages are deleted."""
        return self._identities[-1].next if self._identities else int(self._identity["base"])

    def begin(self) -> int:
        """Return the start of a query without a checkpoint: the same until it commits.

        Raises Conflict if a query has read the spool before, unless losses are only counted.
        """
        base = int(self._identity["base"])
        if self.first == base:
            return base
        if self._fails_on_loss:
            raise Conflict(
                "E4000",
                f"{self.folder}: a query has read this spool up to offset {self.first}: use its "
                "checkpoint, name another folder, or set failOnDataLoss=false to start with the "
                "remaining messages",
            )
        log.warning("%s: starting at %d, with the remaining messages", self.folder, self.first)
        self._identity["base"] = self.first
        self._write(IDENTITY, json.dumps(self._identity).encode())
        return self.first

    def load(self, know: Callable[[bytes], bytes]) -> None:
        """Read every file; `know` gets its content and returns the identities.

        Raises Conflict if one is damaged or missing, unless losses are only counted.
        """
        with translated_errors(self.folder):
            past, parts = self._listed()
            for part in past:
                self._identities.append(self._loaded(part, know, fails=False))
            for part in parts:
                if part.first > self.next:
                    self._lost(f"messages {self.next} to {part.first - 1} are missing")
                self._parts.append(self._loaded(part, know, fails=self._fails_on_loss))

    def add(self, rows: int, data: bytes, ids: bytes) -> None:
        """Add a file of messages with these identities, synced on return.

        Raises Exhausted without adding anything if the disk is full.
        """
        first, after = self.next, self.next + rows
        path = self._write(f"{first:020}-{after:020}.messages", data)
        self._parts.append(Part(path, first, after, len(data), ids))

    def size(self, start: int) -> int:
        """Return the bytes of the files with messages from `start` on."""
        return sum(part.size for part in self._parts if part.next > start)

    def end(self, start: int, rows: int, size: int) -> int:
        """Return the end of a batch from `start` within limits of messages and bytes of files.

        It has at least one file, of any size.
        """
        end = start
        for part in self._parts:
            if part.next <= start:
                continue
            size -= part.size
            if size < 0 and end > start:
                break
            end = part.next
        return min(end, start + rows)

    def parts(self, start: int, end: int) -> list[Part]:
        """Return the files with messages `start` to `end` (exclusive).

        Raises Conflict if some are missing, unless losses are only counted.
        """
        found = [part for part in self._parts if part.first < end and part.next > start]
        if start < end and (not found or found[0].first > start or found[-1].next < end):
            self._lost(f"some messages from {start} to {end - 1} are missing")
        return found

    def commit(self, end: int, window: int) -> None:
        """Delete files of messages before `end`; keep the last `window` identities."""
        gone = [part for part in self._parts if part.next <= end]
        if not gone:
            return
        with translated_errors(self.folder):
            merged = self._identities if len(self._identities) >= IDS_FILES_MAX else []
            ids = b"".join(part.ids for part in merged + gone)[-window * ID_BYTES :]
            first, after = (merged + gone)[0].first, gone[-1].next
            data = pack_ids(ids, first, after)
            path = self._write(f"{first:020}-{after:020}.ids", data)
            self._identities = [part for part in self._identities if part not in merged]
            self._identities.append(Part(path, first, after, len(data), ids))
            self._parts = [part for part in self._parts if part.next > end]
            for part in merged + gone:
                part.path.unlink(missing_ok=True)

    def release(self) -> None:
        """Release the lock."""
        self._lock.close()

    def _locked(self, retry: Retry) -> IO[str]:
        lock = (self.folder / LOCK).open("a+")
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                lock.seek(0)
                holder = lock.read() or "another process"
                text = f"{self.folder} is in use by {holder}: each query needs its own spool"
                try:
                    retry.wait(Unavailable("E4004", text))
                except Unavailable as error:
                    lock.close()
                    raise Conflict("E4004", text) from error
                continue
            lock.truncate(0)
            lock.write(f"process {os.getpid()} on {socket.gethostname()}")
            lock.flush()
            return lock

    def _identified(self, of: Queue) -> dict[str, Any]:
        path = self.folder / IDENTITY
        if not path.exists():
            others = [
                name for name in os.listdir(self.folder) if name not in (LOCK, f".{IDENTITY}")
            ]
            if others:
                raise Invalid(
                    "E1003",
                    f"option spool: {self.folder} is not a spool, and contains {min(others)}:"
                    " name an empty folder",
                )
            made = {"version": FORMAT, "uid": secrets.token_hex(16), "base": 0} | asdict(of)
            self._write(IDENTITY, json.dumps(made).encode())
            return made
        found: dict[str, Any] = json.loads(path.read_text())
        if found["version"] != FORMAT:
            raise Invalid("E1003", f"option spool: {self.folder} is of another version")
        # earlier versions stored the address only
        was = Queue(**{name: found.get(name, value) for name, value in asdict(of).items()})
        if (was.address, was.space) != (of.address, of.space):
            raise Conflict(
                "E4000",
                f"{self.folder} is the spool of {was.named}, not of {of.named}: name another "
                "folder",
            )
        if was.servers and not set(was.servers) & set(of.servers):
            log.warning(
                "%s: %s was read from %s, and is now read from %s: offsets continue; name another"
                " folder if that is another queue",
                self.folder,
                of.named,
                ", ".join(was.servers),
                ", ".join(of.servers),
            )
        if (now := found | asdict(of)) != found:
            self._write(IDENTITY, json.dumps(now).encode())
        return now

    def _listed(self) -> tuple[list[Part], list[Part]]:
        """Return files of identities and of messages; delete those of interrupted writes."""
        found: dict[str, list[Part]] = {"ids": [], "messages": []}
        for path in sorted(self.folder.iterdir()):
            named = parse_name(path.name)
            if named:
                found[named[2]].append(Part(path, named[0], named[1], path.stat().st_size))
            elif path.name.startswith("."):
                path.unlink()
        past: list[Part] = []
        # a merged file covers its parts
        for part in sorted(found["ids"], key=lambda part: (part.first, -part.next)):
            if past and part.next <= past[-1].next:
                part.path.unlink()
            else:
                past.append(part)
        committed = past[-1].next if past else 0
        for part in found["messages"]:
            if part.next <= committed:
                part.path.unlink()
        return past, [part for part in found["messages"] if part.next > committed]

    def _loaded(self, part: Part, know: Callable[[bytes], bytes], *, fails: bool) -> Part:
        try:
            ids = know(part.path.read_bytes())
        except Conflict as error:
            if fails:
                self._lost(f"{part.path.name}: {error}")
            log.warning("%s: %s; its messages may be duplicated or lost", part.path, error)
            ids = b""
        return Part(part.path, part.first, part.next, part.size, ids)

    def _lost(self, what: str) -> None:
        text = f"{self.folder}: {what}"
        if self._fails_on_loss:
            raise Conflict(
                "E4000", f"{text}; restore the file, or set failOnDataLoss=false to continue"
            )
        log.warning("%s; continuing without them", text)

    def _write(self, name: str, data: bytes) -> Path:
        """Write a file atomically, also with respect to a power failure."""
        path, draft = self.folder / name, self.folder / f".{name}"
        with translated_errors(self.folder):
            try:
                with draft.open("wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                draft.replace(path)
                folder = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
                try:
                    os.fsync(folder)
                finally:
                    os.close(folder)
            except OSError:
                draft.unlink(missing_ok=True)
                if name != IDENTITY:
                    path.unlink(missing_ok=True)
                raise
        return path
