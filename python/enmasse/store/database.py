"""A lazily opened PostgreSQL connection that reconnects after a loss."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, LiteralString

import psycopg
from psycopg.abc import RV, PQGen
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus

from enmasse.base.errors import Code, Invalid, Unavailable

CONNECT_TIMEOUT_S = 5
"""Time-out for connecting."""

STATEMENT_TIMEOUT_S = 60
"""Time-out of a statement, enforced by the server."""

LOCK_TIMEOUT_S = 10
"""Time-out for a lock held by another writer."""

SHORT_LOCK_TIMEOUT_S = 2
"""The same for short statements on the connection of the lease, which waits for them: several of
them take less time than a leader has for renewing.
"""

IDLE_TIMEOUT_S = 10
"""Time-out of an idle transaction, enforced by the server, so that a hung process does not block
the others.
"""

ANSWER_S = STATEMENT_TIMEOUT_S + 10
"""Time-out of a response; longer than the server's statement time-out."""

CANCEL_S = 0.5
"""Time-out of a cancel request."""

UNDO_S = 5
"""Maximum wait for a rollback before the connection is closed instead."""

_ALIVE = {
    "connect_timeout": CONNECT_TIMEOUT_S,
    # Either side detects a lost peer within 10 s.
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
_SESSION: LiteralString = (
    f"set lock_timeout = '{LOCK_TIMEOUT_S}s'; set statement_timeout = '{STATEMENT_TIMEOUT_S}s';"
    f" set idle_in_transaction_session_timeout = '{IDLE_TIMEOUT_S}s';"
    " set tcp_keepalives_idle = 5; set tcp_keepalives_interval = 2; set tcp_keepalives_count = 3"
)

_SHOWN = ("host", "hostaddr", "dbname", "user", "port")


class Connection(psycopg.AsyncConnection[Any]):
    """A connection on which every wait is bounded.

    A hung server, or bytes lost behind a proxy that acknowledges them, look like a slow server:
    after `ANSWER_S` the connection is closed. The same happens if a cancel request does not reach
    the server.
    """

    async def wait(self, gen: PQGen[RV], *arguments: Any, **named: Any) -> RV:
        """Return the awaited result.

        Raises: psycopg.Error, at the latest shortly after `ANSWER_S`.
        """
        cutting = asyncio.get_running_loop().call_later(ANSWER_S, self._shut_down_socket)
        try:
            return await super().wait(gen, *arguments, **named)
        finally:
            cutting.cancel()

    async def cancel_safe(self, **_: Any) -> None:
        """Cancel the running statement: its caller was cancelled."""
        try:
            await super().cancel_safe(timeout=CANCEL_S)
        except psycopg.Error:
            self._shut_down_socket()

    def _shut_down_socket(self) -> None:
        """Close the connection under any pending operation."""
        # The driver keeps the socket: it observes the end of the stream.
        with suppress(OSError, psycopg.Error):
            with socket.socket(fileno=os.dup(self.pgconn.socket)) as ours:
                ours.shutdown(socket.SHUT_RDWR)


class Place:
    """Location and credentials of a database. Only the driver sees the password."""

    def __init__(self, url: str) -> None:
        """Parse `postgresql://[USER[:PASSWORD]@][HOST[:PORT]][/DATABASE][?OPTION=VALUE...]`.

        Missing parts come from the variables and files of libpq: PGPASSWORD, ~/.pgpass.

        Raises: Invalid if it is malformed.
        """
        try:
            parameters = conninfo_to_dict(url)
            # With an unescaped `@` in the password, its end would be parsed as a host name and
            # shown.
            is_valid = not any("@" in str(parameters.get(one)) for one in _SHOWN)
        except psycopg.Error:
            # The driver's own message could contain a part of the URL, and so of the password.
            is_valid = False
        if not is_valid:
            raise Invalid(
                Code.SETTING_INVALID,
                "setting store: invalid URL; write"
                " postgresql://USER@HOST:PORT/DATABASE, with special characters"
                " as %XX",
            )
        self._conninfo = make_conninfo(url, **{"application_name": "enmasse"} | _ALIVE | parameters)
        host = parameters.get("host") or parameters.get("hostaddr") or "localhost"
        self.name = f"database {parameters.get('dbname') or ''} at {host}".replace("  ", " ")

    async def connect(self, lock_timeout_s: int = LOCK_TIMEOUT_S) -> Connection:
        """Return a new connection in autocommit mode.

        Raises: psycopg.Error.
        """
        async with asyncio.timeout(2 * CONNECT_TIMEOUT_S):
            connection = await Connection.connect(self._conninfo, autocommit=True)
        try:
            await connection.execute(_SESSION)
            if lock_timeout_s != LOCK_TIMEOUT_S:
                changed = "select set_config('lock_timeout', %s, false)"
                await connection.execute(changed, [f"{lock_timeout_s}s"])
        except BaseException:
            await connection.close()
            raise
        return connection

    @contextmanager
    def failures(self) -> Iterator[None]:
        """Translate driver errors into Unavailable, which names the database."""
        try:
            yield
        except psycopg.errors.LockNotAvailable as error:
            raise Unavailable(
                Code.STORE_UNUSABLE,
                f"{self.name}: another writer has held a lock for too long; try again",
                retry_after_s=1.0,
            ) from error
        except (psycopg.Error, TimeoutError) as error:
            raise Unavailable(
                Code.STORE_UNUSABLE,
                f"{self.name}: {_line(error)}; check the server and --store",
                retry_after_s=1.0,
            ) from error


class Links:
    """The connections of a process to a database, besides the listener's: all stores of a process
    share them, so that a process has three.
    """

    def __init__(self, place: Place) -> None:
        self.writer = Link(place)
        """For the turn of a writer, and for reading everything."""

        self.reader = Link(place, SHORT_LOCK_TIMEOUT_S)
        """For short statements: the lease, heartbeats and reads of changes must not wait."""

    async def close(self) -> None:
        """Close both once they are idle."""
        await self.writer.close()
        await self.reader.close()


class Link:
    """One connection with one user at a time."""

    def __init__(self, place: Place, lock_timeout_s: int = LOCK_TIMEOUT_S) -> None:
        """`lock_timeout_s`: the time-out of its statements for locks."""
        self._place = place
        self._lock_timeout_s = lock_timeout_s
        self._connection: Connection | None = None
        self._using = asyncio.Lock()

    @asynccontextmanager
    async def use(self, first: LiteralString) -> AsyncIterator[psycopg.AsyncCursor[Any]]:
        """Yield a cursor with the result of the statement `first`; roll an open transaction back at
        the end.

        If `first` shows that the connection is lost, reconnect once.

        Raises: psycopg.Error.
        """
        async with self._using:
            cursor = await self._begin(first)
            try:
                yield cursor
            finally:
                await self._finish(cursor.connection)

    async def close(self) -> None:
        """Close the connection once it is idle."""
        async with self._using:
            await self._drop()

    async def _begin(self, first: LiteralString) -> psycopg.AsyncCursor[Any]:
        if self._connection is not None:
            try:
                return await self._connection.execute(first)
            except psycopg.OperationalError:
                if not self._connection.closed:
                    await self._finish(self._connection)
                    raise
                await self._drop()
            except BaseException:
                await self._finish(self._connection)
                raise
        connection = self._connection = await self._place.connect(self._lock_timeout_s)
        try:
            return await connection.execute(first)
        except BaseException:
            await self._finish(connection)
            raise

    async def _finish(self, connection: psycopg.AsyncConnection[Any]) -> None:
        status = connection.info.transaction_status
        if status == TransactionStatus.IDLE:
            return
        if status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
            with suppress(psycopg.Error, TimeoutError):
                async with asyncio.timeout(UNDO_S):
                    await connection.execute("rollback")
                return
        await self._drop()

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error):
                await connection.close()


def _line(error: Exception) -> str:
    """Return the error in one line; further lines of the driver are hints."""
    text = str(error).partition("\n")[0].strip() or type(error).__name__
    return text.removeprefix("connection failed: ")
