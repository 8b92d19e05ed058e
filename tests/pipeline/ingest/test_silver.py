"""Readings from records, and the reasons for refusing a record."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from enmasse.base.errors import Invalid
from enmasse.native import declare_columns
from enmasse.pipeline.ingest import bronze, envelope, silver
from enmasse.resources.pipeline import Source
from silver_readings import BEGIN, decoded

NOW = BEGIN


def source(**fields: Any) -> Source:
    chosen = {"name": "s", "url": "amqp://h", "address": "a", "value": "value", "time": "time"}
    return Source.model_validate(chosen | fields, by_alias=True)


def parsed(of: Source, *records: dict[str, Any]) -> list[dict[str, Any]]:
    found = silver.parse(decoded(of, *records), of)
    assert found.schema == silver.SCHEMA
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows


def split(rows: pyarrow.Table) -> tuple[pyarrow.Table, pyarrow.Table]:
    """Rows of silver, and rows of quarantine."""
    is_good = pc.is_null(rows["reason"])
    good, refused = rows.filter(is_good), rows.filter(pc.invert(is_good))
    return good.select(silver.READING), refused.select(silver.QUARANTINE)


def test_a_record_with_a_value_is_a_reading() -> None:
    (row,) = parsed(
        source(metric="metric", unit="unit"),
        {"device": "d", "metric": "m", "value": 1.5, "unit": "Cel", "time": NOW},
    )
    assert row == {
        **{"source": "s", "space": "sp", "address": "a", "partition": 0, "offset": 0, "index": 0},
        **{"device": "d", "metric": "m", "value": 1.5, "text": None, "unit": "Cel"},
        **{"event_time": NOW, "enqueued_time": NOW, "clamped": False, "date": date(2026, 1, 31)},
        "reason": None,
    }


def test_each_present_metric_of_a_record_is_a_reading() -> None:
    metrics = [{"name": "t", "field": "body.temp", "unit": "Cel"}, "h"]
    rows = parsed(
        source(metrics=metrics, value=[], text="state", metric=[]),
        {"device": "a", "body.temp": 1.0, "h": 2.0},
        {"device": "b", "h": 3.0, "state": "open"},
    )
    assert [(row["device"], row["metric"], row["value"], row["text"]) for row in rows] == [
        ("a", "t", 1.0, None),
        ("a", "h", 2.0, None),
        ("b", "h", 3.0, None),
        ("b", "state", None, "open"),
    ]
    assert [row["unit"] for row in rows] == ["Cel", None, None, None]


def test_first_present_field_of_several_names_the_device() -> None:
    of = source(device=["device", "id", "subject"])
    rows = parsed(
        of,
        {"device": "a", "id": "x", "value": 1.0},
        {"device": "", "id": "b", "value": 1.0},
        {"subject": "c", "value": 1.0},
    )
    assert [row["device"] for row in rows] == ["a", "b", "c"]


def test_senml_names_contain_device_and_metric() -> None:
    of = source(format="senml-json", value=[], device=[])
    rows = parsed(
        of,
        {"n": "urn:dev:ow:10e2:temp", "v": 21.5, "u": "Cel", "t": NOW},
        {"n": "room/1/door", "vb": True},
        {"n": "d:state", "vs": "ok"},
        {"n": "alone", "v": 1.0},
        {"n": "d:", "v": 1.0},
        {"v": 1.0},
    )
    assert [(row["device"], row["metric"], row["value"], row["text"]) for row in rows[1:]] == [
        ("urn:dev:ow:10e2", "temp", 21.5, None),
        ("room/1", "door", 1.0, None),
        ("d", "state", None, "ok"),
        ("alone", "value", 1.0, None),
        ("d", "value", 1.0, None),
    ]
    assert rows[0]["reason"] == "names no device: the name of a SenML record"


def test_time_in_the_future_is_clamped_and_marked() -> None:
    far = NOW.replace(year=2100)
    ahead = NOW + timedelta(seconds=60)
    rows = parsed(
        source(),
        *({"device": "d", "value": 1.0, "time": time} for time in (far, ahead, NOW, None)),
    )
    assert [(row["event_time"], row["clamped"]) for row in rows] == [
        (ahead, True),
        (ahead, False),
        (NOW, False),
        (NOW, False),
    ]


def test_event_time_replaces_a_missing_arrival_time() -> None:
    batch = decoded(source(), {"device": "d", "value": 1.0, "time": NOW}, {"device": "e"})
    place = batch.schema.get_field_index("enqueued_time")
    silent = batch.set_column(place, "enqueued_time", pyarrow.nulls(len(batch), silver.TIME))
    good, refused = split(silver.parse(silent, source()))
    assert good["enqueued_time"].to_pylist() == good["event_time"].to_pylist() == [NOW]
    assert refused["reason"].to_pylist() == ["has no time, nor has its message"]


def test_batch_time_limits_times_without_an_arrival_time() -> None:
    far, before = datetime(2100, 1, 1, tzinfo=UTC), NOW - timedelta(days=100)
    times = (far, NOW + timedelta(seconds=59), NOW, before, None)
    known = {"device": "d", "value": 1.0, "enqueued_time": None, "_batch_time": NOW}
    rows = parsed(source(), *(known | {"time": time} for time in times))
    latest = NOW + timedelta(minutes=1)
    assert [(row["event_time"], row["clamped"], row["reason"]) for row in rows] == [
        (latest, True, None),
        (times[1], False, None),
        (NOW, False, None),
        # the delay of this message is unknown
        (before, False, None),
        (NOW, False, None),
    ]
    assert [row["enqueued_time"] for row in rows] == [NOW, NOW, NOW, before, NOW]
    # an arrival time of the server takes precedence
    (row,) = parsed(source(), known | {"time": far, "enqueued_time": before})
    assert row["event_time"] == before + timedelta(minutes=1)


REFUSED = [
    ({"_error": "JSON: expected value"}, "JSON: expected value"),
    ({"value": 1.0}, "names no device: device"),
    ({"device": "x" * 65536, "value": 1.0}, "device has 65536 bytes; at most 255"),
    ({"device": "d", "value": 1.0, "_error": "time: text is no timestamp"}, "time: text is no"),
    (
        {"device": "d", "value": 1.0, "time": datetime(1970, 1, 1, tzinfo=UTC)},
        "time 1970-01-01T00:00:00.000000Z is more than 604800 s before its message came",
    ),
    ({"device": "d"}, "holds no reading: none of value, text is there"),
    ({"device": "d", "value": float("nan")}, "value is not finite"),
    ({"device": "d", "value": float("inf")}, "value is not finite"),
    ({"device": "d", "value": -1.1e300}, "value is beyond 1e+300"),
    ({"device": "d\0", "value": 1.0}, "device has a NUL"),
    ({"device": "d", "value": 1.0, "metric": "\0m"}, "metric has a NUL"),
    ({"device": "d", "text": "o\0n"}, "text has a NUL"),
    ({"device": "d", "value": 1.0, "unit": "\0"}, "unit has a NUL"),
    ({"device": "d", "value": 1.0, "enqueued_time": None}, "has no time, nor has its message"),
]


@pytest.mark.parametrize(("record", "says"), REFUSED, ids=[says[:20] for _, says in REFUSED])
def test_refused_record_is_reported_once_with_its_offset(record: dict[str, Any], says: str) -> None:
    good = {"device": "good", "value": 1.0, "time": NOW}
    rows = parsed(source(text="text", metric="metric", unit="unit"), good, record, good)
    (refused,) = [row for row in rows if row["reason"]]
    assert refused["reason"].startswith(says)
    assert (refused["source"], refused["partition"], refused["offset"]) == ("s", 0, 1)
    assert [row["offset"] for row in rows if not row["reason"]] == [0, 2]


def with_times(name: str, *times_us: int | None, **fields: Any) -> pyarrow.Table:
    """A record for each time; `datetime` cannot represent all of them."""
    batch = decoded(source(), *({"device": "d", "value": 1.0} | fields for _ in times_us))
    times = pyarrow.array(times_us, pyarrow.int64()).cast(silver.TIME)
    return batch.set_column(batch.schema.get_field_index(name), name, times)


ODD_US = [-(9 * 10**18), -62167219201 * 10**6, 0, 253402300800 * 10**6, 9 * 10**18]
"""At both ends of what is stored, in the year 0, too old, and after the year 9999."""


def test_record_with_an_extreme_time_is_partitioned_by_its_arrival(tmp_path: Path) -> None:
    rows = silver.parse(with_times("time", *ODD_US), source())
    good, refused = split(rows)
    assert good["clamped"].to_pylist() == [True, True]
    says = [reason.split(" is ")[1] for reason in refused["reason"].to_pylist()]
    late = "more than 604800 s before its message came"
    assert says == ["outside the years 1000 to 9999"] * 2 + [late]
    assert set(refused["date"].to_pylist()) == {NOW.date()}
    for part in (good, refused):
        write_deltalake(str(tmp_path / "table"), part, partition_by=["date"], schema_mode="merge",
                        mode="append")  # fmt: skip
    assert len(DeltaTable(str(tmp_path / "table")).to_pyarrow_table()) == len(ODD_US)


def test_extreme_arrival_time_gives_no_date(spark: SparkSession) -> None:
    batch = with_times("enqueued_time", *ODD_US, time=NOW)
    dated = bronze.with_date(spark.createDataFrame(envelope.conform(batch))).toArrow()
    assert dated["date"].to_pylist() == [None, None, date(1970, 1, 1), None, None]
    rows = silver.parse(batch, source())
    assert rows["date"].to_pylist().count(NOW.date()) == 4
    alone = silver.parse(with_times("time", *ODD_US, enqueued_time=None), source())
    assert alone["date"].to_pylist().count(None) == 4
    assert [reason for reason in alone["reason"].to_pylist() if reason] == [
        "time is outside the years 1000 to 9999"
    ] * 4


def test_field_of_a_wrong_type_does_not_refuse_the_rest_of_its_record() -> None:
    of = source(metrics=["t", "h"], value=[])
    error = "t: text is no double"
    rows = parsed(of, {"device": "d", "h": 2.0, "time": NOW, "_error": error})
    assert [(row["metric"], row["reason"]) for row in rows] == [(None, error), ("h", None)]


def test_declared_columns_include_the_message_and_the_fields() -> None:
    of = source(device=["subject", "Id"], metrics=[{"name": "t", "field": "body.ttl"}])
    columns = silver.columns(of)
    declared = declare_columns({"columns": columns, "decode": "json", "timeUnit": "s"})
    assert "`body` binary" in declared
    assert "`body.ttl` double" in declared
    assert declared.count("`subject`") == 1


def test_field_with_two_types_or_a_reserved_name_is_refused() -> None:
    with pytest.raises(Invalid, match="x cannot be double and, as X, string too"):
        silver.columns(source(device="X", value="x"))
    with pytest.raises(Invalid, match="write body.ttl"):
        silver.columns(source(value="ttl"))
    with pytest.raises(Invalid, match="write body._batch_time"):
        silver.columns(source(value="_batch_time"))


MOMENTS = st.none() | st.datetimes(
    datetime(1970, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)
)
RECORDS = st.fixed_dictionaries(
    {
        "device": st.none() | st.text(max_size=5),
        "value": st.none() | st.floats(),
        "text": st.none() | st.text(max_size=3),
        "time": MOMENTS,
        "_error": st.none() | st.just("bad"),
    }
)


@settings(deadline=None, max_examples=30)
@given(st.lists(RECORDS, max_size=8))
def test_every_record_gives_a_row_and_readings_are_within_bounds(
    records: list[dict[str, Any]],
) -> None:
    of = source(text="text")
    rows = parsed(of, *records)
    assert {row["offset"] for row in rows} == set(range(len(records)))
    for row in rows:
        if row["reason"] is None:
            assert row["device"] and row["metric"]
            assert row["value"] is not None or row["text"] is not None
            assert NOW - timedelta(days=7) <= row["event_time"] <= NOW + timedelta(minutes=1)
            assert row["date"] == row["event_time"].date()
    # the same records in any grouping give the same rows
    apart = [
        row | {"offset": number}
        for number, record in enumerate(records)
        for row in parsed(of, record)
    ]

    def order(row: dict[str, Any]) -> str:
        return repr(sorted(row.items(), key=str))

    assert sorted(map(order, apart)) == sorted(map(order, rows))
