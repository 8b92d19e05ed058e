"""A run and its fake queries: lag, silence, errors, stopping."""

import fcntl
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml

from doubles import TestClock
from enmasse.base.errors import Conflict, Invalid, Missing, Unavailable
from enmasse.pipeline.failures import ERROR_PAUSES_S, STABLE_S
from enmasse.pipeline.live import database
from enmasse.pipeline.live.database import Live
from enmasse.pipeline.paths import Paths, read
from enmasse.pipeline.run import Run
from enmasse.resources.pipeline import Live as Database
from silver_readings import Batch, measured, put_in, us

SILENT = {"name": "silent", "heartbeat": {"timeout": "60s"}}


class Query:
    """A fake query whose status, progress and error a test sets."""

    def __init__(self) -> None:
        self.id = "q"
        self.isActive = True
        self.error: Exception | None = None
        self.status = {"isDataAvailable": False, "isTriggerActive": False}
        self.lastProgress: Any = None

    def progress(self, end: Any, latest: Any, rows: int = 1) -> None:
        found = {
            "durationMs": {"triggerExecution": 250},
            "numInputRows": rows,
            "sources": [{"endOffset": end, "latestOffset": latest}],
        }
        self.lastProgress = SimpleNamespace(json=json.dumps(found), timestamp="then")

    def exception(self) -> Exception | None:
        return self.error

    def stop(self) -> None:
        self.isActive = False


class Watched:
    """A run of fake queries; the first is of source `s`."""

    def __init__(self, folder: Path, *others: str) -> None:
        source = {"name": "s", "url": "amqp://h", "address": "x", "value": "value"}
        sources = [source, *(source | {"name": name} for name in others)]
        document = {
            "apiVersion": "enmasse.io/v1beta1",
            "kind": "Pipeline",
            "metadata": {"name": "p"},
            "spec": {"sources": sources, "detectors": [SILENT], "trigger": "1s"},
        }
        (folder / "pipeline.yaml").write_text(yaml.safe_dump(document))
        pipeline, paths = read(folder / "pipeline.yaml")
        paths.state.mkdir()
        self.db = Live(paths.live_url, pipeline.spec, pipeline.metadata.name)
        self.db.claim("s", "q")
        self.clock = TestClock()
        self.run = Run(cast(Any, None), pipeline, paths, self.db, self.clock)
        self.query = Query()
        self.run._queries["s"] = cast(Any, self.query)

    def poll(self) -> None:
        self.run._poll()

    @property
    def progress_row(self) -> dict[str, Any]:
        return self.db.rows(database.PROGRESS)[0]


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    made = Watched(tmp_path)
    yield made
    made.db.close()


def test_lag_counts_the_messages_in_no_batch(watched: Watched) -> None:
    watched.poll()
    assert watched.progress_row["lag_messages"] is None
    watched.query.progress({"uid": "u", "0": 5, "1": 7}, {"uid": "u", "0": 9, "1": 7, "2": 3})
    watched.poll()
    assert (watched.progress_row["lag_messages"], watched.progress_row["batch_ms"]) == (7, 250)
    # a trigger without rows does not change the duration of a batch
    watched.query.progress('{"0": 9}', '{"0": 9}', rows=0)
    watched.query.status["isTriggerActive"] = True
    watched.poll()
    assert (watched.progress_row["lag_messages"], watched.progress_row["batch_ms"]) == (0, 250)
    watched.query.progress(None, None)
    watched.poll()
    assert watched.progress_row["lag_messages"] == 0


