"""Inputs of a pipeline: queues, bad messages, deleted streams, silent devices."""

import base64
import json
import queue as queues
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from enmasse.base.clock import SystemClock
from enmasse.base.errors import Conflict, Denied, EnMasseError, Invalid
from enmasse.pipeline import metrics
from enmasse.pipeline.ingest import batches, bronze, report
from enmasse.pipeline.ingest.backfill import Backfill, Part
from enmasse.pipeline.ingest.store import Store
from enmasse.pipeline.live import database
from enmasse.pipeline.live.database import Live
from enmasse.pipeline.paths import read
from enmasse.pipeline.run import Run
from enmasse.pipeline.tables import delta
from pipeline_runs import check_tables, document, message, open_pipeline, rows, run_once
from platform_process import Platform, Start
from published_streams import Log
from stream_documents import stream

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]
WAIT_S = 300.0
LARGE = 10 << 20
NO_GOLD = {"windows": 0, "exact": True, "differing": 0, "far": 0, "versionsBehind": 0}
NO_GOLD |= {"differences": []}


class BackgroundRun:
    """A run that continues in a thread of this process."""

    def __init__(self, run: Run, db: Live) -> None:
        self.db = db
        self.stop = threading.Event()
        self._reports: queues.Queue[dict[str, Any]] = queues.Queue()
        self._run = run
        self.ended: queues.Queue[BaseException | None] = queues.Queue()

    def start(self) -> None:
        self._run.start(self._reports.put, once=False)
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        try:
            self._run.watch(self.stop)
        except EnMasseError as error:
            self.ended.put(error)
        else:
            self.ended.put(None)

    def messages(self, count: int) -> None:
        """Wait until `count` more messages are read."""
        while count > 0:
            count -= self._reports.get(timeout=WAIT_S)["messages"]
        assert count == 0

    def until(self, holds: Callable[[], bool]) -> None:
        """Return when a condition holds."""
        clock, pause = SystemClock(), threading.Event()
        deadline = clock.monotonic() + WAIT_S
        while not holds():
            assert clock.monotonic() < deadline and self.ended.empty()
            pause.wait(0.1)


@contextmanager
def background_run(spark: SparkSession, file: Path) -> Iterator[BackgroundRun]:
    pipeline, paths = read(file)
    with (
        paths.locked(),
        closing(Live(paths.live_url, pipeline.spec, pipeline.metadata.name)) as db,
    ):
        run = Run(spark, pipeline, paths, db, SystemClock())
        one = BackgroundRun(run, db)
        try:
            one.start()
            yield one
        finally:
            one.stop.set()
            run.stop()


def reconcile_source(spark: SparkSession, file: Path) -> dict[str, Any]:
    """The result of `reconcile` for the only source."""
    pipeline, paths, db = open_pipeline(file)
    db.close()
    options = batches.options(pipeline.spec.sources[0], paths)
    store = Store(pipeline, paths)
    return report.source(spark, "s", options, store, "earliest", "latest", None)


def test_queue_fills_the_tables_and_reconciles_by_offset_and_id(
    spark: SparkSession, queue: Log, tmp_path: Path
) -> None:
    file = document(tmp_path / "p", queue, {"spool": "spool", "maxRows": 40})
    sent = queue.publish(message(number) for number in range(100))
    told = run_once(spark, file)
    assert sum(one["messages"] for one in told) == 100
    check_tables(file, sent)
    # a message that is sent twice is read once; duplicates are not recognized without an id
    queue.publish([message(100), message(100)])
    nameless = message(101)
    queue.publish([replace(nameless, properties=replace(nameless.properties, message_id=None))])
    assert [one["messages"] for one in run_once(spark, file)] == [2]
    check_tables(file, 102)
    _, paths, db = open_pipeline(file)
    with closing(db):
        # a queue gives no arrival time: the time of reading replaces it
        assert all(row["last_seen_us"] for row in db.rows(database.DEVICES))
    found = reconcile_source(spark, file)
    assert (found["messages"], found["exact"]) == (102, True)
    (part,) = found["parts"]
    assert (part["withoutId"], part["missing"], part["repeated"]) == (1, 0, 0)
    assert "102 messages, each is in bronze once (1 have no" in report.text(
        {"sources": [found], "gold": NO_GOLD}
    )
    # a message is missing; then another has its offset; then two share one offset
    table = bronze.table(paths.table("bronze"))
    DeltaTable(table.path).delete('"offset" = 7')
    (part,) = reconcile_source(spark, file)["parts"]
    assert (part["missing"], part["exact"]) == (1, False)
    copied = delta.read(spark, table).drop("date").where("offset = 8")
    bronze.append(copied.withColumn("offset", F.lit(7).cast("long")), table, "intruder", 0)
    (part,) = reconcile_source(spark, file)["parts"]
    assert (part["missing"], part["repeated"], part["exact"]) == (0, 1, False)
    bronze.append(copied, table, "intruder", 1)
    found = reconcile_source(spark, file)
    assert found["parts"][0]["bronze"] == {"count": 103, "offsets": 102}
    assert "bronze differs" in report.text({"sources": [found], "gold": NO_GOLD})
    pipeline, paths, db = open_pipeline(file)
    db.close()
    options = batches.options(pipeline.spec.sources[0], paths)
    with pytest.raises(Invalid, match="a queue has no offsets"):
        report.source(spark, "s", options, Store(pipeline, paths), "earliest", '{"0": 3}', None)


