"""A store in a PostgreSQL database, shared by several processes.

All resources are also in memory, so reading is free. A write takes the one lock of the database
until its transaction ends, reads what others have written, and then decides. A version thus becomes
visible after all smaller ones, and no watcher misses one (a sequence alone would not follow commit
order). Writes are announced by NOTIFY; processes also poll. The latest changes are in a table, so a
process catches up after an interruption, and a watch may begin before a process started. Each
change has a random mark: a database that lost its last commits in a failover reuses their versions,
and the mark tells the two apart.
"""

import asyncio
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, LiteralString

import psycopg
import structlog

from enmasse.base.clock import Clock
from enmasse.base.errors import Code, EnMasseError, Invalid, Misuse, Unavailable
from enmasse.base.tasks import Backoff
from enmasse.resources import Declared, Resource
from enmasse.store.content import Content
from enmasse.store.database import Connection, Links, Place
from enmasse.store.history import CAPACITY, History
from enmasse.store.lease import Lease
from enmasse.store.memory import MemoryStore
from enmasse.store.node_table import NODE_TABLE, NodeTable
from enmasse.store.polling import SharedPoll
from enmasse.store.protocol import Event, EventType
from enmasse.store.rows import resource_of, text_of

log = structlog.get_logger(__name__)

FORMAT = 1
"""Format of the tables. Databases of newer formats are refused."""

RESYNC_S = 15.0
"""Maximum time between polls of the database, with or without notifications."""

CHANGES_AT_A_TIME = 1000
"""Changes per read."""

CHANNEL = "enmasse_changes"

TABLES: LiteralString = "enmasse_"
"""Prefix of the tables and the channel for declared resources."""

COMPUTED_TABLES: LiteralString = "enmasse_computed_"
"""Prefix for resources that the leader creates and every process shows: events, schemas."""

_TABLES = """
create table if not exists enmasse_store (
    id int primary key check (id = 1), format int not null, version bigint not null
);
insert into enmasse_store (id, format, version) values (1, 1, 0) on conflict do nothing;
create table if not exists enmasse_resources (
    kind text not null, namespace text not null, name text not null,
    version bigint not null, document text not null,
    primary key (kind, namespace, name)
);
create table if not exists enmasse_changes (
    version bigint primary key, type text not null, document text not null, before text,
    mark text not null default gen_random_uuid()::text
);
alter table enmasse_changes add column if not exists
    mark text not null default gen_random_uuid()::text;
create table if not exists enmasse_leader (
    id int primary key check (id = 1), holder text not null, term bigint not null,
    expires timestamptz not null
);
create table if not exists enmasse_identity (id int primary key check (id = 1), uid text not null);
insert into enmasse_identity (id, uid) values (1, gen_random_uuid()::text) on conflict do nothing
"""
_LOCK = "begin; select pg_advisory_xact_lock(hashtext('enmasse'), hashtext(current_schema()))"
_NEWEST = """
select version, coalesce(mark, '') from enmasse_store left join enmasse_changes using (version)
"""
_MARKED = """
select true from pg_attribute
where attrelid = to_regclass(%s) and attname = 'mark' and not attisdropped
"""
_CHANGES = """
select version, type, document, before, mark from enmasse_changes
where version >= %s order by version limit %s
"""
_REMOVE = """
delete from enmasse_resources as one
using unnest(%s::text[], %s::text[], %s::text[]) as gone (kind, namespace, name)
where (one.kind, one.namespace, one.name) = (gone.kind, gone.namespace, gone.name)
"""
_KEEP = """
insert into enmasse_resources (kind, namespace, name, version, document)
select * from unnest(%s::text[], %s::text[], %s::text[], %s::bigint[], %s::text[])
on conflict (kind, namespace, name)
do update set version = excluded.version, document = excluded.document
"""
_LOG = """
insert into enmasse_changes (version, type, document, before, mark)
select *, %s from unnest(%s::bigint[], %s::text[], %s::text[], %s::text[])
"""


