"""Live state after batches; a repeated batch changes nothing."""

import itertools
import json
import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow
import pytest
import sqlalchemy
from sqlalchemy.exc import DataError, IntegrityError, OperationalError

from enmasse.base.errors import Conflict, Invalid, Unavailable
from enmasse.pipeline.live import commits, database
from enmasse.pipeline.live.database import Live
from enmasse.resources.pipeline import PipelineSpec
from silver_readings import Batch, measured, put_in, us

TABLES = [
    database.LATEST,
    database.DEVICES,
    database.SESSIONS,
    database.USAGE,
    database.ANOMALIES,
    database.ALERTS,
    database.STATES,
]
HOT = {"name": "hot", "metric": "m", "threshold": {"above": 30}, "cooldown": 0}
SILENT = {"name": "silent", "heartbeat": {"timeout": "60s"}, "cooldown": 0}

Open = Callable[..., Live]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """Opens the database with the given detectors, any number of times."""
    found: list[Live] = []

    def open_(*detectors: Mapping[str, Any], name: str = "live.db") -> Live:
        source = {"name": "s", "url": "amqp://h", "address": "x", "value": "value"}
        spec = PipelineSpec.model_validate(
            {"sources": [source], "detectors": detectors, "live": {"offlineAfter": "100s"}},
            by_alias=True,
        )
        found.append(Live(f"sqlite:///{tmp_path / name}", spec))
        found[-1].claim("s", "q")
        return found[-1]

    yield open_
    for one in found:
        one.close()


def batch(number: int, readings: pyarrow.Table, known_to: float = 0, **usage: int) -> Batch:
    row = {"messages": len(readings), "bytes": 10, "readings": len(readings), "quarantined": 0}
    row |= usage
    day = {"space": "sp", "address": "x", "date": "2026-01-31"}
    return Batch("s", "q", number, readings, [day | row], us(known_to))


def test_the_newest_reading_of_each_metric_is_kept(opened: Open) -> None:
    db = opened()
    put_in(
        db,
        batch(
            0,
            measured(
                {"value": 1.0, "seconds": 5},
                {"value": 2.0, "seconds": 9},
                {"metric": "n", "value": None, "text": "on", "seconds": 1},
                {"device": "b", "seconds": 2, "unit": "Cel"},
            ),
        ),
    )
    # a reading older than the stored one, and one of the same time with a later offset
    put_in(db, batch(1, measured({"value": 3.0, "seconds": 8}, {"device": "b", "value": 7.0,
              "seconds": 2}, first=4)))  # fmt: skip
    found = {(row["device"], row["metric"]): row for row in db.rows(database.LATEST)}
    assert [(key, row["value"], row["text"], row["unit"]) for key, row in found.items()] == [
        (("a", "m"), 2.0, None, None),
        (("a", "n"), None, "on", None),
        (("b", "m"), 7.0, None, None),
    ]
    assert found["a", "m"]["event_time_us"] == us(9)


def test_a_repeated_batch_changes_nothing(opened: Open) -> None:
    db = opened(HOT | {"alertAddress": "alerts"}, SILENT)
    first = batch(0, measured({"value": 40.0}, {"device": "b"}), known_to=1)
    second = batch(1, measured({"value": 20.0, "seconds": 200}, first=2), known_to=201)
    assert put_in(db, first)
    assert put_in(db, second)
    before = {table.name: db.rows(table) for table in [*TABLES, database.PROGRESS]}
    again = opened(HOT | {"alertAddress": "alerts"}, SILENT)
    assert not put_in(again, second)
    assert not put_in(again, first)
    assert {table.name: again.rows(table) for table in [*TABLES, database.PROGRESS]} == before
    assert before["usage"][0]["messages"] == 3
    assert before["progress"][0]["readings"] == 3


