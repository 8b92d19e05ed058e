"""Where a pipeline keeps what it has, and who runs it: one process at a time."""

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

LOOKS, LOOK_S = 10, 0.02
"""How often a lock is tried: who looks at it (`status`) holds it for a moment."""


class Places:
    """The folders and files of one pipeline."""

    def __init__(self, document: Path, pipeline: Pipeline) -> None:
        """Tables lie beside the document unless their path says otherwise."""
        self.document = document
        beside = document.resolve().parent
        path = pipeline.spec.tables.path
        is_local = not uris.is_uri(path)
        self.tables = str(beside / path) if is_local else path.rstrip("/")
        # what is locked and written in place needs a file system of this machine
        self.state = Path(self.tables) if is_local else beside / f"{pipeline.metadata.name}.state"
        self._live = pipeline.spec.live
        self.lock = self.state / "run.lock"
        functions = pipeline.spec.functions
        self.functions = beside / functions if functions else None

    @property
    def live_url(self) -> str:
        """Where live state is, with the password of its file.

        Raises Invalid if the file cannot be read.
        """
        url, named = self._live.url, self._live.password_file
        if url is None:
            return database.default_url(self.state)
        return database.with_password(url, self.secret("spec.live", named)) if named else url

    def secret(self, whose: str, named: str) -> str:
        """Return the text of a file beside the document that a field `passwordFile` names.

        Raises Invalid if it cannot be read.
        """
        file = self.document.resolve().parent / named
        try:
            return file.read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise Invalid("E1003", f"{whose}: passwordFile: cannot read {file}: {error}") from None

    def table(self, name: str) -> str:
        """Return where a table lies."""
        return f"{self.tables}/{name}"

    def checkpoint(self, source: str) -> str:
        """Return where Spark remembers how far a source was read."""
        return uris.for_spark(f"{self.tables}/_checkpoints/{source}")

    @contextmanager
    def taken(self) -> Iterator[Callable[[str | None], None]]:
        """Be the only process that writes; yield what takes where its figures are served.

        Raises Conflict if another process is.
        """
        try:
            # what devices send is for whoever runs the pipeline
            self.state.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(self.lock, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise Unavailable(
                Code.DATA_UNUSABLE, f"cannot use {self.state}: {error.strerror}"
            ) from None
        try:
            if not _locked(lock):
                raise Conflict(
                    Code.DATA_LOCKED,
                    f"{self.state} is in use by process {self.runner() or 'of another user'};"
                    " stop it first: enmasse pipeline stop",
                )
            self._sign(lock, None)
            yield lambda metrics: self._sign(lock, metrics)
        finally:
            os.close(lock)

    @staticmethod
    def _sign(lock: int, metrics: str | None) -> None:
        os.ftruncate(lock, 0)
        os.pwrite(lock, json.dumps({"pid": os.getpid(), "metrics": metrics}).encode(), 0)

    def runner(self) -> int | None:
        """Return the process that runs the pipeline, if one does."""
        found = self.signed()
        return int(found["pid"]) if found else None

    def signed(self) -> dict[str, Any] | None:
        """Return what the process that runs the pipeline says of itself: pid, metrics."""
        with contextlib.suppress(FileNotFoundError), self.lock.open("r+") as file:
            try:
                # shared: of several who look none is taken for the one that runs
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                found = file.read()
                return dict(json.loads(found)) if found else None
        return None


def _locked(lock: int) -> bool:
    """Whether the lock could be had, which ends with its process however that ends."""
    for _ in range(LOOKS):
        with contextlib.suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        time.sleep(LOOK_S)
    return False


def read(document: Path) -> tuple[Pipeline, Places]:
    """Return the pipeline of a file and its places.

    Raises Missing if there is no file, Invalid if it holds anything but one pipeline.
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
        raise Invalid(Code.DOCUMENT_UNREADABLE, f"{document} holds {kinds}; one Pipeline is wanted")
    return found[0], Places(document, found[0])
