"""The edge's table: every kind of error has an exit code and is one line."""

import pytest

from enmasse.base.errors import KINDS, Code, Invalid
from enmasse.cli import errors


def test_every_kind_has_an_exit_code() -> None:
    assert set(errors.EXIT_CODES) == set(KINDS.values())
    assert not {0, 2, 130} & set(errors.EXIT_CODES.values())


def test_an_error_is_one_line_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    errors.say(Invalid(Code.FIELD_INVALID, "spec.type:\n is required"))
    said = capsys.readouterr()
    assert said.err == "enmasse: spec.type: is required\n"
    assert said.out == ""
