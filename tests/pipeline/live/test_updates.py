"""Live state updated by tasks of Spark equals that of one task, in SQLite and PostgreSQL."""

import random
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy
import psycopg
import pyarrow
import pyarrow.compute
import pytest
from pyspark.sql import SparkSession

from enmasse.base.errors import Invalid, Unavailable
from enmasse.pipeline.ingest import silver
from enmasse.pipeline.live import database, rows, schema, updates
from enmasse.pipeline.live.access import ServerAccess
from enmasse.pipeline.live.database import Live
from enmasse.resources.pipeline import PipelineSpec
from postgres_server import PASSWORD, PostgresServer
from silver_readings import SCHEMA, Batch, measured, put_in, us

pytestmark = pytest.mark.timeout(180)
TABLES = [database.LATEST, database.DEVICES, database.SESSIONS, database.ANOMALIES,
          database.STATES, database.PROGRESS]  # fmt: skip
DETECTORS: list[dict[str, Any]] = [
    {"name": "hot", "metric": "m", "threshold": {"above": 30}, "alertAddress": "alerts"},
    {"name": "jump", "metric": "m", "rate": {"above": 20, "per": "10s"}, "cooldown": 0},
    {"name": "odd", "metric": "m", "ewma": {}},
    {"name": "silent", "heartbeat": {"timeout": "60s"}, "cooldown": 0},
]


def opened(url: str, **live: Any) -> Live:
    source = {"name": "s", "url": "amqp://h", "address": "x", "value": "value"}
    whole = {"sources": [source], "detectors": DETECTORS, "live": live}
    found = Live(url, PipelineSpec.model_validate(whole, by_alias=True))
    found.claim("s", "q")
    return found


def batches(seed: int) -> Iterator[Batch]:
    """Batches with late, repeated and text readings in random order."""
    dice = random.Random(seed)
    second, offset = 0.0, 0
    for number in range(3):
        found = []
        for _ in range(300):
            second += dice.choice([0.0, 0.5, 1.0])
            late = dice.choice([0, 0, 0, 7, 70])
            value = dice.choice([1.5, 29.0, 31.0, None])
            text = None if value is not None else dice.choice(['"a,\n', "", "\\.", "é"])
            device = f'd{dice.randrange(20)}"\t\\'
            found.append({"device": device, "value": value, "text": text, "seconds": second - late}
                         | {"came": second, "metric": dice.choice("mn")})  # fmt: skip
        readings = measured(*found, first=offset)
        shuffled = readings.take(pyarrow.array(dice.sample(range(300), 300)))
        yield Batch("s", "q", number, shuffled, [], us(second))
        offset += 300


def contents(db: Live) -> dict[str, list[dict[str, Any]]]:
    found = {table.name: db.rows(table) for table in TABLES}
    found["alerts"] = db.rows(database.ALERTS)
    return found


def test_any_number_of_tasks_gives_the_same_state(
    spark: SparkSession, mortal_database: PostgresServer, tmp_path: Path
) -> None:
    url = mortal_database.new_database()
    with (
        closing(opened(f"sqlite:///{tmp_path}/one.db")) as one,
        closing(opened(f"sqlite:///{tmp_path}/many.db")) as many,
        closing(opened(url)) as server,
    ):
        for batch in batches(1):
            assert put_in(one, batch, tasks=1)
            frame = spark.createDataFrame(batch.readings)
            for db in (many, server):
                outcome = db.follow(frame, batch.context())
                assert outcome.is_new and outcome.rows > 0
                assert not db.follow(frame, batch.context()).is_new
        assert contents(many) == contents(one)
        assert contents(server) == contents(one)
        assert one.rows(database.ANOMALIES) and one.status()["sources"][0]["skipped"] > 0


def test_database_error_in_a_task_stores_nothing_and_allows_a_repeat(
    spark: SparkSession, mortal_database: PostgresServer
) -> None:
    url = mortal_database.new_database()
    (first, *_) = batches(2)
    frame = spark.createDataFrame(first.readings)
    with closing(opened(url)) as db:
        schema_name = url.rpartition("=")[2]
        mortal_database.execute(f"alter table {schema_name}.staged_devices rename to away")
        with pytest.raises(Unavailable, match='source s: live state .*"staged_devices"'):
            db.follow(frame, first.context())
        assert db.rows(database.LATEST) == []
        mortal_database.execute(f"alter table {schema_name}.away rename to staged_devices")
        assert db.follow(frame, first.context()).is_new


