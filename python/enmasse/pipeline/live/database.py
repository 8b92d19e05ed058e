"""Live: what is so now, in a database: SQLite, or PostgreSQL where psycopg is there.

Last values, devices and their sessions, usage, incidents, and what detectors remember are changed
in one transaction with the number of the batch. A batch that is in it already changes nothing, so
that a repeated one neither counts twice nor alarms twice. Times are microseconds since 1970 in UTC.
"""

import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.compute as pc
import sqlalchemy as sa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from sqlalchemy.exc import DataError, IntegrityError, SQLAlchemyError

from enmasse.base.errors import Code, Conflict, Invalid, Unavailable
from enmasse.pipeline import endings
from enmasse.pipeline.detect import detectors
from enmasse.pipeline.endings import Trouble
from enmasse.pipeline.live import following, incidents, publishing, retention
from enmasse.pipeline.live.access import Access, LocalAccess, ServerAccess
from enmasse.pipeline.live.following import Context, LiveOutcome, Part, Work
from enmasse.pipeline.live.publishing import USED
from enmasse.pipeline.live.schema import (
    ALERTS,
    ANOMALIES,
    DEVICES,
    DOCUMENTS,
    LATEST,
    PROGRESS,
    SESSIONS,
    STATES,
    TROUBLES,
    USAGE,
    WRITTEN,
    lay_out,
    put,
)
from enmasse.resources.pipeline import Detector, PipelineSpec

US_A_MS, US_A_S = 1000, 1_000_000
ALERTS_A_TIME = 1000
"""Alerts that are handed out at once."""
Day = tuple[str, str, str]
"""Space, address and day of arrival: the key of usage."""


@dataclass(frozen=True)
class Figures:
    """What silver and quarantine say of one source."""

    readings: Counter[Day]
    quarantined: Counter[Day]
    late: int
    clamped: int
    latest: pyarrow.Table
    """The newest reading of each device and metric."""


@dataclass(frozen=True)
class Alert:
    """A message that is to be sent for an incident."""

    number: int
    """Its number among those of its source for its address."""

    incident: str
    device: str
    subject: str
    body: str


