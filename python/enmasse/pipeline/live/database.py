"""Live: what is so now, in a database: SQLite, or PostgreSQL where psycopg is there.

Last values, devices and their sessions, usage, incidents, and what detectors remember are changed
in one transaction with the number of the batch. A batch that is in it already changes nothing, so
that a repeated one neither counts twice nor alarms twice. Times are microseconds since 1970 in UTC.
"""

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy
import pyarrow
import pyarrow.compute as pc
import sqlalchemy as sa
from sqlalchemy.exc import DataError, IntegrityError, SQLAlchemyError

from enmasse.base.errors import Code, Conflict, Invalid, Unavailable
from enmasse.pipeline.detect import detectors
from enmasse.pipeline.detect.detectors import Change, State
from enmasse.pipeline.endings import Trouble
from enmasse.pipeline.gold.grouping import array, groups, in_order
from enmasse.pipeline.live import incidents
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
    insert,
    lay_out,
    put,
)
from enmasse.resources.pipeline import Detector, PipelineSpec

US_A_MS, US_A_S = 1000, 1_000_000
KEYS_A_QUERY = 500
"""Devices that one query names."""
ALERTS_A_TIME = 1000
"""Alerts that are handed out at once."""
USED = ("messages", "bytes", "readings", "quarantined")
"""What is counted of a tenant's day."""

Row = sa.RowMapping
_STATE_FIELDS = [column.name for column in STATES.c][3:]


