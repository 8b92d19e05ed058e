"""The history on disk: chunks in an SQLite database of its own in the data folder.

It is no part of the store of resources: it is lost without harm, and a damaged file is replaced. A
flush is one transaction; `synchronous=NORMAL` with a write-ahead log survives a killed process.
"""

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import structlog

from enmasse.api.history.rings import RINGS, Ring, Row, chunk_start, decode, encode

log = structlog.get_logger(__name__)

BYTES_MAX = 200 << 20
"""Maximum size of the database; beyond `BYTES_FULL` the oldest chunks are deleted."""

BYTES_FULL = 180 << 20
FREED_SHARE = 0.05
"""Share of the chunks that is deleted at a time."""

ENCODED_MAX = 1024
"""Maximum encoded chunks in memory during a write."""

LAYOUT = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS series (
    id INTEGER PRIMARY KEY, kind TEXT NOT NULL, uid TEXT NOT NULL, space TEXT NOT NULL,
    name TEXT NOT NULL, ended_s INTEGER, UNIQUE (kind, uid)
);
CREATE TABLE IF NOT EXISTS chunk (
    ring INTEGER NOT NULL, series INTEGER NOT NULL, start_s INTEGER NOT NULL, rows BLOB NOT NULL,
    PRIMARY KEY (ring, series, start_s)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS run (start_s INTEGER PRIMARY KEY, end_s INTEGER NOT NULL);
"""


class Series(NamedTuple):
    """One address or space."""

    id: int
    kind: str
    """`address` or `space`."""

    uid: str
    space: str
    """`NAME.NAMESPACE`."""

    name: str
    """The address; empty for a space."""

    ended_s: int | None = None
    """When it was deleted."""


class Chunk(NamedTuple):
    """The rows of a series in a period of a ring."""

    ring: int
    series: int
    rows: tuple[Row, ...]
    width: int
    """Values of each row."""


class Run(NamedTuple):
    """A period in which the platform recorded."""

    start_s: int
    end_s: int


class HistoryStorage:
    """The database. Calls block; one at a time, on any thread."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._database = self._open()

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def series(self) -> list[Series]:
        """Return every series."""
        rows = self._database.execute("SELECT id, kind, uid, space, name, ended_s FROM series")
        return [Series(*row) for row in rows]

    def runs(self) -> list[Run]:
        """Return the runs, oldest first."""
        rows = self._database.execute("SELECT start_s, end_s FROM run ORDER BY start_s")
        return [Run(*row) for row in rows]

    def rows(self, series: int, ring: Ring, from_s: int, to_s: int) -> list[Row]:
        """Return the rows of a series in a period, and the one that holds at its start."""
        first = chunk_start(ring, from_s)
        before = self._database.execute(
            "SELECT max(start_s) FROM chunk WHERE ring = ? AND series = ? AND start_s < ?",
            (ring.number, series, first),
        ).fetchone()[0]
        chunks = self._database.execute(
            "SELECT rows FROM chunk WHERE ring = ? AND series = ? AND start_s BETWEEN ? AND ?"
            " ORDER BY start_s",
            (ring.number, series, before if before is not None else first, to_s),
        )
        found: list[Row] = []
        for (chunk,) in chunks:
            try:
                found += [row for row in decode(chunk) if row.time_s <= to_s]
            except ValueError as error:
                log.warning("history chunk skipped", reason=str(error))
        at = next((at for at, row in enumerate(found) if row.time_s > from_s), len(found))
        return found[max(at - 1, 0) :]

    def write(
        self, series: Iterable[Series], chunks: Iterable[Chunk], run: Run, now_s: int
    ) -> None:
        """Write new and ended series, chunks, and the present run; delete what has expired.

        Chunks are encoded here, on the caller's thread: there may be 100,000, as after a start.
        """
        # Those of idle addresses are equal.
        encode_once = lru_cache(ENCODED_MAX)(encode)
        encoded = (
            (one.ring, one.series, one.rows[0].time_s, encode_once(one.rows, one.width))
            for one in chunks
        )
        with self._database as database:
            database.executemany(
                "INSERT INTO series (id, kind, uid, space, name, ended_s) VALUES (?, ?, ?, ?, ?, ?)"
                " ON CONFLICT (id) DO UPDATE SET ended_s = excluded.ended_s",
                series,
            )
            database.executemany(
                "INSERT INTO chunk (ring, series, start_s, rows) VALUES (?, ?, ?, ?)"
                " ON CONFLICT DO UPDATE SET rows = excluded.rows",
                encoded,
            )
            database.execute(
                "INSERT INTO run VALUES (?, ?) ON CONFLICT DO UPDATE SET end_s = excluded.end_s",
                run,
            )
            self._expire(now_s)
        self._bound()

    @property
    def size_bytes(self) -> int:
        """Bytes of the database in use."""
        pages, free, page = (
            self._database.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "freelist_count", "page_size")
        )
        return int((pages - free) * page)

    def _expire(self, now_s: int) -> None:
        for ring in RINGS:
            # One more chunk is kept: its last row may hold at the start of the ring.
            oldest = now_s - ring.kept_s - 2 * ring.chunk_s
            self._database.execute(
                "DELETE FROM chunk WHERE ring = ? AND start_s < ?", (ring.number, oldest)
            )
        oldest = now_s - RINGS[-1].kept_s
        self._database.execute("DELETE FROM series WHERE ended_s < ?", (oldest,))
        self._database.execute("DELETE FROM run WHERE end_s < ?", (oldest,))

    def _bound(self) -> None:
        """Delete the oldest chunks of the largest ring while the database is too large."""
        while self.size_bytes > BYTES_FULL:
            with self._database as database:
                ring, count = database.execute(
                    "SELECT ring, count(*) FROM chunk GROUP BY ring"
                    " ORDER BY sum(length(rows)) DESC LIMIT 1"
                ).fetchone()
                freed = max(int(count * FREED_SHARE), 1)
                database.execute(
                    "DELETE FROM chunk WHERE (ring, series, start_s) IN (SELECT ring, series,"
                    " start_s FROM chunk WHERE ring = ? ORDER BY start_s LIMIT ?)",
                    (ring, freed),
                )
            log.warning("history is full", deleted=freed, ring=ring)
        self._database.execute("PRAGMA incremental_vacuum(1000)")

    def _open(self) -> sqlite3.Connection:
        try:
            return self._opened()
        except sqlite3.DatabaseError as error:
            log.warning("history replaced", reason=str(error))
            for suffix in ("", "-wal", "-shm"):
                Path(f"{self._file}{suffix}").unlink(missing_ok=True)
            return self._opened()

    def _opened(self) -> sqlite3.Connection:
        database = sqlite3.connect(self._file, check_same_thread=False, isolation_level="DEFERRED")
        try:
            database.execute("PRAGMA auto_vacuum = INCREMENTAL")
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = NORMAL")
            # A write-ahead log counts too.
            database.execute(f"PRAGMA journal_size_limit = {8 << 20}")
            layout = database.execute("PRAGMA user_version").fetchone()[0]
            if layout not in (0, LAYOUT):
                raise sqlite3.DatabaseError(f"layout {layout} is unknown")
            database.executescript(_SCHEMA)
            database.execute(f"PRAGMA user_version = {LAYOUT}")
        except sqlite3.DatabaseError:
            with closing(database):
                raise
        return database
