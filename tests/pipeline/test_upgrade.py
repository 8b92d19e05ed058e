"""A pipeline started by another version continues, or fails with a reason and changes nothing."""

import multiprocessing
import os
import signal
import sqlite3
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import enmasse
from enmasse.base.errors import Conflict, EnMasseError, Invalid
from enmasse.pipeline.live.database import Live
from enmasse.pipeline.live.schema import ANOMALIES, LAYOUT, LAYOUT_NUMBER, PROGRESS, STAGED
from enmasse.resources.pipeline import PipelineSpec
from pipeline_runs import (
    check_alerts,
    check_tables,
    document,
    message,
    open_pipeline,
    run_in_one_task,
)
from platform_process import ENMASSE, Platform
from postgres_server import PostgresServer
from published_streams import Log
from silver_readings import Batch, measured, put_in, us

OLD_ANOMALIES = "CREATE TABLE anomalies (id VARCHAR PRIMARY KEY, detector VARCHAR, source VARCHAR)"
"""The table before it had numbers, shortened."""


def opened(
    url: str,
    pipeline: str | None = None,
    detectors: Sequence[Mapping[str, Any]] = (),
) -> Live:
    source = {"name": "s", "url": "amqp://h", "address": "x", "value": "value"}
    whole: dict[str, Any] = {"sources": [source], "detectors": detectors}
    return Live(url, PipelineSpec.model_validate(whole, by_alias=True), pipeline)


def schema(file: Path) -> list[tuple[str, ...]]:
    with closing(sqlite3.connect(file)) as db:
        return db.execute("SELECT name, sql FROM sqlite_schema ORDER BY name").fetchall()


def change(file: Path, statement: str) -> None:
    with closing(sqlite3.connect(file)) as db:
        db.execute(statement)
        db.commit()


def test_layout_row_is_written_once_and_read_again(tmp_path: Path) -> None:
    for _ in range(2):
        with closing(opened(f"sqlite:///{tmp_path}/live.db")) as db:
            row = {"number": LAYOUT_NUMBER, "made_by": enmasse.__version__, "format": "delta"}
            assert db.rows(LAYOUT) == [row]


def test_database_without_a_layout_row_is_accepted_if_its_columns_match(tmp_path: Path) -> None:
    file = tmp_path / "live.db"
    opened(f"sqlite:///{file}").close()
    change(file, "DROP TABLE layout")
    with closing(opened(f"sqlite:///{file}")) as db:
        assert [row["number"] for row in db.rows(LAYOUT)] == [LAYOUT_NUMBER]


RATE = {"name": "jump", "metric": "m", "rate": {"above": 5, "per": "1m"}, "cooldown": 0}


DOWNGRADE = (
    "ALTER TABLE detector_states DROP COLUMN recent",
    "ALTER TABLE progress DROP COLUMN skipped",
    "UPDATE layout SET number = 1, made_by = '0.1.0'",
)


def downgrade_to_layout_1(database: str, run: Callable[[str], object]) -> None:
    """Give a database the columns that it had in layout 1, with a device whose value jumped."""
    with closing(opened(database, detectors=[RATE])) as db:
        db.claim("s", "q")
        put_in(db, Batch("s", "q", 0, measured({"value": 1.0}, {"value": 9.0, "seconds": 10})))
    for statement in DOWNGRADE:
        run(statement)


def check_upgrade_from_layout_1(database: str) -> None:
    with closing(opened(database, detectors=[RATE])) as db:
        (layout,) = db.rows(LAYOUT)
        assert (layout["number"], layout["made_by"]) == (LAYOUT_NUMBER, enmasse.__version__)
        db.claim("s", "q", 1)
        assert [row["ended_us"] for row in db.rows(ANOMALIES)] == [None]
        # layout 1 stored only the last reading of the minute before
        rows = measured({"value": 9.5, "seconds": 20}, {"value": 3.0, "seconds": 60}, first=2)
        assert put_in(db, Batch("s", "q", 1, rows))
        found = [(row["began_us"], row["ended_us"]) for row in db.rows(ANOMALIES)]
        assert found == [(us(10), us(20)), (us(60), None)]
        (progress,) = db.rows(PROGRESS)
        assert (progress["readings"], progress["skipped"]) == (4, 0)


def test_sqlite_of_layout_1_is_upgraded_with_its_open_incident(tmp_path: Path) -> None:
    file = tmp_path / "live.db"
    downgrade_to_layout_1(f"sqlite:///{file}", lambda statement: change(file, statement))
    check_upgrade_from_layout_1(f"sqlite:///{file}")


@pytest.mark.slow
def test_postgresql_of_layout_1_is_upgraded_with_its_open_incident(
    mortal_database: PostgresServer,
) -> None:
    url = mortal_database.new_database()

    def run(statement: str) -> None:
        mortal_database.execute(statement, url)

    downgrade_to_layout_1(url, run)
    # layout 1 had no staging tables
    for name in STAGED:
        run(f"DROP TABLE staged_{name}")
    check_upgrade_from_layout_1(url)