@dataclass(frozen=True)
class Batch:
    """What a batch of one source is to live state."""

    source: str
    query_id: str
    batch_id: int
    readings: pyarrow.Table
    """Columns as `silver.READING` names them."""

    usage: Sequence[Mapping[str, Any]] = ()
    """Rows of `USAGE`, to be added."""

    known_to_us: int = detectors.NEVER_US
    """All that the server took before this has been read."""

    written: Mapping[str, int] = field(default_factory=dict)
    """Rows that went into tables and sinks, by their names."""


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
                lay_out(connection, spec.tables.format, self._place(), pipeline)
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

    def commit(self, batch: Batch) -> bool:
        """Put a batch in, unless it is in already; return whether it was put in."""
        with self._begin() as connection:
            of = (PROGRESS.c.source == batch.source) & (PROGRESS.c.query_id == batch.query_id)
            row = connection.execute(sa.select(PROGRESS).where(of)).one()
            if row.batch_id >= batch.batch_id:
                return False
            # detectors ask what the last reading before the batch was
            self._detect(connection, batch)
            rows = self._add_readings(connection, batch) + len(batch.usage)
            put(connection, USAGE, batch.usage, added=USED)
            self._count(connection, batch, rows)
            readings = batch.readings
            known_to_us = max(row.known_to_us, batch.known_to_us)
            quarantined = sum(usage["quarantined"] for usage in batch.usage)
            messages = sum(usage["messages"] for usage in batch.usage)
            changes: dict[str, Any] = {
                "batch_id": batch.batch_id,
                "messages": row.messages + messages,
                "readings": row.readings + len(readings),
                "quarantined": row.quarantined + quarantined,
                "late": row.late + late(readings, self._spec.windows),
                "clamped": row.clamped + (pc.sum(readings["clamped"]).as_py() or 0),
                "known_to_us": known_to_us,
            }
            connection.execute(sa.update(PROGRESS).where(of).values(changes))
            self._silences(connection, batch.source, batch.known_to_us)
        return True

    @staticmethod
    def _count(connection: sa.Connection, batch: Batch, live_rows: int) -> None:
        """Add what a batch has written to what all of them have."""
        rows = [
            {"source": batch.source, "target": target, "rows": count}
            for target, count in [*batch.written.items(), ("live", live_rows)]
            if count
        ]
        put(connection, WRITTEN, rows, added=("rows",))

    def troubled(self, kind: str, troubles: Mapping[str, Trouble]) -> None:
        """Let these be all troubles of a kind, `source` or `address`, by name."""
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
                put(connection, LATEST, _latest(found.latest, source))

    def prune(self) -> None:
        """Delete sessions that ended, and days of usage, longer ago than `live.keep`.

        Ago is before the time up to which all is known: of the source, or of usage of any.
        """
        keep_us = self._spec.live.keep * US_A_MS
        known_us = sa.select(sa.func.max(PROGRESS.c.known_to_us))
        of_source = known_us.where(PROGRESS.c.source == SESSIONS.c.source).scalar_subquery()
        with self._begin() as connection:
            over = SESSIONS.c.last_us < of_source - keep_us
            connection.execute(sa.delete(SESSIONS).where(over))
            oldest_us = (connection.execute(known_us).scalar_one() or 0) - keep_us
            if oldest_us > 0:
                day = datetime.fromtimestamp(oldest_us / US_A_S, UTC).date().isoformat()
                # of messages without a time nobody knows the day
                gone = (USAGE.c.date < day) & (USAGE.c.date != "")
                connection.execute(sa.delete(USAGE).where(gone))

    def tick(self, source: str, now_us: int) -> None:
        """Say that nothing more has come from a source up to a time: who is silent?"""
        with self._begin() as connection:
            self._silences(connection, source, now_us)

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
        found: dict[str, dict[str, Any]] = {"source": {}, "address": {}}
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

    def _add_readings(self, connection: sa.Connection, batch: Batch) -> int:
        """Put readings in; return how many rows of live state that changes."""
        rows = batch.readings
        if not len(rows):
            return 0
        newest = _latest(rows.take(last_of_each(rows)), batch.source)
        put(connection, LATEST, newest, newer=("event_time_us", "partition", "offset", "index"))
        return len(newest) + self._add_sessions(connection, batch)

    def _add_sessions(self, connection: sa.Connection, batch: Batch) -> int:
        gap_us = self._spec.live.offline_after * US_A_MS
        devices, sessions = [], []
        heard = arrivals(batch.readings, gap_us)
        known = _by_device(connection, DEVICES, DEVICES.c.source == batch.source, heard)
        for device, spans in heard.items():
            before = known.get(device)
            first, last = spans[0][0], spans[-1][1]
            key = {"source": batch.source, "device": device}
            if before is not None and first - before["last_seen_us"] <= gap_us:
                # the first of them goes on with the session that was
                _, end, count = spans[0]
                end = max(end, before["last_seen_us"])
                spans = [(before["session_began_us"], end, count), *spans[1:]]
            began_us = spans[-1][0]
            sessions += [
                key | {"began_us": begin, "last_us": end, "readings": count}
                for begin, end, count in spans
            ]
            devices.append(
                key
                | {
                    "first_seen_us": min(first, before["first_seen_us"]) if before else first,
                    "last_seen_us": max(last, before["last_seen_us"]) if before else last,
                    "session_began_us": began_us,
                    "is_online": True,
                    "readings": sum(count for _, _, count in spans)
                    + (before["readings"] if before else 0),
                }
            )
        put(connection, DEVICES, devices)
        put(connection, SESSIONS, sessions, added=("readings",))
        return len(devices) + len(sessions)

    def _detect(self, connection: sa.Connection, batch: Batch) -> None:
        for detector in self._detectors(batch.source):
            if detector.heartbeat is not None:
                self._hear(connection, detector, batch)
            else:
                self._watch(connection, detector, batch)

    def _detectors(self, source: str) -> list[Detector]:
        return [one for one in self._spec.detectors if one.source in (None, source)]

    def _watch(self, connection: sa.Connection, detector: Detector, batch: Batch) -> None:
        """Follow a metric of all devices of a batch."""
        chosen = pc.and_(
            pc.equal(batch.readings["metric"], detector.metric),
            pc.is_valid(batch.readings["value"]),
        )
        rows = batch.readings.filter(chosen)
        if not len(rows):
            return
        group, first = groups(rows, ("device",))
        order, bounds = in_order(rows, group, ("event_time", "partition", "offset", "index"))
        devices = rows["device"].take(first).to_pylist()
        times = _times(rows["event_time"].take(order))
        values = rows["value"].take(order).to_pylist()
        states = self._states(connection, detector, batch.source, devices)
        loud = {}
        for number, device in enumerate(devices):
            begin, end = int(bounds[number]), int(bounds[number + 1])
            series, state = values[begin:end], states.get(device)
            if not detectors.is_quiet(detector, state, min(series), max(series)):
                loud[device] = [*zip(times[begin:end], series, strict=True)]
        # what was passed over as quiet is older than what follows all the same
        mine = (LATEST.c.source == batch.source) & (LATEST.c.metric == detector.metric)
        last = _by_device(connection, LATEST, mine, loud)
        changed = {}
        for device, pairs in loud.items():
            state = states.get(device) or State()
            if device in last:
                newest_us = max(state.time_us, last[device]["event_time_us"])
                state = replace(state, time_us=newest_us)
            changed[device] = detectors.follow(detector, state, pairs)
        self._keep(connection, detector, batch.source, changed)

    def _hear(self, connection: sa.Connection, detector: Detector, batch: Batch) -> None:
        """Take note of signs of life."""
        assert detector.heartbeat is not None
        heard = arrivals(batch.readings, detector.heartbeat.timeout * US_A_MS)
        states = self._states(connection, detector, batch.source, heard)
        changed = {}
        for device, spans in heard.items():
            ends = [time_us for begin, end, _ in spans for time_us in (begin, end)]
            state = states.get(device) or State()
            changed[device] = detectors.follow_silence(detector, state, ends, detectors.NEVER_US)
        self._keep(connection, detector, batch.source, changed)

    def _silences(self, connection: sa.Connection, source: str, now_us: int) -> None:
        """Find who has been silent for too long at a time."""
        offline_us = now_us - self._spec.live.offline_after * US_A_MS
        lost = (DEVICES.c.source == source) & (DEVICES.c.last_seen_us < offline_us)
        connection.execute(
            sa.update(DEVICES).where(lost & DEVICES.c.is_online).values(is_online=False)
        )
        for detector in self._detectors(source):
            if detector.heartbeat is None:
                continue
            due_us = now_us - detector.heartbeat.timeout * US_A_MS
            silent = (STATES.c.detector == detector.name) & (STATES.c.source == source)
            silent &= (STATES.c.time_us < due_us) & ~STATES.c.is_open
            silent &= STATES.c.began_us < now_us - detector.cooldown * US_A_MS
            found = connection.execute(sa.select(STATES).where(silent)).mappings().all()
            changed = {
                row["device"]: detectors.follow_silence(detector, _state(row), [], now_us)
                for row in found
            }
            self._keep(connection, detector, source, changed)

    def _states(
        self, connection: sa.Connection, detector: Detector, source: str, devices: Iterable[str]
    ) -> dict[str, State]:
        mine = (STATES.c.detector == detector.name) & (STATES.c.source == source)
        found = _by_device(connection, STATES, mine, devices)
        return {device: _state(row) for device, row in found.items()}

    def _keep(
        self,
        connection: sa.Connection,
        detector: Detector,
        source: str,
        changed: Mapping[str, tuple[State, list[Change]]],
    ) -> None:
        """Keep what detectors remember, and the incidents that they found."""
        states = [
            {"detector": detector.name, "source": source, "device": device} | asdict(state)
            for device, (state, _) in changed.items()
        ]
        put(connection, STATES, states)
        for device, (_, changes) in changed.items():
            for change in changes:
                self._record(connection, detector, source, device, change)

    def _record(
        self,
        connection: sa.Connection,
        detector: Detector,
        source: str,
        device: str,
        change: Change,
    ) -> None:
        metric = detector.metric if detector.heartbeat is None else None
        name = detectors.incident_id(detector.name, source, device, metric, change.began_us)
        if change.what == "ended":
            of = ANOMALIES.c.id == name
            connection.execute(sa.update(ANOMALIES).where(of).values(ended_us=change.time_us))
            return
        row = {
            "id": name,
            "detector": detector.name,
            "source": source,
            "device": device,
            "metric": metric,
            "began_us": change.began_us,
            "value": change.value,
            "reason": change.reason,
        }
        # an incident that is known is not told again
        known = insert(connection, ANOMALIES).on_conflict_do_nothing()
        if connection.execute(known, row).rowcount:
            for address, subject, body in incidents.messages(detector, row):
                of = (ALERTS.c.source == source) & (ALERTS.c.address == address)
                last = connection.execute(sa.select(sa.func.max(ALERTS.c.number)).where(of))
                number = int(last.scalar_one() or 0) + 1
                alert: dict[str, Any] = {"source": source, "address": address, "number": number}
                alert |= {"incident": name, "device": device, "subject": subject, "body": body}
                connection.execute(sa.insert(ALERTS), alert)

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


