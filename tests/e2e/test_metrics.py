"""`/metrics` and its page in the guide name the same metrics."""

import re
import time
from contextlib import closing
from pathlib import Path

import httpx2
import pytest
from proton import ConnectionException
from proton.utils import BlockingConnection

from platform_process import Platform

WAIT_S = 60.0

PAGE = Path(__file__).parent.parent.parent / "docs" / "guide" / "metrics.md"


def documented() -> set[str]:
    """The names in the page's table; `_suffix` continues the name before it, `..._` any name."""
    table = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    names: set[str] = set()
    for row in table:
        whole = ""
        for name in re.findall(r"`([\w.]+)`", row.split("|")[1]):
            if not name.startswith("_"):
                whole = name
            names.add(name if name == whole else whole + "|" + name)
    return names


@pytest.fixture(scope="module")
def scraped(platform: Platform) -> set[str]:
    """The names of all samples of a scrape while a client is connected."""
    with closing(BlockingConnection(platform.url())):
        text = httpx2.get(f"{platform.url('http')}/metrics").text
    return set(re.findall(r"^((?:enmasse|process)_\w+)", text, re.MULTILINE))


def fits(pattern: str, name: str) -> bool:
    whole, _, suffix = pattern.partition("|")
    if suffix:  # `enmasse_links_closed_total`, `_opened_total`: the same beginning, another end
        return name.endswith(suffix) and name.startswith(whole.split("_")[0])
    return name.startswith(whole.removesuffix("...")) if whole.endswith("...") else name == whole


def test_every_metric_is_documented(scraped: set[str]) -> None:
    page = documented()
    assert scraped
    assert not {name for name in scraped if not any(fits(pattern, name) for pattern in page)}


def test_every_documented_metric_exists(scraped: set[str]) -> None:
    assert not {p for p in documented() if not any(fits(p, name) for name in scraped)}


def test_canary_succeeds_and_its_space_is_hidden(platform: Platform) -> None:
    deadline = time.monotonic() + WAIT_S
    while True:
        text = httpx2.get(f"{platform.url('http')}/metrics?addresses=all").text
        if "enmasse_canary_messages_total 0.0" not in text:
            break
        assert time.monotonic() < deadline, "the canary sent no message in time"
    assert "enmasse_canary_ok 1.0" in text
    assert "enmasse_canary_failures_total 0.0" in text
    assert "health" not in text
    assert httpx2.get(f"{platform.url('http')}/readyz").text == "ok\n"
    with pytest.raises(ConnectionException):
        BlockingConnection(platform.url(), virtual_host="$health")