STAYS_HOT: dict[str, Any] = {"name": "hot", "metric": "temperature", "cooldown": 0}
STAYS_HOT |= {"threshold": {"above": 30, "clear": -1}, "alertAddress": "alarms"}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_open_batch_and_unfinished_sink_of_layout_1_are_finished_once(
    platform: Platform, tmp_path: Path
) -> None:
    for name in ("old", "fan", "alarms"):
        platform.enmasse("create", "address", name, "--type", "topic", "--retention-age", "1d")
    log = Log(platform.url(), "old")
    sinks = [{"name": "high", "address": "fan", "where": "value > 40"}]
    file = document(tmp_path / "p", log, sinks=sinks, detectors=[STAYS_HOT])
    processes = multiprocessing.get_context("forkserver")
    sent = 0
    for dies in (False, True):
        sent += log.publish(message(number) for number in range(sent, sent + 60))
        run = processes.Process(target=run_in_one_task, args=(file,), kwargs={"dies": dies})
        run.start()
        run.join()
        assert run.exitcode == (-signal.SIGKILL if dies else 0)
    # layout 1 had fewer columns, and sinks of one task
    for statement in DOWNGRADE:
        change(tmp_path / "p" / "tables" / "live.db", statement)
    (tmp_path / "p" / "tables" / "_checkpoints" / "s" / "sink-tasks").unlink()
    words = [ENMASSE, "pipeline", "run", "--once", "-f", file]
    subprocess.run(words, check=True, timeout=600)
    check_tables(file, sent)
    # each of the three devices has one incident, which has not ended
    assert len(check_alerts(file, platform.url(), "alarms")) == 3
    _, _, db = open_pipeline(file)
    with closing(db):
        assert [row["ended_us"] for row in db.rows(ANOMALIES)] == [None] * 3
    forwarded = [(row["partition"], row["offset"]) for row in Log(platform.url(), "fan").bodies()]
    assert len(forwarded) == len(set(forwarded)) == sum(n % 50 > 40 for n in range(sent))


REFUSED = [
    (
        f"UPDATE layout SET number = {LAYOUT_NUMBER + 1}, made_by = '99.0'",
        Invalid,
        r"live state .* is of EnMasse 99.0, newer than this one .*; use that version",
    ),
    (
        "UPDATE layout SET number = 0, made_by = '0.0.1'",
        Conflict,
        "is of EnMasse 0.0.1 and of another layout; use the version that made it, or delete",
    ),
    (
        "UPDATE layout SET format = 'parquet'",
        Conflict,
        r"the tables of live state .* are parquet, and a pipeline writes delta; name another",
    ),
]


@pytest.mark.parametrize(("statement", "kind", "text"), REFUSED)
def test_unsupported_layout_is_refused_and_left_unchanged(
    tmp_path: Path, statement: str, kind: type[EnMasseError], text: str
) -> None:
    file = tmp_path / "live.db"
    opened(f"sqlite:///{file}").close()
    change(file, statement)
    before = schema(file)
    with pytest.raises(kind, match=text):
        opened(f"sqlite:///{file}")
    assert schema(file) == before


def test_database_belongs_to_one_pipeline(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/live.db"
    # a database of a version without the owner table
    opened(url).close()
    change(tmp_path / "live.db", "DROP TABLE owner")
    for _ in range(2):
        opened(url, pipeline="plant").close()
    with pytest.raises(Conflict, match="belongs to pipeline plant, and this one is yard; name"):
        opened(url, pipeline="yard")
    opened(url, pipeline="plant").close()


def test_error_names_the_missing_or_extra_column_of_a_layout(tmp_path: Path) -> None:
    file = tmp_path / "live.db"
    change(file, OLD_ANOMALIES)
    before = schema(file)
    with pytest.raises(Conflict, match="another layout: table anomalies lacks began_us; use"):
        opened(f"sqlite:///{file}")
    assert schema(file) == before
    file.unlink()
    opened(f"sqlite:///{file}").close()
    change(file, "ALTER TABLE devices ADD COLUMN colour VARCHAR")
    with pytest.raises(Conflict, match="another layout: table devices has colour; use"):
        opened(f"sqlite:///{file}")


def test_unsupported_layout_in_postgresql_is_refused(postgres: PostgresServer) -> None:
    url = postgres.new_database()
    opened(url).close()
    postgres.execute("UPDATE layout SET number = 0", url)
    with pytest.raises(Conflict, match="and of another layout; use the version that made"):
        opened(url)


@pytest.mark.timeout(200)
def test_run_command_refuses_a_layout_before_spark_starts(tmp_path: Path) -> None:
    file = document(tmp_path / "p", Log("amqp://127.0.0.1:1", "x"))
    (tmp_path / "p" / "tables").mkdir()
    change(tmp_path / "p" / "tables" / "live.db", OLD_ANOMALIES)
    done = subprocess.run(
        [ENMASSE, "pipeline", "run", "-f", file],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 5, done.stderr
    assert "is of another layout: table anomalies lacks began_us" in done.stderr
    assert "starting Spark" not in done.stderr


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_checkpoint_continues_with_another_version_of_spark(
    platform: Platform, tmp_path: Path
) -> None:
    """`make test-spark` puts another Spark on the path before the installed one."""
    platform.enmasse("create", "address", "on", "--type", "topic", "--retention-age", "1d")
    log = Log(platform.url(), "on")
    file = document(tmp_path / "p", log)
    installed = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    sent = 0
    for environment in (installed, dict(os.environ)):
        sent += log.publish(message(number) for number in range(sent, sent + 60))
        words = [ENMASSE, "pipeline", "run", "--once", "-f", file]
        subprocess.run(words, check=True, timeout=600, env=environment)
        check_tables(file, sent)
