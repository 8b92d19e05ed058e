"""How much the console sends: of the first page after the login, and altogether."""

import gzip
import re

import pytest
from playwright.sync_api import Browser, Response, expect

from console.conftest import ROOT, console_in
from platform_process import Platform

pytestmark = pytest.mark.timeout(300)

FIRST_PAGE_BYTES_MAX = 350 << 10
ALL_BYTES_MAX = 900 << 10
ASSETS = ROOT / "python/enmasse/console_assets"


def sent_bytes(name: str) -> int:
    """The bytes of a file as a browser gets it: compressed, if that is smaller."""
    body = (ASSETS / name).read_bytes()
    return min(len(body), len(gzip.compress(body, 9)))


def test_first_page_and_all_files_are_within_their_bounds(
    browser: Browser, platform: Platform
) -> None:
    fetched: set[str] = set()

    def note(response: Response) -> None:
        name = response.url.partition("/console/")[2].partition("?")[0]
        if (ASSETS / name).is_file():
            fetched.add(name)

    with console_in(browser, platform) as console:
        console.log_in()
        # Logged in, with an empty cache.
        with console.page.context.new_page() as page:
            page.on("response", note)
            page.goto(f"{console.base}/overview")
            page.get_by_role("heading", level=1).wait_for()
            expect(page.locator(".pf-v6-c-skeleton, .pf-v6-c-spinner")).to_have_count(0)
            assert re.search("index", " ".join(fetched)), "the page's own files were fetched"
    sizes = {name: sent_bytes(name) for name in {*fetched, "index.html"}}
    listed = sorted(sizes.items(), key=lambda one: -one[1])
    assert sum(sizes.values()) <= FIRST_PAGE_BYTES_MAX, listed
    files = [
        one.relative_to(ASSETS).as_posix()
        for one in ASSETS.rglob("*")
        if one.is_file() and one.suffix != ".gz"
    ]
    assert sum(map(sent_bytes, files)) <= ALL_BYTES_MAX
