"""A batch is written to each table once, wherever it is interrupted."""

import json
import random
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow
import pytest
import yaml
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from backfill_runs import run_backfill
from enmasse.base.errors import Conflict, Invalid, Unavailable
from enmasse.pipeline import functions
from enmasse.pipeline.ingest import batches, bronze, decoding
from enmasse.pipeline.ingest.batches import Batches
from enmasse.pipeline.ingest.store import Store
from enmasse.pipeline.live import database
from enmasse.pipeline.live.database import Live
from enmasse.pipeline.paths import Paths, read
from enmasse.pipeline.tables import delta, files
from enmasse.resources import Pipeline
from silver_readings import at, messages, us

pytestmark = pytest.mark.timeout(120)
HOT = {"name": "hot", "metric": "value", "threshold": {"above": 8}, "cooldown": 0}


class Filling:
    """A pipeline of one source, and the reports of its batches."""

    def __init__(self, spark: SparkSession, folder: Path, **spec: Any) -> None:
        self.spark = spark
        source = {"name": "s", "url": "amqp://h", "address": "x", "value": "value"}
        document = {
            "apiVersion": "enmasse.io/v1beta1",
            "kind": "Pipeline",
            "metadata": {"name": "p"},
            "spec": {"sources": [source], "detectors": [HOT]} | spec,
        }
        self.file = file = folder / "pipeline.yaml"
        file.write_text(yaml.safe_dump(document))
        self.pipeline: Pipeline
        self.paths: Paths
        self.pipeline, self.paths = read(file)
        self.paths.state.mkdir(exist_ok=True)
        self.source = self.pipeline.spec.sources[0]
        self.store = Store(self.pipeline, self.paths)
        self.db = Live(self.paths.live_url, self.pipeline.spec, self.pipeline.metadata.name)
        self.told: list[dict[str, Any]] = []

    def put(
        self,
        batch_id: int,
        *records: Mapping[str, Any],
        first: int = 0,
        query_id: str = "q",
        told: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        batch = messages(self.source, *records, first=first)
        self.put_messages(batch_id, batch, query_id, told)

    def put_messages(
        self,
        batch_id: int,
        batch: pyarrow.Table,
        query_id: str = "q",
        told: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        tell = told or self.told.append
        put = Batches(self.pipeline, self.source, self.store, self.db, [], [], tell)
        context = self.spark.sparkContext
        context.setLocalProperty(batches.QUERY_ID, query_id)
        put(self.spark.createDataFrame(batch), batch_id)

    def rows(self, name: str) -> pyarrow.Table:
        return DeltaTable(self.paths.table(name)).to_pyarrow_table()

    def everything(self) -> dict[str, Any]:
        """Sorted contents of the tables and of live state."""
        found: dict[str, Any] = {
            name: sorted(map(repr, self.rows(name).to_pylist()))
            for name in ("bronze", "silver", "quarantine")
        }
        tables = (
            database.LATEST,
            database.DEVICES,
            database.USAGE,
            database.ANOMALIES,
            database.PROGRESS,
        )
        return found | {table.name: self.db.rows(table) for table in tables}


@pytest.fixture
def fill(spark: SparkSession, tmp_path: Path) -> Iterator[Callable[..., Filling]]:
    made: list[Filling] = []

    def make(name: str = "p", **spec: Any) -> Filling:
        folder = tmp_path / name
        folder.mkdir()
        made.append(Filling(spark, folder, **spec))
        return made[-1]

    yield make
    for one in made:
        one.db.close()


def some(seed: int, count: int) -> list[dict[str, Any]]:
    """Messages of three devices; some are not readings."""
    dice = random.Random(seed)
    return [
        {"device": dice.choice("abc"), "value": float(dice.randrange(10)), "seconds": float(number)}
        | dice.choice([{}, {}, {"partition": 1}, {"value": None, "_error": "JSON: no"}])
        for number in range(count)
    ]


def test_a_batch_fills_every_table(fill: Callable[..., Filling]) -> None:
    filling = fill()
    filling.put(
        0,
        {"device": "a", "value": 9.0, "seconds": 1},
        {"device": "a", "value": 1.0, "seconds": 2, "offset": 0},
        {"_error": "JSON: no", "seconds": 3},
        {"device": "b", "value": 2.0, "seconds": 86_400.0, "partition": 1},
    )
    assert filling.told == [
        {"source": "s", "batch": 0, "messages": 3, "readings": 3, "quarantined": 1, "again": False}
    ]
    bronze = filling.rows("bronze")
    assert sorted(bronze["offset"].to_pylist()) == [0, 2, 3]
    bodies = dict(zip(bronze["offset"].to_pylist(), bronze["body"].to_pylist(), strict=True))
    both = [{"device": "a", "value": 9.0}, {"device": "a", "value": 1.0}]
    assert (json.loads(bodies[0]), bodies[2]) == (both, b"no")
    assert {str(day) for day in bronze["date"].to_pylist()} == {"2026-01-31", "2026-02-01"}
    (reason,) = filling.rows("quarantine")["reason"].to_pylist()
    assert reason.startswith("JSON: ")
    usage = filling.db.rows(database.USAGE)
    figures = ("date", "messages", "bytes", "readings", "quarantined")
    assert [tuple(row[name] for name in figures) for row in usage] == [
        ("2026-01-31", 2, len(bodies[0]) + len(bodies[2]), 2, 1),
        ("2026-02-01", 1, len(bodies[3]), 1, 0),
    ]
    # partition 0 is known up to its last message only
    assert filling.db.rows(database.PROGRESS)[0]["known_to_us"] == us(3)
    assert len(filling.db.rows(database.ANOMALIES)) == 1


def last(batch: dict[str, Any]) -> None:
    raise OSError("cut off here")


CUTS: list[tuple[Any, str, int]] = [
    (files, "stage", 0),
    (files, "stage", 1),
    (files, "publish", 0),
    (delta, "_commit", 0),
    (delta, "_commit", 1),
    # bronze is committed: this is silver
    (delta, "_commit", 0),
    (batches.Live, "follow", 0),
    (batches.Live, "commit", 0),
    (database.Live, "_record_silences", 0),
]
"""Functions and the number of the call that fails, in the order of a batch: before and between
tables, and within live state."""


def failing_at(after: int, of: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, which fails at its call number `after`."""
    calls = iter(range(after + 1))

    def call(*arguments: Any, **options: Any) -> Any:
        if next(calls) == after:
            raise OSError("cut off here")
        return of(*arguments, **options)

    return call


def test_batch_interrupted_anywhere_is_completed_and_counted_once(
    fill: Callable[..., Filling], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = some(1, 30)
    whole, cut = fill("whole"), fill("cut")
    for filling in (whole, cut):
        filling.put(0, *rows[:20])
    whole.put(1, *rows[20:], first=20)
    for owner, name, after in CUTS:
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, failing_at(after, getattr(owner, name)))
            with pytest.raises(OSError, match="cut off here"):
                cut.put(1, *rows[20:], first=20)
    with pytest.raises(OSError, match="cut off here"):
        cut.put(1, *rows[20:], first=20, told=last)
    cut.put(1, *rows[20:], first=20)
    assert cut.told[-1]["again"]
    assert cut.everything() == whole.everything()


def test_batch_is_retried_while_the_database_is_unavailable(
    fill: Callable[..., Filling], monkeypatch: pytest.MonkeyPatch
) -> None:
    filling = fill()
    for name in ("claim", "commit"):
        answers = iter([Unavailable("E6004", "away"), Unavailable("E6004", "away")])
        real = getattr(Live, name)

        def call(*values: Any, answers: Any = answers, real: Any = real) -> Any:
            if (error := next(answers, None)) is not None:
                raise error
            return real(*values)

        monkeypatch.setattr(Live, name, call)
    filling.put(0, *some(1, 9))
    assert [one["messages"] for one in filling.told] == [9]
    assert filling.db.rows(database.PROGRESS)[0]["messages"] == 9


def test_second_write_of_a_batch_changes_no_table(fill: Callable[..., Filling]) -> None:
    filling = fill()
    for batch_id in range(3):
        filling.put(batch_id, *some(batch_id, 10), first=10 * batch_id)
    before = filling.everything()
    filling.put(2, *some(2, 10), first=20)
    assert filling.everything() == before


def test_batches_of_any_size_give_the_same_tables(fill: Callable[..., Filling]) -> None:
    rows = some(3, 40)
    found = []
    for name, sizes in (("one", [40]), ("many", [1, 9, 15, 15])):
        filling = fill(name)
        first = 0
        for batch_id, size in enumerate(sizes):
            filling.put(batch_id, *rows[first : first + size], first=first)
            first += size
        everything = filling.everything()
        found.append((everything["bronze"], everything["silver"], everything["devices"]))
    assert found[0] == found[1]


def test_maintenance_keeps_all_rows(fill: Callable[..., Filling]) -> None:
    filling = fill(tables={"compactEvery": 3, "keep": 1})
    for batch_id in range(6):
        filling.put(batch_id, *some(batch_id, 10), first=10 * batch_id)
        filling.store.close()
    assert len(DeltaTable(filling.paths.table("bronze")).file_uris()) == 1
    assert len(filling.rows("bronze")) == 60
    filling.put(5, *some(5, 10), first=50)
    assert len(filling.rows("bronze")) == 60


def test_batches_continue_during_maintenance(
    fill: Callable[..., Filling], monkeypatch: pytest.MonkeyPatch
) -> None:
    filling = fill(tables={"compactEvery": 2, "keep": "1d"})
    may_end, maintained = threading.Event(), list[int]()

    def maintain(_: Store, keep_ms: int) -> None:
        maintained.append(keep_ms)
        assert may_end.wait(30)
        raise OSError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(Store, "maintain", maintain)
        for batch_id in range(4):
            filling.put(batch_id, *some(batch_id, 10), first=10 * batch_id)
        # the second maintenance is skipped while the first runs
        assert maintained == [86_400_000] and len(filling.rows("bronze")) == 40
        may_end.set()
        with pytest.raises(OSError, match="the disk is full"):
            filling.store.close()
    filling.put(5, *some(5, 10), first=50)
    filling.store.close()
    assert len(DeltaTable(filling.paths.table("bronze")).file_uris()) == 1


def test_a_query_of_another_checkpoint_is_refused(fill: Callable[..., Filling]) -> None:
    filling = fill()
    filling.put(0, *some(1, 5))
    with pytest.raises(Conflict, match="checkpoint does not belong"):
        filling.put(0, *some(1, 5), query_id="other")
    assert len(filling.rows("bronze")) == 5


KEPT = {"name": "s", "url": "amqp://h", "address": "x", "options": {"space": "sp"}}
"""A source whose messages a backfill finds."""


def without_arrival_time(*records: Mapping[str, Any], batch: float) -> list[dict[str, Any]]:
    """Messages without an arrival time, in a batch that begins at second `batch`."""
    return [dict(record) | {"enqueued_time": None, "batch_time": at(batch)} for record in records]


def check_backfill_repeats_readings(filling: Filling) -> None:
    """Check that a backfill writes the same readings."""
    before = filling.rows("silver").sort_by("offset"), filling.db.rows(database.LATEST)
    assert run_backfill(filling.file)[0].readings == len(before[0])
    assert (filling.rows("silver").sort_by("offset"), filling.db.rows(database.LATEST)) == before


def test_future_times_are_clamped_to_the_batch_without_a_server_time(
    fill: Callable[..., Filling],
) -> None:
    filling = fill(sources=[KEPT | {"value": "value", "time": "time"}])
    far = {"device": "a", "value": 1.0, "time": "2100-01-01T00:00:00Z"}
    first = without_arrival_time(far, batch=0)
    for _ in range(2):
        filling.put(0, *first)
    hot = [{"device": "a", "value": 9.0, "time": at(after).isoformat()} for after in (120, 180)]
    filling.put(1, *without_arrival_time(*hot, batch=200), first=1)
    (incident,) = filling.db.rows(database.ANOMALIES)
    assert incident["began_us"] == us(120)
    (latest,) = filling.db.rows(database.LATEST)
    assert (latest["value"], latest["event_time_us"]) == (9.0, us(180))
    assert filling.rows("bronze").sort_by("offset")["batch_time"].to_pylist() == [
        at(0),
        at(200),
        at(200),
    ]
    assert {row["date"] for row in filling.rows("bronze").to_pylist()} == {at(0).date()}
    assert [row["messages"] for row in filling.db.rows(database.USAGE)] == [3]
    clamped = {row["event_time"] for row in filling.rows("silver").to_pylist() if row["clamped"]}
    assert clamped == {at(60)}
    # a backfill reads the same times
    check_backfill_repeats_readings(filling)


def test_relative_time_without_an_arrival_time_counts_from_the_batch(
    fill: Callable[..., Filling],
) -> None:
    filling = fill(sources=[KEPT | {"format": "senml-json"}], detectors=[])
    packs = [[{"n": "a:t", "v": 1.0, "t": -5}], [{"n": "a:t", "v": 2.0}]]
    taken = [
        messages(filling.source, *without_arrival_time({}, batch=number)) for number in (10, 20)
    ]
    for number, (pack, message) in enumerate(zip(packs, taken, strict=True)):
        body = pyarrow.array([json.dumps(pack).encode()])
        place = message.schema.get_field_index("body")
        offset = message.schema.get_field_index("offset")
        message = message.set_column(offset, "offset", pyarrow.array([number]))
        filling.put_messages(number, message.set_column(place, "body", body))
    rows = filling.rows("silver").sort_by("offset")
    assert rows["event_time"].to_pylist() == rows["enqueued_time"].to_pylist() == [at(5), at(20)]
    assert filling.rows("bronze")["enqueued_time"].null_count == 2
    check_backfill_repeats_readings(filling)


def test_tables_of_earlier_versions_have_no_batch_time(fill: Callable[..., Filling]) -> None:
    filling = fill(sources=[KEPT | {"value": "value"}], detectors=[])
    frame = filling.spark.createDataFrame(messages(filling.source, *some(1, 10)))
    old = bronze.with_date(frame).toArrow()
    write_deltalake(
        filling.paths.table("bronze"),
        old.drop_columns(["batch_time"]),
        partition_by=list(filling.store.bronze.partition_by),
    )
    (done,) = run_backfill(filling.file)
    assert done.messages == 10
    filling.put(0, *without_arrival_time(*some(2, 5), batch=7), first=10)
    times = filling.rows("bronze").sort_by("offset")["batch_time"].to_pylist()
    assert times == [None] * 10 + [at(7)] * 5


def test_source_options_include_the_password_from_its_file(
    fill: Callable[..., Filling], tmp_path: Path
) -> None:
    source = {"name": "s", "url": "amqp://h", "address": "x", "value": "v", "passwordFile": "p.txt"}
    source |= {"options": {"user": "u"}, "format": "csv", "csvHeader": True}
    filling = fill(sources=[source], detectors=[])
    with pytest.raises(Invalid, match="passwordFile: cannot read"):
        batches.options(filling.source, filling.paths)
    (tmp_path / "p" / "p.txt").write_text("secret\n")
    chosen = batches.options(filling.source, filling.paths)
    assert (chosen["user"], chosen["password"]) == ("u", "secret")
    assert "decode" not in chosen, "the pipeline decodes bodies, not the source"
    declared = decoding.columns_of(filling.source)
    assert (declared["decode"], declared["csvHeader"]) == ("csv", True)


def test_steps_are_loaded_from_their_file(tmp_path: Path) -> None:
    file = tmp_path / "functions.py"
    file.write_text(
        "from enmasse.pipeline.functions import step\n"
        "def no_step(frame): ...\n"
        "@step\n"
        "def first(frame): return frame\n"
        "@step(source='s')\n"
        "def second(frame): return frame\n"
    )
    found = functions.load(file, ["s"])
    assert [(one.name, one.source) for one in found] == [("first", ""), ("second", "s")]
    with pytest.raises(Invalid, match="second: no source is called 's'"):
        functions.load(file, ["t"])
    file.write_text("1 / 0")
    with pytest.raises(Invalid, match="ZeroDivisionError"):
        functions.load(file, [])