class PostgresStore(MemoryStore):
    """A `Store` in a PostgreSQL database. Open it with `open`, and run `follow` concurrently."""

    def __init__(
        self, place: Place, clock: Clock, tables: LiteralString, links: Links | None = None
    ) -> None:
        """`links`: connections of another store of this process, which closes them."""
        super().__init__(clock)
        self._tables = tables
        self._lock = _LOCK.replace("'enmasse'", "'" + tables.rstrip("_") + "'")
        self._place = place
        self._links = links or Links(place)
        self._owns_links = links is None
        self._writer, self._reader = self._links.writer, self._links.reader
        self._lease = Lease(place, self._reader, clock)
        self._nodes = NodeTable(place, self._reader)
        self._beside: list[PostgresStore] = []
        """Stores of this process in the same database, which this one follows too."""

        self._in_turn: psycopg.AsyncCursor[Any] | None = None
        self._mark = ""
        """Mark of the change at our version: the same version with another mark is another history.
        """

        self._own_mark = ""
        """Mark of the changes of this turn."""

        self._shared_poll = SharedPoll(self._poll)

    @classmethod
    async def open(cls, url: str, clock: Clock, tables: LiteralString = TABLES) -> "PostgresStore":
        """Connect to a database, create missing tables, and read everything.

        `tables` is their prefix; stores with other prefixes are independent.

        Raises: Invalid if the URL is malformed; Unavailable if the database is unusable.
        """
        store = cls(Place(url), clock, tables)
        try:
            await store._load()
        except BaseException:
            await store.close()
            raise
        return store

    async def open_beside(self, tables: LiteralString) -> "PostgresStore":
        """Open another store of the same database. It uses the connections of this one, which
        follows changes for it and closes after it.

        Raises: Unavailable if the database is unusable.
        """
        store = PostgresStore(self._place, self._clock, tables, self._links)
        await store._load()
        self._beside.append(store)
        return store

    async def _load(self) -> None:
        with self._place.failures():
            async with self._writer.use(self._lock) as cursor:
                await self._ensure_tables(cursor)
                await self._reload(cursor)
                await self._load_history(cursor)
                await cursor.execute("commit")

    @property
    def leadership(self) -> Lease:
        """The lease of the leader."""
        return self._lease

    async def put_status(self, resources: Sequence[Declared]) -> None:
        """Write the status of resources, if this process leads.

        Raises: Unavailable (STANDING_BY) if it does not.
        """
        async with self._alone():
            assert self._in_turn is not None
            with self._place.failures():
                await self._lease.check(self._in_turn)
            change = self._begin()
            change.put_status(resources)
            await self._finish(change.events)

    async def refresh(self) -> None:
        """Return once everything written before the call is visible here. Concurrent calls share
        one read.
        """
        with self._place.failures():
            await self._shared_poll.done()

    async def follow(self) -> None:
        """Apply writes of other processes until cancelled; reconnect after a loss. Returns
        immediately if another store of this process does that.
        """
        if not self._owns_links:
            return
        backoff, failures = Backoff(), 0
        while True:
            try:
                with self._place.failures():
                    connection = await self._place.connect()
                    async with connection:
                        for store in (self, *self._beside):
                            await connection.execute(store._sql("listen enmasse_changes"))
                            # Changes announced while the listener was disconnected.
                            await store.refresh()
                        failures = 0
                        await self._listen(connection)
            except Unavailable as error:
                failures += 1
                log.warning("cannot receive change notifications", reason=error.message)
                await self._clock.sleep(backoff.delay_s(failures))

    async def close(self) -> None:
        """Wait for the writer and disconnect."""
        await self._lease.close()
        if self._owns_links:
            await self._links.close()

    async def _listen(self, connection: Connection) -> None:
        followed = {str(store._sql(CHANNEL)): store for store in (self, *self._beside)}
        while True:
            async for notice in connection.notifies(timeout=RESYNC_S):
                store = followed[notice.channel]
                if int(notice.payload) > store._version:
                    await store.refresh()
            # A time-out: no change, or a lost peer.
            await connection.execute("select 1")
            for store in followed.values():
                await store.refresh()

    async def _poll(self) -> None:
        seen = self._seen
        async with self._reader.use(self._sql(_NEWEST)) as cursor:
            if await self._catch_up(cursor, seen):
                return
        # Not on the reader's connection: reading everything may take longer than the lease.
        async with self._writer.use("begin isolation level repeatable read read only") as cursor:
            await self._reload(cursor)
            await cursor.execute("commit")

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        async with self._writing, AsyncExitStack() as stack:
            with self._place.failures():
                cursor = await stack.enter_async_context(self._writer.use(self._lock))
                seen = self._seen
                await cursor.execute(self._sql(_NEWEST))
                if not await self._catch_up(cursor, seen):
                    await self._reload(cursor)
            self._in_turn, self._own_mark = cursor, str(uuid.uuid4())
            try:
                yield
            finally:
                self._in_turn = None

    async def _persist(self, events: Sequence[Event]) -> None:
        cursor = self._in_turn
        if cursor is None:
            raise Misuse(Code.INTERNAL, "a write outside a turn")
        newest = events[-1].version
        last = {event.resource.key: event for event in events}.values()
        gone = [one.resource.key for one in last if one.type is EventType.DELETED]
        kept = [one.resource for one in last if one.type is not EventType.DELETED]
        with self._place.failures():
            async with cursor.connection.pipeline():
                if gone:
                    await cursor.execute(self._sql(_REMOVE), _columns(gone, 3))
                if kept:
                    rows = [(*one.key, _version_of(one), text_of(one)) for one in kept]
                    await cursor.execute(self._sql(_KEEP), _columns(rows, 5))
                changes = _columns([_change(one) for one in events], 4)
                await cursor.execute(self._sql(_LOG), [self._own_mark, *changes])
                forget = self._sql("delete from enmasse_changes where version <= %s")
                await cursor.execute(forget, [newest - CAPACITY])
                count = self._sql("update enmasse_store set version = %s")
                await cursor.execute(count, [newest])
                await cursor.execute("select pg_notify(%s, %s)", [self._sql(CHANNEL), str(newest)])
            await cursor.execute("commit")

    @property
    def _seen(self) -> tuple[int, str]:
        """Version and mark of the newest change here."""
        return self._version, self._mark

    def _apply(self, events: Sequence[Event]) -> None:
        self._take(events, self._own_mark)

    def _take(self, events: Sequence[Event], mark: str) -> None:
        """Publish changes; the last one has that mark."""
        # The reader may have been faster than the writer.
        fresh = [event for event in events if event.version > self._version]
        if fresh:
            super()._apply(fresh)
            self._mark = mark

    async def _catch_up(self, cursor: psycopg.AsyncCursor[Any], seen: tuple[int, str]) -> bool:
        """Apply the changes up to the newest, for which the cursor has a result.

        `seen` was the newest before. Returns False if the database no longer has every change
        since, was reset to an earlier state, or has another history: then everything must be read
        again.
        """
        newest = await _newest(cursor)
        if newest == seen:
            return True
        if newest[0] <= seen[0]:
            _log_lost_changes(seen, newest)
            return False
        while self._version < newest[0]:
            after = self._seen
            await cursor.execute(self._sql(_CHANGES), [after[0], 1 + CHANGES_AT_A_TIME])
            rows = await cursor.fetchall()
            if after[0]:
                known, rows = [(row[0], row[-1]) for row in rows[:1]], rows[1:]
                if known != [after]:
                    if known and known[0][0] == after[0]:
                        _log_lost_changes(after, newest)
                    return False
            if not rows or rows[0][0] != after[0] + 1:
                return False
            self._take(self._read(_events, rows), rows[-1][-1])
            await asyncio.sleep(0)
        return True

    async def _reload(self, cursor: psycopg.AsyncCursor[Any]) -> None:
        """Read everything within a transaction; watchers must list again."""
        before = self._seen
        await cursor.execute(self._sql(_NEWEST))
        newest = await _newest(cursor)
        await cursor.execute(self._sql("select document from enmasse_resources"))
        rows = await cursor.fetchall()
        resources = self._read(_resources, rows)
        # Concurrent writes of this process were based on at least this state.
        if newest[0] > self._version or self._seen == before:
            self._resources = Content(resources)
            self._version, self._mark = newest
            has_lost = before[1] and self._version <= before[0]
            self._history.reset(self._version, before[0] if has_lost else -1)

    async def _load_history(self, cursor: psycopg.AsyncCursor[Any]) -> None:
        """Load the retained changes for watchers."""
        await cursor.execute(self._sql(_CHANGES), [1, CAPACITY])
        events = self._read(_events, await cursor.fetchall())
        if events and events[-1].version == self._version:
            self._history = History(events[0].version - 1)
            self._history.append(events)

    async def _ensure_tables(self, cursor: psycopg.AsyncCursor[Any]) -> None:
        await cursor.execute(_MARKED, [self._sql("enmasse_changes")])
        # A user with access to the tables need not have the right to create them.
        if await _first(cursor) is None:
            await cursor.execute(self._sql(_TABLES))
        if self._owns_links:
            await cursor.execute("select to_regclass('enmasse_nodes')")
            if await _first(cursor) is None:
                await cursor.execute(NODE_TABLE)
        await cursor.execute(self._sql("select format from enmasse_store"))
        found = int(await _first(cursor) or 0)
        if found > FORMAT:
            raise Invalid(
                Code.DATA_TOO_NEW,
                f"{self._place.name} has format {found}, this version reads up to {FORMAT}; use the"
                " newer version or another database",
            )
        await cursor.execute(self._sql("select uid from enmasse_identity"))
        self._identity = str(await _first(cursor))

    def _sql(self, statement: LiteralString) -> LiteralString:
        """Return a statement with the table names of this store."""
        return statement.replace(TABLES, self._tables)

    def _read(self, what: Any, rows: Any) -> Any:
        try:
            return what(rows)
        except (EnMasseError, ValueError) as error:
            raise Unavailable(
                Code.STORE_UNUSABLE,
                f"{self._place.name} holds what this version cannot read: {error}",
            ) from error