def test_usage_and_progress_add_up(opened: Open) -> None:
    db = opened()
    late = {"seconds": 0, "came": 61}
    put_in(db, batch(0, measured(late, {"clamped": True}), known_to=61, quarantined=2))
    put_in(db, batch(1, measured({}, first=2), known_to=5))
    (usage,) = db.rows(database.USAGE)
    assert (usage["messages"], usage["bytes"], usage["quarantined"]) == (3, 20, 2)
    (progress,) = db.rows(database.PROGRESS)
    assert (progress["late"], progress["clamped"], progress["quarantined"]) == (1, 1, 2)
    assert progress["known_to_us"] == us(61)
    db.record_progress("s", "q", 17, None)
    db.record_progress("s", "q", None, 250)
    figures = db.status()["sources"][0]
    assert (figures["lag_messages"], figures["batch_ms"], figures["batch_id"]) == (17, 250, 1)


def test_session_ends_when_a_device_is_silent_too_long(opened: Open) -> None:
    db = opened()
    put_in(db, batch(0, measured({"seconds": 0}, {"seconds": 90}, {"seconds": 300})))
    put_in(db, batch(1, measured({"seconds": 350}, {"seconds": 360}, first=3)))
    put_in(db, batch(2, measured({"seconds": 600}, first=5)))
    assert [
        (row["began_us"], row["last_us"], row["readings"]) for row in db.rows(database.SESSIONS)
    ] == [(us(0), us(90), 2), (us(300), us(360), 3), (us(600), us(600), 1)]
    (device,) = db.rows(database.DEVICES)
    assert (device["first_seen_us"], device["last_seen_us"]) == (us(0), us(600))
    assert (device["session_began_us"], device["readings"]) == (us(600), 6)
    assert device["is_online"]
    db.tick("s", us(701))
    assert not db.rows(database.DEVICES)[0]["is_online"]


def test_sessions_and_usage_expire_after_their_retention(opened: Open) -> None:
    db, day_s = opened(HOT), 86_400
    put_in(db, batch(0, measured({"value": 40.0}, {"device": "b"}), known_to=1))
    timeless = {"space": "sp", "address": "x", "date": "", "bytes": 1}
    timeless |= {"messages": 1, "readings": 1, "quarantined": 0}
    put_in(db, Batch("s", "q", 1, measured({"seconds": 89 * day_s}, first=2), [timeless], us(0)))
    known = measured({"seconds": 91 * day_s}, first=3)
    today = timeless | {"date": "2026-05-02"}
    for number, known_to in ((2, 90 * day_s), (3, 91 * day_s)):
        kept = (db.rows(database.SESSIONS), db.rows(database.USAGE))
        put_in(db, Batch("s", "q", number, known, [today], us(known_to)))
        db.prune()
        assert len(kept[0]) == 3 + (number == 3) and len(kept[1]) == 2 + (number == 3)
    # sessions and usage of 91 days before are deleted
    assert [row["began_us"] for row in db.rows(database.SESSIONS)] == [
        us(89 * day_s),
        us(91 * day_s),
    ]
    assert [row["date"] for row in db.rows(database.USAGE)] == ["", "2026-05-02"]
    # so is the device, whose incident has ended; the totals of all batches stay
    assert [row["device"] for row in db.rows(database.DEVICES)] == ["a"]
    assert [row["device"] for row in db.rows(database.LATEST)] == ["a"]
    assert db.status()["sources"][0]["readings"] == 5
    # a device that returns begins a new session
    again = measured({"device": "b", "seconds": 91 * day_s + 5}, first=4)
    put_in(db, Batch("s", "q", 4, again, [today], us(91 * day_s)))
    spans = {(row["device"], row["began_us"]) for row in db.rows(database.SESSIONS)}
    assert ("b", us(91 * day_s + 5)) in spans and ("b", us(0)) not in spans