def test_bad_messages_are_quarantined_and_the_others_are_read(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    file = document(tmp_path / "p", log)
    large = json.dumps({"device": "d0", "temperature": 1.0, "pad": "x" * LARGE}).encode()
    odd = [
        message(3, large),
        message(4, b"no JSON"),
        message(5, temperature="warm"),
        message(6, time=0),
        message(7, time="2100-01-01T00:00:00Z"),
        message(8, device="x" * 65_536),
    ]
    typed = [
        replace(message(number), application_properties={"n": value})
        for number, value in enumerate((1, "one", b"\x01", 1.5, True, None), 9)
    ]
    small = [message(number) for number in range(3)]
    sent = log.publish([*small, *odd, *typed, *(message(number) for number in range(15, 18))])
    told = run_once(spark, file)
    assert sum(one["messages"] for one in told) == sent == 18
    check_tables(file, sent)
    _, paths, db = open_pipeline(file)
    db.close()
    reasons = sorted(rows(paths, "quarantine")["reason"].to_pylist())
    assert [reason[:14] for reason in reasons] == [
        "JSON: expected",
        "device has 655",
        "temperature: t",
        "time 1970-01-0",
    ]
    silver = rows(paths, "silver")
    assert (len(silver), sum(silver["clamped"].to_pylist())) == (14, 1)
    kept = rows(paths, "bronze").to_pylist()
    assert max(len(row["body"]) for row in kept) == len(large)
    said = Counter(dict(row["application_properties"] or []).get("n") for row in kept)
    assert all(said[text] == 1 for text in ("1", "one", "1.5", "true"))
    assert reconcile_source(spark, file)["exact"]


def test_stream_recreated_during_a_run_ends_it_unless_loss_is_allowed(
    spark: SparkSession, streams: Platform, log: Log, tmp_path: Path
) -> None:
    file = document(tmp_path / "p", log, trigger="1s")
    log.publish(message(number) for number in range(20))
    with background_run(spark, file) as run:
        run.messages(20)
        streams.enmasse("delete", "address", log.address, "--force")
        (tmp_path / "again.yaml").write_text(stream(log.address))
        streams.enmasse("apply", "-f", str(tmp_path / "again.yaml"))
        log.publish(message(number) for number in range(20, 30))
        ended = run.ended.get(timeout=WAIT_S)
        assert isinstance(ended, EnMasseError) and str(ended).startswith("source s: ")
    with pytest.raises(Conflict, match="source s: the stream was created again: its uid was"):
        run_once(spark, file)
    # once data loss is allowed, the old rows stay and the new messages are read
    document(tmp_path / "p", log, {"failOnDataLoss": False})
    assert [one["messages"] for one in run_once(spark, file)] == [10]
    _, paths, db = open_pipeline(file)
    db.close()
    held = rows(paths, "bronze")["message_id"].to_pylist()
    assert Counter(held) == Counter(str(number) for number in range(30))
    assert len(rows(paths, "silver")) == 30


USER = """
apiVersion: enmasse.io/v1beta1
kind: AddressSpace
metadata: {name: default}
spec: {type: standard, authenticationService: {name: standard}}
"""


def user(*allowed: str) -> str:
    password = base64.b64encode(b"wonderland").decode()
    return f"""
apiVersion: enmasse.io/v1beta1
kind: MessagingUser
metadata: {{name: default.alice}}
spec:
  username: alice
  authentication: {{type: password, password: {password}}}
  authorization:
  - {{addresses: [{", ".join(allowed)}], operations: [send, recv]}}
"""


def test_missing_read_permission_ends_the_run_without_data_loss(
    spark: SparkSession, start_platform: Start, tmp_path: Path
) -> None:
    declared = tmp_path / "declared.yaml"
    declared.write_text(
        "---\n".join([USER, stream("mine"), stream("theirs"), user("mine", "theirs")])
    )
    platform = start_platform("-f", str(declared))
    login = platform.url().replace("://", "://alice:wonderland@")
    first, second = Log(platform.url(), "mine"), Log(platform.url(), "theirs")
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "password").write_text("wonderland\n")
    mine = {"passwordFile": "password", "options": {"user": "alice"}}
    other = {"name": "t", "url": second.url, "address": "theirs", "value": "temperature"}
    file = document(tmp_path / "p", first, mine)
    sources = json.loads(json.dumps([read(file)[0].spec.sources[0].model_dump(by_alias=True)]))
    for one in (first, second):
        Log(login, one.address).publish(message(number) for number in range(10))
    (tmp_path / "less.yaml").write_text(user("mine"))
    platform.enmasse("apply", "-f", str(tmp_path / "less.yaml"))
    document(tmp_path / "p", first, mine, sources=[*sources, other | mine])
    with pytest.raises(Denied, match="source t: .*theirs"):
        run_once(spark, file)
    (tmp_path / "more.yaml").write_text(user("mine", "theirs"))
    platform.enmasse("apply", "-f", str(tmp_path / "more.yaml"))
    run_once(spark, file)
    _, paths, db = open_pipeline(file)
    db.close()
    held = Counter(rows(paths, "bronze")["address"].to_pylist())
    assert held == {"mine": 10, "theirs": 10}