def arrivals(readings: pyarrow.Table, gap_us: int) -> dict[str, list[tuple[int, int, int]]]:
    """Return for each device the spans in which its readings came: begin, end, how many.

    A span ends where nothing came for longer than the gap.
    """
    if not len(readings):
        return {}
    group, first = groups(readings, ("device",))
    order, bounds = in_order(readings, group, ("enqueued_time",))
    times = array(readings["enqueued_time"].cast(pyarrow.int64()))[order]
    devices = readings["device"].take(first).to_pylist()
    # a span begins with each device, and after each gap
    after_gap = numpy.flatnonzero(numpy.diff(times) > gap_us) + 1
    begins = numpy.union1d(bounds[:-1], after_gap)
    ends = numpy.append(begins[1:], len(times))
    whose = numpy.searchsorted(bounds, begins, side="right") - 1
    spans = (whose, times[begins], times[ends - 1], ends - begins)
    found: dict[str, list[tuple[int, int, int]]] = {device: [] for device in devices}
    for number, begin, end, count in zip(*(part.tolist() for part in spans), strict=True):
        found[devices[number]].append((begin, end, count))
    return found


def late(readings: pyarrow.Table, windows_ms: Sequence[int]) -> int:
    """Return how many readings came later than the shortest window after their time."""
    delay = pc.subtract(readings["enqueued_time"], readings["event_time"])
    shortest = pyarrow.scalar(min(windows_ms) * US_A_MS, pyarrow.duration("us"))
    return int(pc.sum(pc.greater(delay, shortest)).as_py() or 0)


