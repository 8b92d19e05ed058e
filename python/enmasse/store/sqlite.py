"""A store in one SQLite file: every change is on disk before anyone sees it.

All resources are also in memory, so that reading costs no disk. One process uses the file (the data
folder's lock sees to that), through one connection. WAL with `synchronous=FULL`: a finished write
survives power loss. A row is a resource: kind, namespace, name, version, document.
"""

import asyncio
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from enmasse.base.clock import Clock
from enmasse.base.data_dir import make_private
from enmasse.base.errors import Code, EnMasseError, Unavailable
from enmasse.resources import Resource, parse
from enmasse.store.memory import MemoryStore
from enmasse.store.protocol import Event, EventType

_METADATA = sa.MetaData()

_RESOURCES = sa.Table(
    "resources",
    _METADATA,
    sa.Column("kind", sa.String, primary_key=True),
    sa.Column("namespace", sa.String, primary_key=True),
    sa.Column("name", sa.String, primary_key=True),
    sa.Column("version", sa.BigInteger, nullable=False),
    sa.Column("document", sa.Text, nullable=False),
)

_STORE = sa.Table(
    "store",
    _METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("version", sa.BigInteger, nullable=False),
)


class SqliteStore(MemoryStore):
    """A `Store` in one SQLite file. Open it with `open`."""

    def __init__(
        self, engine: AsyncEngine, clock: Clock, version: int, resources: Sequence[Resource]
    ) -> None:
        super().__init__(clock, version, resources)
        self._engine = engine

    @classmethod
    async def open(cls, path: Path, clock: Clock) -> "SqliteStore":
        """Open the file, making it if it is not there, and read everything in it.

        Raises: Unavailable if it cannot be opened or read; the message names the file.
        """
        engine = create_async_engine(f"sqlite+aiosqlite:///{path}", pool_size=1, max_overflow=0)
        sa.event.listen(engine.sync_engine, "connect", _configure)
        try:
            with _failures_of(path):
                await asyncio.to_thread(_keep_from_others, path)
                version, resources = await _read(engine)
        except BaseException:
            await engine.dispose()
            raise
        return cls(engine, clock, version, resources)

    async def close(self) -> None:
        """Wait for the writer and close the file."""
        await super().close()
        await self._engine.dispose()

    async def _persist(self, events: Sequence[Event]) -> None:
        removed = [_key(event.resource) for event in events if event.type is EventType.DELETED]
        kept = [_row(event.resource) for event in events if event.type is not EventType.DELETED]
        with _failures_of(Path(self._engine.url.database or "")):
            async with self._engine.begin() as connection:
                if removed:
                    await connection.execute(_DELETE, removed)
                if kept:
                    await connection.execute(_UPSERT, kept)
                await connection.execute(_SET_VERSION, {"id": 1, "version": events[-1].version})


_DELETE = sa.delete(_RESOURCES).where(
    _RESOURCES.c.kind == sa.bindparam("k"),
    _RESOURCES.c.namespace == sa.bindparam("ns"),
    _RESOURCES.c.name == sa.bindparam("n"),
)


def _upsert(table: sa.Table) -> Any:
    statement = insert(table)
    keys = table.primary_key.columns
    changed = {column.name: statement.excluded[column.name] for column in table.c}
    for key in keys:
        del changed[key.name]
    return statement.on_conflict_do_update(index_elements=list(keys), set_=changed)


_UPSERT = _upsert(_RESOURCES)
_SET_VERSION = _upsert(_STORE)


def _keep_from_others(path: Path) -> None:
    """Let only the owner read what holds verifiers. SQLite makes the files beside it alike."""
    make_private(path)
    for suffix in ("-wal", "-shm"):
        beside = path.with_name(path.name + suffix)
        if beside.exists():
            beside.chmod(0o600)


def _configure(connection: Any, _record: object) -> None:
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=FULL"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


async def _read(engine: AsyncEngine) -> tuple[int, list[Resource]]:
    async with engine.begin() as connection:
        await connection.run_sync(_METADATA.create_all)
        version = (await connection.execute(sa.select(_STORE.c.version))).scalar_one_or_none()
        rows = (await connection.execute(sa.select(_RESOURCES.c.document))).scalars().all()
    return version or 0, [parse(json.loads(row), stored=True) for row in rows]


def _key(resource: Resource) -> dict[str, str]:
    key = resource.key
    return {"k": key.kind, "ns": key.namespace, "n": key.name}


def _row(resource: Resource) -> dict[str, Any]:
    key = resource.key
    return {
        "kind": key.kind,
        "namespace": key.namespace,
        "name": key.name,
        "version": int(resource.metadata.resource_version or 0),
        "document": json.dumps(resource.document(), separators=(",", ":")),
    }


@contextmanager
def _failures_of(path: Path) -> Iterator[None]:
    try:
        yield
    except SQLAlchemyError as error:
        cause = getattr(error, "orig", None) or error
        raise Unavailable(
            Code.DATA_UNUSABLE, f"{path}: {cause}; see to the disk, or restore the file"
        ) from error
    except OSError as error:
        raise Unavailable(
            Code.DATA_UNUSABLE, f"{path}: {error.strerror or error}; see to the disk and its rights"
        ) from error
    except (EnMasseError, ValueError) as error:
        raise Unavailable(
            Code.DATA_UNUSABLE, f"{path} holds what this version cannot read: {error}"
        ) from error