def test_silence_is_detected_only_once_every_message_is_read(watched: Watched) -> None:
    now_us = int(watched.clock.now().timestamp() * 1e6)
    came = (now_us - us(0)) / 1e6 - 61.5
    put_in(watched.db, Batch("s", "q", 0, measured({"seconds": came}), [], us(came)))
    watched.query.progress({"0": 1}, {"0": 1})
    for busy in ("isDataAvailable", "isTriggerActive"):
        watched.query.status = {"isDataAvailable": False, "isTriggerActive": False, busy: True}
        watched.poll()
        assert watched.db.rows(database.ANOMALIES) == []
    watched.query.status = {"isDataAvailable": False, "isTriggerActive": False}
    # messages of the last two seconds, since the last trigger, may be unread
    watched.poll()
    assert watched.db.rows(database.ANOMALIES) == []
    watched.clock.advance(1)
    watched.poll()
    (incident,) = watched.db.rows(database.ANOMALIES)
    assert incident["began_us"] == us(came + 60)


PLATFORM_ERROR = RuntimeError(
    "[STREAM_FAILED] Query ended\nTraceback\n  File x\n"
    "enmasse.base.errors.Conflict: 3 messages are no longer kept\n at org.apache"
)
SPARK_ERROR = RuntimeError("\nout of memory\n at org.apache")


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (PLATFORM_ERROR, Conflict, "source s: 3 messages are no longer kept"),
        (SPARK_ERROR, Unavailable, "source s: Spark ended the query: out of memory; see {log}"),
    ],
)
def test_error_of_the_only_query_ends_the_run_with_its_message(
    watched: Watched, tmp_path: Path, error: Exception, kind: type[Exception], said: str
) -> None:
    said = said.format(log=tmp_path / "tables" / "spark.log")
    watched.query.error = error
    with pytest.raises(kind, match=f"^{said}$"):
        watched.run.watch(threading.Event())
    with pytest.raises(kind):
        watched.poll()
    assert watched.db.status()["troubles"]["source"]["s"]["error"] == said


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Watched]:
    made = Watched(tmp_path, "other")
    made.run._queries["other"] = cast(Any, Query())
    made.query.error, made.query.isActive = PLATFORM_ERROR, False
    yield made
    made.db.close()


