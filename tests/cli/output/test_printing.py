"""Output of commands."""

import json

import pytest
import yaml

from enmasse.cli.options.shared import Output
from enmasse.cli.output.printing import columns, repeat, show


def test_columns_are_aligned_and_numbers_right_aligned() -> None:
    text = columns(["NAME", "READY", "RATE"], [["orders", True, 1234.5], ["a", False, None]])
    assert text.splitlines() == [
        "NAME    READY     RATE",
        "orders  yes    1,234.5",
        "a       no           -",
    ]


def test_empty_table_prints_only_headings() -> None:
    assert columns(["NAME", "RATE"], []) == "NAME  RATE"


def test_show_prints_json_yaml_or_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    document = {"name": "bücher", "items": [1, None]}
    show(document, Output.JSON, str)
    assert json.loads(capsys.readouterr().out) == document
    show(document, Output.YAML, str)
    assert yaml.safe_load(capsys.readouterr().out) == document
    show(document, Output.TABLE, lambda: "rows")
    assert capsys.readouterr().out == "rows\n"


def test_repeated_output_is_appended_without_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pictures = iter(["one", "two"])
    with pytest.raises(StopIteration):
        repeat(lambda: next(pictures), 0.0)
    assert capsys.readouterr().out == "one\ntwo\n"
