"""The API's token."""

from pathlib import Path

import pytest

from enmasse.auth.token import ensure_token, is_bearer_of


def test_token_is_created_once_with_mode_0600(tmp_path: Path) -> None:
    file = tmp_path / "token"
    token = ensure_token(file)
    assert len(token) >= 43
    assert file.stat().st_mode & 0o777 == 0o600
    assert ensure_token(file) == token


def test_existing_token_file_is_restricted_to_mode_0600(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("chosen\n")
    file.chmod(0o644)
    assert ensure_token(file) == "chosen"
    assert file.stat().st_mode & 0o777 == 0o600


def test_empty_token_file_gets_a_new_token(tmp_path: Path) -> None:
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
def test_only_the_exact_bearer_token_is_accepted(header: str | None, holds: bool) -> None:
    assert is_bearer_of("abc", header) is holds


def test_token_file_holds_the_token_without_a_newline(tmp_path: Path) -> None:
    file = tmp_path / "token"
    token = ensure_token(file)
    assert file.read_text() == token
    file.write_text(f"{token}\n")
    assert ensure_token(file) == token
    assert file.read_text() == token