def test_failed_source_is_retried_while_the_others_continue(
    two: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    stop, begun, told = ScheduledEvent(two.clock), [], []
    last = Query()

    def begin() -> Query:
        begun.append(two.clock.elapsed_s)
        if len(begun) < len(ERROR_PAUSES_S):
            raise PLATFORM_ERROR
        return last

    two.run._starters["s"] = cast(Any, begin)
    stop.then = {4.0: lambda: told.append(two.db.status()["troubles"]["source"])}
    stop.then[sum(ERROR_PAUSES_S) + 2 + STABLE_S] = stop.set
    two.run.watch(stop)
    pauses = [later - earlier for earlier, later in zip([1.0, *begun], begun, strict=False)]
    # the run polls once a second
    assert pauses == pytest.approx(ERROR_PAUSES_S, abs=1.0)
    assert told[0]["s"]["error"] == "source s: 3 messages are no longer kept"
    assert [one for one in caplog.messages if one.endswith("the other sources continue")]
    # after `STABLE_S` without an error the failure ends
    assert two.db.status()["troubles"]["source"] == {}
    assert cast(Any, two.run._queries["s"]) is last


def test_run_ends_when_its_last_source_fails(two: Watched) -> None:
    other = cast(Any, two.run._queries["other"])
    stop = ScheduledEvent(two.clock)

    def end() -> None:
        other.error, other.isActive = SPARK_ERROR, False

    stop.then = {3.0: end}
    with pytest.raises(Conflict, match="^source s: 3 messages"):
        two.run.watch(stop)
    assert two.clock.elapsed_s == pytest.approx(3.0, abs=1.0)
    assert sorted(two.db.status()["troubles"]["source"]) == ["other", "s"]


def test_once_run_ends_with_the_error_of_its_failed_source(two: Watched) -> None:
    other = cast(Any, two.run._queries["other"])
    stop = ScheduledEvent(two.clock)

    def end() -> None:
        other.isActive = False

    two.run._once = True
    two.run._starters["s"] = cast(Any, None)
    stop.then = {30.0: end}
    with pytest.raises(Conflict, match="^source s: 3 messages"):
        two.run.watch(stop)
    assert two.clock.elapsed_s >= 30


class ScheduledEvent(threading.Event):
    """An event whose `wait` advances the clock and runs the due actions of `then`."""

    def __init__(self, clock: TestClock) -> None:
        super().__init__()
        self._clock = clock
        self.then: dict[float, Callable[[], object]] = {}

    def wait(self, timeout: float | None = None) -> bool:
        self._clock.advance(timeout or 0.0)
        for moment in [one for one in self.then if one <= self._clock.elapsed_s]:
            self.then.pop(moment)()
        return self.is_set()


WORKER_FAILURE = RuntimeError("Query ended\n Python worker failed to connect back.\n at org.apache")


def test_query_is_restarted_after_a_failure_of_spark(
    watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    stop, second = ScheduledEvent(watched.clock), Query()
    second.progress({"0": 1}, {"0": 5})
    starts: list[Any] = [WORKER_FAILURE, second]

    def begin() -> Query:
        if isinstance(found := starts.pop(0), Exception):
            raise found
        return cast(Query, found)

    watched.run._starters["s"] = cast(Any, begin)
    watched.query.error, watched.query.isActive = WORKER_FAILURE, False
    stop.then = {10.0: stop.set}
    watched.run.watch(stop)
    tries = [one.partition("restart ")[2] for one in caplog.messages]
    assert tries == ["in 1 s, try 1 of 8", "in 2 s, try 2 of 8"]
    assert (starts, watched.progress_row["lag_messages"]) == ([], 4)
    watched.run.stop()
    assert not second.isActive


def test_query_that_fails_at_each_start_ends_the_run(watched: Watched) -> None:
    begun = []

    def begin() -> Query:
        begun.append(watched.clock.elapsed_s)
        query = Query()
        query.error, query.isActive = WORKER_FAILURE, False
        return query

    watched.run._starters["s"] = cast(Any, begin)
    watched.run._start("s")
    with pytest.raises(Unavailable, match="^source s: Spark failed 9 times .*connect"):
        watched.run.watch(ScheduledEvent(watched.clock))
    pauses = [later - earlier for earlier, later in itertools.pairwise(begun)]
    assert pauses == [1, 2, 4, 8, 16, 30, 30, 30]


def test_refused_start_raises_the_error_of_the_source(watched: Watched) -> None:
    def begin() -> Query:
        raise RuntimeError("enmasse.base.errors.Invalid: option adress is not known")

    watched.run._starters["s"] = cast(Any, begin)
    with pytest.raises(Invalid, match="^source s: option adress is not known$"):
        watched.run._start("s")


def test_run_ends_when_stopped_or_when_its_queries_end(watched: Watched) -> None:
    stop = threading.Event()
    stop.set()
    watched.run.watch(stop)
    watched.run.stop()
    assert not watched.query.isActive
    watched.run.watch(threading.Event())


class Backlog(Query):
    """A fake query that begins its next batch after every `looks` reads of `status`."""

    def __init__(self, looks: int) -> None:
        super().__init__()
        self.looks = looks
        self.looked = 0
        self.lastProgress = SimpleNamespace(timestamp="batch 0")

    @property
    def status(self) -> dict[str, bool]:
        self.looked += 1
        assert self.looked < 10, "the run waits for further batches"
        self.lastProgress = SimpleNamespace(timestamp=f"batch {self.looked // self.looks}")
        return {"isDataAvailable": True, "isTriggerActive": True}

    @status.setter
    def status(self, status: dict[str, bool]) -> None:
        pass


def test_run_with_a_backlog_stops_after_the_current_batch_of_each_source(two: Watched) -> None:
    queries = {"s": Backlog(3), "t": Backlog(5)}
    two.run._queries = cast(Any, queries)
    two.run.stop()
    assert not any(query.isActive for query in queries.values())
    assert [query.looked for query in queries.values()] == [3, 5]


def test_one_process_at_a_time_runs_a_pipeline(tmp_path: Path) -> None:
    Watched(tmp_path).db.close()
    _, paths = read(tmp_path / "pipeline.yaml")
    assert paths.running_pid() is None
    with paths.locked():
        assert paths.running_pid() is not None
        with pytest.raises(Conflict, match="in use by process"), paths.locked():
            pass
    assert paths.running_pid() is None


HOLDS = """
import pathlib, subprocess, sys
from enmasse.pipeline.paths import read
with read(pathlib.Path(sys.argv[1]))[1].locked():
    # its child process outlives it
    subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL)
    print("taken", flush=True)
    sys.stdin.read()
"""


def test_lock_of_a_killed_process_does_not_block(tmp_path: Path) -> None:
    Watched(tmp_path).db.close()
    file = tmp_path / "pipeline.yaml"
    _, paths = read(file)
    words = [sys.executable, "-c", HOLDS, str(file)]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True, process_group=0) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "taken\n"
        with (
            pytest.raises(Conflict, match=f"in use by process {holder.pid}; stop it first"),
            paths.locked(),
        ):
            pass
        assert paths.running_pid() == holder.pid
        holder.kill()
        holder.wait()
        assert paths.running_pid() is None
        with paths.locked():
            pass
        os.killpg(holder.pid, signal.SIGKILL)


def test_inspecting_the_lock_does_not_hold_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Watched(tmp_path).db.close()
    _, paths = read(tmp_path / "pipeline.yaml")
    with paths.locked():
        pass
    with paths.lock.open("r+") as looks:
        # another process inspects the lock at this moment
        fcntl.flock(looks, fcntl.LOCK_SH)
        assert paths.running_pid() is None
        monkeypatch.setattr(time, "sleep", lambda _: fcntl.flock(looks, fcntl.LOCK_UN))
        with paths.locked():
            assert paths.running_pid() is not None


def test_file_without_a_pipeline_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yaml"
    with pytest.raises(Missing, match="write one: enmasse pipeline init"):
        read(file)
    file.write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n")
    with pytest.raises(Invalid, match="contains Namespace; expected one Pipeline"):
        read(file)


def test_tables_are_next_to_the_document_or_at_its_tables_path(tmp_path: Path) -> None:
    Watched(tmp_path).db.close()
    pipeline, paths = read(tmp_path / "pipeline.yaml")
    assert paths.table("gold") == str(tmp_path / "tables" / "gold")
    tables = pipeline.spec.tables.model_copy(update={"path": "s3://bucket/p/"})
    spec = pipeline.spec.model_copy(update={"tables": tables})
    far = Paths(tmp_path / "pipeline.yaml", pipeline.model_copy(update={"spec": spec}))
    assert far.table("gold") == "s3://bucket/p/gold"
    assert far.live_url == f"sqlite:///{tmp_path / 'p.state' / 'live.db'}"


def test_database_password_is_read_from_its_file_and_state_is_private(
    tmp_path: Path,
) -> None:
    Watched(tmp_path).db.close()
    pipeline, _paths = read(tmp_path / "pipeline.yaml")
    database = Database(url="postgresql://u@h/d?options=-csearch_path%3Ds", password_file="secret")
    spec = pipeline.spec.model_copy(update={"live": database})
    other = Paths(tmp_path / "pipeline.yaml", pipeline.model_copy(update={"spec": spec}))
    with pytest.raises(Invalid, match="spec.live: passwordFile: cannot read"):
        _ = other.live_url
    (tmp_path / "secret").write_text("p@ss\n")
    assert other.live_url == "postgresql://u:p%40ss@h/d?options=-csearch_path%3Ds"
    (tmp_path / "deep").mkdir()
    away = Paths(tmp_path / "deep" / "pipeline.yaml", pipeline)
    with away.locked():
        assert away.state.stat().st_mode & 0o777 == 0o700
