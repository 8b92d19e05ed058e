"""`enmasse console`: a link that logs in once."""

import webbrowser
from typing import Any

import httpx2
import pytest

from cli_platform import Obeying


def link(shop: Obeying, *words: str) -> str:
    answer = shop.enmasse("console", *words)
    assert answer.exit_code == 0, answer.output
    return str(answer.stdout).strip()


def session_of(shop: Obeying, url: str) -> Any:
    origin, _, code = url.partition("/console/login#code=")
    return httpx2.post(f"{origin}/console/session", json={"code": code}, trust_env=False)


def test_the_printed_link_logs_in_once_with_the_rights_of_the_token(shop: Obeying) -> None:
    created = shop.enmasse("token", "create", "ci", "--grant", "tenant-view=default")
    shop.token.write_text(created.stdout.strip())
    url = link(shop, "--print")
    assert url.startswith(shop.environment["ENMASSE_SERVER"])
    session = session_of(shop, url)
    assert session.status_code == 201
    assert session.json()["roles"] == {"tenant-view": ["default"]}
    assert session_of(shop, url).status_code == 401


@pytest.mark.parametrize("opens", [True, False])
def test_a_browser_is_opened_or_the_link_printed(
    shop: Obeying, monkeypatch: pytest.MonkeyPatch, opens: bool
) -> None:
    seen: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda url: (seen.append(url), opens)[1])
    printed = link(shop)
    assert "/console/login#code=" in seen[0]
    assert printed == ("" if opens else seen[0])
