"""The API's token."""

from pathlib import Path

import pytest

from enmasse.auth.token import ensure_token, is_bearer_of


def test_a_token_is_made_once_and_is_private(tmp_path: Path) -> None:
    file = tmp_path / "token"
    token = ensure_token(file)
    assert len(token) >= 43
    assert file.stat().st_mode & 0o777 == 0o600
    assert ensure_token(file) == token


def test_an_existing_token_is_closed_to_others(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("chosen\n")
    file.chmod(0o644)
    assert ensure_token(file) == "chosen"
    assert file.stat().st_mode & 0o777 == 0o600


def test_an_empty_file_is_no_token(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("\n")
    assert ensure_token(tmp_path / "token")


@pytest.mark.parametrize(
    ("header", "holds"),
    [
        ("Bearer abc", True),
        ("bearer abc ", True),
        ("Bearer abcd", False),
        ("Bearer ", False),
        ("Bearer \u00fcber", False),
        ("Basic abc", False),
        ("abc", False),
        ("", False),
        (None, False),
    ],
)
def test_only_the_bearer_is_let_in(header: str | None, holds: bool) -> None:
    assert is_bearer_of("abc", header) is holds


def test_the_file_holds_the_token_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "token"
    token = ensure_token(file)
    assert file.read_text() == token
    file.write_text(f"{token}\n")
    assert ensure_token(file) == token
    assert file.read_text() == token
