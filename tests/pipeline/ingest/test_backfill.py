"""Backfill of silver, quarantine and gold from bronze: whole, in part, or interrupted."""

import json
import multiprocessing
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import batch_engine
import gold_oracle
from backfill_runs import POINTS, killed_backfill, run_backfill
from enmasse.base.errors import Conflict, Invalid, Missing
from enmasse.cli import app
from enmasse.messaging import Message
from enmasse.pipeline.ingest import backfill
from enmasse.pipeline.ingest.backfill import Backfill, Part, Span
from enmasse.pipeline.ingest.store import Store
from enmasse.pipeline.live import database
from pipeline_runs import document, message, open_pipeline, rows
from platform_process import ENMASSE, Platform, running
from published_streams import Log
from stream_documents import SPACE, stream

pytestmark = [pytest.mark.timeout(900), pytest.mark.usefixtures("spark")]
STREAMS = 14
OLD = {"device": "device", "metrics": ["temperature"]}
NEW = {"device": ["device", "id"], "metrics": ["temperature", {"name": "level", "unit": "m"}]}
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(
    ["enmasse.pipeline.ingest.batches", "enmasse.pipeline.ingest.backfill"]
)


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    folder = tmp_path_factory.mktemp("replays")
    path = folder / "streams.yaml"
    path.write_text("---\n".join([SPACE, *(stream(f"r{number}") for number in range(STREAMS))]))
    with running(folder / "data", "-f", str(path)) as started:
        yield started


@pytest.fixture
def log(platform: Platform, request: Any) -> Log:
    """A stream of its own for each test."""
    taken = request.session.__dict__.setdefault("replay_streams", [])
    taken.append(request.node.name)
    return Log(platform.url(), f"r{len(taken) - 1}")


def sent() -> Iterator[Message]:
    """Of every five messages, both documents read two, only the new one two, and neither one."""
    for number in range(0, 100, 5):
        yield message(number)
        yield message(number + 1)
        yield message(number + 2, json.dumps({"id": "x", "temperature": number}).encode())
        yield message(number + 3, json.dumps({"device": "d1", "level": 0.5}).encode())
        yield message(number + 4, b"{")


def filled_pipeline(folder: Path, log: Log, **source: Any) -> Path:
    """A pipeline of the old document that has read all messages."""
    file = document(folder, log, OLD | source)
    log.publish(sent())
    batch_engine.run(file, None)
    return file


def content(file: Path) -> dict[str, Any]:
    """Everything that a backfill writes, without the progress in the stream."""
    _, paths, db = open_pipeline(file)
    found: dict[str, Any] = {}
    for name in ("silver", "quarantine"):
        key = ("partition", "offset", "index", "metric", "reason")
        held = rows(paths, name).to_pylist()
        found[name] = sorted(held, key=lambda row: str([row.get(part) for part in key]))
    with closing(db):
        found["latest"] = db.rows(database.LATEST)
        found["usage"] = db.rows(database.USAGE)
        (progress,) = db.rows(database.PROGRESS)
    counters = ("messages", "readings", "quarantined", "late", "clamped")
    return found | {name: progress[name] for name in counters}


def check_exact(file: Path) -> None:
    """Check that each message is once in silver or in quarantine."""
    _, paths, db = open_pipeline(file)
    db.close()
    key = ("partition", "offset")
    bronze = Counter(zip(*(rows(paths, "bronze")[name].to_pylist() for name in key), strict=True))
    found: list[Any] = []
    for name in ("silver", "quarantine"):
        found += zip(*(rows(paths, name)[part].to_pylist() for part in key), strict=True)
    assert set(bronze.values()) == {1}
    assert Counter(found) == bronze


def test_a_backfill_equals_a_run_of_the_corrected_document(log: Log, tmp_path: Path) -> None:
    file = filled_pipeline(tmp_path / "p", log)
    before = content(file)
    assert (before["readings"], before["quarantined"]) == (40, 60)
    # a backfill with the same document changes nothing
    assert run_backfill(file)[0] == backfill.BackfillResult("s", 100, 40, 60)
    assert content(file) == before
    check_exact(file)
    document(tmp_path / "p", log, NEW)
    assert run_backfill(file)[0] == backfill.BackfillResult("s", 100, 80, 20)
    check_exact(file)
    whole = document(tmp_path / "whole", log, NEW)
    batch_engine.run(whole, None)
    assert content(file) == content(whole)
    # the run continues from its position
    log.publish([message(100), message(101)])
    batch_engine.run(file, None)
    check_exact(file)
    assert content(file)["readings"] == 82


