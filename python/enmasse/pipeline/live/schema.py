"""The tables of live state, their creation and upgrade, and upserts, for SQLite and PostgreSQL."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

import enmasse
from enmasse.base.errors import Code, Conflict, Invalid
from enmasse.pipeline.live import rows

METADATA = sa.MetaData()
NEWER, ADDED = "newer", "added"
"""Of a table: columns that are greater in a newer row, and columns that are added up."""
_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_SQL = {
    rows.TEXT: sa.String,
    rows.LONG: sa.BigInteger,
    rows.NUMBER: sa.Double,
    pyarrow.bool_(): sa.Boolean,
}
"""Types of columns by those of Arrow."""


def _key(name: str, kind: Any = sa.String) -> sa.Column[Any]:
    return sa.Column(name, kind, primary_key=True, autoincrement=False)


def _col(name: str, kind: Any = sa.BigInteger, *, empty: bool = False) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=empty)


def _exchanged(
    name: str, columns: pyarrow.Schema, keys: Sequence[str], empty: Sequence[str] = (), **info: Any
) -> sa.Table:
    """A table that executors read and write, with the columns of its Arrow schema."""
    return sa.Table(
        name,
        METADATA,
        *(
            _key(one.name, _SQL[one.type])
            if one.name in keys
            else _col(one.name, _SQL[one.type], empty=one.name in empty)
            for one in columns
        ),
        info=info,
    )


LATEST = _exchanged(
    *("device_latest", rows.LATEST, ("source", "device", "metric"), ("value", "text", "unit")),
    newer=("event_time_us", "partition", "offset", "index"),
)
"""The newest reading of each device and metric."""

DEVICES = _exchanged("devices", rows.DEVICES, ("source", "device"))
"""Devices, the times of their messages, and whether they are online."""

SESSIONS = _exchanged(
    "sessions", rows.SESSIONS, ("source", "device", "began_us"), added=("readings",)
)
"""Periods in which a device was never silent for longer than `offlineAfter`."""

STATES = _exchanged("detector_states", rows.STATES, ("detector", "source", "device"), ("recent",))
"""States of detectors. `recent`: for a rate, the extremes of its period in JSON; null before."""

USAGE = sa.Table(
    "usage",
    METADATA,
    *(_key("space"), _key("address"), _key("date")),
    *(_col("messages"), _col("bytes"), _col("readings"), _col("quarantined")),
    info={ADDED: ("messages", "bytes", "readings", "quarantined")},
)
"""Messages and readings by tenant, address and day of arrival."""

ANOMALIES = sa.Table(
    "anomalies",
    METADATA,
    sa.Column("number", _NUMBER, primary_key=True, autoincrement=True),
    sa.Column("id", sa.String, unique=True, nullable=False),
    *(_col("detector", sa.String), _col("source", sa.String), _col("device", sa.String)),
    *(_col("metric", sa.String, empty=True), _col("began_us"), _col("ended_us", empty=True)),
    *(_col("value", sa.Double, empty=True), _col("reason", sa.String)),
)
"""Incidents."""

ALERTS = sa.Table(
    "alerts",
    METADATA,
    *(_key("source"), _key("address"), _key("number", sa.BigInteger)),
    *(_col("incident", sa.String), _col("device", sa.String), _col("subject", sa.String)),
    *(_col("body", sa.String), _col("outcome", sa.String, empty=True)),
)
"""Messages for incidents, numbered from 1 for each address. `outcome`: accepted, or the cause of a
rejection; null while pending."""

PROGRESS = sa.Table(
    "progress",
    METADATA,
    *(_key("source"), _key("query_id")),
    *(_col("batch_id"), _col("messages"), _col("readings"), _col("quarantined")),
    *(_col("late"), _col("clamped"), _col("known_to_us")),
    sa.Column("skipped", sa.BigInteger, nullable=False, server_default="0"),
    *(_col("lag_messages", empty=True), _col("batch_ms", empty=True)),
)
"""The last batch of each query, and totals."""

WRITTEN = sa.Table(
    "written", METADATA, *(_key("source"), _key("target"), _col("rows")), info={ADDED: ("rows",)}
)
"""Rows of a source written to tables, sinks (`sinks/NAME`) and live state."""

FAILURES = sa.Table(
    "troubles",
    METADATA,
    *(_key("kind"), _key("name"), _col("error", sa.String), _col("since_us"), _col("tries")),
)
"""Errors of sources, of gold, and of addresses that accept no alerts: `kind` is source, gold or
address."""

DOCUMENTS = sa.Table("documents", METADATA, _key("part"), _col("said", sa.String))
"""The parts of the document that tables were made by (`ingest.compatibility`)."""

TABLE_FORMAT = "delta"
LAYOUT_NUMBER = 2
"""The version of live state, tables and checkpoints: incremented by each change that older versions
cannot read."""

_UPGRADES: dict[int, tuple[str, ...]] = {
    1: (
        "ALTER TABLE detector_states ADD COLUMN recent VARCHAR",
        "ALTER TABLE progress ADD COLUMN skipped BIGINT DEFAULT 0 NOT NULL",
    )
}
"""Statements that upgrade a layout to the next one."""

STAGED = {table.name: table for table in (LATEST, DEVICES, SESSIONS, STATES)}
"""Tables that executors write in PostgreSQL, each through a staging table."""

LAYOUT = sa.Table(
    "layout",
    METADATA,
    _key("number", sa.BigInteger),
    *(_col("made_by", sa.String), _col("format", sa.String)),
)
"""One row: the layout, the version that made it, and the format of the tables."""


OWNER = sa.Table("owner", METADATA, _key("number", sa.BigInteger), _col("pipeline", sa.String))
"""One row: the pipeline that owns this live state."""


def create_tables(connection: sa.Connection, location: str, pipeline: str | None = None) -> None:
    """Create or upgrade tables; change nothing if the layout is refused.

    Raises Conflict for an older layout, tables of another format or another pipeline, Invalid for a
    newer layout.
    """
    existing = sa.inspect(connection).get_table_names()
    if LAYOUT.name in existing:
        row = connection.execute(sa.select(LAYOUT)).mappings().first()
        if row is not None:
            _compare(row, location)
            _upgrade(connection, row["number"])
    _compare_columns(connection, existing, location)
    METADATA.create_all(connection)
    if connection.dialect.name == "postgresql":
        _create_staging(connection)
    new = {"number": LAYOUT_NUMBER, "made_by": enmasse.__version__, "format": TABLE_FORMAT}
    connection.execute(insert(connection, LAYOUT).on_conflict_do_nothing(), new)
    if pipeline is not None:
        mine = {"number": 1, "pipeline": pipeline}
        connection.execute(insert(connection, OWNER).on_conflict_do_nothing(), mine)
        owner = connection.execute(sa.select(OWNER.c.pipeline)).scalar_one()
        if owner != pipeline:
            raise Conflict(
                Code.STATE_CONFLICT,
                f"live state {location} belongs to pipeline {owner}, and this one is {pipeline};"
                " name another live.url: a database has one pipeline",
            )


def _compare(row: sa.RowMapping, location: str) -> None:
    made_by = f"live state {location} is of EnMasse {row['made_by']}"
    if row["number"] > LAYOUT_NUMBER:
        raise Invalid(
            Code.DATA_TOO_NEW,
            f"{made_by}, newer than this one ({enmasse.__version__}); use that version",
        )
    if row["number"] < min(_UPGRADES):
        raise Conflict(Code.STATE_CONFLICT, f"{made_by} and of another layout; {_REMEDY}")
    if row["format"] != TABLE_FORMAT:
        raise Conflict(
            Code.STATE_CONFLICT,
            f"the tables of live state {location} are {row['format']}, and a pipeline writes"
            f" {TABLE_FORMAT}; name another tables.path (and live.url)",
        )


def _upgrade(connection: sa.Connection, number: int) -> None:
    """Upgrade an older layout, in the transaction of the connection."""
    if number < LAYOUT_NUMBER and connection.dialect.name == "postgresql":
        # they are created again with the new columns; their batches are repeated
        for name in STAGED:
            connection.execute(sa.text(f"DROP TABLE IF EXISTS staged_{name}"))
    for older in range(number, LAYOUT_NUMBER):
        for statement in _UPGRADES[older]:
            connection.execute(sa.text(statement))
        newer = {"number": older + 1, "made_by": enmasse.__version__}
        connection.execute(sa.update(LAYOUT).values(newer))


def _create_staging(connection: sa.Connection) -> None:
    """Create the staging tables. A crash of the server empties them: their batch is repeated."""
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


_REMEDY = (
    "use the version that made it, or delete tables, checkpoints and live state together to read"
    " all messages again"
)


def _compare_columns(connection: sa.Connection, existing: Sequence[str], location: str) -> None:
    """Check the columns: databases of early versions have no layout number."""
    for table in METADATA.sorted_tables:
        if table.name in existing:
            found = {str(one["name"]) for one in sa.inspect(connection).get_columns(table.name)}
            if odd := found ^ set(table.c.keys()):
                verb = "lacks" if min(odd) in table.c else "has"
                raise Conflict(
                    Code.STATE_CONFLICT,
                    f"live state {location} is of another layout: table {table.name} {verb}"
                    f" {min(odd)}; {_REMEDY}",
                )


def insert(connection: sa.Connection, table: sa.Table) -> Any:
    """Return an insert in the dialect of the database, which supports ON CONFLICT."""
    own = postgresql if connection.dialect.name == "postgresql" else sqlite
    return own.insert(table)


def upsert(
    connection: sa.Connection,
    table: sa.Table,
    changed: Sequence[Mapping[str, Any]] | pyarrow.Table | sa.Select[Any],
) -> None:
    """Insert rows with distinct keys, or the rows of a query; of an existing key replace the row.

    The table says which columns have to be newer for that, and which are added up.
    """
    if not isinstance(changed, sa.Select) and not len(changed):
        return
    statement = insert(connection, table)
    if isinstance(changed, sa.Select):
        statement = statement.from_select(table.c.keys(), changed)
    keys = [column.name for column in table.primary_key]
    excluded, added = statement.excluded, table.info.get(ADDED, ())
    values = {
        name: excluded[name] + table.c[name] if name in added else excluded[name]
        for name in table.c.keys()  # noqa: SIM118
        if name not in keys
    }
    where = None
    if newer := table.info.get(NEWER):
        old, new = (sa.tuple_(*(side[name] for name in newer)) for side in (table.c, excluded))
        where = new > old
    statement = statement.on_conflict_do_update(index_elements=keys, set_=values, where=where)
    if isinstance(changed, pyarrow.Table):
        # the driver itself: processing each value in SQLAlchemy costs more than storing it
        compiled = statement.compile(dialect=connection.dialect, column_keys=table.c.keys())
        columns = [changed[name].to_pylist() for name in compiled.positiontup]
        connection.exec_driver_sql(str(compiled), list(zip(*columns, strict=True)))
    elif isinstance(changed, sa.Select):
        connection.execute(statement)
    else:
        connection.execute(statement, list(changed))
