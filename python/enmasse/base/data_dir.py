"""The data folder: what is in it, its format version, and the lock that keeps others out.

    DIR/
      format          the layout's version, one number
      lock            held by the process that uses the folder
      resources.db    resources
      journal/        messages at rest
      served.json     the store that names the addresses of these messages, and how far it was
      tls/            the CA and the server's certificate
      token           what a client of the API must know
      decoy           what users that do not exist are made up from, alike at every start
      kubeconfig      how kubectl finds the running process; it holds no secret
      audit.log       who asked the API for what; audit.log.1 and so on are before it
      logins.log      who came in to send and receive, and who was refused; rotated likewise
      usage.json      what spaces came to since that was last written into their statuses
      endpoint.json   where the running process listens; gone when it stops
      reserve         room for a start on a full disk; given up then
      restoring       there while a backup is put back; no platform starts on it then

Only the owner may read the folder; and its files, each by itself, should others be let into it.
"""

import contextlib
import fcntl
import json
import os
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from enmasse.base import data_format, disk_reserve
from enmasse.base.errors import Code, Conflict, Unavailable


def default_data_dir() -> Path:
    """Return `$XDG_DATA_HOME/enmasse`, by default `~/.local/share/enmasse`."""
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "enmasse"


class Leftovers(NamedTuple):
    """What a platform that does not answer left in its data folder."""

    has_data: bool
    is_restoring: bool
    """Whether a restore has begun and not ended."""

    has_endpoint: bool
    """Whether a process was ready and has not stopped in order."""

    owner: str | None
    """The process that holds the folder, or None."""


def left_by_platform(path: Path) -> Leftovers:
    """Return what is in a data folder; nothing is changed."""
    folder = DataDir(path)
    return Leftovers(
        (path / "format").exists(),
        folder.restoring.exists(),
        folder.endpoint.exists(),
        _owner(path),
    )


def _owner(path: Path) -> str | None:
    try:
        with open(path / "lock") as lock:
            try:
                # Shared, so that two who look do not see each other.
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return lock.read(32).strip() or "unknown"
    except OSError:
        pass
    return None


class DataDir:
    """A data folder, as paths; entered as a context it is this process's alone."""

    def __init__(self, path: Path, *, to_restore: bool = False, upgrade: bool = False) -> None:
        """Name what is in `path`. `to_restore`: a restore that has not ended is no hindrance;
        `upgrade`: an older format is converted to this version's.
        """
        self.path = path
        self._upgrade = upgrade
        self._to_restore = to_restore
        self.restoring = path / "restoring"
        self.resources_db = path / "resources.db"
        self.journal = path / "journal"
        self.served = path / "served.json"
        self.tls = path / "tls"
        self.token = path / "token"
        self.decoy = path / "decoy"
        self.kubeconfig = path / "kubeconfig"
        self.audit = path / "audit.log"
        self.logins = path / "logins.log"
        self.usage = path / "usage.json"
        self.endpoint = path / "endpoint.json"
        self.reserve = path / "reserve"
        self._lock: int | None = None

    def __enter__(self) -> Self:
        """Make the folder if it is not there and take it.

        Raises: Conflict if another process has it; Invalid if it has another format, in which case
            nothing in it has changed; Unavailable if it cannot be used, or has a part of a backup.
        """
        try:
            data_format.check(self.path, upgrade=self._upgrade)
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._tighten()
            for folder in (self.journal, self.tls):
                folder.mkdir(mode=0o700, exist_ok=True)
                folder.chmod(0o700)
            self._take_lock()
            try:
                self._check_restored()
                self._bring_to_format()
            except BaseException:
                self._release_lock()
                raise
        except OSError as error:
            raise Unavailable(
                Code.DATA_UNUSABLE,
                f"data folder {self.path}: {error.strerror or error}; choose"
                " another with --data or repair it",
            ) from None
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the folder back."""
        self.endpoint.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            disk_reserve.balance(self.reserve)
        self._release_lock()

    def write_endpoint(self, endpoint: dict[str, Any]) -> None:
        """Say where this process listens, for clients on this machine."""
        write_private(self.endpoint, json.dumps(endpoint) + "\n")

    def _tighten(self) -> None:
        """Take the folder from others, unless it holds what is not ours: then its files must do."""
        entries = {entry.name for entry in self.path.iterdir()}
        if not entries or "format" in entries:
            with contextlib.suppress(PermissionError):
                self.path.chmod(0o700)

    def _take_lock(self) -> None:
        descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(descriptor, 32).decode(errors="replace").strip() or "unknown"
            os.close(descriptor)
            raise Conflict(
                Code.DATA_LOCKED,
                f"data folder {self.path} is in use by process {owner};"
                " stop that one or choose another folder with --data",
            ) from None
        disk_reserve.balance(self.reserve)
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        self._lock = descriptor

    def _release_lock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _bring_to_format(self) -> None:
        """Give a new folder its format, and convert an older one step by step."""
        data_format.check(self.path, upgrade=self._upgrade)  # again, now that no other can
        file = self.path / "format"
        if data_format.format_of(self.path) is None:
            write_private(file, f"{data_format.FORMAT}\n")
        for reached, step in data_format.steps(self.path):
            step(self.path)
            write_private(file, f"{reached}\n")

    def _check_restored(self) -> None:
        if self.restoring.exists() and not self._to_restore:
            raise Unavailable(
                Code.DATA_UNUSABLE,
                f"data folder {self.path}: a restore is incomplete, so messages"
                " may lack their addresses; run enmasse restore again",
            )


def make_private(path: Path) -> None:
    """Create an empty file if it is missing; from now on only the owner may read it."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    path.chmod(0o600)


def write_private(path: Path, content: str | bytes, *, sync: bool = True) -> None:
    """Replace a file in one step; only the owner may read it. Without `sync` it outlives the
    process and not the machine.
    """
    data = content.encode() if isinstance(content, str) else content
    beside = path.with_name(f".{path.name}.new")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(data)
        if sync:
            file.flush()
            os.fsync(file.fileno())
    beside.replace(path)
