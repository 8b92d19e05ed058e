"""The tables of live state, their layout, and how rows get into them, in SQLite and PostgreSQL
alike."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

import enmasse
from enmasse.base.errors import Code, Conflict, Invalid

METADATA = sa.MetaData()
COPIED_MIN = 64
"""Rows from which on PostgreSQL gets them by COPY."""
_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _key(name: str, kind: Any = sa.String) -> sa.Column[Any]:
    return sa.Column(name, kind, primary_key=True, autoincrement=False)


def _kept(name: str, kind: Any = sa.BigInteger, *, empty: bool = False) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=empty)


LATEST = sa.Table(
    "device_latest",
    METADATA,
    *(_key("source"), _key("device"), _key("metric")),
    *(_kept("value", sa.Double, empty=True), _kept("text", sa.String, empty=True)),
    *(_kept("unit", sa.String, empty=True), _kept("event_time_us"), _kept("enqueued_time_us")),
    *(_kept("partition"), _kept("offset"), _kept("index")),
)
"""The newest reading of each device and metric."""

DEVICES = sa.Table(
    "devices",
    METADATA,
    *(_key("source"), _key("device")),
    *(_kept("first_seen_us"), _kept("last_seen_us"), _kept("session_began_us")),
    *(_kept("is_online", sa.Boolean), _kept("readings")),
)
"""Who was heard, when, and whether they still are."""

SESSIONS = sa.Table(
    "sessions",
    METADATA,
    *(_key("source"), _key("device"), _key("began_us", sa.BigInteger)),
    *(_kept("last_us"), _kept("readings")),
)
"""Times in which a device was never silent for longer than `offlineAfter`."""

USAGE = sa.Table(
    "usage",
    METADATA,
    *(_key("space"), _key("address"), _key("date")),
    *(_kept("messages"), _kept("bytes"), _kept("readings"), _kept("quarantined")),
)
"""What came in, by tenant, address and day of arrival."""

ANOMALIES = sa.Table(
    "anomalies",
    METADATA,
    sa.Column("number", _NUMBER, primary_key=True, autoincrement=True),
    sa.Column("id", sa.String, unique=True, nullable=False),
    *(_kept("detector", sa.String), _kept("source", sa.String), _kept("device", sa.String)),
    *(_kept("metric", sa.String, empty=True), _kept("began_us"), _kept("ended_us", empty=True)),
    *(_kept("value", sa.Double, empty=True), _kept("reason", sa.String)),
)
"""Incidents."""

ALERTS = sa.Table(
    "alerts",
    METADATA,
    *(_key("source"), _key("address"), _key("number", sa.BigInteger)),
    *(_kept("incident", sa.String), _kept("device", sa.String), _kept("subject", sa.String)),
    *(_kept("body", sa.String), _kept("outcome", sa.String, empty=True)),
)
"""What is sent for incidents, numbered from 1 on for each address. `outcome`: accepted, or why it
was rejected; null as long as it waits."""

STATES = sa.Table(
    "detector_states",
    METADATA,
    *(_key("detector"), _key("source"), _key("device")),
    *(_kept("time_us"), _kept("value", sa.Double), _kept("is_open", sa.Boolean)),
    *(_kept("began_us"), _kept("count"), _kept("mean", sa.Double), _kept("variance", sa.Double)),
    _kept("recent", sa.String, empty=True),
)
"""What detectors remember. `recent`: of a rate the extremes of the time that it looks back on, in
JSON; null where it was not kept yet."""

PROGRESS = sa.Table(
    "progress",
    METADATA,
    *(_key("source"), _key("query_id")),
    *(_kept("batch_id"), _kept("messages"), _kept("readings"), _kept("quarantined")),
    *(_kept("late"), _kept("clamped"), _kept("known_to_us")),
    sa.Column("skipped", sa.BigInteger, nullable=False, server_default="0"),
    *(_kept("lag_messages", empty=True), _kept("batch_ms", empty=True)),
)
"""The last batch of each query that is in here, and what all of them had."""

WRITTEN = sa.Table("written", METADATA, *(_key("source"), _key("target"), _kept("rows")))
"""Rows of a source that went into tables, sinks (`sinks/NAME`) and live state."""

TROUBLES = sa.Table(
    "troubles",
    METADATA,
    *(_key("kind"), _key("name"), _kept("error", sa.String), _kept("since_us"), _kept("tries")),
)
"""Sources and gold that do not go on, and addresses that take no alerts: `kind` is source, gold or
address."""

DOCUMENTS = sa.Table("documents", METADATA, _key("part"), _kept("said", sa.String))
"""What of the document the tables were made by (`changes`)."""

TABLE_FORMAT = "delta"
LAYOUT_NUMBER = 2
"""Of live state, of the other tables, and of what checkpoints remember of streams: one higher with
each change after which an older pipeline cannot go on."""

_UPGRADES: dict[int, tuple[str, ...]] = {
    1: (
        "ALTER TABLE detector_states ADD COLUMN recent VARCHAR",
        "ALTER TABLE progress ADD COLUMN skipped BIGINT DEFAULT 0 NOT NULL",
    )
}
"""What makes of a layout the next one."""

STAGED = {table.name: table for table in (LATEST, DEVICES, SESSIONS, STATES)}
"""Tables that executors fill in PostgreSQL, each by way of a staging table."""

LAYOUT = sa.Table(
    "layout",
    METADATA,
    _key("number", sa.BigInteger),
    *(_kept("made_by", sa.String), _kept("format", sa.String)),
)
"""One row: the layout, the version that made it, and the format of the tables."""


OWNER = sa.Table("owner", METADATA, _key("number", sa.BigInteger), _kept("pipeline", sa.String))
"""One row: the pipeline whose live state this is."""


def lay_out(connection: sa.Connection, place: str, pipeline: str | None = None) -> None:
    """Make what is not there; nothing if that is of another layout, for then it is refused.

    Raises Conflict for an older layout, tables of another format or another pipeline, Invalid for a
    newer layout.
    """
    there = sa.inspect(connection).get_table_names()
    if LAYOUT.name in there:
        row = connection.execute(sa.select(LAYOUT)).mappings().first()
        if row is not None:
            _compare(row, place)
            _upgrade(connection, row["number"])
    _compare_columns(connection, there, place)
    METADATA.create_all(connection)
    if connection.dialect.name == "postgresql":
        _lay_out_staging(connection)
    new = {"number": LAYOUT_NUMBER, "made_by": enmasse.__version__, "format": TABLE_FORMAT}
    connection.execute(insert(connection, LAYOUT).on_conflict_do_nothing(), new)
    if pipeline is not None:
        mine = {"number": 1, "pipeline": pipeline}
        connection.execute(insert(connection, OWNER).on_conflict_do_nothing(), mine)
        owner = connection.execute(sa.select(OWNER.c.pipeline)).scalar_one()
        if owner != pipeline:
            raise Conflict(
                Code.STATE_CONFLICT,
                f"live state {place} is of pipeline {owner}, and this one is {pipeline}; name"
                " another live.url: a database has one pipeline",
            )


def _compare(row: sa.RowMapping, place: str) -> None:
    made_by = f"live state {place} is of EnMasse {row['made_by']}"
    if row["number"] > LAYOUT_NUMBER:
        raise Invalid(
            Code.DATA_TOO_NEW,
            f"{made_by}, newer than this one ({enmasse.__version__}); run the pipeline with that",
        )
    if row["number"] < min(_UPGRADES):
        raise Conflict(Code.STATE_CONFLICT, f"{made_by} and of another layout; {_MEND}")
    if row["format"] != TABLE_FORMAT:
        raise Conflict(
            Code.STATE_CONFLICT,
            f"the tables of live state {place} are {row['format']}, and a pipeline writes"
            f" {TABLE_FORMAT}; name another tables.path (and live.url)",
        )


def _upgrade(connection: sa.Connection, number: int) -> None:
    """Make of an older layout the one of now, in the transaction of the connection."""
    if number < LAYOUT_NUMBER and connection.dialect.name == "postgresql":
        # they have the columns of their targets, and nothing that is not repeated
        for name in STAGED:
            connection.execute(sa.text(f"DROP TABLE IF EXISTS staged_{name}"))
    for older in range(number, LAYOUT_NUMBER):
        for statement in _UPGRADES[older]:
            connection.execute(sa.text(statement))
        newer = {"number": older + 1, "made_by": enmasse.__version__}
        connection.execute(sa.update(LAYOUT).values(newer))


def _lay_out_staging(connection: sa.Connection) -> None:
    """Make the staging tables. A crash of the server empties them: their batch is repeated."""
    quote = connection.dialect.identifier_preparer.quote
    key = "query VARCHAR NOT NULL, batch BIGINT NOT NULL, part BIGINT NOT NULL"
    for name in STAGED:
        staged = quote(f"staged_{name}")
        columns = f"({key}, attempt BIGINT NOT NULL, LIKE {quote(name)})"
        for statement in (
            f"CREATE UNLOGGED TABLE IF NOT EXISTS {staged} {columns}",
            f"CREATE INDEX IF NOT EXISTS {staged}_key ON {staged} (query, batch)",
        ):
            connection.execute(sa.text(statement))


_MEND = (
    "go on with the version that made it, or take tables, checkpoints and live state away together"
    " to read all anew"
)


def _compare_columns(connection: sa.Connection, there: Sequence[str], place: str) -> None:
    """Databases had no number once: those that have the same columns go on."""
    for table in METADATA.sorted_tables:
        if table.name in there:
            found = {str(one["name"]) for one in sa.inspect(connection).get_columns(table.name)}
            if odd := found ^ set(table.c.keys()):
                verb = "lacks" if min(odd) in table.c else "has"
                raise Conflict(
                    Code.STATE_CONFLICT,
                    f"live state {place} is of another layout: table {table.name} {verb}"
                    f" {min(odd)}; {_MEND}",
                )


def insert(connection: sa.Connection, table: sa.Table) -> Any:
    """Return an insert of the database's own kind, which knows what to do about conflicts."""
    own = postgresql if connection.dialect.name == "postgresql" else sqlite
    return own.insert(table)


