"""Hints at the next commands."""

from pathlib import Path

import pytest

from doubles import address, space
from enmasse.base.data_dir import default_data_dir
from enmasse.cli.serve.hints import SuggestedAddress, invocation, next_commands, suggested_address
from enmasse.resources import Resource, parse

SHOP = space("shop")
ORDERS = address("shop.orders")


def alice(in_space: str) -> Resource:
    return parse(
        {
            "apiVersion": "enmasse.io/v1beta1",
            "kind": "MessagingUser",
            "metadata": {"name": f"{in_space}.alice"},
            "spec": {
                "username": "alice",
                "authentication": {"type": "password", "password": "c2VjcmV0"},
            },
        }
    )


def test_meeting_needs_an_open_space_with_an_anycast_address() -> None:
    assert suggested_address([SHOP, ORDERS]) == SuggestedAddress("orders", "shop.default", True)
    assert suggested_address([space(), SHOP, ORDERS]) == SuggestedAddress(
        "orders", "shop.default", False
    )
    assert suggested_address([SHOP, ORDERS, alice("shop")]) is None
    assert suggested_address([space(), alice("shop"), SHOP, ORDERS]) is None
    assert suggested_address([SHOP]) is None
    assert suggested_address([SHOP, ORDERS], exposed=True) is None


def test_next_commands_match_the_declared_resources() -> None:
    only = next_commands(
        SuggestedAddress("orders", "shop.default", True), default_data_dir(), Path("x")
    )
    assert "  x receive orders\n  x send orders --body hello\n" in only
    one = next_commands(SuggestedAddress("orders", "shop.default", False), Path("d"), Path("x"))
    assert "receive orders --space shop.default --data d" in one
    assert "receive" not in next_commands(None, Path("d"), Path("x"))
    waiting = next_commands(None, Path("d"), Path("x"), waits_for_users=True)
    assert "user create alice --send queue --receive queue --data d" in waiting


def test_program_is_named_as_a_shell_resolves_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "enmasse"
    program.parent.mkdir()
    program.touch(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "elsewhere")
    assert invocation(program) == "bin/enmasse"
    monkeypatch.setenv("PATH", str(program.parent))
    assert invocation(program) == "enmasse"
