"""Live state in a real PostgreSQL: the same as in SQLite, and exact when the server is killed."""

import random
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from enmasse.base.errors import Conflict, Invalid, Unavailable
from enmasse.pipeline.failures import Failure
from enmasse.pipeline.live import commits, database, schema, updates
from enmasse.pipeline.live.database import Live
from enmasse.resources.pipeline import PipelineSpec
from postgres_server import PostgresServer, postgres_server
from silver_readings import Batch, measured, put_in, us

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
TABLES = [
    *(database.LATEST, database.DEVICES, database.SESSIONS, database.USAGE, database.ANOMALIES),
    *(database.ALERTS, database.STATES, database.PROGRESS),
]
DETECTORS: list[dict[str, Any]] = [
    {"name": "hot", "metric": "m", "threshold": {"above": 30}, "alertAddress": "alerts"},
    {"name": "odd", "metric": "m", "ewma": {}},
    {"name": "silent", "heartbeat": {"timeout": "60s"}, "cooldown": 0},
]
DEVICES = 200


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """A server for one test, which stops or kills it."""
    with postgres_server() as found:
        yield found


def opened(url: str) -> Live:
    source = {"name": "s", "url": "amqp://h", "address": "x", "value": "value"}
    spec = PipelineSpec.model_validate(
        {"sources": [source], "detectors": DETECTORS, "live": {"offlineAfter": "100s"}},
        by_alias=True,
    )
    found = Live(url, spec)
    found.claim("s", "q")
    return found


def batches(seed: int) -> Iterator[Batch]:
    """Batches of many devices: more rows than are sent one by one."""
    dice = random.Random(seed)
    time, offset = 0.0, 0
    for number in range(6):
        rows = []
        for device in range(DEVICES):
            time += dice.choice([0.0, 0.5, 1.0])
            rows.append(
                {
                    "device": f"d{device}\t\\\u00e9",
                    "value": dice.choice([1.5, 29, 31]),
                    "seconds": time,
                }
            )
        day = {"space": "sp", "address": "x", "date": "2026-01-31", "bytes": 10}
        usage = day | {"messages": len(rows), "readings": len(rows), "quarantined": 0}
        yield Batch("s", "q", number, measured(*rows, first=offset), [usage], us(time))
        offset += len(rows)


def contents(db: Live) -> dict[str, list[dict[str, Any]]]:
    return {
        table.name: sorted(
            (
                {name: value for name, value in row.items() if name != "number"}
                for row in db.rows(table)
            ),
            key=repr,
        )
        for table in TABLES
    }


def test_postgresql_equals_sqlite_after_restarts_of_the_server(
    server: PostgresServer, tmp_path: Path
) -> None:
    known = opened(f"sqlite:///{tmp_path / 'live.db'}")
    db = opened(server.url())
    for batch in batches(1):
        assert put_in(known, batch)
        if batch.batch_id in (2, 4):
            server.stop()
            with pytest.raises(Unavailable, match="live state postgresql"):
                put_in(db, batch)
            server.start()
        assert put_in(db, batch)
        assert not put_in(db, batch)
    assert contents(db) == contents(known)
    assert len(db.rows(database.LATEST)) == DEVICES
    assert db.status() == known.status()
    assert [alert.number for alert in db.alerts("s", "alerts")] == list(
        range(1, db.status()["alerts"]["waiting"] + 1)
    )
    db.record_outcomes("s", "alerts", {1: "accepted"})
    assert db.alerts("s", "alerts")[0].number == 2
    db.tick("s", us(10**6))
    known.tick("s", us(10**6))
    known.record_outcomes("s", "alerts", {1: "accepted"})
    assert contents(db) == contents(known)
    # both delete expired rows, and store the same failures and documents
    failure = Failure(Conflict("E4000", "made anew"), datetime(2026, 1, 31, tzinfo=UTC), 1)
    later = Batch("s", "q", 100, measured({"seconds": 10**8}, first=10**6), [], us(10**8))
    before = len(db.rows(database.SESSIONS))
    for one in (db, known):
        assert put_in(one, later)
        one.prune()
        one.record_failures("source", {"s": failure})
        one.record_documents({"windows": "[1]"})
        assert len(one.rows(database.SESSIONS)) == 1 < before
        assert one.rows(database.USAGE) == []
        assert one.documents() == {"windows": "[1]"}
    assert contents(db) == contents(known)
    assert db.status() == known.status()
    db.close()
    known.close()


def test_text_that_postgresql_cannot_store_is_an_error(server: PostgresServer) -> None:
    db = opened(server.url())
    text = {"value": None, "text": "a\0b"}
    with pytest.raises(Invalid, match="0x00"):
        put_in(db, Batch("s", "q", 0, measured(text), [], us(0)))
    assert put_in(db, Batch("s", "q", 0, measured({}), [], us(0)))
    db.close()


def test_batch_interrupted_by_a_stop_of_postgresql_is_written_once(server: PostgresServer) -> None:
    db = opened(server.url())
    first, second, *_ = batches(2)
    put_in(db, first)
    before = contents(db)
    real = commits.upsert

    def killed(connection: Any, table: Any, *rest: Any, **named: Any) -> None:
        real(connection, table, *rest, **named)
        if table is database.STATES:
            server.stop()

    with pytest.MonkeyPatch.context() as cut:
        cut.setattr(commits, "upsert", killed)
        with pytest.raises(Unavailable):
            put_in(db, second)
    server.start()
    assert contents(db) == before
    assert put_in(db, second)
    assert db.rows(database.USAGE)[0]["messages"] == 2 * DEVICES
    db.close()


def staged_counts(server: PostgresServer) -> dict[str, int]:
    counts = {}
    for name in schema.STAGED:
        ((count,),) = server.execute(f"select count(*) from staged_{name}")
        assert isinstance(count, int)
        counts[name] = count
    return counts


def test_only_reported_attempts_are_published_and_staging_is_emptied(
    server: PostgresServer,
) -> None:
    db = opened(server.url())
    first, second, *_ = batches(3)
    context = first.context()
    # a failed attempt that had written its rows, and a task of a killed driver
    updates.parts(db.work(context), first.readings)
    updates.parts(db.work(context), first.readings)
    assert (
        staged_counts(server)["devices"] == 2 * DEVICES and min(staged_counts(server).values()) > 0
    )
    assert put_in(db, first)
    assert set(staged_counts(server).values()) == {0}
    assert {row["readings"] for row in db.rows(database.DEVICES)} == {1}
    # the rows of a late attempt are deleted with the next batch
    updates.parts(db.work(context), first.readings)
    assert put_in(db, second)
    assert set(staged_counts(server).values()) == {0}
    assert {row["readings"] for row in db.rows(database.DEVICES)} == {2}
    db.prune()
    db.close()


def test_missing_staged_rows_prevent_publication(server: PostgresServer) -> None:
    db = opened(server.url())
    (first, *_) = batches(4)
    context = first.context()
    parts = updates.parts(db.work(context), first.readings)
    server.execute("delete from staged_devices where device like 'd1%'")
    with pytest.raises(Unavailable, match="staged_devices has .* executors wrote 200; a restart"):
        db.commit(context, parts)
    assert db.rows(database.LATEST) == []
    # staging tables are empty after a kill of the server
    parts = updates.parts(db.work(context), first.readings)
    server.kill_and_start()
    with pytest.raises(Unavailable):
        db.commit(context, parts)
    assert put_in(db, first)
    assert len(db.rows(database.LATEST)) == DEVICES
    db.close()
