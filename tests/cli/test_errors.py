"""The table of the command line: every kind of error has an exit code and is one line."""

import pytest

from enmasse.base.errors import KINDS, Code, Invalid
from enmasse.cli import errors


def test_every_kind_has_an_exit_code() -> None:
    assert set(errors.EXIT_CODES) == set(KINDS.values())
    assert not {0, 2, 130} & set(errors.EXIT_CODES.values())


@pytest.mark.parametrize(
    ("message", "command"),
    [
        ('no address "a/b" in this address space: declare it', "create address a/b --type TYPE"),
        ("addresses.enmasse.io 'a b' not found in", "create address 'a b' --type TYPE"),
        ("to: address 'a' not found in address space", "create address a --type TYPE"),
        ("address space 'shop' not found in namespace", "create addressspace shop"),
        ("addressspaces.enmasse.io 'shop' not found", "create addressspace shop"),
        ("messagingusers.enmasse.io 'bob' not found", "user create bob"),
        ("references a topic address 't' that does not exist", "create address t --type topic"),
        (
            "references a dead letter address 'd' that does not exist",
            "create address d --type deadletter",
        ),
    ],
)
def test_missing_resource_error_suggests_the_command_that_declares_it(
    message: str, command: str
) -> None:
    assert errors.remedy(message) == f"enmasse {command}"


def test_misspelt_name_and_invalid_field_suggest_no_command() -> None:
    assert errors.remedy("addresses.enmasse.io 'ordrs' not found; did you mean 'orders'?") is None
    assert errors.remedy("spec.type: is required") is None


def test_an_error_is_one_line_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    errors.report(Invalid(Code.FIELD_INVALID, "spec.type:\n is required"))
    said = capsys.readouterr()
    assert said.err == "enmasse: spec.type: is required\n"
    assert said.out == ""
