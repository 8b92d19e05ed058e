"""Access of executor tasks to live state: a file of SQLite, or a server of PostgreSQL.

A task reads the state of its devices. It returns changes to the driver (SQLite, which one process
writes), or copies them to staging tables from which the driver publishes them.
"""

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow

from enmasse.base.errors import Code, Invalid, Unavailable
from enmasse.pipeline.live import rows as live_rows

STAGING_PREFIX = "staged_"
"""Names of staging tables begin with it."""
STAGING_KEY = ("query", "batch", "part", "attempt")
"""Columns of staging tables in addition to those of their targets."""


BOUNDS = {
    "connect_timeout": 10,
    "tcp_user_timeout": 60_000,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
}
"""Time limits of a task for an unresponsive server: seconds, and milliseconds of TCP."""


@dataclass(frozen=True)
class Attempt:
    """The key of the rows that a task stages."""

    query: str
    batch: int
    part: int
    attempt: int
    """Random: a task of a killed driver may still run alongside those of the next one."""


class Session(Protocol):
    """A connection of one task to live state."""

    def read(self, table: str, source: str, chosen: Mapping[str, Sequence[str]]) -> pyarrow.Table:
        """Return the rows of a source whose columns have one of these values each."""

    def store(self, table: str, rows: pyarrow.Table, attempt: Attempt) -> bytes:
        """Store changed rows of a table; return those that the driver has to write."""


@dataclass(frozen=True)
class LocalAccess:
    """A file of SQLite, on this machine."""

    file: Path

    @contextmanager
    def opened(self) -> Iterator[Session]:
        """Open the file; raises Unavailable for its errors."""
        try:
            with closing(sqlite3.connect(f"{self.file.as_uri()}?mode=ro", uri=True)) as connection:
                yield _LocalSession(connection)
        except sqlite3.Error as error:
            what = f"live state {self.file}: {error}"
            raise Unavailable(Code.DATA_UNUSABLE, what) from error


class _LocalSession:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def read(self, table: str, source: str, chosen: Mapping[str, Sequence[str]]) -> pyarrow.Table:
        schema = live_rows.TABLES[table]
        names = ", ".join(f'"{name}"' for name in schema.names)
        where = " AND ".join(f"{name} IN (SELECT value FROM json_each(?))" for name in chosen)
        rows = self._connection.execute(
            f"SELECT {names} FROM {table} WHERE source = ? AND {where}",
            [source, *(json.dumps(list(values)) for values in chosen.values())],
        ).fetchall()
        columns = zip(*rows, strict=True) if rows else ([] for _ in schema)
        # booleans are numbers in SQLite
        arrays = [
            pyarrow.array(
                map(bool, column) if field.type == pyarrow.bool_() else column, field.type
            )
            for column, field in zip(columns, schema, strict=True)
        ]
        return pyarrow.table(arrays, schema=schema)

    def store(self, table: str, rows: pyarrow.Table, attempt: Attempt) -> bytes:
        del table, attempt
        return live_rows.packed(rows)


@dataclass(frozen=True)
class ServerAccess:
    """A server of PostgreSQL."""

    parameters: Mapping[str, Any]
    """Parameters of the connection, without the password."""

    location: str
    """The URL in error messages, without the password."""

    password: str | None = None
    """Sent in the closure of the task, never in options."""

    password_file: str | None = None
    """A file of the executor with the password."""

    def __repr__(self) -> str:
        return f"ServerAccess({self.location})"

    @contextmanager
    def opened(self) -> Iterator[Session]:
        """Connect; stored rows are committed when the block ends. Raises Unavailable for an
        unavailable server, Invalid for rows that it refuses.
        """
        import psycopg

        try:
            chosen = BOUNDS | dict(self.parameters)
            with psycopg.connect(**chosen, password=self._secret()) as connection:
                yield _ServerSession(connection)
        except psycopg.Error as error:
            what = f"live state {self.location}: {error}"
            # a retry cannot succeed
            if isinstance(error, (psycopg.DataError, psycopg.IntegrityError)):
                raise Invalid(Code.FIELD_INVALID, what) from error
            raise Unavailable(Code.DATA_UNUSABLE, what) from error

    def _secret(self) -> str | None:
        if self.password_file is None:
            return self.password
        try:
            return Path(self.password_file).read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise Invalid(
                Code.FIELD_INVALID,
                f"spec.live.passwordFile: an executor cannot read {self.password_file}: {error};"
                " put the file there on each executor, or name one next to the document",
            ) from None


class _ServerSession:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def read(self, table: str, source: str, chosen: Mapping[str, Sequence[str]]) -> pyarrow.Table:
        from psycopg import sql

        schema = live_rows.TABLES[table]
        where = (sql.SQL("{} = ANY(%s)").format(sql.Identifier(name)) for name in chosen)
        statement = sql.SQL(
            "COPY (SELECT {} FROM {} WHERE source = %s AND {}) TO STDOUT (FORMAT csv)"
        ).format(_names(schema.names), sql.Identifier(table), sql.SQL(" AND ").join(where))
        values = [source, *(list(one) for one in chosen.values())]
        with self._connection.cursor() as cursor, cursor.copy(statement, values) as copy:
            return live_rows.from_csv(b"".join(copy), schema)

    def store(self, table: str, rows: pyarrow.Table, attempt: Attempt) -> bytes:
        from psycopg import sql

        for name in reversed(STAGING_KEY):
            value = pyarrow.repeat(getattr(attempt, name), rows.num_rows)
            rows = rows.add_column(0, name, value)
        statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv)").format(
            sql.Identifier(STAGING_PREFIX + table), _names(rows.column_names)
        )
        with self._connection.cursor() as cursor, cursor.copy(statement) as copy:
            copy.write(live_rows.as_csv(rows))
        return b""


def _names(columns: Sequence[str]) -> Any:
    from psycopg import sql

    return sql.SQL(", ").join(map(sql.Identifier, columns))


Access = LocalAccess | ServerAccess
