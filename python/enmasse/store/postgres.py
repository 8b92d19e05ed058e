"""A store in a PostgreSQL database, which several processes use at one time.

All resources are also in memory, as in the other stores, and reading costs nothing. Every write
takes the one lock of the database until its transaction has ended, looks at what others have
written before, and then decides: so a version becomes visible after all smaller ones, and no
watcher misses any (a sequence alone would give numbers in another order than that of the commits).
What others write is announced by NOTIFY; who missed that looks by itself. The last changes are in a
table too: a process that was away a while catches up, and one that has just started can be watched
from before. Each change has a random mark: a database that lost its last commits in a failover
gives their versions once more, and only the mark tells which of the two a process has seen.
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
from enmasse.store.database import Connection, Link, Place
from enmasse.store.history import CAPACITY, History
from enmasse.store.lease import Lease
from enmasse.store.looking import SharedLook
from enmasse.store.memory import MemoryStore
from enmasse.store.protocol import Event, EventType
from enmasse.store.rows import resource_of, text_of

log = structlog.get_logger(__name__)

FORMAT = 1
"""The tables this version writes. It uses no database of a newer one."""

RESYNC_S = 15.0
"""Longest time without a look at the database, whatever is announced or not."""

CHANGES_AT_A_TIME = 1000
"""Changes that are read in one go."""

CHANNEL = "enmasse_changes"

TABLES: LiteralString = "enmasse_"
"""What the names of the tables, and of the channel, begin with, for what is declared."""

COMPUTED_TABLES: LiteralString = "enmasse_computed_"
"""The same for what the process that leads makes itself, and all show: events, schemas."""

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
    """A `Store` in a PostgreSQL database. Open it with `open`, and run `follow` beside it."""

    def __init__(self, place: Place, clock: Clock, tables: LiteralString = TABLES) -> None:
        super().__init__(clock)
        self._tables = tables
        self._lock = _LOCK.replace("'enmasse'", "'" + tables.rstrip("_") + "'")
        self._lease = Lease(place, clock)
        self._place = place
        self._writer, self._reader = Link(place), Link(place)
        self._in_turn: psycopg.AsyncCursor[Any] | None = None
        self._mark = ""
        """Of the change at our version: the same version with another mark is another history."""

        self._own_mark = ""
        """Of what is written in this turn."""

        self._looking = SharedLook(self._look)

    @classmethod
    async def open(cls, url: str, clock: Clock, tables: LiteralString = TABLES) -> "PostgresStore":
        """Connect to a database, make the tables if they are not there, and read everything.

        `tables`: what their names begin with; a store of other ones has nothing to do with this.

        Raises: Invalid if the URL cannot be read; Unavailable if the database cannot be used.
        """
        place = Place(url)
        store = cls(place, clock, tables)
        try:
            with place.failures():
                async with store._writer.use(store._lock) as cursor:
                    await store._ensure_tables(cursor)
                    await store._reload(cursor)
                    await store._recall(cursor)
                    await cursor.execute("commit")
        except BaseException:
            await store.close()
            raise
        return store

    @property
    def leadership(self) -> Lease:
        """The lease that one process of the database has."""
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
        """Return once all that was written before the call is here. Calls share a look."""
        with self._place.failures():
            await self._looking.done()

    async def follow(self) -> None:
        """Take in what other processes write, until cancelled; a lost connection is made anew."""
        backoff, failures = Backoff(), 0
        while True:
            try:
                with self._place.failures():
                    connection = await self._place.connect()
                    async with connection:
                        await connection.execute(self._sql("listen enmasse_changes"))
                        # What was announced while nobody listened.
                        await self.refresh()
                        failures = 0
                        await self._listen(connection)
            except Unavailable as error:
                failures += 1
                log.warning("changes of others are not heard", reason=error.message)
                await self._clock.sleep(backoff.delay_s(failures))

    async def close(self) -> None:
        """Wait for the writer, and leave the database."""
        await self._lease.close()
        await self._writer.close()
        await self._reader.close()

    async def _listen(self, connection: Connection) -> None:
        while True:
            async for notice in connection.notifies(timeout=RESYNC_S):
                if int(notice.payload) > self._version:
                    await self.refresh()
            # Nothing came: there may have been nothing, or nobody at the other end.
            await connection.execute("select 1")
            await self.refresh()

    async def _look(self) -> None:
        seen = self._seen
        async with self._reader.use(self._sql(_NEWEST)) as cursor:
            if not await self._catch_up(cursor, seen):
                await cursor.execute("begin isolation level repeatable read read only")
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
        """Which change is the newest here: its version and its mark."""
        return self._version, self._mark

    def _apply(self, events: Sequence[Event]) -> None:
        self._take(events, self._own_mark)

    def _take(self, events: Sequence[Event], mark: str) -> None:
        """Show changes, of which the last has that mark."""
        # The reader may have been quicker than the writer.
        fresh = [event for event in events if event.version > self._version]
        if fresh:
            super()._apply(fresh)
            self._mark = mark

    async def _catch_up(self, cursor: psycopg.AsyncCursor[Any], seen: tuple[int, str]) -> bool:
        """Take in the changes up to the newest, which the cursor has just asked for.

        `seen` was the newest here before that. False if the database has not kept all changes
        since, or is at an earlier state or in another history: then all is to be read again.
        """
        newest = await _newest(cursor)
        if newest == seen:
            return True
        if newest[0] <= seen[0]:
            _tell_lost(seen, newest)
            return False
        while self._version < newest[0]:
            after = self._seen
            await cursor.execute(self._sql(_CHANGES), [after[0], 1 + CHANGES_AT_A_TIME])
            rows = await cursor.fetchall()
            if after[0]:
                known, rows = [(row[0], row[-1]) for row in rows[:1]], rows[1:]
                if known != [after]:
                    if known and known[0][0] == after[0]:
                        _tell_lost(after, newest)
                    return False
            if not rows or rows[0][0] != after[0] + 1:
                return False
            self._take(self._read(_events, rows), rows[-1][-1])
            await asyncio.sleep(0)
        return True

    async def _reload(self, cursor: psycopg.AsyncCursor[Any]) -> None:
        """Read everything, within a transaction; watchers have to list again."""
        before = self._seen
        await cursor.execute(self._sql(_NEWEST))
        newest = await _newest(cursor)
        await cursor.execute(self._sql("select document from enmasse_resources"))
        rows = await cursor.fetchall()
        resources = self._read(_resources, rows)
        # What this process itself has written meanwhile was decided on no less than this.
        if newest[0] > self._version or self._seen == before:
            self._resources = {one.key: one for one in resources}
            self._version, self._mark = newest
            has_lost = before[1] and self._version <= before[0]
            self._history.reset(self._version, before[0] if has_lost else -1)

    async def _recall(self, cursor: psycopg.AsyncCursor[Any]) -> None:
        """Make the changes that are kept known to watchers."""
        await cursor.execute(self._sql(_CHANGES), [1, CAPACITY])
        events = self._read(_events, await cursor.fetchall())
        if events and events[-1].version == self._version:
            self._history = History(events[0].version - 1)
            self._history.append(events)

    async def _ensure_tables(self, cursor: psycopg.AsyncCursor[Any]) -> None:
        await cursor.execute(_MARKED, [self._sql("enmasse_changes")])
        # Who may only use the tables need not be allowed to make them.
        if await _first(cursor) is None:
            await cursor.execute(self._sql(_TABLES))
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
        """Return a statement about the tables of this store."""
        return statement.replace(TABLES, self._tables)

    def _read(self, what: Any, rows: Any) -> Any:
        try:
            return what(rows)
        except (EnMasseError, ValueError) as error:
            raise Unavailable(
                Code.STORE_UNUSABLE,
                f"{self._place.name} holds what this version cannot read: {error}",
            ) from error


def _tell_lost(seen: tuple[int, str], newest: tuple[int, str]) -> None:
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
