"""A store in one SQLite file: every change is on disk before it is visible.

All resources are also in memory, so reading needs no disk. One process uses the file, guaranteed by
the lock of the data folder, through one connection. WAL with `synchronous=FULL`: a completed write
survives power loss. A row is a resource: kind, namespace, name, version, document.
"""

import asyncio
import sqlite3
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from enmasse.base.clock import Clock
from enmasse.base.data_dir import make_private
from enmasse.base.errors import Code, EnMasseError, Unavailable
from enmasse.base.threads import completed
from enmasse.resources import Resource
from enmasse.store.local_nodes import LocalNodes
from enmasse.store.memory import MemoryStore
from enmasse.store.nodes import Identity
from enmasse.store.protocol import Event, EventType
from enmasse.store.rows import resource_of, text_of

PRIMARY_CODE = 0xFF
"""Mask of the primary error code in SQLite's extended error codes."""

LOCK_WAIT_S = 5.0
"""Maximum wait for a lock held by another program, such as a backup or a shell."""

_TABLES = (
    """create table if not exists resources (
        kind varchar not null, namespace varchar not null, name varchar not null,
        version bigint not null, document text not null, primary key (kind, namespace, name)
    )""",
    "create table if not exists store (id integer primary key, version bigint not null)",
    "create table if not exists identity (id integer primary key, uid varchar not null)",
    """create table if not exists nodes (
        name varchar primary key, uid varchar not null, start bigint not null,
        mark varchar not null, place varchar not null
    )""",
)
_REMOVE = "delete from resources where kind = ? and namespace = ? and name = ?"
_KEEP = "insert or replace into resources values (?, ?, ?, ?, ?)"
_IDENTIFY = "insert or ignore into identity values (1, ?)"
_KEEP_NODE = "insert or replace into nodes values (?, ?, ?, ?, ?)"
_DROP_NODE = "delete from nodes where name = ?"
_SET_VERSION = "insert or replace into store values (1, ?)"


class SqliteStore(MemoryStore):
    """A `Store` in one SQLite file. Open it with `open`."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        path: Path,
        clock: Clock,
        held: "_Held",
    ) -> None:
        super().__init__(clock, held.version, held.resources)
        self._identity = held.identity
        self._connection = connection
        self._path = path
        self._nodes = _SqliteNodes(self, held.nodes)

    @classmethod
    async def open(cls, path: Path, clock: Clock) -> "SqliteStore":
        """Open the file, creating it if needed, and read everything.

        Raises: Unavailable if that fails; the message names the file.
        """
        connection, held = await asyncio.to_thread(_open, path)
        return cls(connection, path, clock, held)

    async def close(self) -> None:
        """Wait for the writer and close the file."""
        await super().close()
        await asyncio.to_thread(self._connection.close)

    async def _persist(self, events: Sequence[Event]) -> None:
        # A change that may be on disk must also be in memory, so the write is completed before a
        # cancellation.
        await completed(partial(self._write, events))

    async def execute(self, statement: str, values: Sequence[object]) -> None:
        """Execute one statement that changes no resource. The caller excludes other writers: by a
        turn, or because the process is only starting.

        Raises: Unavailable if the disk fails.
        """

        def run() -> None:
            with _failures_of(self._path), _transaction(self._connection):
                self._connection.execute(statement, values)

        # As `_persist`; and the file must not be closed in the meantime.
        await completed(run)

    def _write(self, events: Sequence[Event]) -> None:
        removed = [event.resource.key for event in events if event.type is EventType.DELETED]
        kept = [_row(event.resource) for event in events if event.type is not EventType.DELETED]
        with _failures_of(self._path), _transaction(self._connection):
            if removed:
                self._connection.executemany(_REMOVE, removed)
            if kept:
                self._connection.executemany(_KEEP, kept)
            self._connection.execute(_SET_VERSION, [events[-1].version])


class _Held(NamedTuple):
    """The content of a file."""

    identity: str
    version: int
    resources: list[Resource]
    nodes: list[tuple[Identity, str]]
    """Nodes that used the file, and their places."""


class _SqliteNodes(LocalNodes):
    """The nodes that used a file: names and starts are in it."""

    def __init__(self, store: SqliteStore, stored: Sequence[tuple[Identity, str]]) -> None:
        super().__init__(stored)
        self._store = store

    async def _keep(self, identity: Identity, place: str) -> None:
        await self._store.execute(_KEEP_NODE, [*identity, place])

    async def _drop(self, name: str) -> None:
        await self._store.execute(_DROP_NODE, [name])


def _open(path: Path) -> tuple[sqlite3.Connection, _Held]:
    with _failures_of(path):
        _restrict_to_owner(path)
        # one writer at a time, from any thread
        connection = sqlite3.connect(
            path, timeout=LOCK_WAIT_S, isolation_level=None, check_same_thread=False
        )
        try:
            return connection, _read(connection)
        except BaseException:
            connection.close()
            raise


def _restrict_to_owner(path: Path) -> None:
    """Restrict the file, which contains verifiers, to its owner. SQLite creates its side files with
    the same mode.
    """
    make_private(path)
    for suffix in ("-wal", "-shm"):
        side_file = path.with_name(path.name + suffix)
        if side_file.exists():
            side_file.chmod(0o600)


def _read(connection: sqlite3.Connection) -> _Held:
    for pragma in ("journal_mode=WAL", "synchronous=FULL"):
        connection.execute(f"pragma {pragma}")
    with _transaction(connection):
        for table in _TABLES:
            connection.execute(table)
        connection.execute(_IDENTIFY, [str(uuid.uuid4())])
        (uid,) = connection.execute("select uid from identity").fetchone()
        version = connection.execute("select version from store").fetchone()
        rows = connection.execute("select document from resources").fetchall()
        nodes = connection.execute("select * from nodes").fetchall()
    resources = [resource_of(document) for (document,) in rows]
    known = [(Identity(*identity), place) for *identity, place in nodes]
    return _Held(uid, version[0] if version else 0, resources, known)


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("begin immediate")
    try:
        yield
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:
            connection.execute("rollback")
        raise


def _row(resource: Resource) -> tuple[str, str, str, int, str]:
    return *resource.key, int(resource.metadata.resource_version or 0), text_of(resource)


@contextmanager
def _failures_of(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) & PRIMARY_CODE == sqlite3.SQLITE_BUSY:
            raise Unavailable(
                Code.DATA_UNUSABLE,
                f"{path}: another program has held a lock on it for"
                f" {LOCK_WAIT_S:g} s; end that program or try again later",
                retry_after_s=1.0,
            ) from error
        raise Unavailable(
            Code.DATA_UNUSABLE, f"{path}: {error}; check the disk, or restore the file"
        ) from error
    except OSError as error:
        raise Unavailable(
            Code.DATA_UNUSABLE,
            f"{path}: {error.strerror or error}; check the disk and the file permissions",
        ) from error
    except (EnMasseError, ValueError) as error:
        raise Unavailable(
            Code.DATA_UNUSABLE, f"{path} holds what this version cannot read: {error}"
        ) from error
