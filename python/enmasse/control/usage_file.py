"""Usage since the last status write, in a file of the data folder.

The file is rewritten every second with traffic, into the page cache: a killed process loses up to
one second, a power failure everything since the last status write. It contains only periods that no
status has yet.
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


class UsageFile:
    """The file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written: Records | None = None
        self._refusal = ""
        """The last write error."""

    def read(self) -> dict[str, tuple[Usage, ...]]:
        """Return the content left by a killed process; empty without a file. A malformed file is
        logged and ignored.
        """
        try:
            found = json.loads(self._path.read_text())
            return {
                uid: tuple(Usage.model_validate(one) for one in periods)
                for uid, periods in found.items()
            }
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, ValidationError, AttributeError, TypeError) as error:
            log.warning("usage of spaces is unknown", file=str(self._path), reason=str(error))
            return {}

    def write(self, records: Records) -> None:
        """Replace the content; free if unchanged.

        A disk error is logged once, and the next second retries.
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