class Live:
    """The database of one pipeline; one process writes it, and any thread of that."""

    def __init__(self, url: str, spec: PipelineSpec, pipeline: str | None = None) -> None:
        """Open it, making what is not there; with a name it is that pipeline's and no other's.

        Raises Unavailable if it cannot be opened, Invalid if its driver is missing, and what
        `lay_out` does if it is of another version.
        """
        self._spec = spec
        self._has_retired = False
        # what is read in a transaction stays so until its end
        self._one = threading.RLock()
        # what tasks have read of a source stays so until their batch is in
        self._following: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        if url.startswith("postgresql://"):
            url = url.replace("postgresql://", "postgresql+psycopg://", 1)
        try:
            # a server that was restarted is asked anew
            self._engine = sa.create_engine(url, pool_pre_ping=not url.startswith("sqlite"))
        except ModuleNotFoundError as error:
            raise Invalid(
                Code.FIELD_INVALID, f"spec.live.url: {error}; pip install 'psycopg[binary]'"
            ) from None
        if self._engine.dialect.name == "sqlite":
            sa.event.listen(self._engine, "connect", _configure)
        try:
            with self._begin() as connection:
                lay_out(connection, self._place(), pipeline)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the database."""
        self._engine.dispose()

    def claim(self, source: str, query_id: str, batch_id: int = 0) -> None:
        """Say that a query is about to put a batch of a source into tables.

        Raises Conflict if another one has: its checkpoint was lost, and to read the stream again
        would count it twice. So it does if the batches before are in another database: to go on
        would leave out what they made.
        """
        with self._begin() as connection:
            of = sa.select(PROGRESS.c.query_id).where(PROGRESS.c.source == source)
            known = connection.execute(of).scalars().all()
            self._retire(connection)
            if query_id in known:
                return
            if known:
                raise Conflict(
                    Code.STATE_CONFLICT,
                    "its checkpoint is another than that of the tables; restore it, or take tables"
                    " and checkpoints away together to read all anew",
                )
            if batch_id:
                raise Conflict(
                    Code.STATE_CONFLICT,
                    f"its batches up to {batch_id - 1} are in the tables, and none in live"
                    f" state {self._place()}; let live.url name the database that has them, or"
                    " take tables and checkpoints away together to read all anew",
                )
            fresh: dict[str, Any] = {column.name: 0 for column in PROGRESS.c}
            fresh |= {"source": source, "query_id": query_id, "batch_id": -1}
            fresh |= {"known_to_us": detectors.NEVER_US, "lag_messages": None, "batch_ms": None}
            connection.execute(sa.insert(PROGRESS), fresh)

    def _retire(self, connection: sa.Connection) -> None:
        """End incidents of detectors that the document no longer has, where their source is."""
        if self._has_retired:
            return
        detectors = [detector.name for detector in self._spec.detectors]
        gone = ANOMALIES.c.ended_us.is_(None) & ANOMALIES.c.detector.not_in(detectors)
        known_to_us = sa.select(sa.func.max(PROGRESS.c.known_to_us))
        known_to_us = known_to_us.where(PROGRESS.c.source == ANOMALIES.c.source)
        known_us = sa.func.coalesce(known_to_us.scalar_subquery(), ANOMALIES.c.began_us)
        began_us = ANOMALIES.c.began_us
        ended_us = sa.case((known_us > began_us, known_us), else_=began_us)
        connection.execute(sa.update(ANOMALIES).where(gone).values(ended_us=ended_us))
        connection.execute(sa.delete(STATES).where(STATES.c.detector.not_in(detectors)))
        self._has_retired = True

    def follow(self, readings: DataFrame, batch: Context) -> LiveOutcome:
        """Put a batch in, unless it is in already: tasks follow the readings of their devices.

        Raises Unavailable if the database is away, Invalid for rows that it never takes.
        """
        with self._following[batch.source]:
            with self._begin() as connection:
                if publishing.is_in(connection, batch):
                    return LiveOutcome(False)
            try:
                parts = following.follow(readings, self.work(batch), self._tasks(readings))
            except PySparkException as error:
                raise endings.ours(batch.source, error) or error from error
            return self.commit(batch, parts)

    def commit(self, batch: Context, parts: Sequence[Part]) -> LiveOutcome:
        """Put in what tasks found of a batch, unless it is in already, in one transaction."""
        with self._begin() as connection:
            if publishing.is_in(connection, batch):
                return LiveOutcome(False)
            watching = {one.name: one for one in self._detectors(batch.source)}
            outcome = publishing.publish(connection, batch, parts, watching)
            self._silences(connection, batch.source, batch.known_to_us)
            return outcome

    def work(self, batch: Context) -> Work:
        """Return what the tasks of a batch have to know."""
        watching = self._detectors(batch.source)
        return Work(
            source=batch.source,
            query_id=batch.query_id,
            batch_id=batch.batch_id,
            rules=detectors.rules(watching, self._spec.live.offline_after),
            metrics=tuple({one.metric for one in watching if one.metric is not None}),
            detectors=tuple(one.name for one in watching),
            access=self._access(),
        )

    def _tasks(self, readings: DataFrame) -> int:
        """How many tasks follow readings, each with a connection to the database of its own."""
        bound = self._spec.live.connections // len(self._spec.sources)
        return max(1, min(bound, readings.sparkSession.sparkContext.defaultParallelism))

    def _access(self) -> Access:
        url = self._engine.url
        if url.get_backend_name() == "sqlite":
            return LocalAccess(Path(url.database or "").resolve())
        _, parameters = self._engine.dialect.create_connect_args(url)
        password = parameters.pop("password", None)
        parameters.pop("context", None)
        named = self._spec.live.password_file
        if named is not None and Path(named).is_absolute():
            return ServerAccess(parameters, self._place(), password_file=named)
        return ServerAccess(parameters, self._place(), password)

    def check_reached(self, master: str) -> None:
        """Raise Invalid if executors of a master cannot read the database."""
        is_local = master == "local" or master.startswith("local[")
        if self._engine.dialect.name == "sqlite" and not is_local:
            raise Invalid(
                Code.FIELD_INVALID,
                f"spec.live.url: executors of {master} cannot read {self._place()} of this machine;"
                " name a database: postgresql://USER@HOST/DATABASE",
            )

    def troubled(self, kind: str, troubles: Mapping[str, Trouble]) -> None:
        """Let these be all troubles of a kind, `source`, `address` or `gold`, by name."""
        rows = [
            {"kind": kind, "name": name, "error": one.said, "tries": one.tries}
            | {"since_us": int(one.since.timestamp() * US_A_S)}
            for name, one in troubles.items()
        ]
        with self._begin() as connection:
            connection.execute(sa.delete(TROUBLES).where(TROUBLES.c.kind == kind))
            put(connection, TROUBLES, rows)

    def documents(self) -> dict[str, str]:
        """Return by what of the document the tables were made."""
        return {row["part"]: row["said"] for row in self.rows(DOCUMENTS)}

    def keep_documents(self, said: Mapping[str, str]) -> None:
        """Remember by what of the document tables are made."""
        with self._begin() as connection:
            rows = [{"part": part, "said": text} for part, text in said.items()]
            put(connection, DOCUMENTS, rows)

    def recount(self, source: str, found: Figures) -> None:
        """Let figures and last values of a source be what its tables say, in one transaction.

        Devices, sessions, incidents and alerts stay: they are of what was heard when.
        """
        of = PROGRESS.c.source == source
        sums = {name: sum(getattr(found, name).values()) for name in ("readings", "quarantined")}
        sums |= {"late": found.late, "clamped": found.clamped}
        days = found.readings.keys() | found.quarantined.keys()
        with self._begin() as connection:
            connection.execute(sa.update(PROGRESS).where(of).values(sums))
            for space, address in {(space, address) for space, address, _ in days}:
                mine = (USAGE.c.space == space) & (USAGE.c.address == address)
                connection.execute(sa.update(USAGE).where(mine).values(readings=0, quarantined=0))
            counted = [
                {"space": day[0], "address": day[1], "date": day[2], "messages": 0, "bytes": 0}
                | {name: getattr(found, name)[day] for name in ("readings", "quarantined")}
                for day in days
            ]
            put(connection, USAGE, counted, added=USED)
            connection.execute(sa.delete(LATEST).where(LATEST.c.source == source))
            if len(found.latest):
                put(connection, LATEST, following.latest_rows(source, found.latest).to_pylist())

    def prune(self) -> None:
        """Delete what was of use longer ago than `live.keep` (`retention`)."""
        with self._begin() as connection:
            retention.prune(connection, self._spec.live.keep)
        if self._engine.dialect.name == "postgresql":
            with self._failures():
                retention.vacuum_staging(self._engine)

    def tick(self, source: str, now_us: int) -> None:
        """Say that nothing more has come from a source up to a time: who is silent?

        While a batch is followed nothing is found: the batch is about to say who is not.
        """
        if not self._following[source].acquire(blocking=False):
            return
        try:
            with self._begin() as connection:
                self._silences(connection, source, now_us)
        finally:
            self._following[source].release()

    def measured(
        self, source: str, query_id: str, lag_messages: int | None, batch_ms: int | None
    ) -> None:
        """Keep figures of a query's last trigger, None for one that is not known."""
        values = {"lag_messages": lag_messages, "batch_ms": batch_ms}
        values = {name: value for name, value in values.items() if value is not None}
        of = (PROGRESS.c.source == source) & (PROGRESS.c.query_id == query_id)
        if values:
            with self._begin() as connection:
                connection.execute(sa.update(PROGRESS).where(of).values(values))

    def waiting(self) -> list[tuple[str, str, str]]:
        """Return for whom alerts wait: source, its query, address."""
        names = (ALERTS.c.source, PROGRESS.c.query_id, ALERTS.c.address)
        mine = sa.join(ALERTS, PROGRESS, ALERTS.c.source == PROGRESS.c.source)
        waiting = sa.select(*names).select_from(mine).where(ALERTS.c.outcome.is_(None))
        with self._begin() as connection:
            found = connection.execute(waiting.distinct().order_by(*names))
            return [(row.source, row.query_id, row.address) for row in found]

    def alerts(self, source: str, address: str) -> list[Alert]:
        """Return alerts that wait for an address, oldest first, at most so many at a time."""
        names = ("number", "incident", "device", "subject", "body")
        wanted = sa.select(*(ALERTS.c[name] for name in names)).where(ALERTS.c.outcome.is_(None))
        wanted = wanted.where(ALERTS.c.source == source, ALERTS.c.address == address)
        with self._begin() as connection:
            found = connection.execute(wanted.order_by(ALERTS.c.number).limit(ALERTS_A_TIME))
            return [Alert(**row) for row in found.mappings()]

    def told(self, source: str, address: str, outcomes: Mapping[int, str]) -> None:
        """Remember what became of alerts, by their numbers."""
        of = (ALERTS.c.source == source) & (ALERTS.c.address == address)
        change = sa.update(ALERTS).where(of, ALERTS.c.number == sa.bindparam("told"))
        change = change.values(outcome=sa.bindparam("said"))
        rows = [{"told": number, "said": outcome} for number, outcome in outcomes.items()]
        if rows:
            with self._begin() as connection:
                connection.execute(change, rows)

    def status(self) -> dict[str, Any]:
        """Return figures of all sources, and how many devices and incidents there are."""
        incidents = sa.select(ANOMALIES.c.detector, sa.func.count()).group_by(ANOMALIES.c.detector)
        with self._begin() as connection:
            sources = connection.execute(sa.select(PROGRESS).order_by(PROGRESS.c.source))
            online = sa.select(sa.func.count()).select_from(DEVICES)
            return {
                "sources": [dict(row) for row in sources.mappings()],
                "devices": connection.execute(online).scalar_one(),
                "online": connection.execute(online.where(DEVICES.c.is_online)).scalar_one(),
                "incidents": {name: count for name, count in connection.execute(incidents)},
                "openIncidents": connection.execute(
                    sa.select(sa.func.count()).where(ANOMALIES.c.ended_us.is_(None))
                ).scalar_one(),
                "alerts": self._alerts_by_outcome(connection),
                "written": self._written(connection),
                "troubles": self._troubles(connection),
                "state": {
                    table.name: connection.execute(
                        sa.select(sa.func.count()).select_from(table)
                    ).scalar_one()
                    for table in (LATEST, DEVICES, SESSIONS, STATES)
                },
            }

    @staticmethod
    def _alerts_by_outcome(connection: sa.Connection) -> dict[str, int]:
        outcome = ALERTS.c.outcome
        kind = sa.case((outcome.is_(None), "waiting"), (outcome == incidents.ACCEPTED, "sent"))
        kind = sa.case((kind.is_(None), "rejected"), else_=kind)
        counted = connection.execute(sa.select(kind, sa.func.count()).group_by(kind))
        return {"waiting": 0, "sent": 0, "rejected": 0} | {name: count for name, count in counted}

    @staticmethod
    def _written(connection: sa.Connection) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = {}
        for row in connection.execute(sa.select(WRITTEN).order_by(*WRITTEN.primary_key)):
            found.setdefault(row.source, {})[row.target] = row.rows
        return found

    @staticmethod
    def _troubles(connection: sa.Connection) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {"source": {}, "address": {}, "gold": {}}
        for row in connection.execute(sa.select(TROUBLES).order_by(*TROUBLES.primary_key)):
            since = datetime.fromtimestamp(row.since_us / US_A_S, UTC).isoformat(timespec="seconds")
            told = {"error": row.error, "since": since, "tries": row.tries}
            found[row.kind][row.name] = told
        return found

    def rows(self, table: sa.Table) -> list[dict[str, Any]]:
        """Return all of a table, in the order of its key."""
        with self._begin() as connection:
            found = connection.execute(sa.select(table).order_by(*table.primary_key.columns))
            return [dict(row) for row in found.mappings()]

    def _detectors(self, source: str) -> list[Detector]:
        return [one for one in self._spec.detectors if one.source in (None, source)]

    def _silences(self, connection: sa.Connection, source: str, now_us: int) -> None:
        """Find who has been silent for too long at a time."""
        offline_us = now_us - self._spec.live.offline_after * US_A_MS
        lost = (DEVICES.c.source == source) & (DEVICES.c.last_seen_us < offline_us)
        connection.execute(
            sa.update(DEVICES).where(lost & DEVICES.c.is_online).values(is_online=False)
        )
        for detector in self._detectors(source):
            if detector.heartbeat is not None:
                publishing.silences(connection, source, detector, now_us)

    @contextmanager
    def _begin(self) -> Iterator[sa.Connection]:
        with self._one, self._failures(), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            cause = getattr(error, "orig", None) or error
            what = f"live state {self._place()}: {cause}"
            # what the database does not take now it never does
            if isinstance(error, (DataError, IntegrityError)):
                raise Invalid(Code.FIELD_INVALID, what) from error
            raise Unavailable(Code.DATA_UNUSABLE, what) from error

    def _place(self) -> str:
        return self._engine.url.render_as_string(hide_password=True)


def default_url(folder: Path) -> str:
    """Return the database beside the tables."""
    return f"sqlite:///{folder / 'live.db'}"


def with_password(url: str, password: str) -> str:
    """Return the URL of a database with the password of its user."""
    return sa.make_url(url).set(password=password).render_as_string(hide_password=False)


def late(readings: pyarrow.Table, windows_ms: Sequence[int]) -> int:
    """Return how many readings came later than the shortest window after their time."""
    delay = pc.subtract(readings["enqueued_time"], readings["event_time"])
    shortest = pyarrow.scalar(min(windows_ms) * US_A_MS, pyarrow.duration("us"))
    return int(pc.sum(pc.greater(delay, shortest)).as_py() or 0)


def _configure(connection: Any, _record: object) -> None:
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "busy_timeout=30000"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()
