"""A pipeline started again by another version: it goes on, or says why not and changes nothing."""

import os
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import enmasse
from enmasse.base.errors import Conflict, EnMasseError, Invalid
from enmasse.pipeline.live.database import Live
from enmasse.pipeline.live.schema import LAYOUT, LAYOUT_NUMBER
from enmasse.resources.pipeline import PipelineSpec
from piping import document, judged, message
from postgres_server import PostgresServer
from publishing import Log
from running import ENMASSE, Platform

OLD_ANOMALIES = "CREATE TABLE anomalies (id VARCHAR PRIMARY KEY, detector VARCHAR, source VARCHAR)"
"""As they were before they had numbers, in short."""


def opened(url: str, format: str = "delta", pipeline: str | None = None) -> Live:
    source = {"name": "s", "url": "amqp://h", "address": "x", "value": "value"}
    whole: dict[str, Any] = {"sources": [source], "tables": {"format": format}}
    return Live(url, PipelineSpec.model_validate(whole, by_alias=True), pipeline)


def schema(file: Path) -> list[tuple[str, ...]]:
    with closing(sqlite3.connect(file)) as db:
        return db.execute("SELECT name, sql FROM sqlite_schema ORDER BY name").fetchall()


def change(file: Path, statement: str) -> None:
    with closing(sqlite3.connect(file)) as db:
        db.execute(statement)
        db.commit()


def test_the_layout_is_written_once_and_found_again(tmp_path: Path) -> None:
    for _ in range(2):
        with closing(opened(f"sqlite:///{tmp_path}/live.db")) as db:
            row = {"number": LAYOUT_NUMBER, "made_by": enmasse.__version__, "format": "delta"}
            assert db.rows(LAYOUT) == [row]


def test_a_database_of_the_time_before_layouts_goes_on_if_it_is_the_same(tmp_path: Path) -> None:
    file = tmp_path / "live.db"
    opened(f"sqlite:///{file}").close()
    change(file, "DROP TABLE layout")
    with closing(opened(f"sqlite:///{file}")) as db:
        assert [row["number"] for row in db.rows(LAYOUT)] == [LAYOUT_NUMBER]


REFUSED = [
    (
        f"UPDATE layout SET number = {LAYOUT_NUMBER + 1}, made_by = '99.0'",
        Invalid,
        r"live state .* is of EnMasse 99.0, newer than this one .*; run the pipeline with that",
    ),
    (
        f"UPDATE layout SET number = {LAYOUT_NUMBER - 1}, made_by = '0.0.1'",
        Conflict,
        "is of EnMasse 0.0.1 and of another layout; go on with the version that made it, or take",
    ),
    (
        "UPDATE layout SET format = 'parquet'",
        Conflict,
        r"spec.tables.format is delta, the tables .* are parquet; set it back, or name another",
    ),
]


@pytest.mark.parametrize(("statement", "kind", "text"), REFUSED)
def test_another_layout_is_refused_and_left_as_it_is(
    tmp_path: Path, statement: str, kind: type[EnMasseError], text: str
) -> None:
    file = tmp_path / "live.db"
    opened(f"sqlite:///{file}").close()
    change(file, statement)
    before = schema(file)
    with pytest.raises(kind, match=text):
        opened(f"sqlite:///{file}")
    assert schema(file) == before


def test_a_database_has_one_pipeline(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/live.db"
    # of the time before owners
    opened(url).close()
    change(tmp_path / "live.db", "DROP TABLE owner")
    for _ in range(2):
        opened(url, pipeline="plant").close()
    with pytest.raises(Conflict, match="is of pipeline plant, and this one is yard; name another"):
        opened(url, pipeline="yard")
    opened(url, pipeline="plant").close()


def test_columns_of_another_version_are_named(tmp_path: Path) -> None:
    file = tmp_path / "live.db"
    change(file, OLD_ANOMALIES)
    before = schema(file)
    with pytest.raises(Conflict, match="another layout: table anomalies lacks began_us; go on"):
        opened(f"sqlite:///{file}")
    assert schema(file) == before
    file.unlink()
    opened(f"sqlite:///{file}").close()
    change(file, "ALTER TABLE devices ADD COLUMN colour VARCHAR")
    with pytest.raises(Conflict, match="another layout: table devices has colour; go on"):
        opened(f"sqlite:///{file}")


def test_postgresql_is_looked_at_in_the_same_way(postgres: PostgresServer) -> None:
    url = postgres.new_database()
    opened(url).close()
    opened(url).close()
    with pytest.raises(Conflict, match="spec.tables.format is parquet, the tables .* are delta"):
        opened(url, "parquet")


@pytest.mark.timeout(200)
def test_the_command_line_says_it_before_spark_starts(tmp_path: Path) -> None:
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
def test_a_checkpoint_goes_on_with_the_spark_that_is_there(
    platform: Platform, tmp_path: Path
) -> None:
    """`make test-spark` has another Spark on the path, before the one that is installed."""
    platform.enmasse("create", "address", "on", "--type", "topic", "--retention-age", "1d")
    log = Log(platform.url(), "on")
    file = document(tmp_path / "p", log)
    installed = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    sent = 0
    for environment in (installed, dict(os.environ)):
        sent += log.publish(message(number) for number in range(sent, sent + 60))
        words = [ENMASSE, "pipeline", "run", "--once", "-f", file]
        subprocess.run(words, check=True, timeout=600, env=environment)
        judged(file, sent)
