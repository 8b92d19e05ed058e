"""The database of live state: SQLite, or PostgreSQL with psycopg.

Last values, devices, sessions, usage, incidents and states of detectors change in one transaction
with the number of the batch. A batch that is in it already changes nothing, so a repeated batch
neither counts twice nor alerts twice. Times are microseconds since 1970 in UTC.
"""

import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow
import sqlalchemy as sa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from sqlalchemy.exc import DataError, IntegrityError, SQLAlchemyError

from enmasse.base.errors import Code, Conflict, Invalid, Unavailable
from enmasse.pipeline import failures
from enmasse.pipeline.detect import detectors
from enmasse.pipeline.failures import Failure
from enmasse.pipeline.live import alerts, commits, retention, updates
from enmasse.pipeline.live.access import Access, LocalAccess, ServerAccess
from enmasse.pipeline.live.schema import (
    ALERTS,
    ANOMALIES,
    DEVICES,
    DOCUMENTS,
    FAILURES,
    LATEST,
    PROGRESS,
    SESSIONS,
    STATES,
    USAGE,
    WRITTEN,
    create_tables,
    upsert,
)
from enmasse.pipeline.live.updates import Context, LiveOutcome, Part, Work
from enmasse.resources.pipeline import Detector, PipelineSpec

US_PER_MS, US_PER_S = 1000, 1_000_000
ALERTS_PER_READ = 1000
"""Alerts returned at once."""


