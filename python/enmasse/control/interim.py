"""What spaces have come to since their statuses were written, in a file of the data folder.

The file is written every second in which something moved, whole, into the page cache: the end of
the process loses a second of it, the end of the machine what came since the last status. It holds
at most the periods that no status has yet, so that it is empty while nothing moves.
"""

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path

import structlog
from pydantic import ValidationError

from enmasse.base.data_dir import write_private
from enmasse.resources.address_space import Usage

log = structlog.get_logger(__name__)

Records = Mapping[str, tuple[Usage, ...]]
"""Periods by the uid of the space."""


class Interim:
    """The file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written: Records | None = None
        self._refusal = ""
        """Why it could not be written the last time."""

    def read(self) -> dict[str, tuple[Usage, ...]]:
        """Return what a process that was killed had left; nothing if there is no such file. One
        that cannot be read is said in the log and passed over."""
        try:
            found = json.loads(self._path.read_text())
            return {
                uid: tuple(Usage.model_validate(one) for one in periods)
                for uid, periods in found.items()
            }
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, ValidationError, AttributeError, TypeError) as error:
            log.warning("what spaces came to is not known", file=str(self._path), reason=str(error))
            return {}

    def write(self, records: Records) -> None:
        """Keep these and no others. Costs nothing if they are those that were kept last.

        What the disk refuses is said in the log, once: the next second tries again.
        """
        if records == self._written:
            return
        try:
            if records:
                found = {
                    uid: [one.model_dump(by_alias=True) for one in periods]
                    for uid, periods in records.items()
                }
                write_private(self._path, json.dumps(found, separators=(",", ":")), sync=False)
            else:
                with contextlib.suppress(FileNotFoundError):
                    self._path.unlink()
        except OSError as error:
            if str(error) != self._refusal:
                self._refusal = str(error)
                log.warning("usage is not kept", file=str(self._path), reason=self._refusal)
        else:
            self._written, self._refusal = records, ""