def test_only_the_given_range_is_rebuilt(log: Log, tmp_path: Path) -> None:
    file = filled_pipeline(tmp_path / "p", log)
    _, paths, db = open_pipeline(file)
    db.close()
    before = content(file)
    bronze = rows(paths, "bronze").to_pylist()
    document(tmp_path / "p", log, NEW)
    begin, end = {"0": 7, "1": 7}, {"0": 20, "1": 20}
    (done,) = run_backfill(file, Part("s", json.dumps(begin), json.dumps(end)))
    within = sum(
        begin[str(row["partition"])] <= row["offset"] < end[str(row["partition"])] for row in bronze
    )
    # the stream chooses partitions; one of the two has at least half of the messages
    assert done.messages == within >= 13
    check_exact(file)

    def outside(found: dict[str, Any]) -> list[Any]:
        return [
            row
            for name in ("silver", "quarantine")
            for row in found[name]
            if not begin[str(row["partition"])] <= row["offset"] < end[str(row["partition"])]
        ]

    after = content(file)
    assert outside(after) == outside(before)
    assert after["readings"] == before["readings"] + done.readings - _inside(before, begin, end)
    # by time: the messages from the middle on
    times = sorted(row["enqueued_time"] for row in bronze)
    (done,) = run_backfill(file, Part("s", start=times[50].isoformat()))
    assert done.messages == sum(time >= times[50] for time in times)
    (done,) = run_backfill(file, Part("s", end=times[50].isoformat()))
    assert done.messages == sum(time < times[50] for time in times)
    check_exact(file)
    assert content(file)["readings"] == 80


def _inside(found: dict[str, Any], begin: dict[str, int], end: dict[str, int]) -> int:
    return sum(
        begin[str(row["partition"])] <= row["offset"] < end[str(row["partition"])]
        for row in found["silver"]
    )


def test_a_killed_backfill_is_repeated_before_the_pipeline_runs(log: Log, tmp_path: Path) -> None:
    file = filled_pipeline(tmp_path / "p", log)
    document(tmp_path / "p", log, NEW)
    # before each change of a table, and after the last
    for point, after in [*((point, False) for point in range(len(POINTS))), (-1, True)]:
        process = PROCESSES.Process(target=killed_backfill, args=(file, point, after))
        process.start()
        process.join()
        assert process.exitcode == -signal.SIGKILL, POINTS[point]
        _, paths, db = open_pipeline(file)
        db.close()
        if (point, after) != (0, False):
            with pytest.raises(Conflict, match="a backfill was interrupted.*pipeline backfill"):
                backfill.check_finished(paths)
    # every later backfill includes the unfinished part
    pipeline, paths, db = open_pipeline(file)
    with closing(db):
        assert Backfill(pipeline, paths, db).parts([]) == [Part("s")]
    assert [one.readings for one in run_backfill(file)] == [80]
    backfill.check_finished(paths)
    check_exact(file)
    whole = document(tmp_path / "whole", log, NEW)
    batch_engine.run(whole, None)
    assert content(file) == content(whole)


def test_batch_repeated_by_spark_after_a_backfill_counts_once(log: Log, tmp_path: Path) -> None:
    # all messages of the batch go to quarantine: silver has no record of the batch
    file = document(tmp_path / "p", log, OLD)
    log.publish([message(n, json.dumps({"id": "x", "temperature": n}).encode()) for n in range(9)])
    batch_engine.run(file, None)
    document(tmp_path / "p", log, NEW)
    assert run_backfill(file)[0].readings == 9
    # Spark did not record that the batch was done
    os.unlink(file.parent / "engine" / "done-0")
    batch_engine.run(file, None)
    check_exact(file)
    assert content(file)["readings"] == 9


