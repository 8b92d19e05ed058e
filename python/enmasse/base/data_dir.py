"""The data folder: its contents, its format version, and its lock.

    DIR/
      format          the layout's version, one number
      lock            held by the process that uses the folder
      resources.db    resources
      journal/        messages at rest
      node.json       the node whose folder this is: name, uid and number of its last start
      served.json     the store whose addresses have these messages, and its last served version
      tls/            the CA and the server's certificate
      token           the owner's token of the API
      decoy           the secret from which credentials of unknown users are derived at every start
      kubeconfig      kubectl configuration for the running process, without secrets
      audit.log       audit trail of the API; audit.log.1 and so on are older
      logins.log      logins of messaging clients and refusals; rotated likewise
      history.db      past values of addresses and spaces; may be deleted
      usage.json      usage of spaces that is not yet in their statuses
      endpoint.json   listeners of the running process; removed when it stops
      reserve         disk space that a start on a full disk releases
      restoring       present during a restore; the platform then refuses to start

Only the owner may read the folder and each of its files, in case the folder itself is opened later.
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
    """State that a platform without a response has left in its data folder."""

    has_data: bool
    is_restoring: bool
    """Whether a restore is incomplete."""

    has_endpoint: bool
    """Whether a process was ready and did not stop in order."""

    owner: str | None
    """The process that has locked the folder, or None."""


def left_by_platform(path: Path) -> Leftovers:
    """Return the state of a data folder without changing it."""
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
                # A shared lock, so that concurrent checks do not see each other.
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return lock.read(32).strip() or "unknown"
    except OSError:
        pass
    return None


class DataDir:
    """A data folder, as paths; as a context it locks the folder for this process."""

    def __init__(self, path: Path, *, to_restore: bool = False, upgrade: bool = False) -> None:
        """Define the paths in `path`. `to_restore`: accept a folder with an incomplete restore;
        `upgrade`: convert an older format to this version's.
        """
        self.path = path
        self._upgrade = upgrade
        self._to_restore = to_restore
        self.restoring = path / "restoring"
        self.resources_db = path / "resources.db"
        self.journal = path / "journal"
        self.node = path / "node.json"
        self.served = path / "served.json"
        self.tls = path / "tls"
        self.token = path / "token"
        self.decoy = path / "decoy"
        self.kubeconfig = path / "kubeconfig"
        self.audit = path / "audit.log"
        self.logins = path / "logins.log"
        self.history = path / "history.db"
        self.usage = path / "usage.json"
        self.endpoint = path / "endpoint.json"
        self.reserve = path / "reserve"
        self._lock: int | None = None

    def __enter__(self) -> Self:
        """Create the folder if necessary and lock it.

        Raises: Conflict if another process has the lock; Invalid if the folder has another format,
            which it keeps; Unavailable if it cannot be used, or has an incomplete restore.
        """
        try:
            data_format.check(self.path, upgrade=self._upgrade)
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._restrict_access()
            for folder in (self.journal, self.tls):
                folder.mkdir(mode=0o700, exist_ok=True)
                folder.chmod(0o700)
            self._take_lock()
            try:
                self._check_restored()
                self._upgrade_format()
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
        """Release the folder."""
        self.endpoint.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            disk_reserve.adjust(self.reserve)
        self._release_lock()

    def write_endpoint(self, endpoint: dict[str, Any]) -> None:
        """Write the listeners of this process, for clients on this machine."""
        write_private(self.endpoint, json.dumps(endpoint) + "\n")

    def _restrict_access(self) -> None:
        """Restrict the folder to its owner, unless it has foreign files; our files are private."""
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
        disk_reserve.adjust(self.reserve)
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        self._lock = descriptor

    def _release_lock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _upgrade_format(self) -> None:
        """Write the format of a new folder, or convert an older one step by step."""
        data_format.check(self.path, upgrade=self._upgrade)  # Again: the lock excludes changes now.
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
    """Create an empty file if it is missing, and restrict it to its owner."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    path.chmod(0o600)


def write_private(path: Path, content: str | bytes, *, sync: bool = True) -> None:
    """Replace a file atomically; only the owner may read it. Without `sync` it survives the process
    but not a power failure.
    """
    data = content.encode() if isinstance(content, str) else content
    temporary = path.with_name(f".{path.name}.new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(data)
        if sync:
            file.flush()
            os.fsync(file.fileno())
    temporary.replace(path)