def put(
    connection: sa.Connection,
    table: sa.Table,
    rows: Sequence[Mapping[str, Any]],
    newer: Sequence[str] = (),
    added: Sequence[str] = (),
) -> None:
    """Insert rows or replace those of the same key, if the columns `newer` are greater.

    Columns `added` are added to what is there. No two of the rows have one key.
    """
    if not rows:
        return
    if connection.dialect.name == "postgresql" and len(rows) >= COPIED_MIN:
        copied = _copied(connection, table, rows)
        put_from(connection, table, sa.select(copied), newer, added)
        return
    connection.execute(_upsert(table, insert(connection, table), newer, added), list(rows))


def put_arrow(
    connection: sa.Connection,
    table: sa.Table,
    rows: pyarrow.Table,
    newer: Sequence[str] = (),
    added: Sequence[str] = (),
) -> None:
    """Do as `put` with columns, in SQLite.

    By its driver itself: to look at each value of each row costs more than to store it.
    """
    upsert = _upsert(table, insert(connection, table), newer, added)
    compiled: Any = upsert.compile(dialect=connection.dialect, column_keys=table.c.keys())
    columns = [rows[name].to_pylist() for name in compiled.positiontup]
    connection.exec_driver_sql(str(compiled), list(zip(*columns, strict=True)))