def test_backfill_is_refused_until_an_interrupted_batch_is_completed(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = document(tmp_path / "p", log, OLD)
    log.publish(sent())
    with monkeypatch.context() as cut:

        def failing(*_: Any) -> bool:
            raise KeyboardInterrupt

        cut.setattr(database.Live, "follow", failing)
        with pytest.raises(KeyboardInterrupt):
            batch_engine.run(file, None)
    with pytest.raises(Conflict, match="batch 0 was interrupted; .*: enmasse pipeline run --once"):
        run_backfill(file)
    batch_engine.run(file, None)
    assert run_backfill(file)[0].messages == 100
    check_exact(file)


def test_a_refused_backfill_changes_nothing(log: Log, tmp_path: Path) -> None:
    file = filled_pipeline(tmp_path / "p", log)
    before = content(file)
    with pytest.raises(Missing, match="has no source 'other'"):
        run_backfill(file, Part("other"))
    with pytest.raises(Invalid, match="is empty: it begins at earliest"):
        run_backfill(file, Part("s", start="latest"))
    with pytest.raises(Invalid, match="option end is 'noon'"):
        run_backfill(file, Part("s", end="noon"))
    pipeline, paths, db = open_pipeline(file)
    with closing(db):
        twin = pipeline.spec.sources[0].model_copy(update={"name": "twin"})
        sources = (*pipeline.spec.sources, twin)
        spec = pipeline.spec.model_copy(update={"sources": sources})
        both = Backfill(pipeline.model_copy(update={"spec": spec}), paths, db)
        with pytest.raises(Invalid, match="sources s and twin both read"):
            both.parts([Part("s")])
    assert content(file) == before
    # a range of times requires messages with arrival times
    bronze = DeltaTable(paths.table("bronze"))
    one = rows(paths, "bronze").to_pylist()[3]
    place = f'"partition" = {one["partition"]} AND "offset" = {one["offset"]}'
    bronze.update({"enqueued_time": "NULL"}, predicate=place)
    with pytest.raises(Invalid, match="reports no time of arrival: give the range as offsets"):
        run_backfill(file, Part("s", end="2100-01-01"))


def test_source_without_a_space_has_the_rows_that_no_other_source_has(spark: SparkSession) -> None:
    spaces = [None, "plant", "depot", "store"]
    rows = spark.createDataFrame([(one, "a'b") for one in spaces], "space string, address string")

    def of(space: str | None, *others: str) -> tuple[list[str | None], str]:
        span = Span(space, others, "a'b", "earliest", "latest")
        return sorted((row.space for row in span.of(rows).collect()), key=str), span.predicate("s")

    named = "source = 's' AND address = 'a''b'"
    assert of(None) == ([None, "depot", "plant", "store"], named)
    assert of(None, "plant", "store") == (
        [None, "depot"],
        f"{named} AND (space IS NULL OR space NOT IN ('plant', 'store'))",
    )
    assert of("plant", "store") == (["plant"], f"{named} AND space = 'plant'")


def test_counters_follow_from_the_tables(spark: SparkSession, log: Log, tmp_path: Path) -> None:
    file = filled_pipeline(tmp_path / "p", log)
    pipeline, paths, db = open_pipeline(file)
    with closing(db):
        found = backfill.totals(spark, Store(pipeline, paths), pipeline, "s")
        _, counters, _ = found
        assert (counters["readings"], counters["quarantined"]) == (40, 60)
        held = content(file)
        db.recount("s", *found)
        assert content(file) == held
        # a source without rows has no counts
        usage, counters, latest = backfill.totals(spark, Store(pipeline, paths), pipeline, "other")
        assert (counters["readings"], usage, len(latest)) == (0, [], 0)


def test_backfill_command_refuses_conflicting_options_and_a_running_pipeline(
    log: Log, tmp_path: Path
) -> None:
    file = filled_pipeline(tmp_path / "p", log)
    words = ["pipeline", "backfill", "-f", str(file), "--output", "json"]
    done = CliRunner().invoke(app, [*words, "--gold-only", "--source", "s"])
    assert done.exit_code == 1 and "omit the range" in done.stderr
    _, paths, db = open_pipeline(file)
    db.close()
    with paths.locked():
        done = CliRunner().invoke(app, words)
    assert done.exit_code == 5 and "stop it first: enmasse pipeline stop" in done.stderr


def enmasse(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [ENMASSE, "pipeline", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)


def verified_gold(file: Path) -> list[dict[str, Any]]:
    """The rows of gold, after a check that they match silver."""
    pipeline, paths, db = open_pipeline(file)
    db.close()
    held: list[dict[str, Any]] = rows(paths, "gold").to_pylist()
    wanted = gold_oracle.expected(rows(paths, "silver"), pipeline.spec.windows)
    assert gold_oracle.differences(held, wanted) == []
    return held


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_the_backfill_command_reports_its_counts(log: Log, tmp_path: Path) -> None:
    file = filled_pipeline(tmp_path / "p", log)
    document(tmp_path / "p", log, NEW, windows=["1h"])
    done = enmasse("backfill", "-f", file, "--output", "json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["sources"] == [
        {"source": "s", "messages": 100, "readings": 80, "quarantined": 20},
    ]
    check_exact(file)
    held = verified_gold(file)
    assert {row["window_ms"] for row in held} == {3_600_000} and len(held) == said["windows"]
    document(tmp_path / "p", log, NEW, windows=["1m"])
    done = enmasse("backfill", "-f", file, "--gold-only")
    assert done.returncode == 0 and "gold is up to date" in done.stdout
    check_exact(file)
    assert {row["window_ms"] for row in verified_gold(file)} == {60_000}
