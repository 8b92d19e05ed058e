"""What commands print."""

import json

import pytest
import yaml

from enmasse.cli.options.shared import Output
from enmasse.cli.output.printing import columns, repeat, show


def test_columns_are_aligned_and_numbers_stand_right() -> None:
    text = columns(["NAME", "READY", "RATE"], [["orders", True, 1234.5], ["a", False, None]])
    assert text.splitlines() == [
        "NAME    READY     RATE",
        "orders  yes    1,234.5",
        "a       no           -",
    ]


def test_nothing_to_show_is_headings_alone() -> None:
    assert columns(["NAME", "RATE"], []) == "NAME  RATE"


def test_programs_get_json_or_yaml(capsys: pytest.CaptureFixture[str]) -> None:
    document = {"name": "bücher", "items": [1, None]}
    show(document, Output.JSON, str)
    assert json.loads(capsys.readouterr().out) == document
    show(document, Output.YAML, str)
    assert yaml.safe_load(capsys.readouterr().out) == document
    show(document, Output.TABLE, lambda: "rows")
    assert capsys.readouterr().out == "rows\n"


def test_what_repeats_is_printed_each_time_off_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pictures = iter(["one", "two"])
    with pytest.raises(StopIteration):
        repeat(lambda: next(pictures), 0.0)
    assert capsys.readouterr().out == "one\ntwo\n"
