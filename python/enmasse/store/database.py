"""A connection to a PostgreSQL server that is made when it is needed, and made anew when lost."""

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
"""Longest wait for a connection to be made."""

STATEMENT_TIMEOUT_S = 60
"""Longest time a statement may take: the server ends it then."""

LOCK_TIMEOUT_S = 10
"""Longest wait for another writer."""

IDLE_TIMEOUT_S = 10
"""Longest time that a writer may think: the server ends its transaction then, so that a process
that hangs does not stop all others."""

ANSWER_S = STATEMENT_TIMEOUT_S + 10
"""Longest wait for the answer to a statement, which the server gives before that if it lives."""

CANCEL_S = 0.5
"""Longest wait for the server to hear that somebody does not wait any more."""

UNDO_S = 5
"""Longest wait for a transaction to be undone before its connection is closed instead."""

_ALIVE = {
    "connect_timeout": CONNECT_TIMEOUT_S,
    # A peer that is gone without a word is noticed, by either side, within 10 s.
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
    """A connection on which no wait is without end.

    A server that hangs, or bytes that are lost behind something that acknowledges them, look like
    one that thinks: after `ANSWER_S` the connection is cut. So it is where who waits is cancelled
    and the server does not hear of that.
    """

    async def wait(self, gen: PQGen[RV], *arguments: Any, **named: Any) -> RV:
        """Return what is waited for. Raises: psycopg.Error, soon after `ANSWER_S` at the latest."""
        cutting = asyncio.get_running_loop().call_later(ANSWER_S, self._cut)
        try:
            return await super().wait(gen, *arguments, **named)
        finally:
            cutting.cancel()

    async def cancel_safe(self, **_: Any) -> None:
        """End what is being done, for who waits for it is cancelled."""
        try:
            await super().cancel_safe(timeout=CANCEL_S)
        except psycopg.Error:
            self._cut()

    def _cut(self) -> None:
        """End the connection for whatever waits on it."""
        # The driver goes on to own the socket: it sees the end of what it reads.
        with suppress(OSError, psycopg.Error):
            with socket.socket(fileno=os.dup(self.pgconn.socket)) as ours:
                ours.shutdown(socket.SHUT_RDWR)


class Place:
    """Where a database is, and who we are there. Only the driver sees the password."""

    def __init__(self, url: str) -> None:
        """Read `postgresql://[USER[:PASSWORD]@][HOST[:PORT]][/DATABASE][?OPTION=VALUE...]`.

        What it does not say comes from the variables and files of libpq: PGPASSWORD, ~/.pgpass.
        Raises: Invalid if it cannot be read.
        """
        try:
            said = conninfo_to_dict(url)
            # A password with an `@` as it is: its end would be taken for a name, and shown.
            understood = not any("@" in str(said.get(one)) for one in _SHOWN)
        except psycopg.Error:
            # The driver's own words would repeat a part of the URL, maybe of the password.
            understood = False
        if not understood:
            raise Invalid(
                Code.SETTING_INVALID,
                "setting store: the URL cannot be read; write"
                " postgresql://USER@HOST:PORT/DATABASE, special characters as %XX",
            )
        self._conninfo = make_conninfo(url, **{"application_name": "enmasse"} | _ALIVE | said)
        host = said.get("host") or said.get("hostaddr") or "localhost"
        self.name = f"database {said.get('dbname') or ''} at {host}".replace("  ", " ")

    async def connect(self) -> Connection:
        """Return a new connection; every statement is a transaction unless it says `begin`.

        Raises: psycopg.Error.
        """
        async with asyncio.timeout(2 * CONNECT_TIMEOUT_S):
            connection = await Connection.connect(self._conninfo, autocommit=True)
        try:
            await connection.execute(_SESSION)
        except BaseException:
            await connection.close()
            raise
        return connection

    @contextmanager
    def failures(self) -> Iterator[None]:
        """Turn what the driver raises into Unavailable, which names the database."""
        try:
            yield
        except psycopg.errors.LockNotAvailable as error:
            raise Unavailable(
                Code.STORE_UNUSABLE,
                f"{self.name}: another writer has kept it for {LOCK_TIMEOUT_S} s; try again",
                retry_after_s=1.0,
            ) from error
        except (psycopg.Error, TimeoutError) as error:
            raise Unavailable(
                Code.STORE_UNUSABLE,
                f"{self.name}: {_line(error)}; see to the server, or to what --store says",
                retry_after_s=1.0,
            ) from error


class Link:
    """One connection, for one user at a time."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._connection: Connection | None = None
        self._using = asyncio.Lock()

    @asynccontextmanager
    async def use(self, first: LiteralString) -> AsyncIterator[psycopg.AsyncCursor[Any]]:
        """Yield a cursor with what the statement `first` gave; a transaction left open is undone.

        A connection that turns out to be lost by `first` is made anew, once.
        Raises: psycopg.Error.
        """
        async with self._using:
            cursor = await self._begin(first)
            try:
                yield cursor
            finally:
                await self._leave(cursor.connection)

    async def close(self) -> None:
        """Close the connection, once nobody uses it."""
        async with self._using:
            await self._drop()

    async def _begin(self, first: LiteralString) -> psycopg.AsyncCursor[Any]:
        if self._connection is not None:
            try:
                return await self._connection.execute(first)
            except psycopg.OperationalError:
                if not self._connection.closed:
                    await self._leave(self._connection)
                    raise
                await self._drop()
            except BaseException:
                await self._leave(self._connection)
                raise
        connection = self._connection = await self._place.connect()
        try:
            return await connection.execute(first)
        except BaseException:
            await self._leave(connection)
            raise

    async def _leave(self, connection: psycopg.AsyncConnection[Any]) -> None:
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
    """Return what went wrong in one line; the driver's others are guesses."""
    text = str(error).partition("\n")[0].strip() or type(error).__name__
    return text.removeprefix("connection failed: ")