class Live:
    """The database of one pipeline; one process writes it, and any thread of that."""

    def __init__(self, url: str, spec: PipelineSpec, pipeline: str | None = None) -> None:
        """Open the database and create missing tables; with a name, for that pipeline only.

        Raises Unavailable if it cannot be opened, Invalid if its driver is missing, and as
        `create_tables` for another version.
        """
        self._spec = spec
        self._has_ended_removed = False
        # one transaction at a time
        self._lock = threading.RLock()
        # the state that tasks have read must not change until their batch is committed
        self._following: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        if url.startswith("postgresql://"):
            url = url.replace("postgresql://", "postgresql+psycopg://", 1)
        try:
            # connections survive a restart of the server
            self._engine = sa.create_engine(url, pool_pre_ping=not url.startswith("sqlite"))
        except ModuleNotFoundError as error:
            raise Invalid(
                Code.FIELD_INVALID, f"spec.live.url: {error}; pip install 'psycopg[binary]'"
            ) from None
        if self._engine.dialect.name == "sqlite":
            sa.event.listen(self._engine, "connect", _configure)
        try:
            with self._begin() as connection:
                create_tables(connection, self._location(), pipeline)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the database."""
        self._engine.dispose()

    def claim(self, source: str, query_id: str, batch_id: int = 0) -> None:
        """Register a query before it writes a batch of a source.

        Raises Conflict for another query than before, whose checkpoint was lost: reading the stream
        again would count it twice. Also if earlier batches are in another database: their state
        would be missing.
        """
        with self._begin() as connection:
            of = sa.select(PROGRESS.c.query_id).where(PROGRESS.c.source == source)
            known = connection.execute(of).scalars().all()
            self._end_removed_incidents(connection)
            if query_id in known:
                return
            if known:
                raise Conflict(
                    Code.STATE_CONFLICT,
                    "the checkpoint does not belong to the tables; restore it, or delete tables"
                    " and checkpoints together to read all messages again",
                )
            if batch_id:
                raise Conflict(
                    Code.STATE_CONFLICT,
                    f"batches up to {batch_id - 1} are in the tables, and none in live state"
                    f" {self._location()}; set live.url to the database that has them, or delete"
                    " tables and checkpoints together to read all messages again",
                )
            fresh: dict[str, Any] = {column.name: 0 for column in PROGRESS.c}
            fresh |= {"source": source, "query_id": query_id, "batch_id": -1}
            fresh |= {"known_to_us": detectors.NEVER_US, "lag_messages": None, "batch_ms": None}
            connection.execute(sa.insert(PROGRESS), fresh)

    def _end_removed_incidents(self, connection: sa.Connection) -> None:
        """End incidents of detectors that the document no longer has, when their source runs."""
        if self._has_ended_removed:
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
        self._has_ended_removed = True

    def follow(self, readings: DataFrame, batch: Context) -> LiveOutcome:
        """Apply a batch, unless it is applied already: tasks follow the readings of their devices.

        Raises Unavailable if the database is unavailable, Invalid for rows that it refuses.
        """
        with self._following[batch.source]:
            with self._begin() as connection:
                if commits.is_committed(connection, batch):
                    return LiveOutcome(False)
            try:
                parts = updates.follow(readings, self.work(batch), self._tasks(readings))
            except PySparkException as error:
                raise failures.raised_in_task(batch.source, error) or error from error
            return self.commit(batch, parts)

    def commit(self, batch: Context, parts: Sequence[Part]) -> LiveOutcome:
        """Apply the results of tasks in one transaction, unless the batch is applied already."""
        with self._begin() as connection:
            if commits.is_committed(connection, batch):
                return LiveOutcome(False)
            by_name = {one.name: one for one in self._detectors(batch.source)}
            outcome = commits.publish(connection, batch, parts, by_name)
            self._record_silences(connection, batch.source, batch.known_to_us)
            return outcome

    def work(self, batch: Context) -> Work:
        """Return the parameters of the tasks of a batch."""
        chosen = self._detectors(batch.source)
        return Work(
            source=batch.source,
            query_id=batch.query_id,
            batch_id=batch.batch_id,
            rules=detectors.rules(chosen, self._spec.live.offline_after),
            metrics=tuple({one.metric for one in chosen if one.metric is not None}),
            detectors=tuple(one.name for one in chosen),
            access=self._access(),
        )

    def _tasks(self, readings: DataFrame) -> int:
        """The number of tasks that follow readings, each with its own connection."""
        bound = self._spec.live.connections // len(self._spec.sources)
        return max(1, min(bound, readings.sparkSession.sparkContext.defaultParallelism))

    def _access(self) -> Access:
        url = self._engine.url
        if url.get_backend_name() == "sqlite":
            return LocalAccess(Path(url.database or "").resolve())
        _, parameters = self._engine.dialect.create_connect_args(url)
        password = parameters.pop("password", None)
        parameters.pop("context", None)
        file = self._spec.live.password_file
        if file is not None and Path(file).is_absolute():
            return ServerAccess(parameters, self._location(), password_file=file)
        return ServerAccess(parameters, self._location(), password)

    def check_reachable(self, master: str) -> None:
        """Raise Invalid if executors of a master cannot read the database."""
        is_local = master == "local" or master.startswith("local[")
        if self._engine.dialect.name == "sqlite" and not is_local:
            raise Invalid(
                Code.FIELD_INVALID,
                f"spec.live.url: executors of {master} cannot read {self._location()}; use a"
                " database: postgresql://USER@HOST/DATABASE",
            )

    def record_failures(self, kind: str, failures: Mapping[str, Failure]) -> None:
        """Replace the errors of a kind, `source`, `address` or `gold`, by name."""
        rows = [
            {"kind": kind, "name": name, "error": str(one.error), "tries": one.tries}
            | {"since_us": int(one.since.timestamp() * US_PER_S)}
            for name, one in failures.items()
        ]
        with self._begin() as connection:
            connection.execute(sa.delete(FAILURES).where(FAILURES.c.kind == kind))
            upsert(connection, FAILURES, rows)

    def documents(self) -> dict[str, str]:
        """Return the recorded parts of documents."""
        return {row["part"]: row["said"] for row in self.rows(DOCUMENTS)}

    def record_documents(self, parts: Mapping[str, str]) -> None:
        """Record parts of the document that tables are made by."""
        with self._begin() as connection:
            rows = [{"part": part, "said": text} for part, text in parts.items()]
            upsert(connection, DOCUMENTS, rows)

    def recount(
        self,
        source: str,
        usage: Sequence[Mapping[str, Any]],
        counters: Mapping[str, int],
        latest: pyarrow.Table,
    ) -> None:
        """Replace the results of silver and quarantine of a source: readings and quarantined rows
        of `USAGE`, counters of `PROGRESS`, and the newest reading of each device and metric.

        Devices, sessions, incidents and alerts stay: they depend on times of arrival.
        """
        of = PROGRESS.c.source == source
        with self._begin() as connection:
            connection.execute(sa.update(PROGRESS).where(of).values(dict(counters)))
            for space, address in {(row["space"], row["address"]) for row in usage}:
                mine = (USAGE.c.space == space) & (USAGE.c.address == address)
                connection.execute(sa.update(USAGE).where(mine).values(readings=0, quarantined=0))
            upsert(connection, USAGE, usage)
            connection.execute(sa.delete(LATEST).where(LATEST.c.source == source))
            upsert(connection, LATEST, updates.state_rows(LATEST.name, source, latest).to_pylist())

    def prune(self) -> None:
        """Delete rows older than `live.keep` (`retention`)."""
        with self._begin() as connection:
            retention.prune(connection, self._spec.live.keep)
        if self._engine.dialect.name == "postgresql":
            with self._failures():
                retention.vacuum_staging(self._engine)

    def tick(self, source: str, now_us: int) -> None:
        """Find silent devices of a source that has no further messages up to a time.

        Does nothing while a batch is followed, because its messages end silences.
        """
        if not self._following[source].acquire(blocking=False):
            return
        try:
            with self._begin() as connection:
                self._record_silences(connection, source, now_us)
        finally:
            self._following[source].release()

    def record_progress(
        self, source: str, query_id: str, lag_messages: int | None, batch_ms: int | None
    ) -> None:
        """Record lag and duration of a query's last trigger; None if unknown."""
        values = {"lag_messages": lag_messages, "batch_ms": batch_ms}
        values = {name: value for name, value in values.items() if value is not None}
        of = (PROGRESS.c.source == source) & (PROGRESS.c.query_id == query_id)
        if values:
            with self._begin() as connection:
                connection.execute(sa.update(PROGRESS).where(of).values(values))

    def pending(self) -> list[tuple[str, str, str]]:
        """Return source, query and address of pending alerts."""
        names = (ALERTS.c.source, PROGRESS.c.query_id, ALERTS.c.address)
        mine = sa.join(ALERTS, PROGRESS, ALERTS.c.source == PROGRESS.c.source)
        pending = sa.select(*names).select_from(mine).where(ALERTS.c.outcome.is_(None))
        with self._begin() as connection:
            found = connection.execute(pending.distinct().order_by(*names))
            return [(row.source, row.query_id, row.address) for row in found]

    def alerts(self, source: str, address: str) -> Sequence[sa.Row[Any]]:
        """Return pending alerts of an address, oldest first, at most `ALERTS_PER_READ`."""
        wanted = sa.select(ALERTS).where(ALERTS.c.outcome.is_(None))
        wanted = wanted.where(ALERTS.c.source == source, ALERTS.c.address == address)
        with self._begin() as connection:
            ordered = wanted.order_by(ALERTS.c.number).limit(ALERTS_PER_READ)
            return connection.execute(ordered).all()

    def record_outcomes(self, source: str, address: str, outcomes: Mapping[int, str]) -> None:
        """Record outcomes of alerts, by number."""
        of = (ALERTS.c.source == source) & (ALERTS.c.address == address)
        change = sa.update(ALERTS).where(of, ALERTS.c.number == sa.bindparam("which"))
        change = change.values(outcome=sa.bindparam("result"))
        rows = [{"which": number, "result": outcome} for number, outcome in outcomes.items()]
        if rows:
            with self._begin() as connection:
                connection.execute(change, rows)

    def status(self) -> dict[str, Any]:
        """Return the progress of all sources, and counts of devices, incidents and alerts.

        Of each source: its devices, and those that were online when it was last read.
        """
        count, outcome = sa.func.count(), ALERTS.c.outcome
        kinds = (outcome.is_(None), "waiting"), (outcome == alerts.ACCEPTED, "sent")
        kind = sa.case(*kinds, else_="rejected")
        present = sa.func.count(sa.case((DEVICES.c.is_online, 1)))
        with self._begin() as connection:

            def by(column: Any, *counts: Any) -> dict[Any, Any]:
                found = connection.execute(sa.select(column, *counts).group_by(column))
                return {name: one[0] if len(one) == 1 else tuple(one) for name, *one in found}

            def number(of: sa.Select[Any]) -> int:
                return int(connection.execute(of).scalar_one())

            written: defaultdict[str, dict[str, int]] = defaultdict(dict)
            for row in connection.execute(sa.select(WRITTEN).order_by(*WRITTEN.primary_key)):
                written[row.source][row.target] = row.rows
            sources = connection.execute(sa.select(PROGRESS).order_by(PROGRESS.c.source))
            return {
                "sources": [dict(row) for row in sources.mappings()],
                "devices": by(DEVICES.c.source, count, present),
                "incidents": by(ANOMALIES.c.detector, count),
                "openIncidents": number(sa.select(count).where(ANOMALIES.c.ended_us.is_(None))),
                "alerts": {"waiting": 0, "sent": 0, "rejected": 0} | by(kind, count),
                "written": dict(written),
                "troubles": self._recorded_failures(connection),
                "state": {
                    one.name: number(sa.select(count).select_from(one))
                    for one in (LATEST, DEVICES, SESSIONS, STATES)
                },
            }

    @staticmethod
    def _recorded_failures(connection: sa.Connection) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {"source": {}, "address": {}, "gold": {}}
        for row in connection.execute(sa.select(FAILURES).order_by(*FAILURES.primary_key)):
            since = datetime.fromtimestamp(row.since_us / US_PER_S, UTC).isoformat(
                timespec="seconds"
            )
            found[row.kind][row.name] = {"error": row.error, "since": since, "tries": row.tries}
        return found

    def rows(self, table: sa.Table) -> list[dict[str, Any]]:
        """Return all rows of a table, ordered by key."""
        with self._begin() as connection:
            found = connection.execute(sa.select(table).order_by(*table.primary_key.columns))
            return [dict(row) for row in found.mappings()]

    def _detectors(self, source: str) -> list[Detector]:
        return [one for one in self._spec.detectors if one.source in (None, source)]

    def _record_silences(self, connection: sa.Connection, source: str, now_us: int) -> None:
        """Record devices that have been silent for too long."""
        offline_us = now_us - self._spec.live.offline_after * US_PER_MS
        lost = (DEVICES.c.source == source) & (DEVICES.c.last_seen_us < offline_us)
        connection.execute(
            sa.update(DEVICES).where(lost & DEVICES.c.is_online).values(is_online=False)
        )
        for detector in self._detectors(source):
            if detector.heartbeat is not None:
                commits.record_silences(connection, source, detector, now_us)

    @contextmanager
    def _begin(self) -> Iterator[sa.Connection]:
        with self._lock, self._failures(), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            cause = getattr(error, "orig", None) or error
            what = f"live state {self._location()}: {cause}"
            # a retry cannot succeed
            if isinstance(error, (DataError, IntegrityError)):
                raise Invalid(Code.FIELD_INVALID, what) from error
            raise Unavailable(Code.DATA_UNUSABLE, what) from error

    def _location(self) -> str:
        return self._engine.url.render_as_string(hide_password=True)


def default_url(folder: Path) -> str:
    """Return the URL of the database next to the tables."""
    return f"sqlite:///{folder / 'live.db'}"


def with_password(url: str, password: str) -> str:
    """Return the URL of a database with a password."""
    return sa.make_url(url).set(password=password).render_as_string(hide_password=False)


def _configure(connection: Any, _record: object) -> None:
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "busy_timeout=30000"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()