def many(count: int, share: float = 0.0) -> pyarrow.Table:
    """Readings of 500 devices, a share of all of them of one device."""
    dice = numpy.random.default_rng(1)
    numbers = dice.integers(0, 500, count)
    numbers[: int(count * share)] = 7
    dice.shuffle(numbers)
    names = pyarrow.array([f"device-{number}" for number in range(500)])
    times = pyarrow.array(us(0) + numpy.arange(count) * 1000, pyarrow.int64())
    columns = {name: measured({})[name].take(pyarrow.array([0] * count)) for name in SCHEMA.names}
    columns |= {"device": names.take(pyarrow.array(numbers)), "offset": range(count)}
    columns |= dict.fromkeys(("event_time", "enqueued_time"), times.cast(silver.TIME))
    columns |= {"value": dice.normal(20.0, 1.0, count)}
    return pyarrow.table(columns, SCHEMA)


def cpu_s(db: Live, readings: pyarrow.Table, tasks: int) -> float:
    """Processor time of the task that takes longest."""
    context = Batch("s", "q", 0, readings, []).context()
    numbers = numpy.array([int(name.partition("-")[2]) for name in readings["device"].to_pylist()])
    longest = 0.0
    for task in range(tasks):
        mine = readings.filter(pyarrow.array(numbers % tasks == task))
        begun = time.process_time()
        updates.parts(db.work(context), mine, task)
        longest = max(longest, time.process_time() - begun)
    return longest


@pytest.mark.slow
def test_device_with_half_of_the_rows_costs_at_most_three_times_the_cpu(tmp_path: Path) -> None:
    with closing(opened(f"sqlite:///{tmp_path}/live.db")) as db:
        even, skewed = many(1_000_000), many(1_000_000, share=0.5)
        for tasks in (1, 2):
            assert cpu_s(db, skewed, tasks) <= 3 * cpu_s(db, even, tasks)


@pytest.mark.slow
def test_bytes_to_the_driver_do_not_depend_on_the_number_of_readings(
    mortal_database: PostgresServer,
) -> None:
    def bytes_of(count: int) -> int:
        with closing(opened(mortal_database.new_database())) as db:
            readings = many(count)
            context = Batch("s", "q", 0, readings, []).context()
            parts = updates.parts(db.work(context), readings)
            assert {part.name for part in parts} >= set(schema.STAGED)
            return sum(len(part.data) for part in parts if part.name != rows.CHANGES)

    assert bytes_of(1_000) == bytes_of(1_000_000) == 0


def test_silence_is_not_detected_while_a_batch_is_processed(tmp_path: Path) -> None:
    with closing(opened(f"sqlite:///{tmp_path}/live.db")) as db:
        (first, *_) = batches(3)
        put_in(db, first)
        with db._following["s"]:
            db.tick("s", us(10**6))
        before = len(db.rows(database.ANOMALIES))
        db.tick("s", us(10**6))
        assert len(db.rows(database.ANOMALIES)) > before


@pytest.mark.parametrize(
    ("connections", "sources", "tasks"), [(16, 1, 2), (1, 1, 1), (3, 2, 1), (8, 3, 2)]
)
def test_task_count_respects_the_connection_limit(
    spark: SparkSession, tmp_path: Path, connections: int, sources: int, tasks: int
) -> None:
    """This Spark runs two tasks at a time."""
    frame = spark.createDataFrame(measured({}))
    with closing(opened(f"sqlite:///{tmp_path}/live.db", connections=connections)) as db:
        db._spec = db._spec.model_copy(update={"sources": db._spec.sources * sources})
        assert db._tasks(frame) == tasks


def test_sqlite_is_refused_with_remote_executors(tmp_path: Path) -> None:
    with closing(opened(f"sqlite:///{tmp_path}/live.db")) as db:
        for master in ("local", "local[*,4]", "local[2]"):
            db.check_reachable(master)
        for master in ("spark://10.0.0.5:7077", "local-cluster[2,1,1024]", "yarn"):
            with pytest.raises(Invalid, match="spec.live.url: .*use a database: postgresql://"):
                db.check_reachable(master)


def test_executors_read_the_password_from_their_own_file(
    mortal_database: PostgresServer, tmp_path: Path
) -> None:
    url = mortal_database.new_database()
    file = tmp_path / "secret"
    file.write_text(f"{unquote(PASSWORD)}\n")
    (first, *_) = batches(4)
    with closing(opened(url, passwordFile=str(file))) as db:
        access = db.work(first.context()).access
        assert isinstance(access, ServerAccess) and access.password is None
        assert put_in(db, first)
        file.unlink()
        with pytest.raises(Invalid, match="an executor cannot read .*secret.*or name one next"):
            updates.parts(db.work(first.context()), first.readings)
    with closing(opened(url, passwordFile="beside.txt")) as db:
        access = db.work(first.context()).access
        assert isinstance(access, ServerAccess) and access.password == unquote(PASSWORD)
        assert unquote(PASSWORD) not in repr(access)
        with psycopg.connect(**access.parameters, password=access.password) as connection:
            connection.execute("select 1")
