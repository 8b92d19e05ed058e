"""Which store the messages of a data folder belong to.

A node deletes what it holds of addresses that nobody declares. So one that starts with another
store than the one before, an empty or an older one, would lose messages without a word: a forgotten
`--store`, a lost file, a database put back. The folder remembers the store, and such a start is
refused.
"""

import json

import structlog

from enmasse.base.clock import Clock
from enmasse.base.data_dir import DataDir, write_private
from enmasse.base.errors import Code, Conflict, Unavailable
from enmasse.store import Store

log = structlog.get_logger(__name__)

NOTE_S = 10.0
"""How often the version of the store is noted, if it is a new one."""


class Belonging:
    """What a data folder remembers of the store that is served from it."""

    def __init__(self, data: DataDir, store: Store, clock: Clock) -> None:
        """Nothing is read or written yet."""
        self._file = data.served
        self._store = store
        self._clock = clock
        self._noted = -1

    def check(self) -> None:
        """See that the store is the one of the messages in the folder, and no older; note it.

        Raises: Conflict if it is not; Unavailable if the folder cannot be read or written.
        """
        known = self._read()
        if known is not None:
            uid, version = known
            if uid != self._store.identity:
                raise Conflict(
                    Code.STORE_STRANGE,
                    f"the messages in {self._file.parent} belong to the store {uid}, and this is"
                    f" {self._store.identity}: {self._mend()}",
                )
            if version > self._store.version:
                raise Conflict(
                    Code.STORE_STRANGE,
                    f"the store was at version {version} when {self._file.parent} last served it,"
                    f" and is at {self._store.version} now, as if put back: {self._mend()}",
                )
        try:
            self._note()
        except OSError as error:
            raise self._unusable(error) from None

    async def keep_noting(self) -> None:
        """Note how far the store is, until cancelled."""
        while True:
            await self._clock.sleep(NOTE_S)
            try:
                self._note()
            except OSError as error:
                log.warning("cannot note the store", file=str(self._file), reason=str(error))

    def _mend(self) -> str:
        return (
            "start with the store that these messages came with (--store), or, to lose the messages"
            f" of addresses that this one does not have, delete {self._file}"
        )

    def _read(self) -> tuple[str, int] | None:
        try:
            known = json.loads(self._file.read_text())
            return str(known["store"]), int(known["version"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise self._unusable(error) from None

    def _note(self) -> None:
        version = self._store.version
        if version != self._noted:
            known = {"store": self._store.identity, "version": version}
            write_private(self._file, json.dumps(known) + "\n")
            self._noted = version

    def _unusable(self, error: Exception) -> Unavailable:
        return Unavailable(
            Code.DATA_UNUSABLE,
            f"{self._file}: {error}; mend it, or delete it if the store is that of these messages",
        )
