"""Options of the format: defaults, parsing and errors."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from enmasse.base.errors import Invalid
from enmasse.pipeline.connector.options import (
    CONNECTION,
    KNOWN_WRITING,
    READING,
    WRITING,
    nearest,
    read,
    write,
)

NEEDED = {"url": "amqp://h1, amqps://h2:5671", "address": "readings"}
GUIDE = Path(__file__).parents[3] / "docs" / "guide" / "spark.md"


def test_read_options_have_their_documented_defaults() -> None:
    options = read(NEEDED)
    assert options.urls == ["amqp://h1", "amqps://h2:5671"]
    assert (options.start, options.end) == ("earliest", "latest")
    assert (options.max_rows_per_trigger, options.max_bytes_per_trigger, options.rows_per_task) == (
        1_000_000,
        None,
        100_000,
    )
    assert options.fail_on_data_loss
    assert options.stream()["silenceMs"] == 60_000
    assert (options.spool, options.spool_bytes, options.id_window) == (None, 1 << 30, 100_000)


def test_option_names_are_case_insensitive() -> None:
    options = read(NEEDED | {"MAXROWSPERTRIGGER": "7", "failondataloss": "False", "space": "plant"})
    assert (options.max_rows_per_trigger, options.fail_on_data_loss) == (7, False)
    assert options.client == {"insecure": False, "hostname": "plant"}


def test_login_is_added_to_every_url_and_hidden_in_repr() -> None:
    options = read(NEEDED | {"user": "a@b", "password": "p/w:1"})
    assert options.urls == ["amqp://a%40b:p%2Fw%3A1@h1", "amqps://a%40b:p%2Fw%3A1@h2:5671"]
    assert "p%2Fw" not in repr(options) and "p/w" not in repr(options)
    with pytest.raises(Invalid, match="omit one of them"):
        read(NEEDED | {"url": "amqp://joe@h1", "user": "a"})


def test_token_file_is_read_again_for_each_connection(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    options = read(NEEDED | {"tokenFile": str(file)})
    writing = write(NEEDED | {"tokenFile": str(file)})
    assert options.stream()["client"]["token"] == "first"
    file.write_text("second")
    assert options.stream()["client"]["token"] == "second"
    assert writing.outbox(None)["client"]["token"] == "second"
    file.unlink()
    with pytest.raises(Invalid, match="option tokenFile: cannot read"):
        options.stream()


def test_token_is_hidden_in_repr() -> None:
    options = read(NEEDED | {"token": "abc.def"})
    assert options.stream()["client"]["token"] == "abc.def"
    assert "abc" not in repr(options)
    with pytest.raises(Invalid, match="options password and token: .* keep one"):
        read(NEEDED | {"token": "abc.def", "user": "a", "password": "b"})


def test_positions_are_words_times_or_offsets() -> None:
    place = read(NEEDED | {"start": "2026-01-31T08:00:00Z", "end": '{"0": 17}'})
    assert place.start == datetime(2026, 1, 31, 8, tzinfo=UTC)
    assert place.end == {0: 17}
    assert read(NEEDED | {"start": "2026-01-31 09:00:00+01:00"}).start == place.start
    assert read(NEEDED | {"start": "latest"}).start == "latest"


def test_decoding_errors_have_a_column() -> None:
    decoding = {"decode": "json", "columns": "device string"}
    assert read(NEEDED | decoding).columns["columns"] == "device string, _error"
    for named in (
        "_error, device string",
        "device string,_error string",
        "a long, `_error` string",
    ):
        decoding["columns"] = named
        assert read(NEEDED | decoding).columns["columns"] == named
    for other in ("sensor_error string", "_errors long", "`a, _error` string", "`x_error` string"):
        decoding["columns"] = other
        assert read(NEEDED | decoding).columns["columns"] == f"{other}, _error"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"adress": "x"}, "did you mean address"),
        ({"startingOffsets": "x"}, "option startingOffsets is not known: did you mean"),
        ({"maxRowsPerTriger": "1"}, "did you mean maxRowsPerTrigger"),
        ({"url": ""}, "option url is missing"),
        ({"maxRowsPerTrigger": "0"}, "a number of messages from 1"),
        ({"rowsPerTask": "many"}, "rowsPerTask is 'many'"),
        ({"failOnDataLoss": "no"}, "true or false"),
        ({"start": "soon"}, "earliest, latest, a time"),
        ({"start": '{"0": -1}'}, "earliest, latest, a time"),
        ({"end": "[1]"}, "earliest, latest, a time"),
        (
            {"decode": "JSON"},
            "option decode is 'JSON': did you mean json? It is one of json, senml",
        ),
        (
            {"timeUnit": "sec"},
            "option timeUnit is 'sec': did you mean s? It is one of s, ms, us, ns",
        ),
        ({"csvDelimiter": ";;"}, "option csvDelimiter is ';;': it must be one character"),
        ({"spool": "here"}, "an absolute path"),
        ({"spool": "/s", "start": "latest"}, "a queue has no offsets"),
        ({"spool": "/s", "idWindow": "-1"}, "a number of messages from 1"),
    ],
)
def test_a_wrong_option_is_named_with_the_remedy(wrong: dict[str, str], said: str) -> None:
    with pytest.raises(Invalid) as raised:
        read(NEEDED | wrong)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"start": "latest"}, "did you mean"),
        ({"adress": "x"}, "did you mean address"),
        ({"order": "contnet"}, "did you mean content"),
        ({"batch": "-1"}, "a number from 0"),
        ({"numbered": "no"}, "true or false"),
        ({"url": ""}, "option url is missing"),
    ],
)
def test_a_wrong_option_of_a_write_is_named_with_the_remedy(
    wrong: dict[str, str], said: str
) -> None:
    with pytest.raises(Invalid, match=said):
        write({"url": "amqp://h"} | wrong)


def test_defaults_of_a_write() -> None:
    writing = write({"url": "amqp://h", "user": "u", "password": "secret"})
    assert (writing.address, writing.numbered, writing.order) == (None, True, "content")
    assert (writing.producer, writing.batch, writing.dead_letter) == (None, None, None)
    assert writing.outbox("q/1")["producer"] == "q/1"
    assert "secret" not in repr(writing)
    assert write({"url": "amqp://h", "producer": "p", "BATCH": "7"}).batch == 7


def test_options_of_spark_itself_are_ignored() -> None:
    own = {"checkpointLocation": "/checkpoint", "queryName": "alerts"}
    assert write({"url": "amqp://h"} | own) == write({"url": "amqp://h"})


def test_guide_lists_every_option_with_its_default_and_meaning() -> None:
    lines = GUIDE.read_text().splitlines()
    for option in CONNECTION + READING + WRITING:
        default = f"`{option.default}`" if option.default else ""
        row = f"| `{option.name}` | {default} | {option.unit} | {option.meaning} |"
        assert row in lines, row
    for option in CONNECTION + READING:
        assert nearest(option.name.upper()) == option.name
    for option in CONNECTION + WRITING:
        assert nearest(option.name.upper(), KNOWN_WRITING) == option.name