def test_silence_of_all_devices_is_one_incident_each_reported_once(
    spark: SparkSession, streams: Platform, log: Log, numbers: Iterator[int], tmp_path: Path
) -> None:
    alerts = f"s{next(numbers)}"
    silent = {"name": "silent", "heartbeat": {"timeout": "3s"}, "alertAddress": alerts}
    file = document(tmp_path / "p", log, detectors=[silent | {"cooldown": 0}], trigger="1s")
    log.publish(message(number) for number in range(3))
    with background_run(spark, file) as run:
        run.messages(3)
        run.until(lambda: len(run.db.rows(database.ANOMALIES)) == 3)
        (before,) = run.db.rows(database.PROGRESS)
        # no message arrived, so there was no further batch
        assert before["batch_id"] == 0 and before["messages"] == 3
        run.until(lambda: run.db.status()["alerts"]["sent"] == 3)
        log.publish([message(3)])
        run.messages(1)
        ended = [row["device"] for row in run.db.rows(database.ANOMALIES) if row["ended_us"]]
        assert ended == ["d0"]
        run.until(lambda: len(run.db.rows(database.ANOMALIES)) == 4)
        run.until(lambda: run.db.status()["alerts"]["sent"] == 4)
    told = Log(streams.url(), alerts).bodies()
    assert Counter(one["device"] for one in told) == {"d0": 2, "d1": 1, "d2": 1}
    assert len({one["id"] for one in told}) == 4


def test_backfill_applies_the_current_steps(spark: SparkSession, log: Log, tmp_path: Path) -> None:
    folder = tmp_path / "p"
    file = document(folder, log)
    log.publish(message(number) for number in range(20))
    run_once(spark, file)
    document(folder, log, functions="functions.py")
    (folder / "functions.py").write_text(
        "from pyspark.sql import functions as F\n"
        "from enmasse.pipeline.functions import step\n"
        "@step\n"
        "def warmer(frame):\n"
        "    return frame.withColumn('temperature', F.col('temperature') + 100)\n"
    )
    pipeline, paths, db = open_pipeline(file)
    with closing(db), paths.locked():
        work = Backfill(pipeline, paths, db)
        parts = work.parts([Part("s")])
        (done,) = work.run(spark, parts)
        work.gold(spark, whole=False)
        work.finish(parts)
    assert (done.messages, done.readings) == (20, 20)
    assert min(rows(paths, "silver")["value"].to_pylist()) == 100.0
    check_tables(file, 20)


def test_compaction_joins_small_files_and_old_versions_stay_readable(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    maintain = {"compactEvery": 4, "keep": "1d"}
    file = document(tmp_path / "p", log, {"maxRows": 10}, tables=maintain)
    sent = log.publish(message(number) for number in range(80))
    run_once(spark, file)
    check_tables(file, sent)
    _, paths, db = open_pipeline(file)
    db.close()
    for name in ("bronze", "silver"):
        table = DeltaTable(paths.table(name))
        assert len(table.file_uris()) < 8, name
        # the version after the second batch
        operations = [one["operation"] for one in table.history()]
        assert "OPTIMIZE" in operations
        first = next(
            version
            for version in range(table.version() + 1)
            if len(DeltaTable(paths.table(name), version=version).to_pyarrow_table())
        )
        assert len(DeltaTable(paths.table(name), version=first + 1).to_pyarrow_table()) == 20


def test_unreadable_source_does_not_stop_the_others(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    file = document(tmp_path, log)
    whole = yaml.safe_load(file.read_text())
    (good,) = whole["spec"]["sources"]
    whole["spec"]["sources"] = [good | {"name": "gone", "address": "nobody"}, good]
    file.write_text(yaml.safe_dump(whole))
    sent = log.publish(message(number) for number in range(30))
    # the first source fails at once; the run ends after the others, with that error
    with pytest.raises(EnMasseError, match=r"^source gone: .*nobody"):
        run_once(spark, file)
    check_tables(file, sent)
    _, _, db = open_pipeline(file)
    with closing(db):
        found = {one["source"]: one for one in metrics.source_metrics(db.status(), 0.0, {})}
    assert found["s"]["trouble"] is None and "nobody" in found["gone"]["trouble"]["error"]
    assert found["s"]["written"]["bronze"] == found["s"]["written"]["silver"] == sent
    assert found["gone"]["written"] == {}