def put_from(
    connection: sa.Connection,
    table: sa.Table,
    rows: sa.Select[Any],
    newer: Sequence[str] = (),
    added: Sequence[str] = (),
) -> None:
    """Do as `put` with rows of the database itself."""
    statement = insert(connection, table).from_select(table.c.keys(), rows)
    connection.execute(_upsert(table, statement, newer, added))


def _upsert(table: sa.Table, statement: Any, newer: Sequence[str], added: Sequence[str]) -> Any:
    keys = [column.name for column in table.primary_key]
    excluded = statement.excluded
    changed = {
        name: excluded[name] + table.c[name] if name in added else excluded[name]
        for name in table.c.keys()
        if name not in keys
    }
    here = sa.tuple_(*(table.c[name] for name in newer))
    there = sa.tuple_(*(excluded[name] for name in newer))
    where = there > here if newer else None
    return statement.on_conflict_do_update(index_elements=keys, set_=changed, where=where)


def _copied(
    connection: sa.Connection, table: sa.Table, rows: Sequence[Mapping[str, Any]]
) -> sa.TableClause:
    """Copy rows into a table of this transaction: PostgreSQL takes many by COPY only."""
    name = f"copied_{table.name}"
    quote = connection.dialect.identifier_preparer.quote
    made = f"CREATE TEMP TABLE IF NOT EXISTS {name} (LIKE {quote(table.name)}) ON COMMIT DROP"
    connection.execute(sa.text(made))
    connection.execute(sa.text(f"TRUNCATE {name}"))
    names = table.c.keys()
    driver: Any = connection.connection.driver_connection
    columns = ", ".join(quote(column) for column in names)
    with driver.cursor() as cursor, cursor.copy(f"COPY {name} ({columns}) FROM STDIN") as copy:
        for row in rows:
            copy.write_row([row[column] for column in names])
    return sa.table(name, *(sa.column(column) for column in names))