def last_of_each(rows: pyarrow.Table) -> Any:
    """Return the places of the newest readings of each device and metric."""
    group, _ = groups(rows, ("device", "metric"))
    order, bounds = in_order(rows, group, ("event_time", "partition", "offset", "index"))
    return order[bounds[1:] - 1]


def _latest(readings: pyarrow.Table, source: str) -> list[dict[str, Any]]:
    """Rows of `LATEST`."""
    names = [name for name in LATEST.c.keys() if name != "source" and not name.endswith("_us")]
    return [
        {name: row[name] for name in names}
        | {"source": source, "event_time_us": event_us, "enqueued_time_us": enqueued_us}
        for row, event_us, enqueued_us in zip(
            readings.select(names).to_pylist(),
            _times(readings["event_time"]),
            _times(readings["enqueued_time"]),
            strict=True,
        )
    ]


def _times(column: Any) -> list[int]:
    times: list[int] = column.cast(pyarrow.int64()).to_pylist()
    return times


def _state(row: Row) -> State:
    return State(**{name: row[name] for name in _STATE_FIELDS})


def _by_device(
    connection: sa.Connection, table: sa.Table, where: Any, devices: Iterable[str]
) -> dict[str, Row]:
    found: dict[str, Row] = {}
    wanted = list(devices)
    for first in range(0, len(wanted), KEYS_A_QUERY):
        chosen = table.c.device.in_(wanted[first : first + KEYS_A_QUERY])
        for row in connection.execute(sa.select(table).where(where & chosen)).mappings():
            found[str(row["device"])] = row
    return found


def _configure(connection: Any, _record: object) -> None:
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "busy_timeout=30000"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()