def _log_lost_changes(seen: tuple[int, str], newest: tuple[int, str]) -> None:
    log.error("the database has lost changes", seen=seen[0], now=newest[0])


async def _first(cursor: psycopg.AsyncCursor[Any]) -> Any:
    row = await cursor.fetchone()
    return None if row is None else row[0]


async def _newest(cursor: psycopg.AsyncCursor[Any]) -> tuple[int, str]:
    row = await cursor.fetchone()
    return (int(row[0]), str(row[1])) if row else (0, "")


def _columns(rows: Sequence[Sequence[Any]], width: int) -> list[list[Any]]:
    return [[row[at] for row in rows] for at in range(width)]


def _version_of(resource: Resource) -> int:
    return int(resource.metadata.resource_version or 0)


def _change(event: Event) -> tuple[Any, ...]:
    before = text_of(event.before) if event.before is not None else None
    return event.version, str(event.type), text_of(event.resource), before


def _events(rows: Sequence[Sequence[Any]]) -> list[Event]:
    return [
        Event(EventType(type_), resource_of(now), version, resource_of(before) if before else None)
        for version, type_, now, before, _ in rows
    ]


def _resources(rows: Sequence[Sequence[Any]]) -> list[Resource]:
    return [resource_of(document) for (document,) in rows]
