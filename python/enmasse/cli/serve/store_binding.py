"""Ties the messages of a data folder to their store.

A node deletes the messages of addresses that are not declared. A start with another store, an empty
or an older one (a forgotten `--store`, a lost file, a restored database) would therefore lose
messages. The folder records its store, and such a start is refused.
"""

import json

import structlog

from enmasse.base.clock import Clock
from enmasse.base.data_dir import DataDir, write_private
from enmasse.base.errors import Code, Conflict, Unavailable
from enmasse.store import Store

log = structlog.get_logger(__name__)

RECORD_INTERVAL_S = 10.0
"""Interval of recording the store's version."""


class Belonging:
    """The store recorded in a data folder."""

    def __init__(self, data: DataDir, store: Store, clock: Clock) -> None:
        """Nothing is read or written yet."""
        self._file = data.served
        self._store = store
        self._clock = clock
        self._recorded = -1

    def check(self) -> None:
        """Check as `verify` does, and record the store.

        Raises: Conflict if it is not; Unavailable if the folder is unreadable or unwritable.
        """
        self.verify()
        try:
            self._record()
        except OSError as error:
            raise self._unusable(error) from None

    def verify(self) -> None:
        """Check that the store is the folder's and not older.

        Raises: Conflict if it is not; Unavailable if the folder is unreadable.
        """
        known = self._read()
        if known is not None:
            uid, version = known
            if uid != self._store.identity:
                raise Conflict(
                    Code.STORE_STRANGE,
                    f"the messages in {self._file.parent} belong to the store {uid}, and this is"
                    f" {self._store.identity}: {self._remedy()}",
                )
            if version > self._store.version:
                raise Conflict(
                    Code.STORE_STRANGE,
                    f"the store was at version {version} when"
                    f" {self._file.parent} last served it and is now at"
                    f" {self._store.version}, as after a restore: {self._remedy()}",
                )

    async def keep_recording(self) -> None:
        """Record the store's version periodically, until cancelled."""
        while True:
            await self._clock.sleep(RECORD_INTERVAL_S)
            try:
                self._record()
            except OSError as error:
                log.warning("cannot record the store", file=str(self._file), reason=str(error))

    def _remedy(self) -> str:
        return (
            "start with the store that these messages belong to (--store), or"
            f" delete {self._file} to lose the messages of addresses that this"
            " store does not have"
        )

    def _read(self) -> tuple[str, int] | None:
        try:
            known = json.loads(self._file.read_text())
            return str(known["store"]), int(known["version"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise self._unusable(error) from None

    def _record(self) -> None:
        version = self._store.version
        if version != self._recorded:
            known = {"store": self._store.identity, "version": version}
            write_private(self._file, json.dumps(known) + "\n")
            self._recorded = version

    def _unusable(self, error: Exception) -> Unavailable:
        return Unavailable(
            Code.DATA_UNUSABLE,
            f"{self._file}: {error}; correct it, or delete it if this is the"
            " store of these messages",
        )
