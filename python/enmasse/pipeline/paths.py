"""Files and folders of a pipeline, and the lock that lets one process run it."""

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from enmasse.base.errors import Code, Conflict, Invalid, Missing, Unavailable
from enmasse.pipeline.connector import uris
from enmasse.pipeline.live import database
from enmasse.resources import Pipeline, load

LOCK_TRIES, LOCK_PAUSE_S = 10, 0.02
"""Attempts to get the lock: `status` holds it for a moment when it reads it."""


class Paths:
    """The folders and files of one pipeline."""

    def __init__(self, document: Path, pipeline: Pipeline) -> None:
        """Resolve `tables.path` against the folder of the document."""
        self.document = document
        self._folder = document.resolve().parent
        path = pipeline.spec.tables.path
        is_local = not uris.is_uri(path)
        self.tables = str(self._folder / path) if is_local else path.rstrip("/")
        # files that are locked or written in place need a local file system
        name = f"{pipeline.metadata.name}.state"
        self.state = Path(self.tables) if is_local else self._folder / name
        self._live = pipeline.spec.live
        self.lock = self.state / "run.lock"
        functions = pipeline.spec.functions
        self.functions = self.resolve(functions) if functions else None

    @property
    def live_url(self) -> str:
        """The URL of live state, with the password of its file.

        Raises Invalid if the file cannot be read.
        """
        url, file = self._live.url, self._live.password_file
        if url is None:
            return database.default_url(self.state)
        return database.with_password(url, self.secret("spec.live", file)) if file else url

    def resolve(self, path: str) -> Path:
        """Resolve a path of the document."""
        return self._folder / path

    def secret(self, owner: str, path: str) -> str:
        """Return the text of a `passwordFile`.

        Raises Invalid, naming the owner of the field, if the file cannot be read.
        """
        file = self.resolve(path)
        try:
            return file.read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise Invalid("E1003", f"{owner}: passwordFile: cannot read {file}: {error}") from None

    def table(self, name: str) -> str:
        """Return the location of a table."""
        return f"{self.tables}/{name}"

    def checkpoint(self, source: str) -> str:
        """Return the location of Spark's checkpoint of a source."""
        return uris.for_spark(f"{self.tables}/_checkpoints/{source}")

    @contextmanager
    def locked(self) -> Iterator[Callable[[str | None], None]]:
        """Be the only process that writes; yield a function that publishes the URL of metrics.

        Raises Conflict if another process holds the lock.
        """
        try:
            # the data of devices is for the owner of the pipeline only
            self.state.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(self.lock, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise Unavailable(
                Code.DATA_UNUSABLE, f"cannot use {self.state}: {error.strerror}"
            ) from None
        try:
            if not _try_lock(lock):
                raise Conflict(
                    Code.DATA_LOCKED,
                    f"{self.state} is in use by process"
                    f" {self.running_pid() or 'of another user'}; stop it first:"
                    " enmasse pipeline stop",
                )
            self._write_info(lock, None)
            yield lambda metrics: self._write_info(lock, metrics)
        finally:
            os.close(lock)

    @staticmethod
    def _write_info(lock: int, metrics: str | None) -> None:
        os.ftruncate(lock, 0)
        os.pwrite(lock, json.dumps({"pid": os.getpid(), "metrics": metrics}).encode(), 0)

    def running_pid(self) -> int | None:
        """Return the process that runs the pipeline, or None."""
        found = self.lock_info()
        return int(found["pid"]) if found else None

    def lock_info(self) -> dict[str, Any] | None:
        """Return pid and metrics URL of the process that runs the pipeline, or None."""
        with contextlib.suppress(FileNotFoundError), self.lock.open("r+") as file:
            try:
                # shared, so that concurrent readers do not take each other for the runner
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                found = file.read()
                return dict(json.loads(found)) if found else None
        return None


def _try_lock(lock: int) -> bool:
    """Take the lock, which ends with its process; return whether that succeeded."""
    for _ in range(LOCK_TRIES):
        with contextlib.suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        time.sleep(LOCK_PAUSE_S)
    return False


def read(document: Path) -> tuple[Pipeline, Paths]:
    """Return the pipeline of a file and its paths.

    Raises Missing if there is no file, Invalid unless it contains exactly one pipeline.
    """
    try:
        text = document.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise Missing(
            Code.NOT_FOUND, f"there is no {document}; write one: enmasse pipeline init"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(Code.DOCUMENT_UNREADABLE, f"cannot read {document}: {error}") from None
    found = load(text, str(document))
    if len(found) != 1 or not isinstance(found[0], Pipeline):
        kinds = ", ".join(one.kind for one in found) or "nothing"
        raise Invalid(
            Code.DOCUMENT_UNREADABLE, f"{document} contains {kinds}; expected one Pipeline"
        )
    return found[0], Paths(document, found[0])
