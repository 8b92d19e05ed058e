"""The error kinds and the code table."""

import re
from pathlib import Path

import pytest

from enmasse.base import errors

FIRST_DIGIT = {kind: str(number) for number, kind in enumerate(errors.KINDS, start=1)}
SOURCES = Path(errors.__file__).parents[1]


def test_there_are_eight_kinds() -> None:
    subclasses = errors.EnMasseError.__subclasses__()
    assert set(errors.KINDS.values()) == set(subclasses)
    assert len(subclasses) == 8


def test_error_codes_are_unique_and_documented() -> None:
    # An enum turns a repeated value into an alias, which iteration skips.
    assert len(list(errors.Code)) == len(errors.Code.__members__)
    assert all(re.fullmatch(r"E[1-8]\d{3}", code) for code in errors.Code)
    assert all(code.meaning for code in errors.Code)


def test_every_raise_uses_a_code_of_its_kind() -> None:
    kinds = "|".join(errors.KINDS)
    raised = re.compile(rf"\b({kinds})\(\s*(?:errors\.)?Code\.([A-Z_]+)")
    found = [
        (kind, name)
        for path in SOURCES.rglob("*.py")
        for kind, name in raised.findall(path.read_text())
    ]
    assert found
    for kind, name in found:
        assert errors.Code[name][1] == FIRST_DIGIT[kind], f"{kind} raised with {name}"


def test_text_of_an_error_is_its_message() -> None:
    fault = errors.Fault("spec.type", "is required")
    error = errors.Invalid(errors.Code.FIELD_INVALID, "spec.type is required", faults=[fault])
    assert str(error) == "spec.type is required"
    assert error.code == "E1003"
    assert [str(fault) for fault in error.faults] == ["spec.type: is required"]
    with pytest.raises(errors.EnMasseError):
        raise error
