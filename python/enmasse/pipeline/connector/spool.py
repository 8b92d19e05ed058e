"""The folder through which a queue is read: messages lie there from their settlement to the commit.

`NNN-MMM.messages` has the messages of offsets NNN to MMM (exclusive), written once and on disk
before they are settled. When a batch is committed its files go, and `NNN-MMM.ids` remembers which
messages those were, as far back as the window goes: one that comes again is known. The spool's uid
lies in `spool.json`, and one process at a time holds `lock`. What a file has inside is the native
core's (`crates/client/src/spool.rs`).
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
from enmasse.pipeline.connector.reading import Patience, patience

log = logging.getLogger("enmasse.pipeline")

FORMAT = 1
ID_BYTES = 16
IDS_FILES_MAX = 16
"""Files of remembered messages; when there are more they become one."""
LOCK_WAIT_S = 10.0
"""How long a query that ended may take to let go of its spool."""
IDENTITY, LOCK = "spool.json", "lock"
NAME = re.compile(r"(\d{20})-(\d{20})\.(messages|ids)")
FULL = (errno.ENOSPC, errno.EDQUOT)
CLOSED = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST)


@dataclass(frozen=True)
class Queue:
    """What a spool is of."""

    address: str
    space: str | None = None
    servers: list[str] = field(default_factory=list)
    """`HOST:PORT` of each."""

    @property
    def named(self) -> str:
        """The address and its space, where one is named."""
        return self.address if self.space is None else f"{self.address} of space {self.space}"


@dataclass(frozen=True)
class Part:
    """A file about messages `first` to `next` (exclusive), and the identities of those."""

    path: Path
    first: int
    next: int
    size: int
    ids: bytes = b""


@contextmanager
def filed(folder: Path) -> Iterator[None]:
    """Turn what the system says of a folder into an error that names the option and the mend."""
    try:
        yield
    except OSError as error:
        said = f"option spool: {folder}: {error.strerror}"
        if error.errno in FULL:
            raise Exhausted(
                "E5000", f"{said}; what was taken went back to the queue: free some space"
            ) from error
        if error.errno in CLOSED:
            raise Invalid("E1003", f"{said}; name a folder that can be written") from error
        raise Unavailable("E6004", said) from error


def ends(name: str) -> tuple[int, int, str] | None:
    """The first offset, the one after the last and the kind of a file, by its name."""
    match = NAME.fullmatch(name)
    return (int(match[1]), int(match[2]), match[3]) if match else None


@dataclass(frozen=True)
class Extent:
    """Which messages a spool has had, `next` of them, and in which spans some still lie there."""

    next: int
    spans: list[tuple[int, int]]


def extent(folder: Path) -> Extent:
    """Return what a spool has now, whoever holds it. Raises Missing if there is none."""
    try:
        base = int(json.loads((folder / IDENTITY).read_text())["base"])
        found = [named for name in os.listdir(folder) if (named := ends(name))]
    except FileNotFoundError:
        raise Missing("E3000", f"{folder} is no spool: nothing was read into it yet") from None
    spans = sorted((first, after) for first, after, kind in found if kind == "messages")
    return Extent(max([base, *(after for _, after, _ in found)]), spans)


class Spool:
    """See the module. `load` has to follow before anything else is asked."""

    def __init__(
        self, folder: Path, of: Queue, *, fails_on_loss: bool, waits: Patience | None = None
    ) -> None:
        """Take the folder over, and make it if it is not there.

        Raises Conflict if another process has it or it is that of another address or space,
        Invalid if it cannot be used, Exhausted if its disk is full. A queue that is at none of the
        servers of before may have moved, and is told in the log.
        """
        self.folder = folder
        self._fails_on_loss = fails_on_loss
        self._parts: list[Part] = []
        self._past: list[Part] = []
        with filed(folder):
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = self._locked(waits or patience(LOCK_WAIT_S))
            try:
                self._identity = self._identified(of)
            except BaseException:
                self._lock.close()
                raise

    @property
    def uid(self) -> str:
        """Of this spool: 32 hexadecimal digits."""
        return str(self._identity["uid"])

    @property
    def first(self) -> int:
        """Offset of the first message that is there."""
        return self._parts[0].first if self._parts else self.next

    @property
    def next(self) -> int:
        """Offset that the next message gets."""
        last = self._parts[-1] if self._parts else None
        return last.next if last else self.committed

    @property
    def committed(self) -> int:
        """Offset before which messages are gone."""
        return self._past[-1].next if self._past else int(self._identity["base"])

    def begin(self) -> int:
        """The offset where a query without a checkpoint begins: the same until it commits.

        Raises Conflict if a query has read from the spool before, unless losses are only counted.
        """
        base = int(self._identity["base"])
        if self.first == base:
            return base
        if self._fails_on_loss:
            raise Conflict(
                "E4000",
                f"{self.folder}: a query has read this spool up to offset {self.first}: go on with "
                "its checkpoint, name another folder, or set failOnDataLoss=false to begin with "
                "what is left",
            )
        log.warning("%s: begins at %d, with what is left", self.folder, self.first)
        self._identity["base"] = self.first
        self._write(IDENTITY, json.dumps(self._identity).encode())
        return self.first

    def load(self, know: Callable[[bytes], bytes]) -> None:
        """Look at every file; `know` gets what is in it and returns the identities.

        Raises Conflict if one is torn or missing, unless losses are only counted.
        """
        with filed(self.folder):
            past, parts = self._listed()
            for part in past:
                self._past.append(self._known(part, know, fails=False))
            for part in parts:
                if part.first > self.next:
                    self._lost(f"messages {self.next} to {part.first - 1} are missing")
                self._parts.append(self._known(part, know, fails=self._fails_on_loss))

    def add(self, rows: int, data: bytes, ids: bytes) -> None:
        """Keep a file of so many messages, whose identities are those: it is on disk on return.

        Raises Exhausted if there is no room, as `filed` says; then nothing of them is kept.
        """
        first, after = self.next, self.next + rows
        path = self._write(f"{first:020}-{after:020}.messages", data)
        self._parts.append(Part(path, first, after, len(data), ids))

    def size(self, start: int) -> int:
        """Bytes of the files with messages from `start` on."""
        return sum(part.size for part in self._parts if part.next > start)

    def end(self, start: int, rows: int, size: int) -> int:
        """Where a batch ends that begins at `start`: so many messages, and files of so many bytes.

        One file at least is in it, whatever its size.
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
        """The files with messages `start` to `end` (exclusive).

        Raises Conflict if some are missing, unless losses are only counted.
        """
        found = [part for part in self._parts if part.first < end and part.next > start]
        if start < end and (not found or found[0].first > start or found[-1].next < end):
            self._lost(f"not all messages from {start} to {end - 1} are there")
        return found

    def commit(self, end: int, window: int) -> None:
        """Remove files whose messages all lie before `end`; remember the last `window` of them."""
        gone = [part for part in self._parts if part.next <= end]
        if not gone:
            return
        with filed(self.folder):
            merged = self._past if len(self._past) >= IDS_FILES_MAX else []
            ids = b"".join(part.ids for part in merged + gone)[-window * ID_BYTES :]
            first, after = (merged + gone)[0].first, gone[-1].next
            data = pack_ids(ids, first, after)
            path = self._write(f"{first:020}-{after:020}.ids", data)
            self._past = [part for part in self._past if part not in merged]
            self._past.append(Part(path, first, after, len(data), ids))
            self._parts = [part for part in self._parts if part.next > end]
            for part in merged + gone:
                part.path.unlink(missing_ok=True)

    def release(self) -> None:
        """Let another process have it."""
        self._lock.close()

    def _locked(self, waits: Patience) -> IO[str]:
        lock = (self.folder / LOCK).open("a+")
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                lock.seek(0)
                holder = lock.read() or "another process"
                said = f"{self.folder} is in use by {holder}: each query needs a spool of its own"
                try:
                    waits.wait(Unavailable("E4004", said))
                except Unavailable as error:
                    lock.close()
                    raise Conflict("E4004", said) from error
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
                    f"option spool: {self.folder} is no spool, and holds {min(others)}: name an "
                    "empty folder",
                )
            made = {"version": FORMAT, "uid": secrets.token_hex(16), "base": 0} | asdict(of)
            self._write(IDENTITY, json.dumps(made).encode())
            return made
        found: dict[str, Any] = json.loads(path.read_text())
        if found["version"] != FORMAT:
            raise Invalid("E1003", f"option spool: {self.folder} is of another version")
        # those of before knew their address only
        was = Queue(**{name: found.get(name, value) for name, value in asdict(of).items()})
        if (was.address, was.space) != (of.address, of.space):
            raise Conflict(
                "E4000",
                f"{self.folder} is the spool of {was.named}, not of {of.named}: name another "
                "folder",
            )
        if was.servers and not set(was.servers) & set(of.servers):
            log.warning(
                "%s: %s was read from %s, and is from %s now: its numbers go on; name another"
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
        """The files of remembered and of waiting messages; what is left of others is removed."""
        found: dict[str, list[Part]] = {"ids": [], "messages": []}
        for path in sorted(self.folder.iterdir()):
            named = ends(path.name)
            if named:
                found[named[2]].append(Part(path, named[0], named[1], path.stat().st_size))
            elif path.name.startswith("."):
                path.unlink()
        past: list[Part] = []
        # one that was made of others covers them
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

    def _known(self, part: Part, know: Callable[[bytes], bytes], *, fails: bool) -> Part:
        try:
            ids = know(part.path.read_bytes())
        except Conflict as error:
            if fails:
                self._lost(f"{part.path.name}: {error}")
            log.warning("%s: %s; messages of it may come twice or not at all", part.path, error)
            ids = b""
        return Part(part.path, part.first, part.next, part.size, ids)

    def _lost(self, what: str) -> None:
        said = f"{self.folder}: {what}"
        if self._fails_on_loss:
            raise Conflict(
                "E4000", f"{said}; bring the file back, or set failOnDataLoss=false to go on"
            )
        log.warning("%s; going on without them", said)

    def _write(self, name: str, data: bytes) -> Path:
        """Write a file that is there whole or not at all, also after a power cut."""
        path, draft = self.folder / name, self.folder / f".{name}"
        with filed(self.folder):
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