def test_ended_incidents_are_deleted_with_their_settled_alerts(opened: Open) -> None:
    day_s = 86_400
    db = opened(HOT | {"alertAddress": "alerts"})
    for number in range(3):
        up, down = ({"value": value, "seconds": 10 * number + value} for value in (40.0, 1.0))
        down["seconds"] = up["seconds"] + 5
        put_in(db, batch(number, measured(up, down, first=2 * number), known_to=100))
    db.record_outcomes("s", "alerts", {1: "accepted", 3: "amqp:not-found: gone"})
    later = measured({"value": 40.0, "seconds": 91 * day_s}, first=6)
    put_in(db, batch(3, later, known_to=91 * day_s))
    db.prune()
    # the second alert is pending, and the fourth incident is open
    assert [row["began_us"] for row in db.rows(database.ANOMALIES)] == [us(50), us(91 * day_s)]
    assert [row["number"] for row in db.rows(database.ALERTS)] == [2, 4]
    db.record_outcomes("s", "alerts", {2: "accepted", 4: "accepted"})
    put_in(db, batch(4, measured({"value": 1.0, "seconds": 91 * day_s + 5}, first=7)))
    put_in(db, batch(5, measured({"seconds": 300 * day_s}, first=8), known_to=300 * day_s))
    db.prune()
    assert db.rows(database.ANOMALIES) == []
    assert [row["number"] for row in db.rows(database.ALERTS)] == [4]
    put_in(db, batch(6, measured({"value": 40.0, "seconds": 300 * day_s + 1}, first=9)))
    assert [alert.number for alert in db.alerts("s", "alerts")] == [5]


def test_open_incident_of_a_deleted_device_ends(opened: Open) -> None:
    db, day_s = opened(HOT), 86_400
    put_in(db, batch(0, measured({"value": 40.0}), known_to=0))
    other = measured({"device": "b", "seconds": 91 * day_s}, first=1)
    put_in(db, batch(1, other, known_to=91 * day_s))
    db.prune()
    assert [row["ended_us"] for row in db.rows(database.ANOMALIES)] == [us(91 * day_s)]
    assert db.rows(database.STATES) == []
    # the device returns as a new one
    back = measured({"value": 41.0, "seconds": 91 * day_s + 1}, first=2)
    put_in(db, batch(2, back, known_to=91 * day_s + 1))
    assert db.status()["openIncidents"] == 1


def test_prune_before_any_progress_deletes_nothing(opened: Open) -> None:
    db = opened()
    db.prune()
    put_in(db, Batch("s", "q", 0, measured({}), []))
    db.prune()
    assert len(db.rows(database.SESSIONS)) == 1


def test_incident_is_stored_with_its_alert_and_command(opened: Open) -> None:
    command = {"address": "to/{device}", "subject": "cool", "body": {"valve": "open"}}
    outputs = {"alertAddress": "alerts", "command": command}
    db = opened(HOT | outputs, HOT | {"name": "mute"})
    put_in(db, batch(0, measured({"value": 40.0, "seconds": 3}, {"device": "b", "value": 5.0})))
    hot, mute = db.rows(database.ANOMALIES)
    assert (hot["detector"], hot["device"], hot["value"]) == ("hot", "a", 40.0)
    assert (hot["began_us"], hot["ended_us"], hot["reason"]) == (us(3), None, "40 is above 30")
    assert mute["detector"] == "mute"
    assert db.pending() == [("s", "q", "alerts"), ("s", "q", "to/a")]
    (alert,) = db.alerts("s", "alerts")
    assert (alert.number, alert.incident, alert.device) == (1, hot["id"], "a")
    assert alert.subject == "hot"
    assert json.loads(alert.body) == {
        "id": hot["id"], "detector": "hot", "source": "s", "device": "a", "metric": "m",
        "began": "2026-01-31T12:00:03.000Z", "value": 40.0, "reason": "40 is above 30",
    }  # fmt: skip
    (command_,) = db.alerts("s", "to/a")
    assert (command_.subject, json.loads(command_.body)) == ("cool", {"valve": "open"})
    db.record_outcomes("s", "alerts", {1: "accepted"})
    assert db.pending() == [("s", "q", "to/a")]
    db.record_outcomes("s", "to/a", {1: "amqp:not-found: there is no to/a"})
    assert db.pending() == []
    assert db.status()["alerts"] == {"waiting": 0, "sent": 1, "rejected": 1}
    put_in(db, batch(1, measured({"value": 10.0, "seconds": 9}, first=2)))
    assert [row["ended_us"] for row in db.rows(database.ANOMALIES)] == [us(9), us(9)]
    assert db.pending() == []
    status = db.status()
    assert (status["devices"], status["openIncidents"]) == ({"s": (2, 2)}, 0)
    assert status["incidents"] == {"hot": 1, "mute": 1}


def test_silence_is_found_with_and_without_other_messages(opened: Open) -> None:
    db = opened(SILENT)
    put_in(db, batch(0, measured({}, {"device": "b"}), known_to=1))
    put_in(db, batch(1, measured({"device": "b", "seconds": 60}, first=2), known_to=61))
    assert [row["device"] for row in db.rows(database.ANOMALIES)] == ["a"]
    db.tick("s", us(200))
    db.tick("s", us(300))
    found = db.rows(database.ANOMALIES)
    assert [(row["device"], row["began_us"]) for row in found] == [("a", us(60)), ("b", us(120))]
    put_in(db, batch(2, measured({"seconds": 400}, first=3), known_to=400))
    assert [row["ended_us"] for row in db.rows(database.ANOMALIES)] == [us(400), None]
    # the progress of another source does not matter
    db.tick("other", us(10**6))
    assert len(db.rows(database.ANOMALIES)) == 2


def test_silence_after_the_cooldown_is_detected_without_earlier_writes(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = opened(SILENT | {"cooldown": "10m"})
    put_in(db, batch(0, measured({}), known_to=61))
    put_in(db, batch(1, measured({"seconds": 70}, first=1), known_to=70))
    assert [row["ended_us"] for row in db.rows(database.ANOMALIES)] == [us(70)]
    written: list[Any] = []
    put = commits.upsert

    def watched(connection: Any, table: Any, rows: Any, **named: Any) -> None:
        written.extend(rows)
        put(connection, table, rows, **named)

    monkeypatch.setattr(commits, "upsert", watched)
    for second in range(131, 661):
        db.tick("s", us(second))
    assert written == []
    db.tick("s", us(10**7))
    assert [row["began_us"] for row in db.rows(database.ANOMALIES)] == [us(60), us(660)]


def test_rows_that_a_database_refuses_are_not_retried(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = opened()
    for error, kind in (
        (DataError, Invalid),
        (IntegrityError, Invalid),
        (OperationalError, Unavailable),
    ):

        def put(*_: Any, error: Any = error, **__: Any) -> None:
            raise error("insert", {}, ValueError("no"))

        monkeypatch.setattr(commits, "upsert", put)
        with pytest.raises(kind, match="live state sqlite.*no"):
            put_in(db, batch(0, measured({})))


def test_late_reading_raises_no_incident(opened: Open) -> None:
    db = opened(HOT)
    put_in(db, batch(0, measured({"value": 20.0, "seconds": 100})))
    put_in(db, batch(1, measured({"value": 40.0, "seconds": 50}, {"device": "b", "value": 40.0,
              "seconds": 50}, first=1)))  # fmt: skip
    assert [row["device"] for row in db.rows(database.ANOMALIES)] == ["b"]
    put_in(db, batch(2, measured({"value": 41.0, "seconds": 101}, first=3)))
    assert [row["device"] for row in db.rows(database.ANOMALIES)] == ["b", "a"]


def test_incidents_of_a_removed_detector_end(opened: Open) -> None:
    db = opened(HOT, HOT | {"name": "warm"})
    put_in(db, batch(0, measured({"value": 40.0, "seconds": 5}), known_to=9))
    assert [row["ended_us"] for row in db.rows(database.ANOMALIES)] == [None, None]
    # a changed document has no effect before it is run
    less = Live(
        f"sqlite:///{db._engine.url.database}", db._spec.model_copy(update={"detectors": []})
    )
    assert less.status()["openIncidents"] == 2
    less.close()
    left = opened(HOT)
    found = {row["detector"]: row["ended_us"] for row in left.rows(database.ANOMALIES)}
    assert found == {"hot": None, "warm": us(9)}
    assert {row["detector"] for row in left.rows(database.STATES)} == {"hot"}


def test_state_of_many_devices_is_stored(opened: Open) -> None:
    db = opened(SILENT, {"name": "odd", "metric": "m", "ewma": {}})
    rows = [{"device": f"d{number}", "value": float(number)} for number in range(1300)]
    put_in(db, batch(0, measured(*rows)))
    put_in(db, batch(1, measured(*rows, first=1300)))
    assert {row["readings"] for row in db.rows(database.DEVICES)} == {2}
    assert len(db.rows(database.STATES)) == 2600
    odd = [row["count"] for row in db.rows(database.STATES) if row["detector"] == "odd"]
    assert odd == [2] * 1300


def test_statement_count_of_a_batch_does_not_depend_on_its_devices(opened: Open) -> None:
    statements: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        statements.append(statement)

    def counted(name: str, devices: int) -> int:
        state = opened(name=f"{name}.db")
        rows = [{"device": f"d{number}"} for number in range(devices)]
        sqlalchemy.event.listen(state._engine, "before_cursor_execute", note)
        statements.clear()
        assert put_in(state, batch(0, measured(*rows)))
        assert len(state.rows(database.SESSIONS)) == devices
        return len(statements)

    assert counted("many", 500) == counted("few", 2)


def test_new_checkpoint_of_a_known_source_is_refused(opened: Open) -> None:
    db = opened()
    with pytest.raises(Conflict, match="the checkpoint does not belong to the tables"):
        db.claim("s", "another")
    db.claim("s", "q")
    db.claim("t", "another")


def test_database_without_the_batches_of_the_tables_is_refused(opened: Open) -> None:
    db = opened()
    db.claim("s", "q", 7)
    with pytest.raises(
        Conflict, match="batches up to 6 are in the tables, and none in live state sqlite"
    ):
        db.claim("t", "r", 7)
    assert [row["source"] for row in db.rows(database.PROGRESS)] == ["s"]


def test_database_url_without_an_installed_driver_is_refused(
    opened: Open, monkeypatch: Any
) -> None:
    def missing(url: str, **_: Any) -> None:
        raise ModuleNotFoundError("No module named 'psycopg'")

    monkeypatch.setattr(database.sa, "create_engine", missing)
    with pytest.raises(Invalid, match="pip install"):
        opened()


@pytest.mark.parametrize("seed", range(5))
def test_any_division_into_batches_gives_the_same_state(opened: Open, seed: int) -> None:
    dice = random.Random(seed)
    time, rows = 0.0, []
    for _ in range(60):
        time += dice.choice([1, 5, 70, 150])
        rows.append(
            {"device": dice.choice("ab"), "value": dice.choice([10.0, 29.0, 31.0]), "seconds": time}
        )
    whole = opened(HOT, SILENT, name="whole.db")
    put_in(whole, batch(0, measured(*rows), known_to=time))
    parts = opened(HOT, SILENT, name="parts.db")
    cuts = sorted({0, 60, *dice.sample(range(60), 7)})
    for number, (first, end) in enumerate(itertools.pairwise(cuts)):
        known_to = float(rows[end - 1]["seconds"])  # type: ignore[arg-type]
        put_in(parts, batch(number, measured(*rows[first:end], first=first), known_to))

    def without_numbers(db: Live, table: Any) -> list[dict[str, Any]]:
        found = [row | {"number": 0, "bytes": 0} for row in db.rows(table)]
        return sorted(found, key=repr)

    # states may differ: a threshold that no value of a batch could cross stores none
    for table in TABLES[:-1]:
        assert without_numbers(whole, table) == without_numbers(parts, table)
